"""How the cost of the core grows with the cluster: processor time and memory against nodes, shapes and waiting gangs.

Lives here: the points, one point's measurement in a process of its own, and the exponents. Never here: the cluster,
which is that of `bench.micro.ended_pod`.
"""

import math
import resource
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

from bench.micro import ended_pod

PODS: Final = ended_pod.PODS
"""Running pods of a node."""


@dataclass(frozen=True, slots=True)
class Point:
    """A full cluster, and the gangs that wait, of so many shapes."""

    nodes: int
    waiting: int
    shapes: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one point. load: seconds of processor time for all events at start.  first, ended: milliseconds, of the first
    pass and of an event and the pass after one pod has ended.  mib: the growth of the process.
    """

    load: float
    first: float
    ended: float
    mib: float


def measured(point: Point, tries: int = 3) -> Cost:
    """In a process of its own, because memory is that of a process."""
    with ProcessPoolExecutor(1) as pool:
        return pool.submit(_measure, point, tries).result()


def _measure(point: Point, tries: int) -> Cost:
    before, began = _peak(), time.process_time()
    engine = ended_pod.loaded(point.nodes, point.shapes, point.waiting)
    loaded = time.process_time()
    engine.plan(ended_pod.LOADED)
    planned = time.process_time()
    ended = min(ended_pod.once(engine, number) for number in range(tries))
    return Cost(loaded - began, 1000 * (planned - loaded), ended, _peak() - before)


def _peak() -> float:
    """MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The power of the size with which the cost grows: the slope of a line through the logarithms."""
    return statistics.linear_regression(list(map(math.log, sizes)), list(map(math.log, costs))).slope
