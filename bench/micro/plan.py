"""How long the planner takes for one gang, in milliseconds.

Nothing is remembered from one try to the next: each is the first question about its cluster.
"""

import gc
import itertools
import time
from dataclasses import replace

from bench.micro import world
from scheduler.model.cluster import Snapshot
from scheduler.model.workload import Gang, Strategy
from scheduler.placement import planner


def worst(members: int, nodes: int, *, tries: int = 5) -> tuple[float, str]:
    """The slowest case, each at its best try: milliseconds, and which case it was."""
    snapshot = world.half_full(nodes)
    found = [
        (_best(snapshot, world.gang(members, strategy, level, required=required), tries), name)
        for strategy, level, required in itertools.product(Strategy, world.LEVELS, (False, True))
        for name in [f"{strategy} {level} {'required' if required else 'preferred'}"]
    ]
    return max(found)


def neighbors(members: int, nodes: int, *, tries: int = 5) -> float:
    """The slowest strategy for members of which each host takes one, spread over zones with a skew of 1."""
    return max(
        _best(snapshot, gang, tries)
        for strategy in Strategy
        for gang in [world.apart(members, strategy)]
        for snapshot in [world.beside_others(nodes, gang)]
    )


def claims(members: int, nodes: int, *, tries: int = 5) -> float:
    """The slowest strategy for members with a claim for one device each, of eight on every node."""
    snapshot = world.with_devices(nodes)
    return max(_best(snapshot, world.claiming(members, strategy), tries) for strategy in Strategy)


def _best(snapshot: Snapshot, gang: Gang, tries: int) -> float:
    return min(_once(replace(snapshot), gang) for _ in range(tries))


def _once(snapshot: Snapshot, gang: Gang) -> float:
    gc.collect()
    began = time.perf_counter()
    planner.decide(snapshot, gang, world.POLICY)
    return 1000 * (time.perf_counter() - began)
