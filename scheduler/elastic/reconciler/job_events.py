"""What happened to one elastic job. Facts come from watches, workers and policies; outcomes come back from effects.

Any of them may be lost, doubled, late or out of order: what is true is looked at again after each.
The order after a start of the master: `Restored`, `SpecSeen` (and where the spec is refused by now, of the one that was
accepted last, before `SpecRefused`), a `WorkerSeen` for each pod of the job, `Listed`; before `Listed` nothing is
decided. Names of fields that workers send are those of the wire.
"""

from typing import Any, TypeAlias

from msgspec import Struct

from scheduler.elastic.job.spec import Problem, Spec
from scheduler.elastic.job.status import Status

Uid: TypeAlias = str
"""The uid of a worker's pod: who a worker is, everywhere."""


class Restored(Struct, frozen=True):
    """The first event after a start: what the job's status says; None when it has none yet."""

    status: Status | None
    template: dict[str, Any] | None = None
    """Of the spec that was accepted last; None where that is not known."""


class Listed(Struct, frozen=True):
    """Every pod of the job that exists has been told: members that were not among them are gone."""


class SpecSeen(Struct, frozen=True):
    """What the user wants, a suspension included."""

    spec: Spec
    generation: int = 0


class SpecRefused(Struct, frozen=True):
    """What the user wants cannot be read: the job goes on with what was wanted before, or does not start."""

    problems: tuple[Problem, ...]
    generation: int = 0


class WorkerSeen(Struct, frozen=True):
    """A pod of the job, as the API server has it."""

    uid: Uid
    name: str
    node: str = ""
    """The node it is bound to; empty before."""
    role: str = "core"
    """`core` or `surplus`."""
    phase: str = "Pending"
    """The pod's: Pending, Running, Succeeded, Failed, Unknown."""
    gated: bool = False
    """It still waits for a seat."""
    deleting: bool = False
    waiting: str = ""
    """Why its containers do not start, when that is known: `ImagePullBackOff: …`, `CreateContainerConfigError: …`."""
    number: int = 0
    """Of the StartWorker that made it; 0 when not known."""
    since: float | None = None
    """When it was made, seconds since the epoch; None: just now."""
    avoids: tuple[str, ...] = ()
    """Nodes that it was made to keep away from, for as long as it exists."""
    cause: str = ""
    """Why it ended, as Kubernetes says: `OOMKilled: …`, `Evicted: …`, `Error: init container fetch ended with code 1`."""
    plain: bool = False
    """The cause is the end of a process and no more. A pod that was told to go ends like that, too."""


class WorkerGone(Struct, frozen=True):
    """The pod no longer exists."""

    uid: Uid


class StartRefused(Struct, frozen=True):
    """The API server would not make that pod: a quota, an admission, a template that is none."""

    number: int
    why: str
    crowd: int = 1
    """Jobs of its namespace that the API server makes no pod of at present, this one included."""


class LostSight(Struct, frozen=True):
    """The watch of the job's pods does not stand: by now they may be others than was told."""

    why: str


class SawAgain(Struct, frozen=True):
    """It stands again, and tells whatever has happened since."""


class Beat(Struct, frozen=True):
    """A worker lives. Sent every second or so, if its child reports about then with what that says."""

    uid: Uid
    phase: str = "Starting"
    """Starting, WarmingUp, Ready, Training or Leaving."""
    round: int = 0
    step: int = 0
    committed: int = 0
    samples: float = 0.0
    """Position in the data: samples that the whole job has consumed."""
    epoch: float = 0.0
    step_s: float | None = None
    """Mean seconds of a step since the last beat."""
    compute_s: float | None = None
    """The same without collectives."""
    silent_s: float = 0.0
    """Seconds since the training's main thread last showed progress."""
    collective: bool = False
    """The main thread is inside a collective."""
    child: str = "running"
    """The training process: running, none, or stopped."""
    values: dict[str, float] = {}
    """What the script reports: loss, accuracy…"""
    uses: tuple[str, ...] | None = None
    """What the script asks for (`batch`, `rate`) and tells (`epoch`), so far; None: its agent does not say."""
    returned: bool = False
    """Its training function has returned; it evaluates, or exports what was trained."""
    stale: str = ""
    """File and line where its script asked for a rank or size that is no longer true; empty: what it asked for is."""


class Arrived(Struct, frozen=True):
    """A worker is at the barrier and asks for its next assignment (`ready`)."""

    uid: Uid
    round: int = 0
    """The last round it was in; 0 for a newcomer."""
    step: int = 0
    committed: int = 0
    why: str = "newcomer"
    """newcomer, announced, failure (its state is that of the last commit), or another: its training function has
    returned, and the script has begun the next one, which may have a state of its own.
    """
    fingerprint: str | None = None
    """Of the state's count, shapes and dtypes."""
    samples: float | None = None
    """Position in the data, if the worker knows better than its last beat."""
    another: bool = False
    """Its script has begun another training, and it has entered no round since: a round that failed before leaves its
    state what the script began with, which others may have otherwise.
    """
    place: tuple[int, int] | None = None
    """Rank and size that its script was told before it was in a round; None: it did not ask."""
    again: bool = False
    """It is not the first process of its pod, and is not started again for its place."""
    setup: bool = False
    """Its script still sets up, and calls a collective there."""


class Leaving(Struct, frozen=True):
    """A worker was told to end (SIGTERM), and has this long."""

    uid: Uid
    why: str = "SIGTERM"
    grace_s: float = 30.0


class Exited(Struct, frozen=True):
    """A worker's training process ended; `Reconciler.restart(uid)` says whether the agent is to start it again."""

    uid: Uid
    code: int | None = None
    signal: int | None = None
    why: str = ""
    culprit: str | None = None
    """Who, in the eyes of this worker, is to blame: a name of a worker."""
    tail: tuple[str, ...] = ()
    """The last lines that it wrote."""
    round: int | None = None
    """The round that the process was in, when known: what is told late of an earlier one changes nothing."""
    checkpoint_step: int | None = None
    """Of the newest checkpoint that it has written, when it says so."""
    process: int | None = None
    """The number that its agent gives it, from 1 on, with each start one more; None: its agent does not say."""
    returned: bool | None = None
    """Whether its training function had returned; None: its agent does not say."""
    entered: bool | None = None
    """Whether it had called a function that `hvd.elastic.run` decorates; None: its agent does not say."""
    foreign: str | None = None
    """What shows that its script is of another kind, such as `torchrun runs it`; None: nothing does."""


class NodeDoomed(Struct, frozen=True):
    """A node is going to be emptied: a cordon, or a configured taint."""

    node: str
    why: str = "cordoned"


class NodeCleared(Struct, frozen=True):
    """It is not, after all."""

    node: str


class Sized(Struct, frozen=True):
    """What the sizing policy says."""

    want: int
    by: str = ""
    reason: str = ""


class Persisted(Struct, frozen=True):
    """The status with this round stands at the API server."""

    round: int


class Elapsed(Struct, frozen=True):
    """Time has passed: `Reconciler.next_deadline` has come."""


Event: TypeAlias = (
    Restored
    | Listed
    | SpecSeen
    | SpecRefused
    | WorkerSeen
    | WorkerGone
    | StartRefused
    | LostSight
    | SawAgain
    | Beat
    | Arrived
    | Leaving
    | Exited
    | NodeDoomed
    | NodeCleared
    | Sized
    | Persisted
    | Elapsed
)
