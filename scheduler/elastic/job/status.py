"""The status of an ElasticJob, as frozen values.

Lives here: the fields, in the vocabulary of Kubernetes. Never here: how they are computed
(`scheduler.elastic.reconciler`). The status and the pods hold everything that a restarted master needs: the round, its
members by rank and their assignment (`Round`), the failed nodes, the number of restarts. Times are seconds since the
epoch here, and RFC 3339 on the wire.
"""

from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, field


class Phase(StrEnum):
    """Phase of a job."""

    QUEUED = "Queued"
    """Fewer workers than the quorum: existing members wait with their state, missing ones wait for nodes."""
    STARTING = "Starting"
    """The quorum has its nodes; no round has begun."""
    RUNNING = "Running"
    RESIZING = "Resizing"
    """Members are at the barrier, or on their way to it."""
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    FINISHING = "Finishing"
    """A member ended successfully; the others are about to."""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


OVER: Final = frozenset({Phase.SUCCEEDED, Phase.FAILED})
"""Final phases."""


class WorkerPhase(StrEnum):
    """Phase of a worker."""

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
    """A worker, including one that does not train yet."""

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
    """What the worker waits for, or why it leaves."""


class BatchSeen(Struct, frozen=True, rename="camel"):
    """The effective batch, as far as the script uses it."""

    mode: str
    global_: int | None = field(name="global", default=None)
    """None: the script keeps its own batch, or has taken no step yet."""
    local: int | None = None
    """Samples per step of rank 0, which has the largest share."""
    learning_rate_scale: float | None = None
    """None: as for `global_`."""


class Resize(Struct, frozen=True, rename="camel", kw_only=True):
    """The last change of the round."""

    before: int = field(name="from")
    to: int
    cause: str
    idle_seconds: float | None = None
    at: float = 0.0


class Checkpoint(Struct, frozen=True, rename="camel"):
    """Path and step of the job's newest checkpoint, as far as workers reported one."""

    path: str = ""
    step: int = 0


class Seat(Struct, frozen=True):
    """A worker in a round."""

    uid: str
    name: str
    node: str = ""


class Round(Struct, frozen=True, rename="camel", kw_only=True):
    """A round as it was decided. All its assignments follow from this, before and after a restart of the master."""

    number: int = 0
    cause: str = ""
    ring: tuple[Seat, ...] = ()
    """Its members, by rank. Empty: no worker trains in it."""
    leaving: tuple[Seat, ...] = ()
    """Workers that leave with this round."""
    holding: tuple[Seat, ...] = ()
    """Workers that stay at the barrier with the state of an earlier round."""
    saver: str | None = None
    """The uid of the worker that saves to disk."""
    sync: bool = False
    setup: bool = False
    """Its members meet only for the collectives of their script's setup; they do not train in it."""
    restore: str | None = None
    samples: int = 0
    step: int = 0
    """The newest step among the members that met."""
    epoch: float = 0.0
    env: dict[str, str] = {}
    batch_mode: str = "capped"
    global_batch: int | None = None
    per_worker: int | None = None
    ramp_steps: int = 0
    lr_scale: float = 1.0
    stage: int = -1
    """Index of the schedule's entry that applies; −1: none."""


class Barred(Struct, frozen=True, rename="camel"):
    """A node that is excluded for new workers."""

    node: str
    failures: int
    until: float
    why: str = ""


class Next(Struct, frozen=True, rename="camel"):
    """The next planned change."""

    workers: int | None = None
    epoch: float | None = None
    at: float | None = None
    reason: str = ""


class Status(Struct, frozen=True, rename="camel", kw_only=True):
    """The whole status."""

    phase: Phase = Phase.QUEUED
    reason: str = ""
    """Sentence that names what the job waits for, else why it has this size."""
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
    """What the script reads (`batch`, `rate`) and reports (`epoch`). None: unknown."""
    assignment: Round | None = None
    """The round as decided; `round` is its number."""
    barred: tuple[Barred, ...] = ()
    template: dict[str, Any] | None = None
    """Template of new workers while `spec.template` differs. None: `spec.template`, or it is too long to keep."""
    retired: int | None = None
    """Workers up to this number were created from an outdated template, and begin nothing."""
    started_at: float | None = None
    """Time at which the first round was published."""
