"""How long a single step of the event loop of `gangwright serve` keeps the core busy, in milliseconds of processor time.

    python -m bench.micro.steps [NODES]

A call of kube-scheduler and the renewal of the Lease wait for the step that is running. The real reflectors, intake,
service and engine run on one event loop; an API server in the same process gives them 15,000 nodes and 150,000 pods in
gangs of ten, and then single events. Every callback of the loop is timed on its thread's clock, so that the making of
pages and planning, which are on threads of their own, do not count. Each kind of step has the longest of its callbacks:

    page_of_nodes, page_of_pods  a list is read
    synced              the last list was read; the first snapshot
    takeover            gangs are adopted and reviewed
    filter_in_takeover  kube-scheduler asks about a pod meanwhile
    first_pass          the first pass after it
    node_added, node_changed, node_deleted, pod_ended  the event, what follows from it, and the pass
    resource_added, resource_gone  the same for a node with a resource that no other node has
    settings_changed    every gang is reviewed by other settings
    current_again       every gang gets its full time, after an outage of the API server
    preemption          a gang comes for which all running pods are candidates
    forecast            what the loop does for a forecast
    garbage             a garbage collection during any of them
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec

from bench.micro import canned, world
from bench.micro.children import child
from scheduler.engine import Engine
from scheduler.kube.watch import Reflector
from scheduler.model.events import LostSight, PolicyChanged, SawAgain
from scheduler.model.verbs import FilterCall
from scheduler.model.workload import PodKey, Uid
from scheduler.objects import labels as key
from scheduler.service import run
from scheduler.service.informers import Informers
from scheduler.service.service import Service
from scheduler.settings import Log, LogFormat
from scheduler.telemetry import log

NODES: Final = 15_000
GANG: Final = 10
"""Members of a gang, and pods of a node."""

SHAPES: Final = 300
"""Waiting gangs, each of its own shape."""

QUIET: Final = 0.3
"""Seconds without work after which a change has had all its consequences."""

NODES_PATH: Final = "/api/v1/nodes"
PODS_PATH: Final = "/api/v1/pods"
SIDE: Final = "side-0123456789abcdef0123"
"""The uid of the pod that kube-scheduler asks about."""


class Steps:
    """The longest callback by kind, in milliseconds."""

    def __init__(self) -> None:
        self.kind = "start"
        self.longest: dict[str, float] = {}
        self._apart = 0.0
        self._collecting = 0.0

    def note(self, kind: str, seconds: float) -> None:
        self.longest[kind] = max(self.longest.get(kind, 0.0), 1000 * seconds)

    @contextmanager
    def apart(self, kind: str) -> Iterator[None]:
        """This part of a callback is a kind of its own."""
        began = time.thread_time()
        yield
        took = time.thread_time() - began
        self._apart += took
        self.note(kind, took)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Every callback of an event loop, and every garbage collection."""
        before = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            self._apart, began = 0.0, time.thread_time()
            before(handle)
            self.note(self.kind, time.thread_time() - began - self._apart)

        def collected(phase: str, _: object) -> None:
            if phase == "start":
                self._collecting = time.thread_time()
            else:
                self.note("garbage", time.thread_time() - self._collecting)

        asyncio.Handle._run = timed  # type: ignore[method-assign]
        gc.callbacks.append(collected)
        try:
            yield
        finally:
            asyncio.Handle._run = before  # type: ignore[method-assign]
            gc.callbacks.remove(collected)


class Server:
    """What a reflector needs of a client. Lists are made on a thread, and changes come when they are told."""

    returns = 1

    def __init__(self, objects: dict[str, tuple[int, Callable[[int], dict[str, Any]]]]) -> None:
        self._objects = objects
        self._streams: dict[str, asyncio.Queue[bytes]] = {}
        self.spare = asyncio.Semaphore(1)

    async def request(self, _method: str, path: str, *, params: dict[str, str], **_more: object) -> bytes:
        start, limit = int(params.get("continue", "0")), int(params["limit"])
        return await asyncio.to_thread(self._page, path, start, limit)

    def _page(self, path: str, start: int, limit: int) -> bytes:
        count, make = self._objects.get(path, (0, canned.node))
        end = min(count, start + limit)
        meta = {"resourceVersion": canned.VERSION, **({"continue": str(end)} if end < count else {})}
        return msgspec.json.encode(
            {"metadata": meta, "items": [make(number) for number in range(start, end)]}
        )

    @asynccontextmanager
    async def stream(self, path: str, *_: object, **_more: object) -> AsyncIterator[AsyncIterator[bytes]]:
        queue = self._streams.setdefault(path, asyncio.Queue())

        async def chunks() -> AsyncIterator[bytes]:
            while True:
                yield await queue.get()

        yield chunks()

    async def back(self, _since: int) -> None:
        await asyncio.Event().wait()

    def tell(self, path: str, kind: str, found: dict[str, Any]) -> None:
        """The watch of this path delivers this change."""
        line = json.dumps({"type": kind, "object": found}).encode() + b"\n"
        self._streams.setdefault(path, asyncio.Queue()).put_nowait(line)


def longest(nodes: int = NODES, tries: int = 2) -> dict[str, float]:
    """Milliseconds by kind of step, each of its best try."""
    found = []
    for _ in range(tries):
        with child("bench.micro.steps", str(nodes)) as said:
            found.append(said)
    return {kind: min(said[kind] for said in found) for kind in found[0]}


async def _longest(nodes: int = NODES) -> dict[str, float]:
    steps, acts = Steps(), [False]
    server = Server(
        {NODES_PATH: (nodes, _node), PODS_PATH: (nodes * GANG + SHAPES * 2 + 1, partial(_pod, nodes))}
    )
    service = Service(Engine(world.POLICY), acting=lambda _: acts[0], blind=lambda _: 0.0, blind_after=10.0)
    intake = Informers(
        world.POLICY.levels, partial(run.listed, service), partial(run.whole, service), lambda _kind: None
    )
    gc.collect()
    gc.freeze()
    with steps.timed():
        tasks = [asyncio.create_task(service.run())]
        try:
            await _read(steps, server, service, intake, tasks)
            acts[0] = True
            await _take_over(steps, service)
            await _change(steps, server, service, nodes)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return steps.longest


async def _read(
    steps: Steps, server: Server, service: Service, intake: Informers, tasks: list[asyncio.Task[Any]]
) -> None:
    """Every list, one after the other."""
    reflectors = run.reflectors_of(intake, server)  # type: ignore[arg-type]
    first = {"nodes": "page_of_nodes", "pods": "page_of_pods"}
    for name, kind in first.items():
        steps.kind = kind
        await _list(reflectors[name], tasks)
    steps.kind = "synced"
    for name in reflectors.keys() - first.keys():
        await _list(reflectors[name], tasks)
    service.engine.snapshot()
    await asyncio.sleep(QUIET)
    if not service.engine.ledger.synced:
        raise RuntimeError("not every list was read")


async def _list(reflector: Reflector[Any], tasks: list[asyncio.Task[Any]]) -> None:
    tasks.append(asyncio.create_task(reflector.run()))
    while not reflector.synced:
        await asyncio.sleep(0.001)


async def _take_over(steps: Steps, service: Service) -> None:
    """The Lease is ours: recovery, a review of every gang, and the first pass."""
    steps.kind, ledger = "takeover", service.engine.ledger
    call = FilterCall(Uid(SIDE), PodKey("team", "side"), "gangwright", False, tuple(map(_name, range(100))))
    while not ledger.reviewing:
        await asyncio.sleep(0)
    with steps.apart("filter_in_takeover"):
        service.filter(call)
    while ledger.unsettled:
        await asyncio.sleep(0.001)
    steps.kind = "first_pass"
    await _idle(service)


async def _change(steps: Steps, server: Server, service: Service, nodes: int) -> None:
    """A few nodes come, change and go, a pod ends, and settings change."""
    for number in range(3):
        for kind, path, what, found in (
            ("node_added", NODES_PATH, "ADDED", _node(nodes + number, f"m{number}")),
            ("node_changed", NODES_PATH, "MODIFIED", _cordoned(nodes + number, f"m{number}")),
            ("node_deleted", NODES_PATH, "DELETED", _node(nodes + number, f"m{number}")),
            ("resource_added", NODES_PATH, "ADDED", _unlike(nodes + number, f"u{number}")),
            ("resource_gone", NODES_PATH, "DELETED", _unlike(nodes + number, f"u{number}")),
            ("pod_ended", PODS_PATH, "MODIFIED", _ended(nodes, number * 997)),
        ):
            steps.kind = kind
            found["metadata"]["resourceVersion"] = f"{2_000_000 + number}"
            server.tell(path, what, found)
            await _idle(service)
    steps.kind = "settings_changed"
    service.observe([PolicyChanged(replace(world.POLICY, default_runtime=1.0))])
    await _idle(service)
    steps.kind = "current_again"
    service.observe([LostSight(), SawAgain()])
    await _idle(service)
    steps.kind = "preemption"
    for member in range(2):
        server.tell(PODS_PATH, "ADDED", _urgent(nodes, member))
    while not service.engine.ledger.freeing:
        await asyncio.sleep(QUIET)
    steps.kind = "forecast"
    service.engine.outlook(service.clock())
    await asyncio.sleep(0)


async def _idle(service: Service) -> None:
    """Until the service has nothing to do."""
    await asyncio.sleep(QUIET)
    while service._reviews or service._settling is not None or service.engine.away is not None:
        await asyncio.sleep(QUIET)


def _name(number: int) -> str:
    return f"n{number:05}"


def _node(number: int, name: str = "") -> dict[str, Any]:
    found = canned.node(number)
    for place in ("capacity", "allocatable"):
        found["status"][place] = {**found["status"][place], "nvidia.com/gpu": str(GANG)}
    if name:
        found["metadata"] |= {"name": name, "uid": name}
    return found


def _cordoned(number: int, name: str) -> dict[str, Any]:
    found = _node(number, name)
    found["spec"]["unschedulable"] = True
    return found


def _unlike(number: int, name: str) -> dict[str, Any]:
    found = _node(number, name)
    found["status"]["allocatable"]["example.com/npu"] = "8"
    return found


def _pod(nodes: int, number: int) -> dict[str, Any]:
    """A running pod: the members of a gang are on the nodes of one group of ten. The last ones wait."""
    found = canned.pod(0)
    group, rank = divmod(number, GANG * GANG)
    gang, member = divmod(rank, GANG)
    name, size = f"run-{group}-{gang}", GANG
    found["metadata"] |= {"ownerReferences": []}
    if (waiting := number - nodes * GANG) < 0:
        found["spec"] |= {"nodeName": _name((group * GANG + member) % nodes)}
        found["status"]["conditions"][0]["lastTransitionTime"] = f"2026-01-0{1 + number % 9}T00:00:00Z"
    else:
        name, size = f"wait-{waiting // 2}", 2
        found["status"] = {"phase": "Pending"}
        del found["spec"]["nodeName"]
        found["spec"]["schedulingGates"] = [{"name": key.GATE}]
        found["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{1000 + waiting // 2}m"
    found["metadata"] |= {"name": f"{name}-{member}", "uid": f"{name}-{number}"}
    found["metadata"]["labels"][key.GANG] = name
    found["metadata"]["annotations"] = {
        key.MIN_MEMBERS: str(size),
        key.EXPECTED_RUNTIME: f"{1 + number % 7}h",
    }
    if waiting == 2 * SHAPES:
        del found["metadata"]["labels"][key.GANG], found["spec"]["schedulingGates"]
        found["metadata"] |= {"name": "side", "uid": SIDE, "annotations": {}}
    return found


def _urgent(nodes: int, member: int) -> dict[str, Any]:
    """A pod of a gang of two with the highest priority."""
    found = _pod(nodes, nodes * GANG + member)
    found["metadata"] |= {"name": f"urgent-{member}", "uid": f"urgent-{member}"}
    found["metadata"]["resourceVersion"] = f"{3_000_000 + member}"
    found["metadata"]["labels"][key.GANG] = "urgent"
    found["spec"]["priority"] = 1000
    return found


def _ended(nodes: int, number: int) -> dict[str, Any]:
    found = _pod(nodes, number)
    found["status"]["phase"] = "Succeeded"
    return found


if __name__ == "__main__":
    log.configure(Log(format=LogFormat.JSON))
    print(json.dumps(asyncio.run(_longest(*map(int, sys.argv[1:])))), flush=True)
