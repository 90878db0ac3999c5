"""The known facts of one worker, and its phase.

    Gated → Starting → WarmingUp → Ready → Training → Leaving
                                     ↑________│ │
                     process restarted          └→ Lost

Lives here: facts, and the phase derived from them. Never here: a rule that compares workers.
"""

from dataclasses import dataclass
from typing import Final

from scheduler.elastic.job.status import Seat, WorkerPhase
from scheduler.elastic.reconciler.job_events import Arrived, Beat, Exited, Uid

SAID: Final = frozenset({WorkerPhase.TRAINING, WorkerPhase.READY, WorkerPhase.WARMING_UP})
"""Phases that a worker reports itself."""


@dataclass(slots=True, eq=False)
class Worker:
    """A pod of the job. Only its methods change whether it counts (`alive`, `going`)."""

    uid: Uid
    name: str
    since: float
    node: str = ""
    role: str = "core"
    number: int = 0
    gated: bool = False
    avoids: tuple[str, ...] = ()
    """Nodes that were excluded or draining when it was created; its pod cannot go there, whatever happened since."""
    deleting: bool = False
    waiting: str = ""
    waiting_since: float = 0.0
    cause: str = ""
    """Why its pod ended, as Kubernetes reports, if that is more than an exit code."""
    explained: bool = False
    """The cause was reported to users."""
    seated_at: float | None = None
    """When its node became known."""
    beat: Beat | None = None
    beat_at: float = 0.0
    """When it was last heard; every message counts."""
    frozen_at: float | None = None
    """Since when its beats report that its process is stopped."""
    committed: int = 0
    """The step of its last reported commit."""
    arrival: Arrived | None = None
    """It is at the barrier, without an answer so far."""
    arrived_at: float = 0.0
    place: tuple[int, int] | None = None
    """Rank and size in its round, or expected in its first one; None: not known yet."""
    placed_at: float = 0.0
    """When that was first known."""
    restarting: bool = False
    """Its process is being killed to be restarted, since its rank or size differs from the announced one."""
    ready_at: float | None = None
    """When it first was at the barrier as a newcomer."""
    compute: float | None = None
    """Moving average of its compute time, seconds."""
    compute_samples: int = 0
    took: float | None = None
    """Last reported mean seconds of its steps. A beat reports none if no step has ended since the previous beat."""
    pace: float | None = None
    """Moving average of its whole step, seconds: compute, collective and every other wait."""
    leaving: str = ""
    """Why it has to leave, by its own decision or the cluster's."""
    stopped: str = ""
    """Why the master had its pod deleted."""
    stopped_at: float = 0.0
    released_at: float | None = None
    """When it was told to shut down cleanly."""
    knows: bool = True
    """For a member that is not at the barrier: it has, or had, the training's state. True if unknown."""
    told: int = 0
    """The newest round that this master has assigned to it."""
    fallen: bool = False
    """Its process is no longer in the round that lists it."""
    lost: str = ""
    """Why it no longer counts."""
    ended: bool = False
    """Its process has ended, and is not restarted."""
    pod_ended: bool = False
    """All containers of its pod have ended as well."""
    well: bool = False
    """It exited with code 0."""
    abort: str = ""
    exit: Exited | None = None
    exit_at: float = 0.0
    restart: bool = False
    """The answer to its last exit."""
    in_place: int = 0
    past: int = 0
    """Rounds up to this one belonged to a process that has ended."""
    attempt: int = 0
    """Restarts of the gang before it was started."""
    alive: bool = True
    """Its process may be in a round, now or later: it is neither lost nor ended."""
    going: bool = False
    """It cannot be in another round: it is leaving, was stopped, or its pod is being deleted."""

    def end(self, *, well: bool = False) -> None:
        """Its process has ended, and is not restarted. well: with code 0."""
        self.ended, self.well, self.alive = True, self.well or well, False

    def goes_on(self) -> None:
        """Its process has not ended after all."""
        self.ended, self.well, self.alive = False, False, not self.lost

    def lose(self, why: str) -> None:
        """It no longer counts."""
        self.lost, self.alive = why, False

    def leave(self, why: str) -> None:
        """It has to leave; the first reason stays."""
        self.leaving, self.going = self.leaving or why, True

    def stop(self, why: str, now: float) -> None:
        """Its pod is to be deleted; the first reason stays."""
        self.stopped, self.stopped_at, self.going = self.stopped or why, now, True

    def delete(self) -> None:
        """Its pod is being deleted."""
        self.deleting = self.going = True

    @property
    def seated(self) -> bool:
        return bool(self.node) and not self.gated

    @property
    def seat(self) -> Seat:
        return Seat(self.uid, self.name, self.node)

    @property
    def step(self) -> int:
        return max(self.beat.step if self.beat else 0, self.arrival.step if self.arrival else 0)

    @property
    def in_round(self) -> int:
        """The round that its beats report."""
        return self.beat.round if self.beat else 0

    @property
    def silent(self) -> float:
        """Seconds without progress of its main thread, as of its last beat."""
        return self.beat.silent_s if self.beat else 0.0


def phase(w: Worker) -> WorkerPhase:
    """The first phase that applies."""
    if w.lost:
        return WorkerPhase.LOST
    if w.going or w.ended or w.released_at is not None:
        return WorkerPhase.LEAVING
    if w.arrival is not None:
        return WorkerPhase.READY
    if w.beat is not None and w.beat.phase in SAID:
        return WorkerPhase(w.beat.phase)
    return WorkerPhase.STARTING if w.seated else WorkerPhase.GATED
