"""What a user wants of an elastic job: the spec of an ElasticJob as frozen values.

Lives here: fields with their units, meanings and defaults. Never here: how they are read (`validation`), or what follows
from them.
"""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from scheduler.elastic.sizing.policy_parameters import Offer, Parameters


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
    mode: BatchMode = BatchMode.CAPPED
    """`capped`: beyond a job's critical batch, more samples a step teach less; `limit` is where its author puts
    that.
    """
    per_worker: int | None = None
    """Samples a step of one worker, for a script that asks. None: it keeps its own batch, and only the rate's scale
    is told.
    """
    limit: int | None = None
    """Samples a step of all workers together, for `capped` and `fixed`. None: no cap; for `fixed`, perWorker ×
    minWorkers.
    """
    learning_rate: LearningRate = LearningRate.LINEAR
    ramp_steps: int = 0
    """Steps over which a higher rate is approached after growth; 0 at once. A shrink takes effect at once always."""


class Stage(Struct, frozen=True, rename="camel", kw_only=True):
    """From this epoch on."""

    epoch: float
    workers: int | None = None
    """The size of this phase, for the policy `schedule`."""
    batch: int | None = None
    """Instead of `batch.perWorker`."""
    env: dict[str, str] = {}
    """Given to the script with the assignment."""


class Checkpoint(Struct, frozen=True, rename="camel", kw_only=True):
    path: str = ""
    """A folder on a volume that all workers mount; empty: no checkpoint, so a job that is suspended or lost begins
    anew.
    """
    every: float = 600.0
    """Seconds between two. Ten minutes: what a job loses with all its workers, against the seconds that writing
    takes.
    """


class Spec(Struct, frozen=True, rename="camel", kw_only=True):
    min_workers: int = 1
    """The quorum: seated together or not at all; fewer do not train."""
    max_workers: int = 1
    workers: int | None = None
    """The size, within the two; what `kubectl scale` writes. None: the policy decides."""
    template: dict[str, Any] = {}
    """PodTemplateSpec of a worker, as written."""
    surplus_priority_class_name: str = "gangwright-surplus"
    """PriorityClass of the workers above the quorum, lower than the template's, so that they give way first."""
    strategy: Strategy | None = None
    """None: the scheduler's own setting."""
    level: str | None = None
    level_required: bool = False
    policy: str = "offer"
    """Name of the sizing policy."""
    parameters: Parameters = Offer()
    schedule: tuple[Stage, ...] = ()
    batch: Batch = Batch()
    suspend: bool = False
    max_restarts: int = 6
    """How often the whole gang may begin again from its checkpoint: as often as a Job tries by default
    (`backoffLimit`). As many processes may fail in a row while others keep the state and the job gets no further.
    """
    progress_deadline: float = 14400.0
    """Seconds that the job may hold nodes and neither train nor get further, added up. In four hours a large image and a
    warm-up of two hours to the first commit find room.
    """
    early_exit: EarlyExit = EarlyExit.FAIL
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

    def __str__(self) -> str:
        return f"{self.field} = {self.value}: {self.remedy}"
