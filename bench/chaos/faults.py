"""One fault, carried out on the plane, and the seconds from it to the next bind."""

import asyncio
import signal
from collections.abc import Sequence
from typing import Final

from bench.chaos.picture import Picture
from bench.chaos.schedule import Fault
from bench.load import start
from tests.plane import Client, Plane
from tests.plane.installation import Installation
from tests.plane.processes import Program

FROZEN, AWAY = 40.0, 20.0
"""Seconds of a freeze, and of an outage."""

SETTLED: Final = 0.3
"""Seconds for what was on the wire at the fault: a bind that is seen until then was before it."""

PATIENCE: Final = 180.0
"""Seconds until a cluster that binds nothing is a violation."""

STAND_INS: Final = ("kwok", "kube-controller-manager")
"""Programs of the plane whose watches come back up to a minute after an outage; without them no room gets free."""


class Breaker:
    def __init__(
        self, plane: Plane, replicas: Sequence[Installation], hosts: Sequence[str], api: Client, seen: Picture
    ) -> None:
        self._plane, self._replicas, self._hosts = plane, replicas, hosts
        self._api, self._seen = api, seen
        self._now = asyncio.get_running_loop().time

    async def carry_out(self, fault: Fault) -> float:
        """Gives seconds from the fault, or from the API server's return, to the next bind. Raises NeverCameError."""
        if fault.kind == "outage":
            return await self._outage(self._plane.programs[fault.what])
        programs = await self._of_leader(fault.what)
        await self._seen.first(await self._seen.bound(), PATIENCE)
        await asyncio.sleep(fault.after)
        began = self._now()
        for program in programs:
            program.signal(signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP)
        try:
            seconds = await self._bind_since(began)
            if fault.kind == "freeze":
                await asyncio.sleep(began + FROZEN - self._now())
        finally:
            for program in programs:
                program.signal(signal.SIGCONT)
        return seconds

    async def _of_leader(self, what: str) -> list[Program]:
        """The programs of the replica that holds the Lease."""
        while True:
            lease = await self._api.find(start.PATH)
            holder = lease["spec"].get("holderIdentity", "") if lease else ""
            for host, replica in zip(self._hosts, self._replicas, strict=True):
                if holder.startswith(f"{host}_"):
                    own = {"kube-scheduler": replica.kube_scheduler, "extender": replica.extender}
                    return list(own.values()) if what == "both" else [own[what]]
            await asyncio.sleep(0.2)

    async def _outage(self, program: Program) -> float:
        await asyncio.to_thread(program.stop)
        await asyncio.sleep(AWAY)
        await asyncio.to_thread(program.start)
        while not await self._seen.answers():
            await asyncio.sleep(0.1)
        began = self._now()
        woken = [asyncio.to_thread(self._plane.programs[name].restart) for name in STAND_INS]
        seconds, *_ = await asyncio.gather(self._bind_since(began), *woken)
        return seconds

    async def _bind_since(self, began: float) -> float:
        await asyncio.sleep(began + SETTLED - self._now())
        return await self._seen.first(await self._seen.bound(), PATIENCE) - began
