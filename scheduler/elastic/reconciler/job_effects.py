"""What is to be done for one elastic job. Each effect may be repeated, and is done once.

An effect that failed is not reported, it is asked for again as long as it is needed, with two exceptions: the API
server's refusal of a new pod (`FailedCreate`), and `Persist`, which the master tries until it stands, and answers with
`Persisted`.
"""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

from scheduler.elastic.job.status import Status
from scheduler.elastic.reconciler.job_events import Uid


class Batch(Struct, frozen=True):
    """How much one rank takes of each step."""

    mode: str
    """per-worker, capped or fixed."""
    local: int
    """Samples of one step of this rank; they differ by one at most among the ranks."""
    global_: int = field(name="global")
    """Samples of one step of all ranks together."""
    accumulate: int = 1
    """Passes in which the rank takes its samples before the gradients are exchanged."""


class Assignment(Struct, frozen=True):
    """What one worker is told of its next round; on the wire as it stands here."""

    round: int
    rank: int
    """−1 for one who leaves."""
    size: int
    """Members of the round; 0 when the job pauses or ends."""
    members: tuple[str, ...]
    """Names of pods, by rank."""
    sync: bool
    """All ranks take over rank 0's state; the same for all."""
    removed: bool = False
    """Shut Horovod down in order, and exit 0."""
    checkpoint: bool = False
    """Save to disk before going on or leaving; true for one worker at most."""
    restore: str | None = None
    """The folder whose newest checkpoint all ranks load; the same for all."""
    batch: Batch | None = None
    """None: the script keeps its own."""
    lr_scale: float = 1.0
    ramp_steps: int = 0
    """Steps in which a factor that rises is reached; the same for all, or their weights would part."""
    env: dict[str, str] = {}


class Place(Struct, frozen=True):
    """What a worker has to expect of its first round; on the wire as it stands here."""

    rank: int
    size: int
    joins: bool
    """Others have a state by then, and it takes theirs over."""


class StartWorker(Struct, frozen=True):
    """Make a worker pod."""

    number: int
    """Counts the pods of this job; never used twice by one master."""
    role: str
    """`core` (a member of the quorum, at the job's priority) or `surplus`."""
    avoid: tuple[str, ...] = ()
    """Nodes that it had better not go to."""


class StopWorker(Struct, frozen=True):
    """Delete a worker pod."""

    uid: Uid
    grace_s: float
    why: str


class Announce(Struct, frozen=True):
    """Members are to come to the barrier for this round."""

    round: int


class Persist(Struct, frozen=True):
    """Write this status, however often it takes, then answer `Persisted(status.round)`. A later one replaces it."""

    status: Status


class Publish(Struct, frozen=True):
    """Answer these workers, as soon as they ask."""

    round: int
    assignments: Mapping[Uid, Assignment]


class Abort(Struct, frozen=True):
    """Have a worker's training process killed (SIGKILL), by the answer to its next beat."""

    uid: Uid
    why: str


class Tell(Struct, frozen=True):
    """An event on the ElasticJob."""

    type: str
    """Normal or Warning."""
    reason: str
    """One word of a closed list, in CamelCase."""
    message: str


class Resized(Struct, frozen=True):
    """A round has taken its first step."""

    round: int
    before: int
    after: int
    cause: str
    idle_s: float | None = None
    """Seconds without a step, as far as the members told; None when nobody trained before."""


class Finish(Struct, frozen=True):
    """The job is over."""

    phase: str
    """Succeeded or Failed."""
    reason: str
    message: str


Effect: TypeAlias = StartWorker | StopWorker | Announce | Persist | Publish | Abort | Tell | Resized | Finish
