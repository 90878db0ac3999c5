"""One job of the simulation: its workers, its progress, and the time that a change of its workers costs.

Lives here: how many iterations are made in some seconds. Never here: who decides, or which nodes are free.
"""

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final, NamedTuple

from bench.pollux.workload import Submission
from bench.training import IDLE, WARM

NEVER: Final = math.inf


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds that a change of a job's workers costs.

    idle: without progress.  warm: from a newcomer's start until it is ready, in which the members train on.
    whole: the last stretch of an epoch is rounded to whole seconds, as the authors of Pollux did.
    """

    name: str
    idle: float
    warm: float
    whole: bool = False


MEASURED: Final = Cost("measured", IDLE, WARM)
"""As measured with real workers: newcomers start beside the training."""

PUBLISHED: Final = Cost("published", 30.0, 0.0)
"""Pollux, OSDI'21: every placement of a job, the first one included, costs 30 s."""

ROUNDED: Final = replace(PUBLISHED, name="published, in whole seconds", whole=True)
"""What the authors simulated, to the second. It suits jobs whose sizes do not change: the larger a job, the shorter are
its epochs, and the more is gained or lost by rounding.
"""


class Stretch(NamedTuple):
    """Seconds with this pace: workers that train, and their seconds an iteration; no workers, no progress."""

    seconds: float
    workers: int
    pace: float


@dataclass(slots=True, eq=False)
class Training:
    """A job from its arrival to its end. seats: the node of each worker, the oldest first."""

    job: Submission
    cost: Cost
    left: float = field(init=False)
    """Iterations."""
    seats: tuple[int, ...] = ()
    ahead: deque[Stretch] = field(default_factory=deque)
    started: float | None = None
    """When it had its first worker."""
    ended: float | None = None
    placements: int = 0
    """Changes of its workers, the first included."""
    attained: float = 0.0
    """Worker-seconds for which it has held GPUs."""
    trained: float = 0.0
    """Seconds of training with the present workers."""
    ends: list[float] = field(default_factory=lambda: [0.0])
    """Iterations left after each stretch that is rounded, the next one last; without rounding, after the job alone."""

    def __post_init__(self) -> None:
        self.left = self.job.application.iterations
        if self.cost.whole:
            epochs = self.job.application.epochs
            self.ends = [0.0, *accumulate(epochs[:0:-1])]

    @property
    def resizes(self) -> int:
        """Changes of its workers after its start."""
        return max(0, self.placements - 1)

    @property
    def pace(self) -> float:
        """Seconds an iteration with the present workers, of which there is at least one."""
        return self.ahead[-1].pace

    @property
    def members(self) -> int:
        """Workers that train now: without newcomers that still start, and 0 in a pause."""
        return self.ahead[0].workers if self.ahead else 0

    def placed(self, seats: Sequence[int], now: float) -> None:
        """It gets other workers; none pauses it."""
        before, self.seats = self.seats, tuple(seats)
        self.trained = 0.0
        self.ahead.clear()
        if not seats:
            return
        self.placements += 1
        if self.started is None:
            self.started = now
        warm = self.cost.warm if len(seats) > len(before) else 0.0
        if warm and before:
            self.ahead.append(Stretch(warm, len(before), self._pace(before)))
        elif warm:
            self.ahead.append(Stretch(warm, 0, NEVER))
        idle = self.cost.idle if not self.cost.warm or not set(before).isdisjoint(seats) else 0.0
        if idle:
            self.ahead.append(Stretch(idle, 0, NEVER))
        self.ahead.append(Stretch(NEVER, len(seats), self._pace(seats)))

    def _pace(self, seats: Sequence[int]) -> float:
        return self.job.application.seconds(tuple(Counter(seats).values()))

    def advance(self, now: float, seconds: float) -> None:
        """Train for this long from now on, or to the end."""
        left = seconds
        while self.ahead and left > 0:
            stretch = self.ahead[0]
            span = min(stretch.seconds, left)
            if stretch.workers:
                needed = (self.left - self.ends[-1]) * stretch.pace
                if needed <= span:
                    span = round(needed) if self.cost.whole else needed
                    self.left = self.ends.pop()
                else:
                    self.left -= span / stretch.pace
                if not self.ends:
                    self._end(now + seconds - left + span, seconds - left + span)
                    return
                if len(self.ahead) == 1:
                    self.trained += span
            left -= span
            if span == stretch.seconds:
                self.ahead.popleft()
            else:
                self.ahead[0] = stretch._replace(seconds=stretch.seconds - span)
        self.attained += seconds * len(self.seats)

    def _end(self, at: float, spent: float) -> None:
        self.ended = at
        self.left = 0.0
        self.attained += spent * len(self.seats)
        self.seats = ()
        self.ahead.clear()
