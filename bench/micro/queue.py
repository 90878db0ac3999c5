"""How long one planning pass over 10,000 waiting gangs takes when room has come back, in milliseconds.

The cluster is full; the gangs are of fifty shapes, of four namespaces, and none of them fits. Then one
pod ends: everybody could be asked about again, and a verb waits for whatever a pass does in one turn. The clock runs
for the whole pass, with the reservation for the first gang.
"""

import gc
import time
from dataclasses import replace

from bench.micro import world
from scheduler.engine import Engine
from scheduler.model import events as ev
from scheduler.model.demand import Demand
from scheduler.model.queueing import Order
from scheduler.model.workload import GangKey, Membership, Phase, Pod, PodKey, Uid, Wish
from tests.builders import a_node

WAITING = 10_000
NODES = 200
SHAPES = 50


def worst(tries: int = 3) -> tuple[float, str]:
    """The slowest order, each at its best try: milliseconds, and which order it was."""
    return max((min(_passes(order, tries)), f"order {order}") for order in Order)


def _passes(order: Order, tries: int) -> list[float]:
    engine = _crowd(order)
    return [_once(engine, number) for number in range(tries)]


def _once(engine: Engine, number: int) -> float:
    now = 10_000.0 + 10 * number
    ended = replace(_runs(number), phase=Phase.SUCCEEDED)
    engine.observe([ev.PodSeen(ended)], now)
    gc.collect()
    began = time.perf_counter()
    engine.plan(now)
    return 1000 * (time.perf_counter() - began)


def _crowd(order: Order) -> Engine:
    """A full cluster whose queue was asked about once."""
    engine = Engine(replace(world.POLICY, order=order))
    nodes = [
        a_node(f"n{number:03}", cpu=64, memory=512, gpu=world.GPUS, rack=f"r{number // world.RACK}")
        for number in range(NODES)
    ]
    full = [ev.PodSeen(_runs(number)) for number in range(NODES * world.GPUS)]
    queue = [ev.PodSeen(_waits(number)) for number in range(WAITING)]
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


def _waits(number: int) -> Pod:
    shape = number % SHAPES
    pod = _pod(f"wait-{number:05}", 2 + shape % 7)
    wish = Wish(level=world.LEVELS[shape % len(world.LEVELS)], expected_runtime=600.0 * (1 + shape))
    gang = GangKey(f"team-{number % 4}", f"g{number}")
    membership = Membership(gang, "gangwright", quorum={"": 1}, wish=wish)
    key = PodKey(gang.namespace, pod.key.name)
    return replace(pod, key=key, gated=True, created=float(number), membership=membership)
