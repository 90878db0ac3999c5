"""A port of a Pod, reached through the API server.

Lives here: a socket on loopback whose connections continue as WebSockets to the API server, and through the kubelet
into the Pod. Never here: the bytes on them. Why not the API server's proxy: it removes the Authorization header before
it forwards a request, and the program in the Pod must know the user.

The protocol (`v4.channel.k8s.io`, as in kubectl and the `kubernetes` package): every binary message begins with the
number of its channel, 0 for data and 1 for errors. The first message on each channel holds the port, in two bytes.
SPDY, the older protocol of kubectl, is unsupported: every API server that Gangwright runs with supports WebSockets.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import aiohttp

from scheduler import errors
from scheduler.kube.client import Sockets
from scheduler.kube.credentials import Access

PROTOCOL: Final = "v4.channel.k8s.io"
CHUNK: Final = 2**16
CONNECT_LIMIT: Final = 10.0
"""Seconds until the kubelet has answered."""

DATA, ERROR = 0, 1

NO_SOCKET: Final = (
    f"the API server, or a proxy in front of it, does not support WebSockets with {PROTOCOL} for port "
    "forwarding. If it only supports SPDY, run `kubectl port-forward` and pass the address that it prints"
)
NOT_UPGRADED: Final = frozenset({101, 200, 400, 426, 501})
"""Status codes of servers without WebSocket support, or behind a proxy that dropped the upgrade request."""


class Forwarding:
    """Connections to one port of one Pod."""

    def __init__(self, access: Access, session: aiohttp.ClientSession, path: str) -> None:
        self._access = access
        self._session = session
        self._path = path
        self.fault = ""
        """The last error of the kubelet about the connection."""
        self.forbidden = False
        """The API server denied it: the user lacks the right to get and create pods/portforward."""
        self._carrying: set[asyncio.Task[None]] = set()

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either side ends it.

        It runs in its own task: before Python 3.12, asyncio prints a traceback when a task that it created is canceled.
        """
        task = asyncio.create_task(self._carry(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECT_LIMIT):
                socket = await self._open()
            async with socket:
                await _first(self._out(reader, socket), self._in(socket, writer))
        except (aiohttp.ClientError, OSError) as error:
            self.fault = (
                self.fault or f"cannot connect through the API server ({type(error).__name__}: {error})"
            )
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def end(self) -> None:
        """End every connection."""
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _open(self) -> aiohttp.ClientWebSocketResponse:
        access = self._access
        try:
            socket = await self._session.ws_connect(
                f"{str(access.url).rstrip('/')}{self._path}",
                protocols=[PROTOCOL],
                headers=dict(await access.headers()),
                ssl=access.tls or True,
                server_hostname=access.server_name,
                proxy=access.proxy,
                max_msg_size=0,
            )
        except aiohttp.WSServerHandshakeError as error:
            refused = f"the API server rejected the port forwarding: {error.status}"
            self.fault = f"{NO_SOCKET} ({error.status})" if error.status in NOT_UPGRADED else refused
            self.forbidden = error.status == 403
            raise
        if socket.protocol != PROTOCOL:
            self.fault = NO_SOCKET
            await socket.close()
            raise aiohttp.ClientConnectionError(NO_SOCKET)
        return socket

    async def _out(self, reader: asyncio.StreamReader, socket: aiohttp.ClientWebSocketResponse) -> None:
        while chunk := await reader.read(CHUNK):
            await socket.send_bytes(bytes((DATA,)) + chunk)

    async def _in(self, socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
        greeted: set[int] = set()
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, said = message.data[0], message.data[1:]
            if channel not in greeted:
                greeted.add(channel)
                said = said[2:]
            if channel == ERROR and said:
                self.fault = errors.shortened(said.decode("utf-8", "replace"))
                return
            if channel == DATA and said:
                writer.write(said)
                await writer.drain()


@asynccontextmanager
async def forwarded(
    access: Access, namespace: str, pod: str, port: int
) -> AsyncIterator[tuple[str, Forwarding]]:
    """The address `127.0.0.1:PORT`, which is forwarded to this port of the Pod, and the state of its connections."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/portforward?ports={port}"
    sockets = Sockets()
    connector = aiohttp.TCPConnector(socket_factory=sockets.make)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        forwarding = Forwarding(access, session, path)
        server = await asyncio.start_server(forwarding.take, "127.0.0.1", 0)
        try:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", forwarding
        finally:
            server.close()
            await forwarding.end()
            await sockets.close()


async def _first(*both: Coroutine[Any, Any, None]) -> None:
    """Run both until one has ended."""
    tasks = [asyncio.ensure_future(one) for one in both]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
