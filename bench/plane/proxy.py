"""A door before the API server, for one program alone: tests shut it, hold it and cut what goes through.

A reverse proxy over plain HTTP on loopback that forwards everything under the identity it was given, streams watches,
and counts writes. It knows nothing of what is written. Its own thread and event loop keep it alive over the event
loops of tests; everything here may be called from any thread.
"""

import asyncio
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import aiohttp
from aiohttp import web

from bench.plane.errors import NeverCameError
from bench.plane.ports import HOST
from scheduler.kube.client import Sockets

T = TypeVar("T")

WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})

HOP: Final = frozenset({"connection", "host", "keep-alive", "transfer-encoding", "content-length", "upgrade"})
"""Headers that belong to one connection, or that the other side works out anew."""

EXPIRED: Final = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "reason": "Expired",
    "code": 410,
    "message": "too old resource version",
}
"""What the API server says of a resource version that it has forgotten."""

FORBIDDEN: Final = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "reason": "Forbidden",
    "code": 403,
    "message": "barred at the door",
}
"""What is said of a collection that is barred."""


@dataclass(frozen=True)
class Write:
    """One write that went through and was answered."""

    method: str
    path: str
    status: int


class Proxy:
    """The door, open from `start` to `stop`.

        with Proxy(plane.url, plane.context(EXTENDER)) as door, Installation(plane, through=door.url):
            door.shut_after(3)

    url, context: of the API server, and who we are there (None for a server without TLS).
    """

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        self._upstream, self._context = url, context
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="plane-proxy", daemon=True)
        self._change = threading.Condition()
        self._writes: list[Write] = []
        self._left: int | None = None
        self._of = ""
        self._drops = True
        self._closed = False
        self._waiting = 0
        self._expired = 0
        self._barred = ""
        self._deafened: Counter[str] = Counter()
        self.knocks: list[str] = []
        """Methods of the requests that came while it was shut."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        self._thread.start()
        self._run(self._open())
        return self

    def stop(self) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ── what went through ───────────────────────────────────────────────────────────────────────────────

    @property
    def writes(self) -> list[Write]:
        """Since the start, or since `forget`, in order."""
        with self._change:
            return list(self._writes)

    def until_written(self, holds: Callable[[], bool], within: float = 30.0) -> None:
        """Until `holds()`, asked after every write. Raises NeverCameError."""
        self._until(holds, "the writes did not come to hold", within)

    def forget(self) -> None:
        """Counts from zero again."""
        with self._change:
            self._writes.clear()

    # ── writes are counted out ──────────────────────────────────────────────────────────────────────────

    def shut_after(self, writes: int, of: str = "") -> None:
        """Lets so many more writes through, one at a time; then every connection is cut, and nothing gets through.

        With 0 it shuts when the next write comes. of: only writes to paths that end so count, such as "/eviction".
        """
        self._count(writes, of, drops=True)

    def hold_after(self, writes: int, of: str = "") -> None:
        """Lets so many more writes through, one at a time; those after them wait at the door, all else goes on."""
        self._count(writes, of, drops=False)

    def open(self) -> None:
        """Lets everything through, also what waits."""
        with self._change:
            self._left, self._closed, self._barred = None, False, ""
        self._run(self._wake())

    def until_shut(self, within: float = 30.0) -> None:
        """Raises NeverCameError."""
        self._until(lambda: self._closed, "the door was not shut", within)

    def until_held(self, writes: int = 1, within: float = 30.0) -> None:
        """Until so many writes wait at the door. Raises NeverCameError."""
        self._until(lambda: self._waiting >= writes, f"not {writes} writes wait at the door", within)

    # ── watches ─────────────────────────────────────────────────────────────────────────────────────────

    def cut(self) -> None:
        """Cuts every connection that is open now; new ones are welcome."""
        self._run(self._cut())

    def expire(self, watches: int) -> None:
        """Answers the next so many watches with 410, as the API server does to one who comes too late."""
        self._expired = watches

    def bar(self, path: str) -> None:
        """Refuses to read this path, such as "/api/v1/pods", until `open`, and cuts what is open now; all else goes
        on.
        """
        self._barred = path
        self.cut()

    def deafen(self, path: str) -> None:
        """Swallows what comes from now on over the watches of this path that are open now, as who lost the machine
        behind it: their connections stand, and new ones are welcome.
        """
        self._deafened[path] += 1

    @property
    def expiring(self) -> int:
        """Watches that are still to be answered with 410."""
        return self._expired

    def _count(self, writes: int, of: str, *, drops: bool) -> None:
        with self._change:
            self._left, self._of, self._drops, self._closed = writes, of, drops, False

    def _until(self, holds: Callable[[], bool], complaint: str, within: float) -> None:
        with self._change:
            if not self._change.wait_for(holds, within):
                done = ", ".join(f"{write.method} {write.path}" for write in self._writes)
                raise NeverCameError(f"{complaint} within {within:g} s; went through: {done or 'nothing'}")

    def _run(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(timeout=30)

    async def _open(self) -> None:
        self._turn = asyncio.Lock()
        self._opened = asyncio.Event()
        self._transports: set[asyncio.BaseTransport] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sockets = Sockets()
        self._session = aiohttp.ClientSession(
            self._upstream,
            connector=aiohttp.TCPConnector(
                ssl=self._context or True, limit=0, socket_factory=self._sockets.make
            ),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        self._runner = web.ServerRunner(web.Server(self._serve, access_log=None), shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, 0)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        self.url = f"http://{HOST}:{port}"

    async def _close(self) -> None:
        self._opened.set()
        await self._cut()
        for task in self._tasks:
            task.cancel()  # the server has forgotten those whose connection was cut
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._runner.cleanup()
        await self._session.close()
        await self._sockets.close()

    async def _wake(self) -> None:
        self._opened.set()

    async def _cut(self) -> None:
        for transport in list(self._transports):
            transport.abort()  # type: ignore[attr-defined]

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        if transport is None:
            return web.Response()  # goes nowhere
        self._transports.add(transport)
        if task := asyncio.current_task():
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            if self._closed:
                self.knocks.append(request.method)
                raise ConnectionResetError
            if request.method in WRITES:
                return await self._write(request, transport)
            return await self._read(request)
        except (aiohttp.ClientError, ConnectionError):
            transport.abort()  # as the program would see it without us between
            return web.Response()  # goes nowhere
        finally:
            self._transports.discard(transport)

    async def _write(self, request: web.BaseRequest, transport: asyncio.Transport) -> web.StreamResponse:
        body = await request.read()
        with self._change:
            counted = self._left is not None and request.path.endswith(self._of)
        if not counted:
            return self._noted(request, await self._forwarded(request, body))
        async with self._turn:
            if transport.is_closing():
                raise ConnectionResetError  # cut while it waited for its turn: the next count is not its own
            if self._left == 0 and not await self._let_in(transport):
                raise ConnectionResetError
            answer = await self._forwarded(request, body)
            self._noted(request, answer)
            with self._change:
                self._left = None if self._left is None else self._left - 1
                last = self._left == 0 and self._drops
            if last:
                await self._shut()
                raise ConnectionResetError
            return answer

    async def _let_in(self, transport: asyncio.Transport) -> bool:
        """Waits at the door, or shuts it; whether the write may still go through."""
        if self._drops:
            await self._shut()
            return False
        with self._change:
            self._waiting += 1
            self._opened.clear()
            self._change.notify_all()
        await self._opened.wait()
        with self._change:
            self._waiting -= 1
        return not transport.is_closing()

    async def _shut(self) -> None:
        with self._change:
            self._closed = True
            self._change.notify_all()
        await self._cut()

    def _noted(self, request: web.BaseRequest, answer: web.Response) -> web.Response:
        with self._change:
            self._writes.append(Write(request.method, request.path, answer.status))
            self._change.notify_all()
        return answer

    async def _forwarded(self, request: web.BaseRequest, body: bytes) -> web.Response:
        async with self._session.request(
            request.method, request.rel_url, data=body, headers=_kept(request.headers)
        ) as answer:
            return web.Response(status=answer.status, body=await answer.read(), headers=_kept(answer.headers))

    async def _read(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._barred and request.path == self._barred:
            return web.json_response(FORBIDDEN, status=403)
        if self._expired and "watch" in request.rel_url.query:
            self._expired -= 1
            return web.json_response(EXPIRED, status=410)
        async with self._session.get(request.rel_url, headers=_kept(request.headers)) as answer:
            passed = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
            await passed.prepare(request)
            heard = self._deafened[request.path]
            async for chunk in answer.content.iter_any():
                if self._deafened[request.path] == heard:
                    await passed.write(chunk)
            if self._deafened[request.path] != heard:
                await asyncio.Event().wait()  # the end is not passed on either
            await passed.write_eof()
            return passed


def _kept(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in HOP}
