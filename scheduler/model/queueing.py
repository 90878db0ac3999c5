"""Gangs in time: who waits in which place, who runs for how long, whose room is reserved from when.

Times are seconds since the epoch, as the API server counts them; spans are seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Matrix
from scheduler.model.resources import Amounts
from scheduler.model.workload import Gang, GangKey

TINY: Final = 1e-9
"""Seconds below which a span is none: it has no logarithm."""


OVERRUN_AT_LEAST: Final = 60.0
"""Seconds that a gang which has run past its estimate is expected to go on at the least: shorter, and the head would be
promised a start that moves on with every look."""

TAIL: Final = 9.0
"""How far the bounds of an overrun lie from its middle. With P(T > t) = ran / t, the law behind "as long again", nine
of ten go on for more than a ninth of what they ran, and one of ten for more than nine times it."""

UNKNOWN: Final = 10.0
"""The default runtime may be wrong by a factor of ten either way: durations of gangs in real traces span four
decades."""


class Order(StrEnum):
    """Who goes first among gangs of one priority."""

    FIFO = "fifo"
    LAS = "las"
    SHORTEST = "shortest"
    FAIR = "fair"


class Backfill(StrEnum):
    """What a gang may do while one before it in the queue waits for room."""

    NONE = "none"
    """Nothing: strict order."""
    FREE = "free"
    """Start wherever there is room; large gangs may then wait without end."""
    RESERVE = "reserve"
    """Start where it does not delay the first gang that waits."""


class Reclaim(StrEnum):
    """Which namespaces it may take its guaranteed room back from."""

    LOWER = "lower-priority"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Share:
    """What a namespace may use. A resource that is not named is not limited, and nothing of it is guaranteed."""

    guaranteed: Amounts = ()
    ceiling: Amounts = ()
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A span or a time: the middle, and the bounds between which four of five lie; low ≤ middle ≤ high."""

    middle: float
    low: float
    high: float

    def after(self, start: float) -> "Estimate":
        """This span, begun at `start`, as the time of its end."""
        return Estimate(start + self.middle, start + self.low, start + self.high)

    def at(self, part: float) -> float:
        """Of a span: what so large a part (0 … 1) of all such spans stays below.

        The logarithm runs evenly from `low` (0.1) to `middle` (0.5) and from there to `high` (0.9), and on in the same
        way to both ends: exact for a guess that is wrong by a factor spread evenly, as a logarithm, about 1.
        """
        step = (part - 0.5) / 0.4
        bound = self.high if step > 0 else self.low
        return float(self.middle * (max(bound, TINY) / max(self.middle, TINY)) ** abs(step))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A gang that can be seated now, and all that decides about its turn."""

    gang: Gang
    arrived: float
    first: bool = False
    """Partly bound: its rest goes before all others."""
    attained: float = 0.0
    """Device-seconds that it has had so far, before it was suspended or lost its seats."""
    born: float | None = None
    """When its Job was made, which being suspended does not change; None: it need not be known, it came when it
    arrived.
    """
    runs: Estimate | None = None
    """How long it will run, as far as is known."""
    likely: Estimate | None = None
    """The same for a forecast, which decides nothing by it; None: `runs`."""


@dataclass(frozen=True, slots=True, eq=False)
class Stay:
    """A gang, or a pod alone, that uses room now.

    rows: int64[k], the node of each pod as a row of the snapshot.  uses: float64[k, r], what each uses there.
    ends: when it leaves.  likely: the same for a forecast, which decides nothing by it; None: `ends`.
    namespace: the one of whose use it is a part; "": none, as it is of another scheduler.
    latest: when it is ended, if it runs for so long; infinity: it is not.
    """

    key: GangKey
    rows: NDArray[np.int64]
    uses: Matrix
    ends: Estimate
    namespace: str = ""
    likely: Estimate | None = None
    latest: float = float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Room kept in time for the first gang that waits.

    start: when it can begin, if all who run leave when they are expected to.
    left: float64[n, r], the room that is free at `start` when the gang has sat down: who stays beyond `start` may use
    no more of it, nor more than is free now.
    seats: float64[n, r] that the gang takes then.
    """

    key: GangKey
    start: float
    left: Matrix
    seats: Matrix


@dataclass(frozen=True, slots=True)
class Usage:
    """What a namespace uses now, and what it may. `used` by resource, in the units of the ResourceAxis."""

    used: Mapping[str, float] = field(default_factory=dict)
    share: Share = Share()
