"""kubelet's part for the programs of a Pod: what died is started again, and what fails its liveness probe is ended.

Left out: kubelet's back-off after several deaths (10 s to 5 min), so that many faults fit into one run.
"""

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from bench.load.cluster import say
from bench.plane.ports import HOST, unverified
from bench.plane.processes import Program

PAUSE: Final = 1.0
"""Seconds between a death and the next start."""


@dataclass(frozen=True, slots=True)
class Probe:
    """An `httpGet` of a container; fields that are absent have kubelet's defaults."""

    url: str
    period: float
    timeout: float
    failures: int

    @classmethod
    def read(cls, container: Mapping[str, Any], which: str, ports: Mapping[int, int]) -> "Probe":
        """ports: of this machine by those of the manifest. Raises KeyError for one that is not known."""
        probe = container[which]
        http = probe["httpGet"]
        named = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
        port = ports[named.get(http["port"], http["port"])]
        return cls(
            url=f"{http.get('scheme', 'HTTP').lower()}://{HOST}:{port}{http.get('path', '/')}",
            period=probe.get("periodSeconds", 10),
            timeout=probe.get("timeoutSeconds", 1),
            failures=probe.get("failureThreshold", 3),
        )

    async def passes(self, session: aiohttp.ClientSession) -> bool:
        """A certificate is not checked, and redirects are not followed, as with kubelet."""
        limit = aiohttp.ClientTimeout(total=self.timeout)
        try:
            async with session.get(
                self.url, ssl=unverified(), timeout=limit, allow_redirects=False
            ) as answer:
                return answer.status < 400
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False


class Keeper:
    """Looks after one program, as kubelet does after a container with restart policy Always.

    grace: seconds between SIGTERM and SIGKILL.
    """

    def __init__(self, program: Program, startup: Probe, liveness: Probe, grace: float) -> None:
        self.ended = 0
        """How often its probes ended it."""
        self._program, self._startup, self._liveness, self._grace = program, startup, liveness, grace

    async def keep(self) -> None:
        """Goes on without end."""
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            while True:
                probing = asyncio.create_task(self._probed(session))
                try:
                    while self._program.alive:
                        await asyncio.sleep(0.05)
                finally:
                    probing.cancel()
                await asyncio.sleep(PAUSE)
                await asyncio.to_thread(self._program.start)

    async def _probed(self, session: aiohttp.ClientSession) -> None:
        """One life: liveness counts once it has started."""
        if await _outcome(self._startup, session, once=True):
            await _outcome(self._liveness, session, once=False)
        self.ended += 1
        say(f"{self._program.name} fails its probe and is ended")
        self._program.signal(signal.SIGTERM)
        await asyncio.sleep(self._grace)
        await asyncio.to_thread(self._program.kill)


async def _outcome(probe: Probe, session: aiohttp.ClientSession, *, once: bool) -> bool:
    """False after so many failures in a row; with `once` True after the first success, else it goes on."""
    failed = 0
    now = asyncio.get_running_loop().time
    asked = now()
    while failed < probe.failures:
        await asyncio.sleep(asked + probe.period - now())
        asked = now()
        passed = await probe.passes(session)
        if passed and once:
            return True
        failed = 0 if passed else failed + 1
    return False
