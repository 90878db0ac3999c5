"""A crowd on the real API server: how Gangwright starts beside tens of thousands of pods, and how soon it reacts there.

All running pods exist before Gangwright starts. Those of its gangs have all GPUs, so the gangs that come then wait.
Then one running gang is deleted. The clocks run for three things: from the start of the program until it is ready, from
the first waiting pod until every waiting gang has a condition, and from the deletion until its GPUs are bound again.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from bench.load import cluster, effort, seen
from bench.load.roads import ROADS, running
from bench.load.work import GATE, Object, gang
from bench.plane import Client, Plane

ROAD: Final = ROADS["pinned"]
NAME: Final = "gangwright"
SIZE: Final = 4
"""Members of a waiting gang."""

LONGEST: Final = 600.0
"""Seconds after which waiting is given up."""


async def measure(plane: Plane, *, nodes: int, pods: int, gangs: int) -> AsyncIterator[dict[str, Any]]:
    """One line."""
    clock = asyncio.get_running_loop().time
    async with plane.client() as api:
        owner = await cluster.furnish(api, nodes)
        names = [name for fleet in cluster.fleets(nodes) for name in fleet.names()]
        await api.create_all(seen.PODS, _running(names, pods, owner))
        cluster.say(f"{pods} pods run on {nodes} nodes")
        began = clock()
        async with running(plane, ROAD, waiting=False):
            ready, load = clock() - began, _spent(plane)
            rss = effort.mib(plane.programs[NAME].pid, "VmRSS")
            began = clock()
            waiting = [
                pod for number in range(gangs) for pod in gang(f"wait-{number}", SIZE, owner, gated=True)
            ]
            await api.create_all(seen.PODS, waiting)
            await _told(api, gangs)
            told, cost = clock() - began, _spent(plane) - load
            async with seen.binds(api) as bound:
                before, since = len(bound.times), clock()
                spent = _spent(plane)
                for number in range(cluster.GPUS):
                    await api.delete(f"{seen.PODS}/run-0-{number}", grace=0)
                await bound.reach(before + cluster.GPUS, within=LONGEST)
                again, reaction = clock() - since, _spent(plane) - spent
        yield {
            "nodes": nodes,
            "pods": pods,
            "gangs": gangs,
            "ready_s": round(ready, 2),
            "ready_cpu_s": round(load, 2),
            "rss_mib": round(rss),
            "told_s": round(told, 2),
            "told_cpu_s": round(cost, 2),
            "bound_again_s": round(again, 2),
            "bound_again_cpu_s": round(reaction, 2),
        }


def _running(names: list[str], pods: int, owner: str) -> Iterator[Object]:
    """On each node one gang with all of its GPUs; further pods are of another scheduler and need no GPU."""
    for number, node in enumerate(names):
        for pod in gang(f"run-{number}", cluster.GPUS, owner, gated=False):
            pod["spec"] = {**pod["spec"], "nodeName": node}
            yield pod
    for number in range(pods - len(names) * cluster.GPUS):
        (pod,) = gang(f"other-{number}", 1, owner, gated=False)
        container = {**pod["spec"]["containers"][0], "resources": {"requests": {"cpu": "100m"}}}
        spec = {**pod["spec"], "schedulerName": "default-scheduler", "containers": [container]}
        metadata = {**pod["metadata"], "labels": {}, "annotations": {}}
        yield {**pod, "metadata": metadata, "spec": {**spec, "nodeName": names[number % len(names)]}}


async def _told(api: Client, gangs: int) -> None:
    """Until the first pod of every waiting gang says why it waits."""
    async with asyncio.timeout(LONGEST):
        while True:
            gated = [pod for pod in await api.items(seen.PODS, fields="spec.nodeName=") if _why(pod)]
            if len({pod["metadata"]["labels"]["gangwright.io/gang"] for pod in gated}) == gangs:
                return
            await asyncio.sleep(0.5)


def _why(pod: Object) -> bool:
    """A condition of Gangwright, and not the API server's own about the gate."""
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]
    found = [one for one in pod["status"].get("conditions", ()) if one["type"].startswith("gangwright.io/")]
    return gates == [GATE] and bool(found)


def _spent(plane: Plane) -> float:
    return effort.spent(plane)[NAME]
