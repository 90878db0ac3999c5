"""What a user wants of an elastic job: the spec of an ElasticJob as frozen values.

Lives here: fields with their units, bounds, meanings and defaults; a type's description is what a user is told who wrote
something else. Never here: how they are read (`validation`), or what follows from them.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta, Struct

from scheduler.elastic.sizing.policy_parameters import Offer, Parameters
from scheduler.errors import shortened
from scheduler.model import durations

MOST_WORKERS: Final = 10_000
"""The largest number that any field takes for workers; `validation.MOST_MEMBERS` is what one job may have."""
MOST_SAMPLES: Final = 2**31 - 1
MOST_EPOCHS: Final = 1e9


def whole(low: int, high: int) -> Meta:
    return Meta(ge=low, le=high, description=f"a whole number from {low} to {high}")


def one_of(words: Iterable[str]) -> Meta:
    return Meta(description=f"one of {', '.join(words)}")


def _seconds(written: object) -> float | None:
    return durations.seconds(written) if isinstance(written, str) else None


def _printable(written: object) -> str | None:
    return written if isinstance(written, str) and written.isprintable() else None


def lasting(low: float, high: float = 365 * 86400.0) -> Meta:
    """Seconds, written in Go's way: 90s, 10m, 1h30m."""
    said = f"a duration such as 90s, 10m or 1h30m, from {low:g} to {high:g} seconds"
    return Meta(ge=low, le=high, description=said, extra={"read": _seconds})


Flag: TypeAlias = Annotated[bool, Meta(description="true or false")]
Name: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9]([-A-Za-z0-9_./]{0,314}[A-Za-z0-9])?\Z",
        description="a name of letters, digits, '-', '_', '.' and '/'",
    ),
]
Object: TypeAlias = Annotated[dict[str, Any], Meta(description="an object")]
Workers: TypeAlias = Annotated[int, whole(1, MOST_WORKERS)]
Samples: TypeAlias = Annotated[int, whole(1, MOST_SAMPLES)]
Environment: TypeAlias = Annotated[
    dict[
        Annotated[str, Meta(pattern=r"\A[^=\0]+\Z")],
        Annotated[str, Meta(pattern=r"\A[^\0]*\Z", max_length=4096)],
    ],
    Meta(description='names and texts, such as LEARNING_RATE: "0.1"'),
]
Path: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"\A(?!.*/\.\.(/|\Z))(/.*)?\Z",
        max_length=4096,
        description="an absolute path of printable characters, without '..'",
        extra={"read": _printable},
    ),
]


class Strategy(StrEnum):
    """How the scheduler lays the workers out."""

    PACK = "pack"
    SPREAD = "spread"
    COSINE = "cosine"


class BatchMode(StrEnum):
    """What becomes of the batch when the number of workers changes."""

    PER_WORKER = "per-worker"
    """Each worker takes the same: the global batch grows with the workers."""
    CAPPED = "capped"
    """The same up to `limit`; from there on the limit is shared out."""
    FIXED = "fixed"
    """The global batch is always `limit`; a worker that has more than `perWorker` of it takes several passes a step."""


class LearningRate(StrEnum):
    """What becomes of the learning rate when the global batch changes."""

    LINEAR = "linear"
    """In proportion (Goyal et al. 2017)."""
    SQRT = "sqrt"
    """By the square root, as is usual with Adam."""
    NONE = "none"


class EarlyExit(StrEnum):
    """What it means when a member ends with code 0 before the training function has returned on all of them."""

    FAIL = "fail"
    """The job has failed: the others could not finish the training."""
    ALLOW = "allow"
    """The training has come to its end for all: a script that stops early on one rank."""


class Batch(Struct, frozen=True, rename="camel", kw_only=True):
    mode: Annotated[BatchMode, one_of(BatchMode)] = BatchMode.CAPPED
    """`capped`: beyond a job's critical batch, more samples a step teach less; `limit` is where its author puts
    that.
    """
    per_worker: Samples | None = None
    """Samples a step of one worker, for a script that asks. None: it keeps its own batch, and only the rate's scale
    is told.
    """
    limit: Samples | None = None
    """Samples a step of all workers together, for `capped` and `fixed`. None: no cap; for `fixed`, perWorker ×
    minWorkers.
    """
    learning_rate: Annotated[LearningRate, one_of(LearningRate)] = LearningRate.LINEAR
    ramp_steps: Annotated[int, whole(0, MOST_SAMPLES)] = 0
    """Steps over which a higher rate is approached after growth; 0 at once. A shrink takes effect at once always."""


class Stage(Struct, frozen=True, rename="camel", kw_only=True):
    """From this epoch on."""

    epoch: Annotated[float, Meta(ge=0, le=MOST_EPOCHS, description=f"a number from 0 to {MOST_EPOCHS:g}")]
    workers: Workers | None = None
    """The size of this phase, for the policy `schedule`."""
    batch: Samples | None = None
    """Instead of `batch.perWorker`."""
    env: Environment = {}
    """Given to the script with the assignment."""


class Checkpoint(Struct, frozen=True, rename="camel", kw_only=True):
    path: Path = ""
    """A folder on a volume that all workers mount; empty: no checkpoint, so a job that is suspended or lost begins
    again.
    """
    every: Annotated[float, lasting(1)] = 600.0
    """Seconds between two. Ten minutes: what a job loses with all its workers, against the seconds that writing
    takes.
    """


class Spec(Struct, frozen=True, rename="camel", kw_only=True):
    min_workers: Workers = 1
    """The quorum: seated together or not at all; fewer do not train."""
    max_workers: Workers = 1
    workers: Annotated[int, whole(0, MOST_WORKERS)] | None = None
    """The size, within the two; what `kubectl scale` writes. None: the policy decides."""
    template: Object = {}
    """PodTemplateSpec of a worker, as written."""
    surplus_priority_class_name: Name = "gangwright-surplus"
    """PriorityClass of the workers above the quorum, lower than the template's, so that they give way first."""
    strategy: Annotated[Strategy, one_of(Strategy)] | None = None
    """None: the scheduler's own setting."""
    level: Name | None = None
    level_required: Flag = False
    policy: str = "offer"
    """Name of the sizing policy."""
    parameters: Parameters = Offer()
    schedule: Annotated[
        tuple[Stage, ...], Meta(max_length=1000, description="a list of at most 1000 objects")
    ] = ()
    batch: Batch = Batch()
    suspend: Flag = False
    max_restarts: Annotated[int, whole(0, 1_000_000)] = 6
    """How often the whole gang may begin again from its checkpoint: as often as a Job tries by default
    (`backoffLimit`). As many processes may fail in a row while others keep the state and the job gets no further.
    """
    progress_deadline: Annotated[float, lasting(60)] = 14400.0
    """Seconds that the job may hold nodes and neither train nor get further, added up. In four hours a large image and a
    warm-up of two hours to the first commit find room.
    """
    early_exit: Annotated[EarlyExit, one_of(EarlyExit)] = EarlyExit.FAIL
    """By default a job that was cut short is not taken for one that has succeeded."""
    checkpoint: Checkpoint = Checkpoint()

    def clamp(self, size: int) -> int:
        """The size that is nearest to this one and allowed."""
        return max(self.min_workers, min(self.max_workers, size))

    def stage(self, epoch: float) -> int:
        """Index of the schedule's entry that this epoch is in; −1 before the first."""
        return sum(entry.epoch <= epoch for entry in self.schedule) - 1

    def per_worker(self, place: int) -> int | None:
        """Samples a step of one worker while the schedule's entry of that index lasts; −1: before the first."""
        own = self.schedule[place].batch if place >= 0 else None
        return own or self.batch.per_worker


class Problem(Struct, frozen=True):
    """What is wrong with one field, and what would be right."""

    field: str
    """Its path: `spec.schedule[1].workers`."""
    value: str
    """As written, shortened."""
    remedy: str

    @classmethod
    def of(cls, field: str, value: object, remedy: str) -> "Problem":
        """value: as it is; None where there is none."""
        return cls(field, "none" if value is None else shortened(repr(value), 64), remedy)

    def __str__(self) -> str:
        return f"{self.field} = {self.value}: {self.remedy}"
