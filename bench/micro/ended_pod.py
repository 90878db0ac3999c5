"""How long a planning pass takes after one pod of a full cluster has ended, in milliseconds of processor time.

The cluster has 15,000 nodes with ten devices each, and 150,000 pods in gangs of ten that use them all. 300 gangs wait.
No two of them have the same shape, and no shape says anything about another: one half has two roles, the other half
tolerates a taint of its own. Each asks for one to seven devices for each member and is told to wait. Then one pod ends.
The clock runs for the event and for the pass, with a new reservation for the first gang.
"""

import gc
import time
from collections.abc import Iterator
from dataclasses import replace

from bench.micro import world
from scheduler.engine import Engine
from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.demand import Demand, Toleration
from scheduler.model.workload import GangKey, Membership, Phase, Pod, PodKey, Strategy, Uid, Wish
from tests.support.builders import a_node

NODES = 15_000
SHAPES = 300
PODS = 10
"""Pods of a running gang, and devices of a node."""

ASKED = 100
"""Members of a waiting gang that asks for one device each: more than the pods that end."""

NAMESPACES = 4
LOADED = 9_000.0
"""When everything was read."""


def best(nodes: int = NODES, shapes: int = SHAPES, tries: int = 5) -> float:
    """Milliseconds of the best try."""
    engine = full(nodes, shapes)
    return min(once(engine, number) for number in range(tries))


def once(engine: Engine, number: int) -> float:
    """Milliseconds of the event and the pass when another pod ends."""
    now = 10_000.0 + 10 * number
    ended = replace(_runs(number * 37 * PODS), phase=Phase.SUCCEEDED)
    gc.collect()
    began = time.process_time()
    engine.observe([ev.PodSeen(ended)], now)
    engine.plan(now)
    return 1000 * (time.process_time() - began)


def full(nodes: int, shapes: int) -> Engine:
    """The cluster after all waiting gangs were asked about once."""
    engine = loaded(nodes, shapes, shapes)
    engine.plan(LOADED)
    return engine


def loaded(nodes: int, shapes: int, gangs: int) -> Engine:
    """The cluster before its first pass, while so many gangs of these shapes wait."""
    engine = Engine(world.POLICY)
    engine.observe([ev.NodeSeen(node) for node in map(_node, range(nodes))], LOADED)
    engine.observe([ev.PodSeen(_runs(number)) for number in range(nodes * PODS)], LOADED)
    waiting = [ev.PodSeen(pod) for number in range(gangs) for pod in _waits(number, number % shapes)]
    engine.observe([*waiting, ev.Synced(), ev.TookOver()], LOADED)
    return engine


def _node(number: int) -> Node:
    rack, area = number // world.RACK, number // (world.RACK * world.AREA)
    return a_node(_name(number), cpu=64, memory=512, gpu=PODS, rack=f"r{rack:03}", area=f"a{area:02}")


def _name(number: int) -> str:
    return f"n{number:05}"


def _runs(number: int) -> Pod:
    """A pod of a gang whose members run on ten nodes in a row."""
    gang, member = divmod(number, PODS)
    base = gang - gang % PODS
    pod = _pod("team-0", f"run-{number}", cpu=6, gpu=1)
    key = GangKey("team-0", f"run-{gang}")
    seated = replace(pod, node=_name(base + member), phase=Phase.RUNNING, bound_at=8_000.0 + gang % 997)
    return replace(seated, membership=Membership(key, "gangwright", quorum={"": PODS}))


def _waits(gang: int, number: int) -> Iterator[Pod]:
    """A gang of the shape of this number: a launcher without devices and workers, or workers that tolerate a taint of
    their own.
    """
    namespace, gpu = f"wait-{number % NAMESPACES}", 1 + number % 7
    workers = ASKED if gpu == 1 else 2 + number % 5
    wish = Wish(
        level=world.LEVELS[number % 3],
        strategy=tuple(Strategy)[number // 3 % 3],
        required=number // 9 % 2 == 1 and number % 3 > 0,
    )
    quorum = {"launcher": 1, "worker": workers} if number % 2 else {"": workers}
    membership = Membership(GangKey(namespace, f"g{gang}"), "gangwright", quorum=quorum, wish=wish)
    for member in range(sum(quorum.values())):
        leads = number % 2 == 1 and member == 0
        cpu = 1.0 if leads else 2 + number / 1000
        pod = _pod(namespace, f"wait-{gang:05}-{member}", cpu=cpu, gpu=0 if leads else gpu)
        own = (Toleration(f"own-{number}", exists=True),)
        demand = pod.demand if number % 2 else replace(pod.demand, tolerations=own)
        role = "" if not number % 2 else "launcher" if leads else "worker"
        yield replace(
            pod,
            demand=demand,
            gated=True,
            created=float(gang),
            membership=replace(membership, role=role),
        )


def _pod(namespace: str, name: str, *, cpu: float, gpu: int) -> Pod:
    amounts = {"cpu": round(1000 * cpu), **({"nvidia.com/gpu": gpu} if gpu else {}), "pods": 1}
    return Pod(Uid(name), PodKey(namespace, name), Demand(tuple(amounts.items())), "gangwright")
