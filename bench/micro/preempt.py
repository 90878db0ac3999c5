"""How long it takes to choose whom a gang of 100 displaces on 100 full nodes with 1,000 pods, in milliseconds.

On every node stand ten pods: four of small gangs, the others alone; together they use every device. Nothing is
remembered from one try to the next.
"""

import gc
import itertools
import time
from collections.abc import Iterator

from bench.micro import world
from scheduler.model.cluster import Snapshot
from scheduler.model.preemption_units import Kind, Unit
from scheduler.model.workload import Gang
from scheduler.placement.victim_selection import choose
from tests.placement.support.crowds import a_unit, filled
from tests.support.builders import a_gang, a_node, a_snapshot

NODES = 100
PODS = 1000
MEMBERS = 100
PRIORITIES = (1, 3)
WANTS = ((8, 32), (4, 4), (1, 1))
"""Devices and cores of a member: a whole node, half of its devices, one device."""

_OF_GANGS = 4
_ALONE = (1, 1, 1, 1, 0, 0)
"""Devices of the pods that stand alone on a node."""


def worst(tries: int = 5) -> tuple[float, str]:
    """The slowest case, each at its best try: milliseconds, and which case it was."""
    return max(
        (min(_once(snapshot, units, _gang(gpu, cpu)) for _ in range(tries)), f"{gpu} of 8 GPUs, {text}")
        for priorities in PRIORITIES
        for snapshot, units in [crowd(priorities)]
        for text in [f"{priorities} priorities" if priorities > 1 else "one priority"]
        for gpu, cpu in WANTS
    )


def _gang(gpu: int, cpu: int) -> Gang:
    return a_gang(MEMBERS, gpu=gpu, cpu=cpu, priority=100)


def crowd(priorities: int) -> tuple[Snapshot, list[Unit]]:
    """The full cluster, and who stands there, of so many priorities."""
    nodes = [
        a_node(f"n{number:03}", cpu=64, memory=512, gpu=world.GPUS, rack=f"r{number // world.RACK}")
        for number in range(NODES)
    ]
    empty = a_snapshot(nodes)
    units = [*_gangs(empty, priorities), *_pods(empty, priorities)]
    return filled(empty, units), units


def _gangs(empty: Snapshot, priorities: int) -> Iterator[Unit]:
    """Gangs of two to six, each pod on another node."""
    left = [name for name in empty.names for _ in range(_OF_GANGS)]
    seats = [left[place * 37 % len(left)] for place in range(len(left))]  # 37 and 400 have no common divisor
    for number in itertools.count():
        size = min(2 + number * 7 % 5, len(seats))
        if not size:
            return
        stands = [(seats.pop(), {"gpu": 1, "cpu": 4}) for _ in range(size)]
        lost = float(size * (100 + number * 7919 % 5000))
        how = {"kind": Kind.GANG, "priority": number % priorities, "lost": lost}
        yield a_unit(empty, f"gang-{number:03}", stands, **how)


def _pods(empty: Snapshot, priorities: int) -> Iterator[Unit]:
    for number, (name, gpu) in enumerate(itertools.product(empty.names, _ALONE)):
        lost = float(gpu * (50 + number * 104729 % 4000))
        stands = [(name, {"gpu": gpu, "cpu": 4})]
        yield a_unit(empty, f"pod-{number:03}", stands, priority=number % priorities, lost=lost)


def _once(snapshot: Snapshot, units: list[Unit], gang: Gang) -> float:
    gc.collect()
    began = time.perf_counter()
    choose(snapshot, gang, units, world.POLICY)
    return 1000 * (time.perf_counter() - began)
