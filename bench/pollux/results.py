"""What became of the jobs of several workloads, as figures.

Lives here: means over workloads and their intervals. Never here: a simulation's rules.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.confidence import interval
from bench.pollux.cluster import EVERY, run
from bench.pollux.elastic import Elastic
from bench.pollux.tiresias import Tiresias
from bench.pollux.training import ROUNDED, Cost
from bench.pollux.workload import published, thinned, workload
from bench.report import Spread

SEED: Final = 42
"""Of the jobs that stay at a load below 1.0."""

DEFAULT: Final = 10.0
"""Seconds between two decisions of the master, unless it is told otherwise."""

OFTEN: Final = 5.0
"""Seconds between two decisions, for comparison."""


@dataclass(frozen=True, slots=True)
class Case:
    """A policy in a setting. load: the part of the jobs that stays.  every: seconds between two decisions."""

    name: str
    cost: Cost
    every: float = EVERY
    load: float = 1.0
    rigid: bool = False
    short_first: bool = True
    total: bool = True
    oracle: bool = False
    reseats: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """One workload. Seconds; resizes are those of a mean job."""

    mean: float
    p99: float
    makespan: float
    resizes: float


@dataclass(frozen=True, slots=True)
class Means:
    """Means over workloads. Seconds; half: of the 95% interval of `mean`, by Student's t; 0 for a single workload."""

    mean: float
    half: float
    p99: float
    makespan: float
    resizes: float


def simulate(case: Case, number: int) -> Outcome:
    """One workload in one case."""
    jobs = workload(number)
    if case.load < 1.0:
        jobs = thinned(jobs, case.load, SEED + number)
    elastic = Elastic(
        total=case.total, oracle=case.oracle, short_first=case.short_first, reseats=case.reseats
    )
    done = run(jobs, Tiresias() if case.rigid else elastic, case.cost, case.every)
    times = Spread.of((one.ended or math.inf) - one.job.arrival for one in done)
    last = max(one.ended or math.inf for one in done)
    return Outcome(times.mean, times.p99, last, sum(one.resizes for one in done) / len(done))


def as_published(number: int) -> int:
    """Jobs of a workload that end under Tiresias in the second that was published."""
    known = published()["tiresias", number]
    done = run(workload(number), Tiresias(), ROUNDED)
    return sum(abs((one.ended or math.inf) - one.job.arrival - known[one.job.name]) < 0.5 for one in done)


def gain(outcomes: Sequence[Outcome], others: Sequence[Outcome]) -> tuple[float, float]:
    """By how many percent the means are below the others of the same workloads, and half the 95% interval of this."""
    saved = [100 * (1 - own.mean / other.mean) for own, other in zip(outcomes, others, strict=True)]
    return statistics.fmean(saved), interval(saved)


def means(outcomes: Sequence[Outcome]) -> Means:
    """Over at least one workload."""
    own = [one.mean for one in outcomes]
    return Means(
        statistics.fmean(own),
        interval(own),
        statistics.fmean(one.p99 for one in outcomes),
        statistics.fmean(one.makespan for one in outcomes),
        statistics.fmean(one.resizes for one in outcomes),
    )
