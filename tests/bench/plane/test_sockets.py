"""No socket of a client outlives its event loop, however long the other side takes to say farewell."""

import asyncio
import gc
import socket
import ssl
import threading

import aiohttp
import pytest
from yarl import URL

from bench.plane.certificates import ADMIN, Authority
from bench.plane.proxy import Proxy
from scheduler.kube.client import Client, Sockets


class Silent:
    """A TLS server that begins one stream a connection, and never says a word after it: no farewell either."""

    def __init__(self, authority: Authority) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(*authority.server())
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._streams: list[ssl.SSLSocket] = []
        self._thread = threading.Thread(target=self._serve)
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for stream in self._streams:
            stream.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            stream = self._context.wrap_socket(connection, server_side=True)
            stream.recv(4096)
            stream.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
            self._streams.append(stream)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def silent(authority):
    with Silent(authority) as server:
        yield server


@pytest.fixture
def unraisable(monkeypatch):
    """What garbage had to complain about."""
    told = []
    monkeypatch.setattr("sys.unraisablehook", lambda one: told.append(str(one.exc_value)))
    return told


async def test_ends_what_still_says_farewell(authority, silent):
    """A stream that was left is open after the session was closed, and not after its sockets were."""
    sockets = Sockets()
    connector = aiohttp.TCPConnector(ssl=authority.context(ADMIN), socket_factory=sockets.make)
    async with aiohttp.ClientSession(silent.url, connector=connector) as session, session.get("/") as stream:
        assert await stream.content.readline() == b"one\n"
    assert len(sockets._open()) == 1
    await asyncio.wait_for(sockets.close(), 5)
    assert sockets._open() == []


@pytest.mark.slow
async def test_a_door_leaves_nothing(authority, silent, unraisable):
    """A door that is taken away while streams go through it leaves no socket to the garbage collector."""
    door = await asyncio.to_thread(Proxy(silent.url, authority.context(ADMIN)).start)
    async with aiohttp.ClientSession(door.url) as session:
        streams = [await session.get("/") for _ in range(3)]
        assert {await stream.content.readline() for stream in streams} == {b"one\n"}
        await asyncio.to_thread(door.stop)
    del door, streams
    gc.collect()
    assert unraisable == []


class Known:
    """An API server's address and the certificate that opens it, with no token."""

    server_name = proxy = None

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        self.url, self.tls = URL(url), tls

    async def headers(self):
        return {}


async def test_our_own_client_leaves_nothing(authority, silent):
    """A watch that is cancelled leaves no socket behind once the client is closed, however silent the API server is."""
    client = Client(Known(silent.url, authority.context(ADMIN)))  # type: ignore[arg-type]
    async with client.stream("/") as chunks:
        assert b"one\n" in [chunk async for chunk in first(chunks)]
    assert len(client._sockets._open()) == 1
    await asyncio.wait_for(client.close(), 5)
    assert client._sockets._open() == []


async def first(chunks):
    yield await anext(aiter(chunks))
