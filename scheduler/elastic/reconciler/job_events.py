"""Events of one ElasticJob. Facts come from watches, workers and policies; results of effects come back as well.

Events may be lost, repeated, late or out of order; the rules compare the state with the goal again after each one.
The order after a start of the master: `Restored`, `SpecSeen`, a `WorkerSeen` for each pod of the job, `Listed`. If the
spec is invalid by now, `SpecSeen` has the spec accepted last, and `SpecRefused` follows it. Nothing is decided before
`Listed`.

`Beat`, `Arrived`, `Leaving` and `Exited` are sent by workers and decoded into these types. Names and bounds of the
fields are those of the wire, where some are required (`worker_messages.NEEDED`). Only the uid is added: it is that of
the pod named by the sender's token.
"""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from scheduler.elastic.job.spec import Problem, Spec
from scheduler.elastic.job.status import Status, WorkerPhase

Uid: TypeAlias = str
"""The uid of a worker's pod, which identifies the worker everywhere."""

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
    """The first event after a start: the status stored in the job; None if it has none yet."""

    status: Status | None
    template: dict[str, Any] | None = None
    """Template of the spec that was accepted last; None if unknown."""


class Listed(Struct, frozen=True):
    """Every existing pod of the job has been reported; members that were not among them are gone."""


class SpecSeen(Struct, frozen=True):
    """The spec that the user wants, which may include a suspension."""

    spec: Spec
    generation: int = 0


class SpecRefused(Struct, frozen=True):
    """The spec is invalid: the job continues with the previous one, or does not start."""

    problems: tuple[Problem, ...]
    generation: int = 0


class WorkerSeen(Struct, frozen=True):
    """A pod of the job, as stored in the API server."""

    uid: Uid
    name: str
    node: str = ""
    """The node it is bound to; empty before."""
    role: str = "core"
    """`core` or `surplus`."""
    phase: str = "Pending"
    """Phase of the pod: Pending, Running, Succeeded, Failed, Unknown."""
    gated: bool = False
    """It still has its scheduling gate."""
    deleting: bool = False
    waiting: str = ""
    """Why its containers do not start, if known: `ImagePullBackOff: …`, `CreateContainerConfigError: …`."""
    number: int = 0
    """Number of the StartWorker that created it; 0 if unknown."""
    since: float | None = None
    """Creation time, seconds since the epoch; None: just now."""
    avoids: tuple[str, ...] = ()
    """Nodes excluded by its node affinity, for as long as it exists."""
    cause: str = ""
    """Why it ended, from Kubernetes: `OOMKilled: …`, `Evicted: …`, `Error: init container fetch exited with code 1`."""
    plain: bool = False
    """The cause is only the exit of a process. A pod that was asked to exit ends like that as well."""


class WorkerGone(Struct, frozen=True):
    """The pod no longer exists."""

    uid: Uid


class StartRefused(Struct, frozen=True):
    """The API server rejected that pod: a quota, an admission plugin, an invalid template."""

    number: int
    why: str
    crowd: int = 1
    """Jobs of its namespace whose pods the API server rejects at present, including this one."""


class LostSight(Struct, frozen=True):
    """The watch of the job's pods is down: the known pods may be outdated."""

    why: str


class SawAgain(Struct, frozen=True):
    """The watch is healthy again, and reports what has changed since."""


class Beat(Struct, frozen=True):
    """A heartbeat. Sent about every second, together with the process's report if there is a recent one."""

    uid: Uid = ""
    phase: WorkerPhase = WorkerPhase.STARTING
    round: Count = 0
    """The last round it was in; 0 for none."""
    step: Count = 0
    committed: Count = 0
    samples: Amount = 0.0
    """Position in the data: samples consumed by the whole job."""
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
    """State of the training process."""
    values: Reported = {}
    """Values reported by the script: loss, accuracy…"""
    uses: Uses | None = None
    """What the script has asked for (`batch`, `rate`) and reported (`epoch`) so far. None: the agent does not say."""
    returned: bool = False
    """Its training function has returned; it evaluates, or exports the result."""
    stale: Text = ""
    """File and line where its script read a rank or size that is outdated by now; empty: none is outdated."""


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
    """Hash of the count, shapes and dtypes of its state."""
    samples: Amount | None = None
    """Position in the data, if the worker knows better than its last beat."""
    another: bool = False
    """Its script has begun another training, and it has entered no round since. A round that failed before that leaves
    it with the script's initial state, which may differ in other processes.
    """
    place: tuple[Count, Count] | None = None
    """Rank and size announced to its script before it was in a round; None: it did not ask."""
    again: bool = False
    """It is not the first process of its pod, and is not restarted for its rank."""
    setup: bool = False
    """Its script is still setting up, and calls a collective there."""


class Leaving(Struct, frozen=True):
    """A worker was asked to exit (SIGTERM), within this grace period."""

    uid: Uid = ""
    why: Text = "SIGTERM"
    grace_s: Seconds = 30.0


class Exited(Struct, frozen=True):
    """A worker's training process exited; `Reconciler.restart(uid)` returns whether the agent restarts it."""

    uid: Uid = ""
    code: Code | None = None
    signal: Code | None = None
    why: Text = ""
    culprit: Text | None = None
    """Name of the worker that this one blames."""
    tail: Tail = ()
    """The last lines that it wrote."""
    round: Count | None = None
    """The round that the process was in, if known. A late event from an earlier round changes nothing."""
    checkpoint_step: Count | None = None
    """Step of the newest checkpoint that it has written, if reported."""
    process: Count | None = None
    """Number of the process, counted by its agent from 1. None: the agent does not say."""
    returned: bool | None = None
    """Whether its training function had returned. None: the agent does not say."""
    entered: bool | None = None
    """Whether it had called a function decorated with `hvd.elastic.run`. None: the agent does not say."""
    foreign: Text | None = None
    """Sign that its script is of another kind, for example `torchrun runs it`; None: no such sign."""


class NodeDoomed(Struct, frozen=True):
    """A node is going to be drained: a cordon, or a configured taint."""

    node: str
    why: str = "cordoned"


class NodeCleared(Struct, frozen=True):
    """The node is not going to be drained after all."""

    node: str


class Sized(Struct, frozen=True):
    """Decision of the sizing policy."""

    want: int
    by: str = ""
    reason: str = ""


class Persisted(Struct, frozen=True):
    """The status with this round is stored in the API server."""

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
