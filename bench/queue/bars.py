"""What is claimed of the queues, as ratios with a bar each. Pure.

A ratio compares two queues on one cluster; a mean of ratios is over the clusters. A p99 of fewer than a hundred
figures is their maximum, and is said to be.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.queue.cases import CROWDED, FIFO, FREE, LAS, NOISY, SHORTEST, STRICT
from bench.queue.running import Result
from bench.report import LARGE, Report

ENOUGH_LARGE: Final = 30
"""Large gangs from which on the mean of their waits says something."""

FEW: Final = 100
"""Large gangs below which their p99, by nearest rank, is the wait of a single one: the longest."""

Reports = Mapping[str, Report]
"""By queue, on one cluster."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio, and the most that it may be."""

    name: str
    ratio: float
    most: float

    @property
    def holds(self) -> bool:
        return self.ratio <= self.most


def completion(one: Report, other: Report) -> float:
    """Mean time from submission to the end, one over the other."""
    return one.all.completion.mean / other.all.completion.mean


def large_p99(one: Report, other: Report) -> float:
    return _ratio(one.sizes[LARGE].wait.p99, other.sizes[LARGE].wait.p99)


def large_mean(one: Report, other: Report) -> float:
    return _ratio(one.sizes[LARGE].wait.mean, other.sizes[LARGE].wait.mean)


def _ratio(one: float, other: float) -> float:
    """Nobody waiting is as good as nobody waiting."""
    if other:
        return one / other
    return 1.0 if not one else float("inf")


Measure = Callable[[Report, Report], float]


@dataclass(frozen=True, slots=True)
class Claim:
    """One queue held against another: on which clusters, by what, and the most that the ratio may be."""

    name: str
    queue: str
    over: str
    measure: Measure
    most: Callable[[str], float]
    large: int = 0
    """Only on clusters with so many large gangs."""
    mean: bool = False
    """One ratio, the mean over the clusters, in place of one a cluster."""


def _always(most: float) -> Callable[[str], float]:
    return lambda _cluster: most


CLAIMS: Final = (
    Claim("completion", FIFO, STRICT, completion, _always(0.85), mean=True),
    Claim("large_p99_wait", FIFO, STRICT, large_p99, _always(1.05), large=1),
    Claim("completion", LAS, FREE, completion, lambda cluster: 0.6 if cluster == CROWDED else 1.05),
    Claim("large_mean_wait", LAS, STRICT, large_mean, _always(1.0), large=ENOUGH_LARGE),
    Claim("completion", SHORTEST, FREE, completion, _always(1.2)),
    Claim("completion", NOISY, FREE, completion, _always(1.2)),
    Claim("large_p99_wait", SHORTEST, FREE, large_p99, _always(1.0), large=1),
    Claim("large_p99_wait", NOISY, FREE, large_p99, _always(1.0), large=1),
)


def bars(results: Sequence[Result]) -> Iterator[Bar]:
    """Of every claim whose queues were run."""
    for claim in CLAIMS:
        ratios = dict(_ratios(claim, by_cluster(results)))
        title = f"{claim.queue}_over_{claim.over}_{claim.name}"
        if claim.mean and ratios:
            yield Bar(title, statistics.fmean(ratios.values()), claim.most(""))
        elif not claim.mean:
            for cluster, ratio in ratios.items():
                yield Bar(f"{title}_{cluster}", ratio, claim.most(cluster))


def _ratios(claim: Claim, clusters: Mapping[str, Reports]) -> Iterator[tuple[str, float]]:
    for cluster, reports in clusters.items():
        if claim.queue not in reports or claim.over not in reports:
            continue
        if claim.large <= large_gangs(reports[claim.queue]):
            yield cluster, claim.measure(reports[claim.queue], reports[claim.over])


def by_cluster(results: Sequence[Result]) -> dict[str, dict[str, Report]]:
    found: dict[str, dict[str, Report]] = {}
    for result in results:
        found.setdefault(result.cluster, {})[result.queue] = result.report
    return found


def large_gangs(report: Report) -> int:
    return report.sizes[LARGE].wait.count if LARGE in report.sizes else 0


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """The last line: every ratio, its bar, whether it holds, and which p99 rest on few gangs."""
    found = list(bars(results))
    counts = {
        cluster: large_gangs(next(iter(reports.values()))) for cluster, reports in by_cluster(results).items()
    }
    return {
        "ratios": {bar.name: round(bar.ratio, 3) for bar in found},
        "bars": {bar.name: bar.most for bar in found},
        "missed": [bar.name for bar in found if not bar.holds],
        "large_gangs": counts,
        "p99_is_a_maximum": [cluster for cluster, count in counts.items() if count < FEW],
    }
