"""One session to the API server: requests and streams, with its errors as `scheduler.errors`.

Lives here: the connections and their sockets, headers, time limits, and the time of the API server's last sign of life.
Never here: the meaning of the bytes, retries, or field managers; the caller knows those. Why not the client of the
`kubernetes` package: its objects cost ten times the memory and a hundred times the time of typed msgspec values.
So the package only reads the configuration (see `credentials`).

Connections are kept alive and have no Nagle delay (asyncio's default for TCP). Compression is off: the API server is
near, and its gzip costs more time on both sides than it saves.

TCP keepalive tests whether the other machine is still up. A watch without events is silent for a minute, and meanwhile
the other end may be switched off, or a firewall may drop the connection. Keepalive probes carry no data, and the API
server does not see them. A proxy may answer them but forward nothing; a second request finds that out (`watch_probe`).
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from http import HTTPStatus
from types import TracebackType
from typing import Final, Protocol, Self

import aiohttp

import scheduler
from scheduler import errors
from scheduler.clock import steady
from scheduler.kube.api_errors import UNWELL, read_status, refusal
from scheduler.kube.credentials import Access
from scheduler.kube.http_connection import Answer

JSON = "application/json"

CONNECTIONS = 32
"""Maximum concurrent connections, unless the caller knows how many it needs. A command lists about ten kinds in
parallel.
"""

SPARE = 4
"""Connections among these for calls that may wait for each other: probes of quiet watches (`watch_probe`), each of
which takes a second."""

CONNECT_LIMIT = 10.0
"""Seconds for a TCP and TLS handshake with a machine of the same cluster."""

IDLE_LIMIT = 60.0
"""Seconds that an idle connection is kept. The API server drops it after 90, and the client should close it first."""

STREAM_BUFFER = 2**18
"""Bytes that a watch may run ahead of its reader: about a hundred pods, decoded within a few milliseconds."""

ANSWER_LIMIT = 2**26
"""Maximum bytes of an answer. An object has 1.5 MiB in etcd unless an administrator allows more, and JSON needs at most
six bytes for each of them: 9 MiB, and the names of its fields.
"""

QUIET = 3.0
"""Seconds without an answer that count as an outage. Reads of the Lease are 2.5 s apart while they fail at once, and 2
s apart in the elastic master in normal operation."""

REFUSAL_LIMIT = 2**16
"""Maximum bytes read of an error's body."""

PROBES: Final[Mapping[str, int]] = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}
"""Seconds of silence before the first probe, seconds between two probes, and probes without an answer: the loss of a
machine is detected after 11 s. If the kernel does not support an option, its own value applies, which may be hours."""

LOOK: Final = 0.002
"""Seconds between two checks for open sockets. A turn of the event loop closes them."""

LOOKS: Final = 500
"""Maximum checks: one second, in which every event loop that still runs has closed its sockets."""

Params = Mapping[str, str]


class Call(Protocol):
    """A request as a value. `objects.patches` and the elastic master have their own types."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def body(self) -> bytes | None: ...
    @property
    def content_type(self) -> str: ...
    @property
    def params(self) -> Mapping[str, str]: ...


class Client:
    """Calls to one API server, on one event loop. Use it as an async context manager, or call `close`.

    connect_within: seconds for a TCP and TLS handshake.
    """

    def __init__(
        self,
        access: Access,
        *,
        connections: int = CONNECTIONS,
        connect_within: float = CONNECT_LIMIT,
        clock: Callable[[], float] = steady,
    ) -> None:
        self._access = access
        self._connections = connections
        self._connect_within = connect_within
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._sockets = Sockets()
        self.spare = asyncio.Semaphore(SPARE)
        """Held by calls that may wait for each other, so that all others get their connections."""
        self.last_answer = float("-inf")
        """When the API server last proved that it works, on `clock`, in seconds; -inf before the first time."""
        self.returns = 0
        """How often it answered after an outage of QUIET seconds. The very first answer counts."""
        self._back = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; calls under way end as Unreachable."""
        if self._session is not None:
            await self._session.close()
            await self._sockets.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout: float = 10.0,  # noqa: ASYNC109 - a property of the call, not a way to stop it
        most: int = ANSWER_LIMIT,
    ) -> bytes:
        """Call the API server once and return the body of its answer.

        `path` begins with `/` and is relative to the server's address. `timeout` is in seconds, for the whole call.
        Raises a KubeError for every status but 2xx, Unreachable if there was no complete answer, and TooLong if it has
        more than `most` bytes: the rest is not read, and the connection is closed.
        """
        call = f"{method} {path}"
        limit = aiohttp.ClientTimeout(total=timeout, sock_connect=self._connect_within)
        with _unreachable(call):
            response = await self._send(method, path, params, limit, body=body, content_type=content_type)
            async with response:
                await self._check(call, response)
                answer = await _whole(call, response, most)
        self._heard()
        return answer

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        timeout: float = 30.0,  # noqa: ASYNC109 - a property of the call, not a way to stop it
        most: int = ANSWER_LIMIT,
    ) -> Answer:
        """Call once and return the answer, regardless of its status.

        For an aggregated API, whose errors are not Status objects. timeout, most: as for `request`. Raises Unreachable
        and TooLong like `request`.
        """
        call = f"{method} {path}"
        limit = aiohttp.ClientTimeout(total=timeout, sock_connect=self._connect_within)
        with _unreachable(call):
            async with await self._send(method, path, params, limit, body=body) as response:
                if response.status == HTTPStatus.UNAUTHORIZED:
                    self._access.doubt()
                text = await _whole(call, response, most)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, headers, text)

    @asynccontextmanager
    async def stream(
        self, path: str, params: Params | None = None, *, inactivity: float = 70.0
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Open a GET whose answer does not end, and yield its bytes as they arrive.

        All buffered bytes come in one piece. The iterator ends when the server ends the answer. It raises Unreachable
        if the connection breaks, and Silent after `inactivity` seconds without a byte. Opening raises like `request`.
        """
        call = f"GET {path}"
        limit = aiohttp.ClientTimeout(
            total=None, connect=CONNECT_LIMIT, sock_connect=self._connect_within, sock_read=inactivity
        )
        with _unreachable(call):
            response = await self._send("GET", path, params, limit)
        try:
            with _unreachable(call):
                await self._check(call, response)
            self._heard()
            chunks = self._chunks(call, response)
            try:
                yield chunks
            finally:
                await chunks.aclose()
        finally:
            response.close()

    async def _chunks(self, call: str, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        with _unreachable(call):
            async for chunk in response.content.iter_any():
                self._heard()
                yield chunk

    async def _send(
        self,
        method: str,
        path: str,
        params: Params | None,
        limit: aiohttp.ClientTimeout,
        *,
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> aiohttp.ClientResponse:
        access = self._access
        if self._session is not None and self._session.closed:
            raise errors.Unreachable(f"{method} {path}", "this client is closed")
        headers = dict(await access.headers())
        if body is not None:
            headers["Content-Type"] = content_type
        return await self._opened().request(
            method,
            f"{str(access.url).rstrip('/')}{path}",
            params=params,
            data=body,
            headers=headers,
            timeout=limit,
            proxy=access.proxy,
            server_hostname=access.server_name,
            allow_redirects=False,  # credentials only go to the configured address
            read_bufsize=STREAM_BUFFER,
        )

    async def _check(self, call: str, response: aiohttp.ClientResponse) -> None:
        if 200 <= response.status < 300:
            return
        status = read_status(await _beginning(response))
        error = refusal(call, response.status, status, response.headers.get("Retry-After"))
        if isinstance(error, errors.Unauthorized):
            self._access.doubt()
        if not isinstance(error, UNWELL):
            self._heard()
        raise error

    async def back(self, since: int) -> None:
        """Wait until `returns` exceeds `since`: until the API server has answered after another outage."""
        if self.returns <= since:
            await self._back.wait()

    def _heard(self) -> None:
        now = self._clock()
        if now - self.last_answer > QUIET:
            self.returns += 1
            self._back.set()
            self._back = asyncio.Event()
        self.last_answer = now

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:  # not in __init__: aiohttp needs a running event loop
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._connections,
                    ssl=self._access.tls or True,
                    keepalive_timeout=IDLE_LIMIT,
                    socket_factory=self._sockets.make,
                ),
                headers={
                    "User-Agent": f"gangwright/{scheduler.__version__}",
                    "Accept": JSON,
                    "Accept-Encoding": "identity",
                },
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


async def send(client: Client, call: Call, within: float) -> bytes:
    """The body of the answer, within `within` seconds. Raises like `Client.request`."""
    return await client.request(
        call.method,
        call.path,
        params=call.params,
        body=call.body,
        content_type=call.content_type,
        timeout=within,
    )


async def _whole(call: str, response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body, of at most `most` bytes."""
    pieces, size = list[bytes](), 0
    while piece := await response.content.readany():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise errors.TooLong(call, f"the answer has more than {most} bytes", status=response.status)
    return b"".join(pieces)


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """The first REFUSAL_LIMIT bytes of the body, or slightly more."""
    body = b""
    while len(body) < REFUSAL_LIMIT and (chunk := await response.content.readany()):
        body += chunk
    return body


@contextmanager
def _unreachable(call: str) -> Iterator[None]:
    """Turn errors of aiohttp into Unreachable. The original error stays chained."""
    try:
        yield
    except aiohttp.SocketTimeoutError as error:
        raise errors.Silent(call, _said(error)) from error
    except (aiohttp.ClientError, OSError) as error:
        raise errors.Unreachable(call, _said(error)) from error


def _said(error: Exception) -> str:
    return f"no answer ({type(error).__name__}{': ' if str(error) else ''}{error})"


class Sockets:
    """The sockets of one client. Closing TLS goes on after the call has returned: asyncio waits up to 30 s for the
    other side's close notification. If the event loop ends meanwhile, the socket stays open.
    """

    def __init__(self) -> None:
        self._made: list[socket.socket] = []

    def make(self, address: aiohttp.AddrInfoType) -> socket.socket:
        """A socket that breaks when the other machine no longer answers; a `socket_factory`."""
        made = _probed(address)
        self._made = [*self._open(), made]
        return made

    async def close(self) -> None:
        """End the connections that are still closing. All are closed when this returns."""
        for one in self._open():
            with suppress(OSError):  # the other side closed it first
                one.shutdown(socket.SHUT_RDWR)
        for _ in range(LOOKS):
            if not self._open():
                return
            await asyncio.sleep(LOOK)

    def _open(self) -> list[socket.socket]:
        return [one for one in self._made if one.fileno() != -1]


def _probed(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
