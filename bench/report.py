"""From what became of each job to figures: how long people waited, and what the cluster was used for. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from bench.traces import Job

HOUR: Final = 3600.0

SIZES: Final = ((16, "16+"), (8, "8-15"), (2, "2-7"), (1, "1"))
"""Classes of gangs by their GPUs: the least of each class, and its name."""

LARGE: Final = "16+"
"""The class that a queue without reservation starves."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one job. Times are seconds of the trace."""

    job: Job
    started: float
    """When all of its members ran for the first time."""
    ended: float
    suspensions: int = 0
    evictions: int = 0
    lost: float = 0.0
    """Seconds of its run that had to be done again, or in which it only restarted."""
    hosts: int = 0
    """Nodes that its members ran on at the end."""

    @property
    def completion(self) -> float:
        """From submission to the end."""
        return self.ended - self.job.arrival

    @property
    def wait(self) -> float:
        """All of it in which nothing was done that counts."""
        return self.completion - self.job.runtime

    @property
    def first_start(self) -> float:
        """From submission to the first start."""
        return self.started - self.job.arrival


@dataclass(frozen=True, slots=True)
class Spread:
    """Of a sample; percentiles by nearest rank, so each is a figure that occurred. Of 0 to 99 figures p99 is `max`."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float

    @classmethod
    def of(cls, sample: Iterable[float]) -> "Spread":
        """Zeros where there is none."""
        rows = sorted(sample)
        if not rows:
            return cls(0, 0.0, 0.0, 0.0, 0.0, 0.0)
        mean = math.fsum(rows) / len(rows)
        return cls(len(rows), mean, nearest(rows, 0.5), nearest(rows, 0.9), nearest(rows, 0.99), rows[-1])


def nearest(rows: Sequence[float], share: float) -> float:
    """The smallest of these ascending figures that `share` of them do not exceed."""
    return rows[max(0, math.ceil(share * len(rows)) - 1)]


@dataclass(frozen=True, slots=True)
class Waits:
    """Hours."""

    wait: Spread
    completion: Spread
    first_start: Spread

    @classmethod
    def of(cls, fates: Sequence[Fate]) -> "Waits":
        return cls(
            Spread.of(fate.wait / HOUR for fate in fates),
            Spread.of(fate.completion / HOUR for fate in fates),
            Spread.of(fate.first_start / HOUR for fate in fates),
        )


@dataclass(frozen=True, slots=True)
class Report:
    """A trace, run to its end."""

    all: Waits
    sizes: Mapping[str, Waits]
    """By class of size; a class that no job is of is left out."""
    makespan: float
    """Hours from the first submission to the last end."""
    utilisation: float
    """GPU-hours of runtime, divided by those that the cluster had during the makespan."""
    suspensions: int
    preemptions: int
    """Gangs that were evicted."""
    lost: float
    """GPU-hours that were used and did not count."""

    @classmethod
    def of(cls, fates: Sequence[Fate], gpus: int) -> "Report":
        """gpus: of the whole cluster."""
        classes: dict[str, list[Fate]] = {name: [] for _, name in reversed(SIZES)}
        for fate in fates:
            classes[size_class(fate.job)].append(fate)
        begun = min((fate.job.arrival for fate in fates), default=0.0)
        span = max((fate.ended for fate in fates), default=0.0) - begun
        work = math.fsum(fate.job.runtime * fate.job.size for fate in fates)
        return cls(
            Waits.of(fates),
            {name: Waits.of(rows) for name, rows in classes.items() if rows},
            span / HOUR,
            work / (span * gpus) if span else 0.0,
            sum(fate.suspensions for fate in fates),
            sum(fate.evictions for fate in fates),
            math.fsum(fate.lost * fate.job.size for fate in fates) / HOUR,
        )

    def as_json(self, digits: int = 3) -> dict[str, Any]:
        """Plain numbers and texts, rounded."""
        rounded: dict[str, Any] = _rounded(asdict(self), digits)
        return rounded


def size_class(job: Job) -> str:
    return next(name for least, name in SIZES if job.size >= least)


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(inner, digits) for key, inner in value.items()}
    return round(value, digits) if isinstance(value, float) else value
