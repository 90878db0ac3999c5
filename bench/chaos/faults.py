"""Which faults come in which order, and one of them carried out: the seconds from it to the next bind."""

import asyncio
import random
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final

from bench.chaos import jobs
from bench.chaos.picture import Picture
from bench.load import start
from bench.plane import Client, Plane
from bench.plane.installation import Installation
from bench.plane.processes import Program

KINDS: Final = {
    "kill": ("kube-scheduler", "extender", "both"),
    "freeze": ("both", "extender"),
    "outage": ("kube-apiserver", "etcd"),
}
"""What each kind of fault takes in turns."""

FROZEN, AWAY = 40.0, 20.0
"""Seconds of a freeze, and of an outage."""

SETTLED: Final = 0.3
"""Seconds for what was on its way at the fault: a bind until then is no answer to it."""

PATIENCE: Final = 180.0
"""Seconds without a bind that are a violation."""

STAND_INS: Final = ("kwok", "kube-controller-manager")
"""Programs of the plane whose watches come back up to a minute after an outage, and until then no room gets free."""


@dataclass(frozen=True, slots=True)
class Fault:
    kind: str
    what: str
    after: float
    """Seconds from a bind to a kill or freeze."""

    def __str__(self) -> str:
        return f"{self.kind} {self.what}"


def schedule(seed: int, counts: Mapping[str, int]) -> Sequence[Fault]:
    """counts: by kind. The same seed and counts give the same faults."""
    chance = random.Random(seed)
    found = [
        Fault(kind, what, chance.uniform(0.0, 0.05))
        for kind, count in counts.items()
        for what in islice(cycle(KINDS[kind]), count)
    ]
    chance.shuffle(found)
    return found


class Breaker:
    """replicas: by host name."""

    def __init__(
        self, plane: Plane, replicas: Mapping[str, Installation], api: Client, seen: Picture
    ) -> None:
        self._programs, self._replicas, self._api, self._seen = plane.programs, replicas, api, seen
        self._now = asyncio.get_running_loop().time
        self._outages = 0

    async def carry_out(self, fault: Fault) -> float:
        """Seconds from the fault, or from the API server's return, to the next bind. Raises NeverCameError."""
        if fault.kind == "outage":
            return await self._outage(self._programs[fault.what])
        programs = await self._of_leader(fault.what)
        await self._seen.next_bind(PATIENCE)
        await asyncio.sleep(fault.after)
        began = self._now()
        for program in programs:
            program.signal(signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP)
        waking = [self._wake(programs)] if fault.kind == "freeze" else []
        seconds, *_ = await asyncio.gather(self._bind_since(began), *waking)
        return seconds

    async def _of_leader(self, what: str) -> list[Program]:
        """The programs of the replica that holds the Lease."""
        while True:
            lease = await self._api.get(start.PATH)
            replica = self._replicas.get(lease["spec"].get("holderIdentity", "").partition("_")[0])
            if replica:
                own = {"kube-scheduler": replica.kube_scheduler, "extender": replica.extender}
                return list(own.values()) if what == "both" else [own[what]]
            await asyncio.sleep(0.2)

    async def _wake(self, programs: list[Program]) -> None:
        await asyncio.sleep(FROZEN)
        for program in programs:
            program.signal(signal.SIGCONT)

    async def _outage(self, program: Program) -> float:
        await asyncio.to_thread(program.stop)
        await asyncio.sleep(AWAY)
        await asyncio.to_thread(program.start)
        await asyncio.to_thread(self._programs["kube-apiserver"].until_ready)
        began = self._now()
        woken = [asyncio.to_thread(self._programs[name].restart) for name in STAND_INS]
        self._outages += 1
        probe = jobs.submit_gang(self._api, f"probe-{self._outages}")
        seconds, *_ = await asyncio.gather(self._bind_since(began), probe, *woken)
        return seconds

    async def _bind_since(self, began: float) -> float:
        await asyncio.sleep(began + SETTLED - self._now())
        return await self._seen.next_bind(PATIENCE) - began
