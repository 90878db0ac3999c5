"""Gangs through `gangwright serve` and a real kube-scheduler, one replica, with the limits that the manifests give them.

No kubelet: a gang is taken away when all of it is bound, or when its time is over. Some never fit, and of some only half
is made. VmRSS is read while gangs come and go.
"""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from bench.load import cluster, seen
from bench.load.work import GPU, NAMESPACE, Object, gang
from bench.plane import Client, Plane
from bench.plane.audit import Request
from bench.plane.installation import EXTENDER, Installation
from bench.plane.watches import Binds
from bench.soak import memory
from bench.soak.mix import Draft, Fate, draft

ALIVE: Final = 200
"""Gangs at a time at most."""

PATIENCE: Final = 30.0
"""Seconds after which a gang that is not bound is taken away."""

HALF: Final = 3.0
"""The same of one of which only half was made."""

LOOK: Final = 1.0
"""Seconds between two looks at how late the event loop turns."""

REST: Final = 10.0
"""Seconds after the last gang, in which what is under way is written."""

ENDS_WITHIN: Final = 10.0
"""Seconds from SIGTERM to the end."""

EVENTS: Final = ("events", "events.events.k8s.io")
REPORTER: Final = "gangwright.io/extender"


class Soak:
    """What was made, and what was read meanwhile."""

    def __init__(self, api: Client, owner: str, bound: Binds, seed: int) -> None:
        self.api, self.owner, self.bound, self.seed = api, owner, bound, seed
        self.gone = 0
        self.whole = 0
        """Gangs that were bound whole."""
        self.lag = 0.0

    async def one(self, number: int) -> None:
        """A gang, from its first pod to its last."""
        told = draft(number, self.seed)
        pods = bodies(told, self.owner)
        names = [pod["metadata"]["name"] for pod in pods]
        await self.api.create_all(seen.PODS, pods)
        keys = [f"{NAMESPACE}/{name}" for name in names]
        end = time.monotonic() + (HALF if told.fate is Fate.HALF else PATIENCE)
        while time.monotonic() < end and not all(key in self.bound.at for key in keys):
            await asyncio.sleep(0.2)
        self.whole += all(key in self.bound.at for key in keys)
        for name in names:
            await self.api.delete(f"{seen.PODS}/{name}", grace=0)
        for key in keys:  # a soak that remembers every pod would measure itself
            self.bound.at.pop(key, None)
            self.bound.times.pop(key, None)
        self.gone += 1

    async def look(self, gangwright: Installation) -> None:
        """How late the event loop turns, for as long as it is not cancelled."""
        while True:
            scrape = await asyncio.to_thread(gangwright.metrics)
            self.lag = max(self.lag, scrape.value("gangwright_loop_lag_seconds"))
            await asyncio.sleep(LOOK)


async def measure(
    plane: Plane, *, gangs: int, rate: float, nodes: int, seed: int
) -> AsyncIterator[dict[str, Any]]:
    """A line for each tenth, then the growth after the warm-up, what was written, and how it stopped."""
    gangwright = Installation(plane, manifests=None)
    async with plane.client() as api:
        owner = await cluster.furnish(api, nodes)
        await asyncio.to_thread(gangwright.start)
        try:
            async with seen.binds(api) as bound:
                soak = Soak(api, owner, bound, seed)
                sizes: list[float] = []
                async for line in _flow(soak, gangwright, gangs, rate):
                    sizes.append(line["rss_mib"])
                    yield line
            await asyncio.sleep(REST)
            effects = (await asyncio.to_thread(gangwright.metrics)).all("gangwright_effects_total")
            events = await api.items("/apis/events.k8s.io/v1/events")
            yield {
                "gangs": gangs,
                "whole": soak.whole,
                "growth_percent": memory.growth(memory.TENTHS, sizes),
                "rest_mib": memory.of(gangwright.extender.pid)["rss"],
                "loop_lag_ms": round(1000 * soak.lag, 1),
                "effects_failed": failed(effects),
                "events": written(list(plane.audit.requests(EXTENDER.user)), events, gangs),
                "end": await asyncio.to_thread(_end, gangwright),
            }
        finally:
            await asyncio.to_thread(gangwright.stop)


async def _flow(
    soak: Soak, gangwright: Installation, gangs: int, rate: float
) -> AsyncIterator[dict[str, Any]]:
    """Gangs at this rate, or as fast as room allows; a line whenever a tenth of them is gone."""
    turn, began = asyncio.Semaphore(ALIVE), time.monotonic()

    async def come() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(gangs):
                await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
                await turn.acquire()
                task = group.create_task(soak.one(number))
                task.add_done_callback(lambda _task: turn.release())

    coming, looking = asyncio.create_task(come()), asyncio.create_task(soak.look(gangwright))
    try:
        for part in memory.TENTHS:
            while soak.gone < round(gangs * part):
                if coming.done():
                    coming.result()
                await asyncio.sleep(0.2)
            size = memory.of(gangwright.extender.pid)
            yield {
                "gangs": soak.gone,
                "rss_mib": size["rss"],
                "peak_mib": size["peak"],
                "loop_lag_ms": round(1000 * soak.lag, 1),
                "seconds": round(time.monotonic() - began, 1),
            }
        await coming
    finally:
        coming.cancel()
        looking.cancel()
        await asyncio.gather(coming, looking, return_exceptions=True)


def bodies(told: Draft, owner: str) -> list[Object]:
    """The pods of a gang; their names were never given before."""
    pods = gang(f"{told.fate}-{told.number}", told.size, owner, gated=told.fate is not Fate.SIDE)
    if told.fate is Fate.HALF:
        return pods[: told.size // 2]
    if told.fate is Fate.NEVER:
        room = str(cluster.GPUS + 1)
        pods = deepcopy(pods)
        for pod in pods:
            wants = pod["spec"]["containers"][0]["resources"]
            wants["requests"][GPU] = wants["limits"][GPU] = room
    return pods


def failed(effects: Sequence[tuple[Mapping[str, str], float]] | Any) -> dict[str, int]:
    """`effect/kind of failure` → how often, of the samples of `gangwright_effects_total`; zeros are left out."""
    return {
        f"{labels['effect']}/{labels['result']}": int(count)
        for labels, count in sorted(effects, key=lambda row: sorted(row[0].items()))
        if labels["result"] != "done" and count
    }


def written(requests: Sequence[Request], events: Sequence[Object], gangs: int) -> dict[str, Any]:
    """What the extender wrote of events, as the API server saw it, and how many there are."""
    own = [one for one in requests if one.resource in EVENTS]
    calls = Counter(f"{one.verb} {one.code}" for one in own)
    ours = sum(1 for one in events if one.get("reportingController") == REPORTER)
    conditions = Counter(
        f"{one.verb} {one.code}" for one in requests if one.resource == "pods/status" and one.code >= 400
    )
    return {
        "objects": ours,
        "others": len(events) - ours,
        "calls": dict(sorted(calls.items())),
        "a_gang": round(len(own) / gangs, 2),
        "refused_conditions": dict(sorted(conditions.items())),
    }


def _end(gangwright: Installation) -> dict[str, Any]:
    """SIGTERM. Raises NotReadyError when it runs on."""
    began = time.monotonic()
    gangwright.extender.signal(signal.SIGTERM)
    code = gangwright.extender.ended(ENDS_WITHIN)
    last = list(gangwright.log())[-1]
    return {"code": code, "seconds": round(time.monotonic() - began, 2), "last": last.get("event")}
