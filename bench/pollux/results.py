"""What became of the jobs of several workloads, as figures.

Lives here: means over workloads and their intervals. Never here: a simulation's rules.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scipy.special import stdtrit  # what stats.t.ppf asks, without the half second of loading scipy.stats

from bench.pollux.cluster import EVERY, run
from bench.pollux.elastic import Elastic
from bench.pollux.tiresias import Tiresias
from bench.pollux.training import Cost
from bench.pollux.workload import thinned, workload
from bench.report import Spread

SEED: Final = 42
"""Of the jobs that stay at a load below 1.0."""

OFTEN: Final = 10.0
"""Seconds between two decisions, with which jobs are resized fewer than ten times. The default of the master is 5."""


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
    elastic = Elastic(total=case.total, oracle=case.oracle, short_first=case.short_first)
    done = run(jobs, Tiresias() if case.rigid else elastic, case.cost, case.every)
    times = Spread.of((one.ended or math.inf) - one.job.arrival for one in done)
    last = max(one.ended or math.inf for one in done)
    return Outcome(times.mean, times.p99, last, sum(one.resizes for one in done) / len(done))


def means(outcomes: Sequence[Outcome]) -> Means:
    """Over at least one workload."""
    own = [one.mean for one in outcomes]
    half = 0.0
    if len(own) > 1:
        half = float(stdtrit(len(own) - 1, 0.975)) * statistics.stdev(own) / math.sqrt(len(own))
    return Means(
        statistics.fmean(own),
        half,
        statistics.fmean(one.p99 for one in outcomes),
        statistics.fmean(one.makespan for one in outcomes),
        statistics.fmean(one.resizes for one in outcomes),
    )
