"""Probes and metrics, on a separate port: clients that scrape must not reach the extender endpoints.

Lives here: /livez, /readyz, /metrics, and whether the other program in the Pod is alive. Never here: the meaning of
ready; the service provides it as a list of checks.

Why /livez only checks the event loop: a restart fixes a loop that hangs, and nothing else. The kubelet must not restart
Gangwright because the API server is down, or Gangwright has to read the whole cluster when it returns. (An active
replica ends by itself once another may have been active: its state is then no longer valid.)

Why /metrics is rendered at most once a second, and on a thread: every pod of the cluster may request it, and rendering
takes as long as several calls.

Why Gangwright probes the other program: the kubelet gives each container one liveness probe. A kube-scheduler without
its extender must end, or it keeps the Lease from a working replica. The kubelet decides what follows from the answer.
"""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Never, Protocol

import aiohttp
from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Gauge, generate_latest

BEAT: Final = 1.0
"""Seconds between two checks of the loop."""

LAG_LIMIT: Final = 5.0
"""Seconds. kube-scheduler gives up after 2 s by default, so a loop with more lag has been useless."""

LIMIT: Final = 2.0
"""Seconds for one answer over loopback. The probe in manifests/ waits twice as long."""

KEPT: Final = 1.0
"""Seconds for which an answer is reused: the other program is asked at most once a second."""

RENDER: Final = 1.0
"""Seconds for which a rendering serves all scrapes. Prometheus scrapes every 15 to 60 seconds."""


class Metrics(Protocol):
    """The metrics of a program."""

    registry: CollectorRegistry
    loop_lag_seconds: Gauge


class Check(NamedTuple):
    """One condition of readiness. `text` describes the problem or the state."""

    name: str
    ok: bool
    text: str = ""


Beside = Callable[[], Awaitable[Check]]
"""Asks a program whether it is alive."""


class Pulse:
    """The lag of the event loop: a task that sleeps for BEAT and measures when it wakes."""

    def __init__(
        self,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.lag = 0.0
        """Seconds, at the last beat."""
        self._clock = clock
        self._sleep = sleep

    async def run(self) -> Never:
        while True:
            await self.beat()

    async def beat(self) -> None:
        began = self._clock()
        await self._sleep(BEAT)
        self.lag = max(0.0, self._clock() - began - BEAT)


class Exposition:
    """The metrics as text, plain and compressed: one rendering at a time, for all requests that wait."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._clock = clock
        self._rendering = asyncio.Lock()
        self._rendered = float("-inf")
        self._text = self._compressed = b""

    async def answer(self, request: web.Request) -> web.Response:
        async with self._rendering:
            if self._clock() - self._rendered >= RENDER:
                self._text, self._compressed = await asyncio.to_thread(self._render)
                self._rendered = self._clock()
        headers = {"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}
        if "gzip" in request.headers.get("Accept-Encoding", "").lower():
            return web.Response(body=self._compressed, headers=headers | {"Content-Encoding": "gzip"})
        return web.Response(body=self._text, headers=headers)

    def _render(self) -> tuple[bytes, bytes]:
        text = generate_latest(self._registry)
        return text, gzip.compress(text, compresslevel=1)


def build_app(
    metrics: Metrics, ready: Callable[[], Sequence[Check]], beside: Mapping[str, Beside] | None = None
) -> web.Application:
    """The application that answers GET /livez, /readyz and /metrics.

    ready: the conditions, evaluated at every request; all of them must hold.
    beside: programs of the same Pod that are useless without Gangwright. `/livez/NAME` reports whether both are alive.
    """

    def alive() -> Check:
        return Check("event loop", pulse.lag < LAG_LIMIT, f"{pulse.lag:.3f} s late")

    async def livez(_request: web.Request) -> web.Response:
        return _told([alive()])

    def both(program: Beside) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def livez_of_both(_request: web.Request) -> web.Response:
            return _told([alive(), await program()])

        return livez_of_both

    async def readyz(_request: web.Request) -> web.Response:
        return _told(ready())

    async def beating(_app: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(pulse.run(), name="pulse")
        yield
        task.cancel()
        await asyncio.wait([task])

    def clock() -> float:
        return asyncio.get_running_loop().time()

    pulse = Pulse(clock)
    metrics.loop_lag_seconds.set_function(lambda: pulse.lag)
    app = web.Application()
    app.cleanup_ctx.append(beating)
    app.router.add_get("/livez", livez)
    for name, program in (beside or {}).items():
        app.router.add_get(f"/livez/{name}", both(program))
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", Exposition(metrics.registry, clock).answer)
    return app


def _told(checks: Sequence[Check]) -> web.Response:
    ok = all(check.ok for check in checks)
    body = {"ok": ok, "checks": [check._asdict() for check in checks]}
    return web.json_response(body, status=200 if ok else 503)


@asynccontextmanager
async def neighbor(name: str, url: str) -> AsyncIterator[Beside]:
    """A function that requests `/livez` at this address while the context lasts. Answers newer than KEPT are reused."""
    clock = asyncio.get_running_loop().time
    asking: asyncio.Task[Check] | None = None
    due = float("-inf")

    async def ask() -> Check:
        nonlocal due
        try:
            # The certificate is not checked: kube-scheduler generates one at each start, and is sent no secret.
            async with session.get(f"{url}/livez", ssl=False, allow_redirects=False) as answer:
                told = Check(name, answer.status == 200, f"answered {answer.status}")
        except (aiohttp.ClientError, OSError) as error:
            told = Check(name, ok=False, text=f"no answer ({type(error).__name__})")
        due = clock() + KEPT
        return told

    async def known() -> Check:
        nonlocal asking
        if asking is None or (asking.done() and clock() >= due):
            asking = asyncio.create_task(ask())
        # Shielded: a caller that gives up does not cancel the request for the others.
        return await asyncio.shield(asking)

    limit = aiohttp.ClientTimeout(total=LIMIT)
    async with aiohttp.ClientSession(timeout=limit, cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield known
