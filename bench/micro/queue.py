"""How long one planning pass over thousands of waiting gangs takes when something has happened, in milliseconds.

First, of 10,000 when room has come back. The cluster is full; the gangs are of fifty shapes, of four namespaces, and none of them fits. Then one
pod ends: everybody could be asked about again, and a verb waits for whatever a pass does in one turn. The clock runs
for the whole pass, with the reservation for the first gang.

Second, of 10,000 of which each asks for CPU that no other asks for, so that none is told what another was told.

Third, of 5,000 when a pod of another scheduler is bound, beside a system pod, whose priority is above all, and a
placeholder, whose priority is below zero and whose place any gang may have. Nothing is new to any gang.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import replace

from bench.micro import world
from scheduler.engine import Engine
from scheduler.model import events as ev
from scheduler.model.demand import Demand
from scheduler.model.queueing import Order
from scheduler.model.workload import GangKey, Membership, Phase, Pod, PodKey, Uid, Wish
from tests.support.builders import a_node

WAITING = 10_000
BESIDE_STRANGERS = 5_000
SYSTEM, PLACEHOLDER = 2_000_001_000, -10
"""Priorities of `system-node-critical`, and of a pod that holds room for others, as the cluster autoscaler's."""
NODES = 200
SHAPES = 50


def worst(tries: int = 3) -> tuple[float, str]:
    """The slowest order, each at its best try: milliseconds, and which order it was."""
    return max((min(_passes(order, tries)), f"order {order}") for order in Order)


def unlike(tries: int = 3) -> float:
    """Milliseconds of the best try."""
    return min(_passes(Order.FIFO, tries, own_cpu))


def own_cpu(number: int) -> Pod:
    """The gang of this number, which asks for so many thousandths of a CPU more than the first."""
    pod = _waits(number)
    requests = {**dict(pod.demand.requests), "cpu": 100 + number}
    return replace(pod, demand=Demand(tuple(requests.items())))


def stranger_bind(tries: int = 5) -> float:
    """Milliseconds of the best try."""
    engine = _crowd(Order.FIFO, BESIDE_STRANGERS)
    engine.observe(
        [ev.PodSeen(_stranger("system", SYSTEM)), ev.PodSeen(_stranger("room", PLACEHOLDER))], 9_001.0
    )
    engine.plan(9_001.0)
    return min(_beside(engine, number) for number in range(tries))


def _beside(engine: Engine, number: int) -> float:
    now = 10_000.0 + 10 * number
    engine.plan(now)
    gc.collect()
    began = time.perf_counter()
    engine.observe([ev.PodSeen(_stranger(f"web-{number}", 0))], now)
    engine.plan(now)
    return 1000 * (time.perf_counter() - began)


def _passes(order: Order, tries: int, waits: Callable[[int], Pod] | None = None) -> list[float]:
    engine = _crowd(order, waits=waits)
    return [_once(engine, number) for number in range(tries)]


def _once(engine: Engine, number: int) -> float:
    now = 10_000.0 + 10 * number
    ended = replace(_runs(number), phase=Phase.SUCCEEDED)
    engine.observe([ev.PodSeen(ended)], now)
    gc.collect()
    began = time.perf_counter()
    engine.plan(now)
    return 1000 * (time.perf_counter() - began)


def _crowd(order: Order, waiting: int = WAITING, waits: Callable[[int], Pod] | None = None) -> Engine:
    """A full cluster whose queue was asked about once."""
    engine = Engine(replace(world.POLICY, order=order))
    nodes = [
        a_node(f"n{number:03}", cpu=64, memory=512, gpu=world.GPUS, rack=f"r{number // world.RACK}")
        for number in range(NODES)
    ]
    full = [ev.PodSeen(_runs(number)) for number in range(NODES * world.GPUS)]
    queue = [ev.PodSeen((waits or _waits)(number)) for number in range(waiting)]
    engine.observe(
        [*(ev.NodeSeen(node) for node in nodes), *full, *queue, ev.Synced(), ev.TookOver()], 9_000.0
    )
    engine.plan(9_000.0)
    return engine


def _pod(name: str, gpu: int) -> Pod:
    demand = Demand((("cpu", 1000), ("nvidia.com/gpu", gpu), ("pods", 1)))
    return Pod(Uid(name), PodKey(f"team-{len(name) % 4}", name), demand, "gangwright")


def _runs(number: int) -> Pod:
    node = f"n{number // world.GPUS:03}"
    return replace(_pod(f"run-{number}", 1), node=node, phase=Phase.RUNNING, bound_at=8_000.0)


def _stranger(name: str, priority: int) -> Pod:
    demand = Demand((("cpu", 100), ("pods", 1)))
    pod = Pod(Uid(name), PodKey("others", name), demand, "default-scheduler")
    return replace(pod, node="n000", phase=Phase.RUNNING, priority=priority)


def _waits(number: int) -> Pod:
    shape = number % SHAPES
    pod = _pod(f"wait-{number:05}", 2 + shape % 7)
    wish = Wish(level=world.LEVELS[shape % len(world.LEVELS)], expected_runtime=600.0 * (1 + shape))
    gang = GangKey(f"team-{number % 4}", f"g{number}")
    membership = Membership(gang, "gangwright", quorum={"": 1}, wish=wish)
    key = PodKey(gang.namespace, pod.key.name)
    return replace(pod, key=key, gated=True, created=float(number), membership=membership)
