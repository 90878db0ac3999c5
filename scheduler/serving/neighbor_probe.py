"""Whether the program beside us in the Pod is alive: its own /livez, asked over loopback.

Lives here: one question at a time, and its answer for all who ask. Never here: what follows from it; kubelet decides.
Why not a probe of its own: kubelet gives each container one liveness probe, and a kube-scheduler without an extender
must end, or it keeps the Lease from a replica that works.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from scheduler.serving.probes import Check

LIMIT: Final = 2.0
"""Seconds for one answer over loopback; the probe in manifests/ waits twice as long."""

KEPT: Final = 1.0
"""Seconds for which an answer is told to all: however often we are asked, the other program is asked once a second."""


class Neighbor:
    """One program, at `url`. Call it for its Check; it is asked when its last answer is older than KEPT."""

    def __init__(
        self, name: str, url: str, session: aiohttp.ClientSession, clock: Callable[[], float]
    ) -> None:
        self._name = name
        self._url = url
        self._session = session
        self._clock = clock
        self._asking: asyncio.Task[Check] | None = None
        self._due = float("-inf")

    async def __call__(self) -> Check:
        if self._asking is None or (self._asking.done() and self._clock() >= self._due):
            self._asking = asyncio.create_task(self._ask())
        # One that asks and leaves takes the answer from no other.
        return await asyncio.shield(self._asking)

    async def _ask(self) -> Check:
        try:
            # The certificate is not checked: kube-scheduler makes its own at each start, and we send it no secret.
            async with self._session.get(self._url, ssl=False, allow_redirects=False) as answer:
                told = Check(self._name, answer.status == 200, f"answered {answer.status}")
        except (aiohttp.ClientError, OSError) as error:
            told = Check(self._name, ok=False, text=f"no answer ({type(error).__name__})")
        self._due = self._clock() + KEPT
        return told


@asynccontextmanager
async def neighbor(name: str, url: str) -> AsyncIterator[Neighbor]:
    """Ask for `/livez` at this address while the body runs."""
    limit = aiohttp.ClientTimeout(total=LIMIT)
    async with aiohttp.ClientSession(timeout=limit, cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield Neighbor(name, f"{url}/livez", session, asyncio.get_running_loop().time)
