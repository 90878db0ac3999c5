"""What the master says of a job: the status of an ElasticJob, as frozen values.

Lives here: the fields, in the words of Kubernetes. Never here: how they are arrived at
(`scheduler.elastic.reconciler`). Everything that a restarted master needs stands here or on the pods: the round, who is
in it by rank and what they were told (`Round`), the nodes that failed, the restarts so far. Times are seconds since the
epoch here, and RFC 3339 on the wire.
"""

from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, field


class Phase(StrEnum):
    """Where the job is in its life."""

    QUEUED = "Queued"
    """Fewer workers than the quorum: those that train wait with their state, the missing ones wait for seats."""
    STARTING = "Starting"
    """The quorum has its seats; no round has begun."""
    RUNNING = "Running"
    RESIZING = "Resizing"
    """Members are at, or on their way to, the barrier."""
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    FINISHING = "Finishing"
    """A member ended well; the others are about to."""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


OVER: Final = frozenset({Phase.SUCCEEDED, Phase.FAILED})
"""Phases that last without end."""


class WorkerPhase(StrEnum):
    """Where a worker is in its life."""

    GATED = "Gated"
    STARTING = "Starting"
    WARMING_UP = "WarmingUp"
    READY = "Ready"
    TRAINING = "Training"
    LEAVING = "Leaving"
    LOST = "Lost"


class Condition(Struct, frozen=True, rename="camel"):
    """As metav1.Condition."""

    type: str
    status: bool
    reason: str
    message: str = ""
    last_transition_time: float = 0.0
    observed_generation: int = 0


class Member(Struct, frozen=True, rename="camel", kw_only=True):
    """A worker, whether it trains yet or not."""

    name: str
    uid: str
    rank: int | None = None
    """None: not in the round."""
    phase: WorkerPhase = WorkerPhase.STARTING
    node: str = ""
    role: str = "core"
    step: int = 0
    committed: int = 0
    step_seconds: float | None = None
    compute_seconds: float | None = None
    reason: str = ""
    """What it waits for, or why it goes."""


class BatchSeen(Struct, frozen=True, rename="camel"):
    """The effective batch: what the script was seen to take over."""

    mode: str
    global_: int | None = field(name="global", default=None)
    """None: the script keeps its own, or has taken no step yet."""
    local: int | None = None
    """Of rank 0, the largest."""
    learning_rate_scale: float | None = None
    """As `global_`."""


class Resize(Struct, frozen=True, rename="camel", kw_only=True):
    """The last change of the round."""

    before: int = field(name="from")
    to: int
    cause: str
    idle_seconds: float | None = None
    at: float = 0.0


class Checkpoint(Struct, frozen=True, rename="camel"):
    """Where the job's newest checkpoint is, and of which step, as far as workers told the master."""

    path: str = ""
    step: int = 0


class Seat(Struct, frozen=True):
    """Somebody in a round."""

    uid: str
    name: str
    node: str = ""


class Round(Struct, frozen=True, rename="camel", kw_only=True):
    """A round as it was decided: all assignments of it follow from this, before and after a restart of the master."""

    number: int = 0
    cause: str = ""
    ring: tuple[Seat, ...] = ()
    """Its members, by rank. Empty: nobody trains in it."""
    leaving: tuple[Seat, ...] = ()
    """Who was told to leave with it."""
    holding: tuple[Seat, ...] = ()
    """Who stays at the barrier with the state of an earlier round."""
    saver: str | None = None
    """The uid that saves to disk."""
    sync: bool = False
    setup: bool = False
    """Its members meet for what their script exchanges while it sets up; they do not train in it."""
    restore: str | None = None
    samples: int = 0
    step: int = 0
    """The newest step among those who met."""
    epoch: float = 0.0
    env: dict[str, str] = {}
    batch_mode: str = "capped"
    global_batch: int | None = None
    per_worker: int | None = None
    ramp_steps: int = 0
    lr_scale: float = 1.0
    stage: int = -1
    """Index of the schedule's entry that it obeys; −1 without."""


class Barred(Struct, frozen=True, rename="camel"):
    """A node that new workers avoid."""

    node: str
    failures: int
    until: float
    why: str = ""


class Next(Struct, frozen=True, rename="camel"):
    """The next change that is planned already."""

    workers: int | None = None
    epoch: float | None = None
    at: float | None = None
    reason: str = ""


class Status(Struct, frozen=True, rename="camel", kw_only=True):
    """The whole of it."""

    phase: Phase = Phase.QUEUED
    reason: str = ""
    """In a sentence: who or what is being waited for, by name; else why this size."""
    conditions: tuple[Condition, ...] = ()
    round: int = 0
    workers: int = 0
    """Members of the round."""
    selector: str = ""
    wanted: int = 0
    wanted_by: str = ""
    members: tuple[Member, ...] = ()
    samples_per_second: float | None = None
    batch: BatchSeen | None = None
    last_resize: Resize | None = None
    restarts: int = 0
    next_change: Next | None = None
    checkpoint: Checkpoint | None = None
    observed_generation: int = 0
    values: dict[str, float] = {}
    uses: tuple[str, ...] | None = None
    """What the script was seen to ask for (`batch`, `rate`) and to tell (`epoch`). None: it is not known."""
    assignment: Round | None = None
    """The round as decided; `round` is its number."""
    barred: tuple[Barred, ...] = ()
    template: dict[str, Any] | None = None
    """What workers are made from while `spec.template` is another; None: from that, or it is too long to be kept."""
    retired: int | None = None
    """Workers up to this number were made from a template that is no longer in force, and begin nothing."""
    started_at: float | None = None
    """When the first round was published."""
