"""What a policy sees of a job, and what it answers: frozen values, without a clock.

Lives here: the view of one job (`JobView`), its measurements by size (`History`, `Measured`), and the answer (`Want`).
Never here: how a size is chosen (`policies`), or how a job gets there (`scheduler.elastic.reconciler`).
A policy is a function of values: the same view gives the same answer, even after a restart, and a bench can create the
views itself.
"""

import math
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from scheduler.elastic.sizing.policy_parameters import Offer, Parameters

HALF_LIFE: Final = 600.0
"""Seconds after which a measurement has half its weight. Co-tenants of a node change within tens of minutes. An
hour-old measurement weighs one sixty-fourth, less than the first new steps."""


GONE: Final = 100.0
"""Half-lives after which a weight no longer falls: a week later there would be nothing left to divide by."""

RATES: Final = (1e-9, 1e24)
"""Range of samples per second. Values outside are not a throughput, and their squares may not be finite."""

LASTING: Final = 3
"""Consecutive measurements after which a lower throughput is no accident: a job that always waits for its disk."""

DROPS: Final = (0.1, 0.25)
"""Fraction by which they are lower: two standard deviations, within these bounds. Step times scatter by a few percent;
a record of fast and slow steps scatters more, and proves less."""

SETTLED: Final = 60.0
"""Measurements, of a second or a step each, after which a few seconds do not outweigh the mean."""

SLOT: Final = "workers"
"""The resource of a cluster whose capacity is counted in workers."""


class Measured(Struct, frozen=True, kw_only=True):
    """The throughput of a job at one size."""

    mean: float
    """Samples per second, of the whole job."""
    variance: float = 0.0
    """Variance of one measurement, in (samples per second)²."""
    count: float = 1.0
    """Measurements behind the mean; those that were old at the time of the last one weigh less than one."""
    age: float = 0.0
    """Seconds since the last of them."""

    @property
    def error(self) -> float:
        """Standard error of the mean, relative to it. It grows as the measurements age."""
        return math.sqrt(self.variance / (self.count * _left(self.age))) / self.mean


class Record(Struct, frozen=True):
    """One size's running mean: weight, mean, sum of squared deviations, time of the last measurement."""

    weight: float
    mean: float
    squares: float
    at: float

    def taken(self, rate: float, now: float) -> "Record":
        """Welford's update, with the past weighted by age (West 1979, "Updating mean and variance estimates")."""
        left = _left(now - self.at)
        weight = self.weight * left + 1.0
        shift = rate - self.mean
        mean = max(self.mean + shift / weight, min(self.mean, rate))  # must not be rounded to 0
        return Record(weight, mean, self.squares * left + shift * (rate - mean), now)

    @property
    def variance(self) -> float:
        return self.squares / (self.weight - 1) if self.weight > 1 else 0.0

    @property
    def clearly_below(self) -> float:
        """A rate below this is no accident; 0 if the size is known too well for a few measurements to show it."""
        if self.weight >= SETTLED:
            return 0.0
        least, most = (part * self.mean for part in DROPS)
        return self.mean - max(least, min(most, 2.0 * math.sqrt(self.variance)))

    def seen(self, now: float) -> Measured:
        return Measured(
            mean=self.mean, variance=self.variance, count=self.weight, age=max(0.0, now - self.at)
        )


NOTHING: Final = Record(0.0, 0.0, 0.0, 0.0)


def _left(age: float) -> float:
    """The remaining weight of a measurement of this age."""
    return float(0.5 ** min(max(0.0, age) / HALF_LIFE, GONE))


class Fall(Struct, frozen=True):
    """Consecutive measurements of one round that are clearly below the earlier ones of its size."""

    below: float
    """Samples per second that all of them are below."""
    rates: tuple[float, ...] = ()

    def followed(self, rate: float) -> "Fall | None":
        """With one more of them; None if it is not lower."""
        return replace(self, rates=(*self.rates, rate)) if rate < self.below else None


class History(Struct, frozen=True):
    """The measurements of a job, by size. `noted` returns a new history; nothing is changed in place."""

    round: int = 0
    """The round of the last measurement."""
    records: dict[int, Record] = {}
    fall: Fall | None = None
    """The last measurements of this round, if they are low."""
    fell: bool = False
    """A record was reset in this round."""

    def noted(self, round_number: int, size: int, rate: float, now: float) -> "History":
        """Add a measurement: `rate` samples per second of `size` workers in this round, over a second or a step.

        The first measurement of every round is dropped: it contains the first step after a resize, which traces,
        connects and fills caches, and often the resize itself (the authors of "Resource Elasticity in Distributed Deep
        Learning", MLSys'20, do the same). A rate outside of `RATES` is dropped as well.

        A temporary slowdown is averaged, but a temporary speedup does not last: loaders that read ahead during a pause
        feed some seconds of steps faster than they can sustain. So the record of a new size is reset after `LASTING`
        consecutive measurements that are clearly below it. This happens once a round, because an empty queue stays
        empty; a job that alternates between fast and slow is measured by all of it.
        """
        if round_number != self.round:
            return replace(self, round=round_number, fall=None, fell=False)
        if not (RATES[0] <= rate <= RATES[1] and size > 0):
            return self
        record = self.records.get(size, NOTHING)
        fall = (self.fall or Fall(0.0 if self.fell else record.clearly_below)).followed(rate)
        rates: tuple[float, ...] = (rate,)
        fell = fall is not None and len(fall.rates) == LASTING
        if fall is not None and fell:
            record, rates, fall = NOTHING, fall.rates, None
        for one in rates:
            record = record.taken(one, now)
        records = {**self.records, size: record}
        return replace(self, records=records, fall=fall, fell=self.fell or fell)

    def measured(self, now: float) -> dict[int, Measured]:
        """Size → what is known of it now."""
        return {size: record.seen(now) for size, record in sorted(self.records.items())}


class Stage(Struct, frozen=True):
    """This number of workers from this epoch on."""

    epoch: float
    workers: int
    per_worker: int | None = None
    """Samples of a step that one worker takes in this stage; None: the job's present values of this and the limit."""
    batch_limit: int | None = None
    """Like the job's `batch_limit`; used together with `per_worker`."""


class JobView(Struct, frozen=True, kw_only=True):
    """One job as the policies see it. `Reconciler.wishes()` creates it; unknown figures keep their defaults."""

    name: str
    """`namespace/name`."""
    min: int
    """The quorum: fewer workers cannot train."""
    max: int
    size: int = 0
    """Members of the current round."""
    held: int = 0
    """Worker pods with a node or a planned one, even if not training yet: capacity that the job has already."""
    want: int = 0
    """The last decided size; 0 before the first decision."""
    parameters: Parameters = Offer()
    """The job's policy, given by its parameters."""
    worker: Mapping[str, float] = field(default_factory=lambda: {SLOT: 1.0})
    """What one worker takes, above 0 by resource, in the units of `capacity.Free`."""
    kind: int = 0
    """Which nodes admit it: a row of `Free.eligible`."""
    in_flight: bool = False
    """A resize is in progress: the answer is the size it is going to."""
    since_change: float = math.inf
    """Seconds since the last resize ended."""
    measured: Mapping[int, Measured] = {}
    """Size → throughput: `History.measured(now)`."""
    unit: str = "samples"
    """Unit of throughput: samples, or batches of one worker if the script reports no samples."""
    remaining: float | None = None
    """Samples still to do, if known."""
    elapsed: float = 0.0
    """Seconds since the job's first step."""
    attained: float = 0.0
    """Worker-seconds that its members have had: the sum of all sizes times their durations."""
    idle: float | None = None
    """Seconds of training that the last resize cost; None before the first."""
    warm: float | None = None
    """Seconds from the start of the last newcomer until it was READY; None before the first."""
    per_worker: int | None = None
    """Samples of a step that one worker takes in the present phase; None if the script keeps its own batch."""
    batch_limit: int | None = None
    """Maximum samples of a step of all workers together; None without a limit."""
    epoch: float | None = None
    """Epochs done, with fraction, or the last known value during a pause. None: before the first one, after the state
    is lost, or if the script reports no epoch."""
    epoch_s: float | None = None
    """Seconds that an epoch takes at present."""
    schedule: tuple[Stage, ...] = ()


class Want(Struct, frozen=True, kw_only=True):
    """The size that a job should have."""

    size: int
    reason: str
    """Explanation of the size, for users."""
    by: str
    """Name of the policy."""
    coming: Stage | None = None
    """The next planned change of a schedule."""
    soon: bool = False
    """The answer may change within a second: a size is being measured, or is about to be."""
