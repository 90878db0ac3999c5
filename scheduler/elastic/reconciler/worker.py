"""What is known of one worker, and where it is in its life.

    Gated → Starting → WarmingUp → Ready → Training → Leaving
                                     ↑________│ │
                 process started again          └→ Lost

Lives here: facts, and the state that is read off them. Never here: a rule that compares workers.
"""

from dataclasses import dataclass
from typing import Final

from scheduler.elastic.job.status import Seat, WorkerPhase
from scheduler.elastic.reconciler.job_events import Arrived, Beat, Exited, Uid

SAID: Final = frozenset({WorkerPhase.TRAINING, WorkerPhase.READY, WorkerPhase.WARMING_UP})
"""Phases in which a worker is if it says so."""


@dataclass(slots=True, eq=False)
class Worker:
    """A pod of the job. What decides whether it counts (`alive`, `going`) is changed by its methods alone."""

    uid: Uid
    name: str
    since: float
    node: str = ""
    role: str = "core"
    number: int = 0
    gated: bool = False
    avoids: tuple[str, ...] = ()
    """Nodes that were barred or doomed when it was made; its pod cannot go there, whatever has become of them."""
    deleting: bool = False
    waiting: str = ""
    waiting_since: float = 0.0
    cause: str = ""
    """Why its pod ended, as Kubernetes says, where that is more than an exit code."""
    explained: bool = False
    """People were told the cause."""
    seated_at: float | None = None
    """When its node became known."""
    beat: Beat | None = None
    beat_at: float = 0.0
    """When it was last heard of; whatever it sent counts."""
    frozen_at: float | None = None
    """Since when its beats say that its process is stopped."""
    committed: int = 0
    """The step of its last commit, as it said last."""
    arrival: Arrived | None = None
    """It is at the barrier, and has not been answered."""
    arrived_at: float = 0.0
    place: tuple[int, int] | None = None
    """Rank and size that it has in its round, or has to expect in its first one; None: not known yet."""
    placed_at: float = 0.0
    """When that was first known."""
    restarting: bool = False
    """Its process is being ended to be started again, since its place is not the one that it was told."""
    ready_at: float | None = None
    """When it first was at the barrier as the newcomer it is."""
    compute: float | None = None
    """Moving average of its compute time, seconds."""
    compute_samples: int = 0
    took: float | None = None
    """Mean seconds of its last steps, as it said last. A beat says nothing of steps where none has ended since the one
    before.
    """
    pace: float | None = None
    """Moving average of its whole step, seconds: compute, collective and whatever else it waits for."""
    leaving: str = ""
    """Why it has to go, of its own or the cluster's will."""
    stopped: str = ""
    """Why we had its pod deleted."""
    stopped_at: float = 0.0
    released_at: float | None = None
    """When it was told to shut down in order."""
    knows: bool = True
    """As a member that is not at the barrier: the training's state is, or was, in it. Not known is yes."""
    told: int = 0
    """The newest round that this master told it of."""
    fallen: bool = False
    """Its process is no longer in the round that lists it."""
    lost: str = ""
    """Why it does not count any more."""
    ended: bool = False
    """Its process has ended, and is not started again."""
    pod_ended: bool = False
    """So have all containers of its pod."""
    well: bool = False
    """It ended with code 0."""
    abort: str = ""
    exit: Exited | None = None
    exit_at: float = 0.0
    restart: bool = False
    """The answer to its last exit."""
    in_place: int = 0
    past: int = 0
    """Rounds up to this one were those of a process that has ended."""
    attempt: int = 0
    """Restarts of the gang before it was started."""
    alive: bool = True
    """Its process may be in a round, now or later: it is neither lost nor ended."""
    going: bool = False
    """It cannot be in another round: it leaves, was stopped, or its pod is deleted."""

    def end(self, *, well: bool = False) -> None:
        """Its process has ended, and is not started again. well: with code 0."""
        self.ended, self.well, self.alive = True, self.well or well, False

    def goes_on(self) -> None:
        """It has not ended after all."""
        self.ended, self.well, self.alive = False, False, not self.lost

    def lose(self, why: str) -> None:
        """It does not count any more."""
        self.lost, self.alive = why, False

    def leave(self, why: str) -> None:
        """It has to go; the first reason stays."""
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
        """The round that its beats say it is in."""
        return self.beat.round if self.beat else 0

    @property
    def silent(self) -> float:
        """Seconds that its main thread had shown no progress when it was last heard of."""
        return self.beat.silent_s if self.beat else 0.0


def phase(w: Worker) -> WorkerPhase:
    """The first that holds."""
    if w.lost:
        return WorkerPhase.LOST
    if w.going or w.ended or w.released_at is not None:
        return WorkerPhase.LEAVING
    if w.arrival is not None:
        return WorkerPhase.READY
    if w.beat is not None and w.beat.phase in SAID:
        return WorkerPhase(w.beat.phase)
    return WorkerPhase.STARTING if w.seated else WorkerPhase.GATED
