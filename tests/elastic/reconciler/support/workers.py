"""A worker pod as the world has it: its agent, its training process, and what that process knows.

The training is a step counter: a state is a number of steps and the process from whose first weights they were taken,
for every process begins with weights of its own. The commit is what a failure takes it back to.
"""

from dataclasses import dataclass, field
from typing import Any

from scheduler.elastic.reconciler.job_effects import Assignment
from scheduler.elastic.reconciler.job_events import Exited

START_S = 2.0
WARM_S = 1.0
GRACE_S = 30.0


@dataclass(eq=False)
class Pod:
    """One pod. `child` is none, starting, warming, asking, init, training, exporting, saving or ended; `frozen` stops it
    wherever it is.
    """

    uid: str
    name: str
    number: int
    role: str
    made: float
    avoid: tuple[str, ...] = ()
    template: dict[str, Any] = field(default_factory=dict)
    """What it was made from."""
    node: str = ""
    gated: bool = True
    phase: str = "Pending"
    deleting: bool = False
    kill_at: float = 0.0
    broken: str = ""
    """Its image cannot be pulled."""
    cause: str = ""
    """Why it ended, as its kubelet says."""
    plain: bool = False
    """That is an exit code, and no more."""
    crashes: bool = False
    """Its process ends with code 1 while it warms up."""
    cut: bool = False
    """No message of its gets through."""
    evicted_at: float | None = None
    """When the node controller takes it away from a node that is lost."""
    frozen: bool = False
    hung: bool = False
    never_ready: bool = False
    steps_alone: bool = False
    """Its warm-up takes steps; with `never_ready`, none of them a commit."""
    slowness: float = 1.0
    child: str = "none"
    process: int = 0
    """How many it has had."""
    since: float = 0.0
    round: int = 0
    why: str = "newcomer"
    step: int = 0
    beaten: int = 0
    """The step of its last beat: one that tells of no other says nothing of how long steps take."""
    commit: int = 0
    weights: str = ""
    """The process whose first weights its own come from."""
    commit_weights: str = ""
    stage: int = 0
    """Which of its script's trainings it is in."""
    another: bool = False
    """It has begun a training, and met nobody in it yet."""
    fell: bool = False
    """It fell through trainings that are done, and its state is what the script begins the next one with."""
    place: tuple[int, int] | None = None
    """Rank and size that its process was told to expect of its first round."""
    rank: int = -1
    local: int = 0
    """Samples of a step that it takes; 0 where the script keeps its own batch."""
    met_at: int = 0
    """The master under which it lays down its values, by number."""
    deep: bool = False
    """It is in Horovod's `init`, out of which it comes with the others or not at all."""
    got: Assignment | None = None
    called: int = 0
    """The newest round that it was called to."""
    progress: float = 0.0
    beat_due: float = 0.0
    ask_due: float = 0.0
    left: bool = False
    """The master knows that it leaves."""
    report: Exited | None = None
    """The end of its process, until the master has answered."""
    disk_full: bool = False
    """It cannot save."""
    report_due: float = 0.0
    abort: str | None = None
    fingerprint: str | None = None
    says: dict[str, float] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        return self.phase == "Running"

    @property
    def active(self) -> bool:
        """The process is there, and not stopped."""
        return self.running and self.child not in {"none", "ended"} and not self.frozen

    @property
    def knows(self) -> bool:
        """It has a state that was trained."""
        return self.step > 0 and self.child not in {"none", "ended"}

    def start(self, now: float) -> None:
        """A new training process, without a state."""
        self.child, self.since, self.process = "starting", now, self.process + 1
        self.round, self.why, self.step, self.commit, self.rank = 0, "newcomer", 0, 0, -1
        self.weights = self.commit_weights = f"{self.uid} since {now:.1f}"
        self.stage, self.fell, self.place = 0, False, None
        self.got, self.called, self.frozen, self.hung, self.abort = None, 0, False, False, None
        self.says = {}

    def arrive(self, why: str, now: float) -> None:
        """To the barrier; a failure takes the state back to the commit."""
        self.why, self.child, self.ask_due = why, "asking", now
        if why == "failure":
            self.step, self.weights = self.commit, self.commit_weights

    def begin_another(self, stage: int, now: float) -> None:
        """Its training is done; that of the next stage has a state of its own, which differs from process to
        process.
        """
        self.stage, self.weights = stage, f"{self.uid} in stage {stage}"
        self.keep()
        self.another = True
        self.arrive("another", now)

    def take(self, step: int, weights: str) -> None:
        """Another's state is its own now, and is committed."""
        self.step, self.weights = step, weights
        self.keep()

    def keep(self) -> None:
        self.commit, self.commit_weights = self.step, self.weights
