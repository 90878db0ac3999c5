"""Gangs over time: their order in the queue, their runtimes, and reservations of future capacity.

Times are seconds since the epoch by the API server's clock. Spans are seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Matrix
from scheduler.model.resources import Amounts
from scheduler.model.workload import Gang, GangKey, Uid

TINY: Final = 1e-9
"""Seconds. Shorter spans have no usable logarithm."""


OVERRUN_AT_LEAST: Final = 60.0
"""Minimum seconds that a gang past its estimate is expected to continue. With less, the promised start of the head of
the queue would move at every look."""

TAIL: Final = 9.0
"""How far the bounds of an overrun lie from its middle. With P(T > t) = ran / t, the law behind "as long again", nine
of ten go on for more than a ninth of what they ran, and one of ten for more than nine times it."""

UNKNOWN: Final = 10.0
"""The default runtime may be wrong by a factor of ten either way: durations of gangs in real traces span four decades.
"""


class Order(StrEnum):
    """The order of gangs of one priority."""

    FIFO = "fifo"
    LAS = "las"
    SHORTEST = "shortest"
    FAIR = "fair"
    FIT = "fit"


class Backfill(StrEnum):
    """What may start while a gang ahead in the queue waits for free capacity."""

    NONE = "none"
    """Nothing: strict order."""
    FREE = "free"
    """Anything that fits. Large gangs may then wait without end."""
    RESERVE = "reserve"
    """Whatever does not delay the first waiting gang."""


class Reclaim(StrEnum):
    """The namespaces from which a gang may reclaim guaranteed resources."""

    LOWER = "lower-priority"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Share:
    """What a namespace may use. A resource without an entry is neither limited nor guaranteed."""

    guaranteed: Amounts = ()
    ceiling: Amounts = ()
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A span or a time: the middle, and the bounds of four out of five cases; low ≤ middle ≤ high."""

    middle: float
    low: float
    high: float

    def after(self, start: float) -> "Estimate":
        """This span, started at `start`, as the time of its end."""
        return Estimate(start + self.middle, start + self.low, start + self.high)

    def at(self, part: float) -> float:
        """For a span: the value that this part (0 … 1) of all such spans stays below.

        The logarithm is linear from `low` (0.1) to `middle` (0.5) and from there to `high` (0.9), and continues
        linearly beyond both. This is exact for a guess whose error factor is spread evenly, as a logarithm, around 1.
        """
        step = (part - 0.5) / 0.4
        bound = self.high if step > 0 else self.low
        return float(self.middle * (max(bound, TINY) / max(self.middle, TINY)) ** abs(step))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A gang that can be placed now, with everything that decides its turn."""

    gang: Gang
    arrived: float
    first: bool = False
    """Partially bound: its rest ranks ahead of all others."""
    attained: float = 0.0
    """Device-seconds so far, before it was suspended or lost its seats."""
    born: float | None = None
    """When its Job was created, which a suspension does not change. None: not needed, so `arrived` counts."""
    runs: Estimate | None = None
    """How long it will run, as far as known."""
    likely: Estimate | None = None
    """The same for a forecast, which has no effect on decisions. None: `runs`."""


@dataclass(frozen=True, slots=True, eq=False)
class Stay:
    """A gang or single pod that uses resources now.

    rows: int64[k], the node of each pod as a row of the snapshot.  uses: float64[k, r], what each uses there.
    ends: when it ends.  likely: the same for a forecast, which has no effect on decisions; None: `ends`.
    namespace: whose use includes it; "": none, because it belongs to another scheduler.
    latest: when its max-runtime ends it; infinity without one.  uids: the pod of each row.
    """

    key: GangKey
    rows: NDArray[np.int64]
    uses: Matrix
    ends: Estimate
    namespace: str = ""
    likely: Estimate | None = None
    latest: float = float("inf")
    uids: tuple[Uid, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Future capacity reserved for the first waiting gang.

    start: when the gang can start if all running gangs end as expected.
    left: float64[n, r], free capacity at `start` after the gang is placed. Anything that runs beyond `start` may use no
    more of it, nor more than is free now.
    seats: float64[n, r] that the gang uses then.
    """

    key: GangKey
    start: float
    left: Matrix
    seats: Matrix


@dataclass(frozen=True, slots=True)
class Usage:
    """What a namespace uses now, and its share. `used` is by resource, in the units of the ResourceAxis."""

    used: Mapping[str, float] = field(default_factory=dict)
    share: Share = Share()
