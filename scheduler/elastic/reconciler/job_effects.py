"""What to do for one ElasticJob. An effect may be emitted repeatedly, and is carried out once.

A failed effect is not reported; it is emitted again while it is needed. There are two exceptions. If the API server
rejects a new pod, that is reported (`StartRefused`). The master retries `Persist` until it succeeds, and answers with
`Persisted`.
"""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

from scheduler.elastic.job.status import Status
from scheduler.elastic.reconciler.job_events import Uid


class Batch(Struct, frozen=True):
    """One rank's share of each step."""

    mode: str
    """per-worker, capped or fixed."""
    local: int
    """Samples of one step of this rank; ranks differ by at most one."""
    global_: int = field(name="global")
    """Samples of one step of all ranks together."""
    accumulate: int = 1
    """Number of passes in which the rank takes its samples before gradients are exchanged."""


class Assignment(Struct, frozen=True):
    """One worker's instructions for its next round. Fields are the wire format."""

    round: int
    rank: int
    """−1 for a worker that leaves."""
    size: int
    """Members of the round; 0 when the job pauses or ends."""
    members: tuple[str, ...]
    """Pod names, by rank."""
    sync: bool
    """All ranks take over rank 0's state; the same for all."""
    removed: bool = False
    """Shut Horovod down cleanly, and exit with 0."""
    checkpoint: bool = False
    """Save to disk before continuing or leaving; true for at most one worker."""
    restore: str | None = None
    """The directory whose newest checkpoint all ranks load; the same for all."""
    batch: Batch | None = None
    """None: the script keeps its own batch."""
    lr_scale: float = 1.0
    ramp_steps: int = 0
    """Number of steps in which an increased factor is reached; the same for all, or their weights would diverge."""
    env: dict[str, str] = {}


class Place(Struct, frozen=True):
    """What a worker should expect of its first round. Fields are the wire format."""

    rank: int
    size: int
    joins: bool
    """Other members will have a state by then, and it takes theirs over."""


class StartWorker(Struct, frozen=True):
    """Create a worker pod."""

    number: int
    """Sequence number of the job's pods; one master never uses a number twice."""
    role: str
    """`core` (a member of the quorum, at the job's priority) or `surplus`."""
    avoid: tuple[str, ...] = ()
    """Nodes to avoid if possible."""


class StopWorker(Struct, frozen=True):
    """Delete a worker pod."""

    uid: Uid
    grace_s: float
    why: str


class Announce(Struct, frozen=True):
    """Call the members to the barrier for this round."""

    round: int


class Persist(Struct, frozen=True):
    """Write this status, retrying until it succeeds, then answer `Persisted(status.round)`. A later one replaces it."""

    status: Status


class Publish(Struct, frozen=True):
    """Answer these workers as soon as they ask."""

    round: int
    assignments: Mapping[Uid, Assignment]


class Abort(Struct, frozen=True):
    """Kill a worker's training process (SIGKILL), through the answer to its next beat."""

    uid: Uid
    why: str


class Tell(Struct, frozen=True):
    """An event on the ElasticJob."""

    type: str
    """Normal or Warning."""
    reason: str
    """A CamelCase word from a closed list."""
    message: str


class Resized(Struct, frozen=True):
    """A round has taken its first step."""

    round: int
    before: int
    after: int
    cause: str
    idle_s: float | None = None
    """Seconds without a step, as far as reported; None if there was no training before."""


class Finish(Struct, frozen=True):
    """The job is over."""

    phase: str
    """Succeeded or Failed."""
    reason: str
    message: str


Effect: TypeAlias = StartWorker | StopWorker | Announce | Persist | Publish | Abort | Tell | Resized | Finish
