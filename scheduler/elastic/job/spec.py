"""The spec of an ElasticJob as frozen values.

Lives here: fields with their units, bounds, meanings and defaults. The description of a type is the error message for a
wrong value. Never here: how they are read (`validation`), or their consequences.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta, Struct

from scheduler.elastic.sizing.policy_parameters import Offer, Parameters
from scheduler.errors import shortened
from scheduler.model import durations

MOST_WORKERS: Final = 10_000
"""Largest number of workers in any field; `validation.MOST_MEMBERS` is the maximum of one job."""
MOST_SAMPLES: Final = 2**31 - 1
MOST_EPOCHS: Final = 1e9


def whole(low: int, high: int) -> Meta:
    return Meta(ge=low, le=high, description=f"must be an integer from {low} to {high}")


def one_of(words: Iterable[str]) -> Meta:
    return Meta(description=f"must be one of {', '.join(words)}")


def _seconds(written: object) -> float | None:
    return durations.seconds(written) if isinstance(written, str) else None


def _printable(written: object) -> str | None:
    return written if isinstance(written, str) and written.isprintable() else None


def lasting(low: float, high: float = 365 * 86400.0) -> Meta:
    """Seconds, written in Go's format: 90s, 10m, 1h30m."""
    said = f"must be a duration like 1h30m, from {low:g} to {high:g} seconds"
    return Meta(ge=low, le=high, description=said, extra={"read": _seconds})


Flag: TypeAlias = Annotated[bool, Meta(description="must be true or false")]
Name: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9]([-A-Za-z0-9_./]{0,314}[A-Za-z0-9])?\Z",
        description="must be a name of letters, digits, '-', '_', '.' and '/'",
    ),
]
Object: TypeAlias = Annotated[dict[str, Any], Meta(description="must be an object")]
Workers: TypeAlias = Annotated[int, whole(1, MOST_WORKERS)]
Samples: TypeAlias = Annotated[int, whole(1, MOST_SAMPLES)]
Environment: TypeAlias = Annotated[
    dict[
        Annotated[str, Meta(pattern=r"\A[^=\0]+\Z")],
        Annotated[str, Meta(pattern=r"\A[^\0]*\Z", max_length=4096)],
    ],
    Meta(description='must map names to strings, for example LEARNING_RATE: "0.1"'),
]
Path: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"\A(?!.*/\.\.(/|\Z))(/.*)?\Z",
        max_length=4096,
        description="must be an absolute path of printable characters, without '..'",
        extra={"read": _printable},
    ),
]


class Strategy(StrEnum):
    """Layout of the workers."""

    PACK = "pack"
    SPREAD = "spread"
    COSINE = "cosine"


class BatchMode(StrEnum):
    """How the batch changes with the number of workers."""

    PER_WORKER = "per-worker"
    """Each worker takes the same number of samples: the global batch grows with the workers."""
    CAPPED = "capped"
    """The same up to `limit`; beyond that the workers share the limit."""
    FIXED = "fixed"
    """The global batch is always `limit`; a worker whose share exceeds `perWorker` takes several passes per step."""


class LearningRate(StrEnum):
    """How the learning rate changes with the global batch."""

    LINEAR = "linear"
    """In proportion (Goyal et al. 2017)."""
    SQRT = "sqrt"
    """With the square root, as is usual for Adam."""
    NONE = "none"


class EarlyExit(StrEnum):
    """Result when a member ends with code 0 before the training function has returned on all members."""

    FAIL = "fail"
    """The job fails: the other members cannot finish the training."""
    ALLOW = "allow"
    """The training is complete for all members: a script that stops early on one rank."""


class Batch(Struct, frozen=True, rename="camel", kw_only=True):
    mode: Annotated[BatchMode, one_of(BatchMode)] = BatchMode.CAPPED
    """`capped`, because beyond a job's critical batch more samples per step help less. `limit` is the author's estimate
    of that batch.
    """
    per_worker: Samples | None = None
    """Samples per step of one worker, for a script that asks. None: the script keeps its own batch and receives only
    the scale of the learning rate.
    """
    limit: Samples | None = None
    """Samples per step of all workers together, for `capped` and `fixed`. None: no cap; for `fixed`, perWorker ×
    minWorkers.
    """
    learning_rate: Annotated[LearningRate, one_of(LearningRate)] = LearningRate.LINEAR
    ramp_steps: Annotated[int, whole(0, MOST_SAMPLES)] = 0
    """Steps until a higher learning rate is reached after growth; 0: immediately. A lower rate applies immediately."""


class Stage(Struct, frozen=True, rename="camel", kw_only=True):
    """One phase of the schedule, which begins at `epoch`."""

    epoch: Annotated[float, Meta(ge=0, le=MOST_EPOCHS, description=f"must be from 0 to {MOST_EPOCHS:g}")]
    workers: Workers | None = None
    """Size of the job in this phase, for the policy `schedule`."""
    batch: Samples | None = None
    """Replaces `batch.perWorker`."""
    env: Environment = {}
    """Values that the script receives with the assignment."""


class Checkpoint(Struct, frozen=True, rename="camel", kw_only=True):
    path: Path = ""
    """Folder on a volume that all workers mount. Empty: no checkpoint, so a job that is suspended or loses its workers
    starts from the beginning.
    """
    every: Annotated[float, lasting(1)] = 600.0
    """Seconds between two periodic checkpoints. 10 minutes balance the training lost with all workers against the
    seconds that writing takes.
    """


class Spec(Struct, frozen=True, rename="camel", kw_only=True):
    min_workers: Workers = 1
    """The quorum: it gets nodes together or not at all, and the job does not train with fewer workers."""
    max_workers: Workers = 1
    workers: Annotated[int, whole(0, MOST_WORKERS)] | None = None
    """Fixed size within these bounds; `kubectl scale` writes it. None: the policy decides."""
    template: Object = {}
    """PodTemplateSpec of a worker, as written."""
    surplus_priority_class_name: Name = "gangwright-surplus"
    """PriorityClass of the workers above the quorum. Lower than the template's, so that they are preempted first."""
    strategy: Annotated[Strategy, one_of(Strategy)] | None = None
    """None: the scheduler's setting."""
    level: Name | None = None
    level_required: Flag = False
    policy: str = "offer"
    """Name of the sizing policy."""
    parameters: Parameters = Offer()
    schedule: Annotated[
        tuple[Stage, ...], Meta(max_length=1000, description="must be a list of at most 1000 objects")
    ] = ()
    batch: Batch = Batch()
    suspend: Flag = False
    max_restarts: Annotated[int, whole(0, 1_000_000)] = 6
    """Restarts of the whole gang from its checkpoint, by default as many as those of a Job (`backoffLimit`). As many
    processes may fail in a row while others keep the state and the job makes no progress.
    """
    progress_deadline: Annotated[float, lasting(60)] = 14400.0
    """Total seconds that the job may hold nodes without training or making progress. 4 hours are enough to pull a large
    image and to warm up for 2 hours until the first commit.
    """
    early_exit: Annotated[EarlyExit, one_of(EarlyExit)] = EarlyExit.FAIL
    """By default a job that was cut short does not count as succeeded."""
    checkpoint: Checkpoint = Checkpoint()

    def clamp(self, size: int) -> int:
        """The allowed size nearest to this one."""
        return max(self.min_workers, min(self.max_workers, size))

    def stage(self, epoch: float) -> int:
        """Index of the schedule's entry that contains this epoch; −1 before the first entry."""
        return sum(entry.epoch <= epoch for entry in self.schedule) - 1

    def per_worker(self, place: int) -> int | None:
        """Samples per step of one worker in the schedule's entry of index `place`; −1: before the first entry."""
        own = self.schedule[place].batch if place >= 0 else None
        return own or self.batch.per_worker


class Problem(Struct, frozen=True):
    """An error in one field, and its fix."""

    field: str
    """Path of the field: `spec.schedule[1].workers`."""
    value: str
    """As written, shortened."""
    remedy: str

    @classmethod
    def of(cls, field: str, value: object, remedy: str) -> "Problem":
        """value: the value of the field, None if it is unset."""
        return cls(field, "none" if value is None else shortened(repr(value), 64), remedy)

    def __str__(self) -> str:
        return f"{self.field} = {self.value}: {self.remedy}"
