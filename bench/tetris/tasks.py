"""The workload: 40 jobs of 30 independent tasks on 20 nodes.

The published experiment names the counts, the arrivals (uniform over 3,000 s) and the published means. It does not name
node sizes, demands, durations or seeds. So this is a workload of Gangwright's own with the same counts. Each job draws
what each of its tasks requests: of each resource evenly up to half of a node. Each task draws its duration evenly
within a factor. One number is calibrated: the mean duration, so that FIFO that blocks takes 7,083 s in the mean.
"""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from bench.controller import GPU
from bench.simulator import PODS_A_NODE
from bench.traces import Job
from scheduler.model.cluster import Node
from scheduler.model.resources import CPU, MEMORY, PODS, amounts

NODES: Final = 20
JOBS: Final = 40
TASKS: Final = 30
"""Of each job."""
ARRIVALS: Final = 3_000.0
"""Seconds in which all jobs arrive."""

NETWORK: Final = "example.com/network"
GIB: Final = 2**30
NODE: Final[Mapping[str, int]] = {CPU: 32_000, MEMORY: 128 * GIB, GPU: 8, NETWORK: 100}
"""Of each node: thousandths of a CPU, bytes, GPUs, units of bandwidth."""

UNIT: Final[Mapping[str, int]] = {CPU: 1_000, MEMORY: GIB, GPU: 1, NETWORK: 1}
LEAST: Final[Mapping[str, int]] = {CPU: 1, MEMORY: 1, GPU: 0, NETWORK: 0}
"""In units. A task may need no GPU and no bandwidth."""

DURATION: Final = 265.0
"""Seconds, the mean: the calibrated number."""
FACTOR: Final = (0.5, 1.5)
"""A duration lies evenly between these multiples of the mean."""


def nodes() -> list[Node]:
    """Equal nodes, in the order of their names."""
    return [
        Node(
            f"n{number:02d}",
            amounts({**NODE, PODS: PODS_A_NODE}),
            {"kubernetes.io/hostname": f"n{number:02d}"},
        )
        for number in range(NODES)
    ]


def tasks(seed: int, *, duration: float = DURATION) -> list[Job]:
    """One gang of a single member per task, in order of arrival. The name of a task begins with that of its job."""
    chance = random.Random(seed)
    found: list[Job] = []
    for number, arrival in enumerate(sorted(chance.uniform(0.0, ARRIVALS) for _ in range(JOBS))):
        job = _job(chance, f"job-{number:02d}", arrival)
        runtimes = (duration * chance.uniform(*FACTOR) for _ in range(TASKS))
        found += [
            replace(job, name=f"{job.name}-{task:02d}", runtime=own) for task, own in enumerate(runtimes)
        ]
    return found


def job_of(task: Job) -> str:
    """The name of the task's job."""
    return task.name.rpartition("-")[0]


def _job(chance: random.Random, name: str, arrival: float) -> Job:
    """A task of this job, without a duration."""
    demand = {key: unit * chance.randint(LEAST[key], NODE[key] // unit // 2) for key, unit in UNIT.items()}
    gpus = demand.pop(GPU)
    return Job(name, arrival, 0.0, members=1, gpus=gpus, others=amounts(demand))
