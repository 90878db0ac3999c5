"""What ElasticDL published, from bench/data/elasticdl-timelines."""

import csv
from itertools import pairwise
from pathlib import Path
from typing import Final

from bench.elastic.experiments.slots import Timeline

FOLDER: Final = Path(__file__).parents[2] / "data" / "elasticdl-timelines"

TWO_JOBS_SLOTS: Final = 6
SERVING_SLOTS: Final = 8

JOB_SECONDS: Final = 464.0
"""One of the two jobs on its own four GPUs, in the gang run: from 1 s to 465 s."""

SECOND_JOB: Final = 120.0
"""Seconds at which the second job was submitted in the elastic run."""


def timeline(name: str) -> Timeline:
    """GPUs in use: a row (time, count) from each change on. name: of the file, without `_gpu.csv`."""
    with (FOLDER / f"{name}_gpu.csv").open(encoding="utf-8") as file:
        rows = [(float(row["time"]), int(row["gpu"])) for row in csv.DictReader(file)]
    return dict(rows)  # of two rows of one time the later counts: from there on


def changes(line: Timeline) -> list[tuple[float, int]]:
    """(time, by how many) of every change."""
    steps = list(line.items())
    return [(time, count - before) for (_, before), (time, count) in pairwise(steps) if count != before]


def orders(training: Timeline, serving: Timeline) -> list[tuple[float, int]]:
    """When so many serving pods more, or fewer, were asked for.

    More when training gives way, before they run; fewer when they are gone.
    """
    wanted = [(time, -by) for time, by in changes(training) if by < 0]
    return sorted(wanted + [(time, by) for time, by in changes(serving) if by < 0])


def accuracies() -> dict[str, list[float]]:
    """By run, the test accuracy after each epoch."""
    with (FOLDER / "cifar10_resnet20_acc.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0] if name != "epoch_index"}
