"""How long the core takes to know 50,000 running pods and to become active, in seconds of processor time.

5,000 nodes, and pods without a gang, so each of them is a gang of one. They come in batches as large as a page of a
list. Then every list was read and the Lease is ours: every gang is taken up and reconciled, and a pass finds nothing
to plan. The world is given to the engine as events, so reading JSON is not in it: `cache_load_s` has that.
"""

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from bench.micro import relabeling, world
from scheduler.engine import Engine
from scheduler.kube.listing import PAGE
from scheduler.model import events as ev
from scheduler.model.workload import Owner, Pod
from tests.support.builders import a_node

NODES: Final = 5_000
PODS: Final = 50_000
OWNED: Final = 8
"""Pods of one ReplicaSet."""

GANG: Final = relabeling.GANG


def single(pods: int = PODS, tries: int = 3) -> float:
    """Seconds of the best try for gangs of one."""
    return min(_loaded(_alone, pods) for _ in range(tries))


def gangs(pods: int = PODS, tries: int = 3) -> float:
    """The same for gangs of ten."""
    return min(_loaded(_owned, pods) for _ in range(tries))


def _loaded(make: Callable[[int], Pod], pods: int) -> float:
    nodes = [
        ev.NodeSeen(a_node(f"n{k:05}", cpu=64, memory=512, gpu=GANG, rack=f"r{k // 20}"))
        for k in range(NODES)
    ]
    batches = list(_pages([ev.PodSeen(make(number)) for number in range(pods)]))
    gc.collect()
    engine = Engine(world.POLICY)
    began = time.process_time()
    engine.ledger.take(nodes, relabeling.NOW)
    for batch in batches:
        engine.ledger.take(batch, relabeling.NOW)
    engine.observe([ev.Synced(), ev.TookOver()], relabeling.NOW)
    engine.plan(relabeling.NOW)
    took = time.process_time() - began
    if len(engine.ledger.registry.gangs) * (1 if make is _alone else GANG) != pods:
        raise RuntimeError("not every pod is known")
    return took


def _pages(events: list[ev.PodSeen]) -> Iterator[list[ev.PodSeen]]:
    for start in range(0, len(events), PAGE):
        yield events[start : start + PAGE]


def _owned(number: int) -> Pod:
    name = f"set-{number // OWNED}"
    return replace(relabeling.runs(number), owner=Owner("ReplicaSet", name, name, "apps/v1"))


def _alone(number: int) -> Pod:
    pod = _owned(number)
    return replace(pod, key=pod.key._replace(namespace=f"team-{number % 4}"), membership=None)
