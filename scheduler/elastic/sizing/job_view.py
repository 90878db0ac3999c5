"""What a policy sees of a job, and what it answers: frozen values, without a clock.

Lives here: the picture of one job (`JobView`), what was measured of it at each size (`History`, `Measured`), and the
answer (`Want`). Never here: how a size is chosen (`policies`), nor how a job gets there (`scheduler.elastic.reconciler`).
Why values: a policy is a function of its picture. The same picture gives the same answer, after a restart too,
and a bench can draw the pictures itself.
"""

import math
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from scheduler.elastic.sizing.policy_parameters import Offer, Parameters

HALF_LIFE: Final = 600.0
"""Seconds after which a measurement weighs half. Co-tenants of a node change within tens of minutes; what was measured
an hour ago weighs one sixty-fourth and is outvoted by the first new steps."""


GONE: Final = 100.0
"""Half-lives after which a weight falls no more: a week later there would be none left to divide by."""

RATES: Final = (1e-9, 1e24)
"""Samples per second that a job may make. What is told beyond them is no throughput, and its square no number."""

LASTING: Final = 3
"""Measurements in a row after which a lower throughput is no hiccup: a job that waits for its disk all the time."""

DROPS: Final = (0.1, 0.25)
"""Part by which they are lower: two standard deviations, within these bounds. Step times scatter by a few per cent; a
record of fast and slow steps scatters by more, and says less."""

SETTLED: Final = 60.0
"""Measurements, of a second or a step each, after which a few seconds say nothing against the mean."""

SLOT: Final = "workers"
"""The resource of a cluster whose room is counted in workers."""


class Measured(Struct, frozen=True, kw_only=True):
    """The throughput of a job at one size."""

    mean: float
    """Samples per second, of the whole job."""
    variance: float = 0.0
    """Of one measurement, in (samples per second)²."""
    count: float = 1.0
    """Measurements behind the mean; those that were old when the last one came weigh less than one."""
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
        """Welford's update, the past weighed by its age (West 1979, "Updating mean and variance estimates")."""
        left = _left(now - self.at)
        weight = self.weight * left + 1.0
        shift = rate - self.mean
        mean = max(self.mean + shift / weight, min(self.mean, rate))  # of far larger ones nothing may be left
        return Record(weight, mean, self.squares * left + shift * (rate - mean), now)

    @property
    def variance(self) -> float:
        return self.squares / (self.weight - 1) if self.weight > 1 else 0.0

    @property
    def clearly_below(self) -> float:
        """A rate that is lower is no chance; 0 where the size is known too well for a few to say so."""
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
    """The weight that is left of a measurement of that age."""
    return float(0.5 ** min(max(0.0, age) / HALF_LIFE, GONE))


class Fall(Struct, frozen=True):
    """Measurements of one round, in a row, that are clearly below what was measured of its size before."""

    below: float
    """Samples per second that all of them are below."""
    rates: tuple[float, ...] = ()

    def followed(self, rate: float) -> "Fall | None":
        """With one more of them; None: it is none."""
        return replace(self, rates=(*self.rates, rate)) if rate < self.below else None


class History(Struct, frozen=True):
    """What was measured of a job, by size. `noted` gives the next one; nothing is changed in place."""

    round: int = 0
    """The round of the last measurement."""
    records: dict[int, Record] = {}
    fall: Fall | None = None
    """What this round's last measurements are, if they are low."""
    fell: bool = False
    """A record has begun again in this round."""

    def noted(self, round_number: int, size: int, rate: float, now: float) -> "History":
        """With one more measurement: `rate` samples per second of `size` workers in this round, over a second or a
        step.

        The first measurement of every round is dropped: it holds the first step after a resize, which traces, connects
        and fills caches, and often the resize itself (so do the authors of "Resource Elasticity in Distributed Deep
        Learning", MLSys'20). A rate outside of `RATES` is dropped, too.

        What takes time for a while only adds to what is measured; what saves time for a while does not last. Loaders
        that read ahead while nobody trained feed some seconds of steps faster than they can go on. So the record of a
        size that is new begins again with `LASTING` measurements in a row that are clearly below it; once a round, for a
        queue that ran dry stays so: whoever is fast and slow by turns is measured by all of it.
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
    """From this epoch on, so many workers."""

    epoch: float
    workers: int
    per_worker: int | None = None
    """Samples of a step that one worker takes while it lasts; None: what the job's takes now, and its limit."""
    batch_limit: int | None = None
    """As the job's, beside `per_worker`."""


class JobView(Struct, frozen=True, kw_only=True):
    """One job as the policies see it. `Reconciler.wishes()` makes it; whoever knows no figure leaves its default."""

    name: str
    """`namespace/name`."""
    min: int
    """The quorum: fewer workers do not train."""
    max: int
    size: int = 0
    """Members of the present round."""
    held: int = 0
    """Worker pods that have a node or a seat, whether they train yet or not: room that is the job's already."""
    want: int = 0
    """The size that was last decided; 0 before the first decision."""
    parameters: Parameters = Offer()
    """The job's policy, by its parameters."""
    worker: Mapping[str, float] = field(default_factory=lambda: {SLOT: 1.0})
    """What one worker takes, above 0 by resource, in the units of `capacity.Free`."""
    kind: int = 0
    """Which nodes admit it: a row of `Free.eligible`."""
    in_flight: bool = False
    """A resize is under way: the answer is the size it goes to."""
    since_change: float = math.inf
    """Seconds since the last resize ended."""
    measured: Mapping[int, Measured] = {}
    """Size → throughput: `History.measured(now)`."""
    unit: str = "samples"
    """Of what throughput is so many per second: samples, or batches of one worker where the script tells of no
    samples.
    """
    remaining: float | None = None
    """Samples still to do, when known."""
    elapsed: float = 0.0
    """Seconds since the job's first step."""
    idle: float | None = None
    """Seconds of training that the last resize cost; None before the first."""
    warm: float | None = None
    """Seconds from the start of the last newcomer until it was READY; None before the first."""
    per_worker: int | None = None
    """Samples of a step that one worker takes in the present phase; None when the script keeps its own."""
    batch_limit: int | None = None
    """Samples of a step that all workers take together at the most; None without limit."""
    epoch: float | None = None
    """Epochs done, fraction included, the last known ones while nobody trains; None before the first, when the state is
    gone, or the script tells of no epoch."""
    epoch_s: float | None = None
    """Seconds that an epoch takes now."""
    schedule: tuple[Stage, ...] = ()


class Want(Struct, frozen=True, kw_only=True):
    """The size that a job should have."""

    size: int
    reason: str
    """For people: why this size."""
    by: str
    """The policy's name."""
    coming: Stage | None = None
    """The next change that is planned already, of a schedule."""
    soon: bool = False
    """The answer may be another one in a second: a size is being measured, or is on its way."""
