"""One job of the simulation: its workers, its progress, and the time that a change of its workers costs.

Lives here: how many iterations are made in some seconds. Never here: who decides, or which nodes are free.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bench.pollux.workload import Submission
from bench.training import IDLE, WARM

NEVER: Final = math.inf


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds that a change of a job's workers costs.

    idle: without progress.  warm: from a newcomer's start until it is ready, in which the members train on.
    """

    name: str
    idle: float
    warm: float


MEASURED: Final = Cost("measured", IDLE, WARM)
"""As measured with real workers: newcomers start beside the training."""

PUBLISHED: Final = Cost("published", 30.0, 0.0)
"""Pollux, OSDI'21: every placement of a job, the first one included, costs 30 s."""


class Stretch(NamedTuple):
    """Seconds with this pace: workers that train, and the nodes that they are on; no workers, no progress."""

    seconds: float
    workers: int
    nodes: int


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

    def __post_init__(self) -> None:
        self.left = self.job.application.iterations

    @property
    def resizes(self) -> int:
        """Changes of its workers after its start."""
        return max(0, self.placements - 1)

    @property
    def pace(self) -> float:
        """Seconds an iteration with the present workers."""
        return self.job.application.seconds(len(self.seats), len(set(self.seats)))

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
        stays = [node for node in before if node in seats]
        warm = self.cost.warm if len(seats) > len(before) else 0.0
        if warm:
            self.ahead.append(Stretch(warm, len(before), len(set(before))))
        idle = self.cost.idle if stays or not self.cost.warm else 0.0
        if idle:
            self.ahead.append(Stretch(idle, 0, 0))
        self.ahead.append(Stretch(NEVER, len(seats), len(set(seats))))

    def advance(self, now: float, seconds: float) -> None:
        """Train for so long from now on, or to the end."""
        left = seconds
        while self.ahead and left > 0:
            stretch = self.ahead[0]
            span = min(stretch.seconds, left)
            if stretch.workers:
                pace = self.job.application.seconds(stretch.workers, stretch.nodes)
                needed = self.left * pace
                if needed <= span:
                    self._end(now + seconds - left + needed, seconds - left + needed)
                    return
                self.left -= span / pace
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
