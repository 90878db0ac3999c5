"""What happened to one elastic job. Facts come from watches, workers and policies; outcomes come back from effects.

Any of them may be lost, doubled, late or out of order: what is true is looked at again after each.
The order after a start of the master: `Restored`, `SpecSeen` (and where the spec is refused by now, of the one that was
accepted last, before `SpecRefused`), a `WorkerSeen` for each pod of the job, `Listed`; before `Listed` nothing is
decided.

`Beat`, `Arrived`, `Leaving` and `Exited` are what workers send, decoded as they stand here: names and bounds of the
fields are those of the wire, which needs some of them (`worker_messages.NEEDED`). Their uid alone is added: it is that
of the pod which the sender's token names.
"""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from scheduler.elastic.job.spec import Problem, Spec
from scheduler.elastic.job.status import Status, WorkerPhase

Uid: TypeAlias = str
"""The uid of a worker's pod: who a worker is, everywhere."""

Count = Annotated[int, Meta(ge=0, le=2**53)]
Amount = Annotated[float, Meta(ge=0, le=1e15)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Code = Annotated[int, Meta(ge=-(2**31), le=2**32)]
Text = Annotated[str, Meta(max_length=1024)]
Word = Annotated[str, Meta(min_length=1, max_length=128)]
Tail = Annotated[tuple[Annotated[str, Meta(max_length=4096)], ...], Meta(max_length=256)]
Uses = Annotated[tuple[Word, ...], Meta(max_length=16)]
Reported = Annotated[dict[Word, float], Meta(max_length=64)]

Child = Literal["running", "none", "stopped"]
Why = Literal["newcomer", "announced", "failure", "another"]


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

    uid: Uid = ""
    phase: WorkerPhase = WorkerPhase.STARTING
    round: Count = 0
    """The last round it was in; 0 for none."""
    step: Count = 0
    committed: Count = 0
    samples: Amount = 0.0
    """Position in the data: samples that the whole job has consumed."""
    epoch: Amount = 0.0
    step_s: Seconds | None = None
    """Mean seconds of a step since the last beat."""
    compute_s: Seconds | None = None
    """The same without collectives."""
    silent_s: Seconds = 0.0
    """Seconds since the training's main thread last showed progress."""
    collective: bool = False
    """The main thread is inside a collective."""
    child: Child = "running"
    """The training process."""
    values: Reported = {}
    """What the script reports: loss, accuracy…"""
    uses: Uses | None = None
    """What the script asks for (`batch`, `rate`) and tells (`epoch`), so far; None: its agent does not say."""
    returned: bool = False
    """Its training function has returned; it evaluates, or exports what was trained."""
    stale: Text = ""
    """File and line where its script asked for a rank or size that is no longer true; empty: what it asked for is."""


class Arrived(Struct, frozen=True):
    """A worker is at the barrier and asks for its next assignment (`ready`)."""

    uid: Uid = ""
    round: Count = 0
    """The last round it was in; 0 for a newcomer."""
    step: Count = 0
    committed: Count = 0
    why: Why = "newcomer"
    """newcomer, announced, failure (its state is that of the last commit), or another: its training function has
    returned, and the script has begun the next one, which may have a state of its own.
    """
    fingerprint: Word | None = None
    """Of the state's count, shapes and dtypes."""
    samples: Amount | None = None
    """Position in the data, if the worker knows better than its last beat."""
    another: bool = False
    """Its script has begun another training, and it has entered no round since: a round that failed before leaves its
    state what the script began with, which others may have otherwise.
    """
    place: tuple[Count, Count] | None = None
    """Rank and size that its script was told before it was in a round; None: it did not ask."""
    again: bool = False
    """It is not the first process of its pod, and is not started again for its place."""
    setup: bool = False
    """Its script still sets up, and calls a collective there."""


class Leaving(Struct, frozen=True):
    """A worker was told to end (SIGTERM), and has this long."""

    uid: Uid = ""
    why: Text = "SIGTERM"
    grace_s: Seconds = 30.0


class Exited(Struct, frozen=True):
    """A worker's training process ended; `Reconciler.restart(uid)` says whether the agent is to start it again."""

    uid: Uid = ""
    code: Code | None = None
    signal: Code | None = None
    why: Text = ""
    culprit: Text | None = None
    """Who, in the eyes of this worker, is to blame: a name of a worker."""
    tail: Tail = ()
    """The last lines that it wrote."""
    round: Count | None = None
    """The round that the process was in, when known: what is told late of an earlier one changes nothing."""
    checkpoint_step: Count | None = None
    """Of the newest checkpoint that it has written, when it says so."""
    process: Count | None = None
    """The number that its agent gives it, from 1 on, with each start one more; None: its agent does not say."""
    returned: bool | None = None
    """Whether its training function had returned; None: its agent does not say."""
    entered: bool | None = None
    """Whether it had called a function that `hvd.elastic.run` decorates; None: its agent does not say."""
    foreign: Text | None = None
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
    """Time has passed, and nothing else happened: for callers that drive a job by events alone."""


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
