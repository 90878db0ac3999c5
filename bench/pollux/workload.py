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

from bench.traces import DATA, Row, Rows

POLLUX: Final = DATA / "pollux-osdi21"

NODES: Final = 16
GPUS: Final = 4
"""Of each node."""

WORKLOADS: Final = tuple(range(1, 9))

Placement = tuple[int, ...]
"""Workers on each node, in the order of the ring. It may begin at any node."""

Key = tuple[str, int, int]
"""Name of an application, global batch, workers for which it was tuned."""


@dataclass(frozen=True, eq=False)
class Application:
    """A model at one global batch, as its user tuned it for a number of workers.

    An iteration is one at that number of workers. Other numbers may share the batch less evenly, train a somewhat smaller or
    larger one, and take more or fewer iterations to the target. Their step times are scaled by that.
    """

    name: str
    batch: int
    epochs: Sequence[float]
    """Iterations of each epoch, until it has reached its target."""
    most: int
    """The largest number of workers that its traces have."""
    steps: Mapping[int, Mapping[int, float]]
    """Workers → nodes → seconds an iteration."""
    placed: Mapping[Placement, float]
    """Placement as measured → seconds an iteration."""

    def seconds(self, placement: Placement) -> float:
        """Seconds an iteration; of a placement that was not measured, those of the nearest number of nodes."""
        turns = (placement[turn:] + placement[:turn] for turn in range(len(placement)))
        if (measured := self.placed.get(min(turns))) is not None:
            return measured
        known, nodes = self.steps[sum(placement)], len(placement)
        return known[min(known, key=lambda other: (abs(other - nodes), other))]

    @cached_property
    def iterations(self) -> float:
        return sum(self.epochs)

    @cached_property
    def packed(self) -> Mapping[int, float]:
        """Workers → samples a second on the least possible nodes."""
        return {workers: self.batch / known[min(known)] for workers, known in self.steps.items()}


@dataclass(frozen=True, slots=True)
class Submission:
    """One job of a workload."""

    name: str
    arrival: float
    """Seconds."""
    application: Application
    replicas: int
    """The size that the user tuned."""


def _pair(row: Row) -> tuple[str, int]:
    return row.text("application"), int(row.number("batch_size", whole=True))


def _workers(row: Row, column: str = "replicas") -> int:
    return int(row.number(column, least=1, whole=True))


@cache
def applications(folder: Path = POLLUX) -> Mapping[Key, Application]:
    """By name, global batch and workers.  Raises TraceError."""
    pair = ("application", "batch_size")
    total = defaultdict[tuple[str, int], dict[int, float]](dict)
    for row in Rows(folder / "effective_batches.csv", (*pair, "replicas", "total_iterations")):
        total[_pair(row)][_workers(row)] = row.number("total_iterations")
    steps = defaultdict[tuple[str, int], dict[int, dict[int, float]]](lambda: defaultdict(dict))
    for row in Rows(folder / "step_times.csv", (*pair, "replicas", "nodes", "seconds_per_iteration")):
        nodes = int(row.number("nodes", least=1, whole=True))
        steps[_pair(row)][_workers(row)][nodes] = row.number("seconds_per_iteration")
    placed = defaultdict[tuple[str, int], dict[Placement, float]](dict)
    for row in Rows(folder / "placed_step_times.csv", (*pair, "placement", "seconds_per_iteration")):
        placed[_pair(row)][tuple(map(int, row.text("placement")))] = row.number("seconds_per_iteration")
    most = {
        _pair(row): int(row.number("max_replicas", least=1, whole=True))
        for row in Rows(folder / "total_iterations.csv", (*pair, "max_replicas"))
    }
    epochs = defaultdict[Key, list[float]](list)
    for row in Rows(folder / "epochs.csv", (*pair, "replicas", "iterations")):
        epochs[(*_pair(row), _workers(row))].append(row.number("iterations"))
    found = {}
    for (name, batch, tuned), own in epochs.items():
        key = name, batch
        share = {workers: every / total[key][tuned] for workers, every in total[key].items()}
        found[name, batch, tuned] = Application(
            name,
            batch,
            tuple(own),
            most[key],
            {
                workers: {nodes: pace * share[workers] for nodes, pace in known.items()}
                for workers, known in steps[key].items()
            },
            {placement: pace * share[sum(placement)] for placement, pace in placed[key].items()},
        )
    return found


def workload(number: int, folder: Path = POLLUX) -> list[Submission]:
    """The jobs of one workload, in order of arrival.  Raises TraceError."""
    known = applications(folder)
    columns = ("name", "time", "application", "num_replicas", "batch_size")
    jobs = []
    for row in Rows(folder / "workloads-1.0x" / f"workload-{number}.csv", columns):
        key = *_pair(row), _workers(row, "num_replicas")
        if key not in known:
            raise row.wrong("application", "one of epochs.csv, with its batch_size and num_replicas")
        jobs.append(Submission(row.text("name"), row.number("time"), known[key], key[2]))
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
