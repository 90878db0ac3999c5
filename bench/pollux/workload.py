"""Jobs, step times and published results of Pollux's artifact.

Lives here: the tables of `bench/data/pollux-osdi21` as values. Never here: what becomes of a job.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final

from bench.traces import DATA, Rows

POLLUX: Final = DATA / "pollux-osdi21"

NODES: Final = 16
GPUS: Final = 4
"""Of each node."""

WORKLOADS: Final = tuple(range(1, 9))


@dataclass(frozen=True, eq=False)
class Application:
    """A model at one global batch.

    iterations: until it has reached its target.  steps: workers → nodes → seconds an iteration.
    """

    name: str
    batch: int
    iterations: float
    most: int
    """The largest number of workers that its traces have."""
    steps: Mapping[int, Mapping[int, float]]

    def seconds(self, workers: int, nodes: int) -> float:
        """Seconds an iteration; the nearest number of nodes that was measured counts."""
        known = self.steps[workers]
        if nodes in known:
            return known[nodes]
        return known[min(known, key=lambda other: (abs(other - nodes), other))]

    @cached_property
    def packed(self) -> Mapping[int, float]:
        """Workers → samples a second on the least possible nodes."""
        return {workers: self.batch / known[min(known)] for workers, known in self.steps.items()}

    @property
    def samples(self) -> float:
        return self.iterations * self.batch


@dataclass(frozen=True, slots=True)
class Submission:
    """One job of a workload."""

    name: str
    arrival: float
    """Seconds."""
    application: Application
    replicas: int
    """The size that the user tuned."""


@cache
def applications(folder: Path = POLLUX) -> Mapping[tuple[str, int], Application]:
    """By name and global batch.  Raises TraceError."""
    steps: dict[tuple[str, int], dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    columns = ("application", "batch_size", "replicas", "nodes", "seconds_per_iteration")
    for row in Rows(folder / "step_times.csv", columns):
        key = row.text("application"), int(row.number("batch_size", whole=True))
        workers, nodes = (int(row.number(name, least=1, whole=True)) for name in ("replicas", "nodes"))
        steps[key][workers][nodes] = row.number("seconds_per_iteration")
    found = {}
    for row in Rows(
        folder / "total_iterations.csv", ("application", "batch_size", "total_iterations", "max_replicas")
    ):
        key = row.text("application"), int(row.number("batch_size", whole=True))
        most = int(row.number("max_replicas", least=1, whole=True))
        found[key] = Application(*key, row.number("total_iterations"), most, steps[key])
    return found


def workload(number: int, folder: Path = POLLUX) -> list[Submission]:
    """The jobs of one workload, in order of arrival.  Raises TraceError."""
    known = applications(folder)
    columns = ("name", "time", "application", "num_replicas", "batch_size")
    jobs = []
    for row in Rows(folder / "workloads-1.0x" / f"workload-{number}.csv", columns):
        key = row.text("application"), int(row.number("batch_size", whole=True))
        if key not in known:
            raise row.wrong("application", "one of total_iterations.csv, with its batch_size")
        replicas = int(row.number("num_replicas", least=1, whole=True))
        jobs.append(Submission(row.text("name"), row.number("time"), known[key], replicas))
    return sorted(jobs, key=lambda job: job.arrival)


def thinned(jobs: Sequence[Submission], load: float, seed: int) -> list[Submission]:
    """A random part of the jobs, at the same times."""
    kept = random.Random(seed).sample(range(len(jobs)), round(load * len(jobs)))
    return [jobs[place] for place in sorted(kept)]


@cache
def published(folder: Path = POLLUX) -> Mapping[tuple[str, int], Mapping[str, float]]:
    """By policy and workload at load 1.0: the completion time of each job in seconds.  Raises TraceError."""
    found: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for row in Rows(folder / "published_jct_per_job.csv", ("load", "workload", "job", "policy", "jct_s")):
        if row.number("load") == 1.0:
            number = int(row.text("workload").removeprefix("workload-"))
            found[row.text("policy"), number][row.text("job")] = row.number("jct_s")
    return found


def mean_published(policy: str, workloads: Iterable[int] = WORKLOADS) -> float:
    """Mean completion time of these workloads in seconds, as published for load 1.0."""
    means = [sum(jobs.values()) / len(jobs) for number in workloads if (jobs := published()[policy, number])]
    return sum(means) / len(means)
