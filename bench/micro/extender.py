"""The extender that is asked: the real application, service and engine, on a cluster that is only in memory.

    python -m bench.micro.extender idle|busy

Prints its address, and the pod and node to ask about. `busy`: 1,000 gangs wait that no room is left for, and room
keeps coming and going, so that the planning loop is never done with them; one gang of fifty is so large that it is
planned on a thread. Ends with its standard input.
"""

import asyncio
import gc
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

from bench.micro import world
from scheduler.clock import steady
from scheduler.engine import Engine
from scheduler.extender.extender_app import build_app, serve
from scheduler.model import events as ev
from scheduler.model.demand import Demand
from scheduler.model.workload import GangKey, Membership, Owner, Pod, PodKey, Uid
from scheduler.service.service import Service
from scheduler.settings import Log, LogFormat, VerbsServer
from scheduler.telemetry import log
from scheduler.telemetry.metrics import Metrics
from tests.support.builders import some_amounts

NODES: Final = 5000
GANGS: Final = 1000
HUGE: Final = 50
"""One gang of so many is planned on a thread."""

HUGE_MEMBERS: Final = 120
LARGEST: Final = 64

STIR: Final = 0.02
"""Seconds between two changes of room, each of which makes every waiting gang worth asking about again."""

NAMESPACE: Final = "team"


def a_pod(gang: str, number: int, of: int, demand: Demand, node: str | None = None) -> Pod:
    membership = Membership(GangKey(NAMESPACE, gang), "gangwright", quorum={"": of})
    return Pod(
        uid=Uid(f"{gang}-{number}-uid"),
        key=PodKey(NAMESPACE, f"{gang}-{number}"),
        demand=demand,
        scheduler="gangwright",
        node=node,
        gated=node is None,
        membership=membership,
        owner=Owner("ReplicaSet", "bench", "bench-uid", "apps/v1"),
    )


def nodes() -> Iterator[ev.Event]:
    for node in world.some_nodes(NODES):
        yield ev.NodeSeen(node)


def gang(name: str, size: int, gpus: int) -> Iterator[ev.Event]:
    demand = world.demand(cpu=1, memory=1, gpu=gpus)
    for number in range(size):
        yield ev.PodSeen(a_pod(name, number, size, demand))


def full() -> Iterator[ev.Event]:
    """On every node runs a pod of one GPU, so that no node has all eight."""
    demand = Demand(some_amounts(cpu=1, memory=1, gpu=1, pods=1))
    for number, node in enumerate(world.some_nodes(NODES)):
        yield ev.PodSeen(a_pod(f"runs-{number}", 0, 1, demand, node.name))


def waiting() -> Iterator[ev.Event]:
    """Gangs of whole nodes, of different sizes, so that hardly any two get the same answer."""
    for number in range(GANGS):
        size = HUGE_MEMBERS if number % HUGE == 0 else 2 + number % (LARGEST - 1)
        yield from gang(f"waits-{number}", size, world.GPUS)


async def _stir(service: Service) -> None:
    """One pod comes and goes for ever; the room it leaves might be enough for somebody, and never is."""
    pod = a_pod("stirs", 0, 1, world.demand(cpu=1, memory=1), "n00000")
    while True:
        service.observe([ev.PodSeen(pod)])
        await asyncio.sleep(STIR)
        service.observe([ev.PodGone(pod.uid, pod.key)])
        await asyncio.sleep(STIR)


def _asked_about(engine: Engine) -> dict[str, Any]:
    """A pod as kube-scheduler sends it, of the gang whose seats are held."""
    uid = Uid("held-0-uid")
    member = engine.ledger.registry.member(uid)
    assert member is not None
    assert member.hold is not None
    pod = {
        "metadata": {
            "name": "held-0",
            "namespace": NAMESPACE,
            "uid": uid,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"gangwright.io/gang": "held"},
            "annotations": {"gangwright.io/min-members": "8"},
        },
        "spec": {
            "schedulerName": "gangwright",
            "containers": [{"name": "main", "image": "none", "env": [{"name": "A", "value": "x" * 1500}]}],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    return {"pod": pod, "node": member.hold.node}


async def _run(*, busy: bool) -> None:
    engine = Engine(world.POLICY)
    service = Service(engine, acting=lambda _: True, blind=lambda _: 0.0, blind_after=10.0)
    _tell(engine, nodes(), gang("held", 8, 1), [ev.Synced(), ev.TookOver()])
    engine.plan(service.clock())
    _tell(engine, full(), waiting() if busy else ())
    gc.collect()
    gc.freeze()  # as `gangwright serve` does once it has read everything
    settings, metrics = VerbsServer(), Metrics()
    app = build_app(service, settings, metrics)
    async with serve(app, "127.0.0.1", 0, settings=settings, metrics=metrics) as port:
        tasks = [asyncio.create_task(service.run())]
        tasks += [asyncio.create_task(_stir(service))] if busy else []
        print(json.dumps({"url": f"http://127.0.0.1:{port}", **_asked_about(engine)}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _tell(engine: Engine, *events: Iterable[ev.Event]) -> None:
    engine.observe([event for each in events for event in each], steady())


if __name__ == "__main__":
    log.configure(Log(format=LogFormat.JSON))
    asyncio.run(_run(busy=sys.argv[1:] == ["busy"]))
