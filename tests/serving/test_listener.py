"""Connections on real sockets of the loopback: counted when accepted, bounded before they are trusted."""

import asyncio
import errno
import socket
import ssl
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from aiohttp import web

from scheduler.serving import listener, server
from scheduler.serving.listener import Listener, authenticated
from scheduler.settings_elastic import RendezvousServer
from tests.elastic.rendezvous.served import served
from tests.extender.raw import Raw

HELLO = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class Closed(Counter):
    """Counts connections that were closed, by cause, where a server counts its metrics."""

    def labels(self, cause):
        return type("Count", (), {"inc": lambda _: self.update([cause])})()


class Metrics:
    def __init__(self):
        self.connections_closed_total = Closed()
        self.connections = self

    def set_function(self, function):
        self.open = function


@asynccontextmanager
async def raws(count, port, **tls):
    """So many connections, closed at the end whatever became of them."""
    found = [await Raw.to(port, **tls) for _ in range(count)]
    try:
        yield found
    finally:
        for raw in found:
            with suppress(OSError):
                await raw.close()


@asynccontextmanager
async def running(*, credentials=True, most=64, **options):
    """A server over plain TCP; whoever asks for /known is known from then on."""

    async def answer(request):
        if request.path == "/known":
            authenticated(request)
        return web.Response(text="here")

    app, metrics = web.Application(), Metrics()
    app.router.add_get("/{any:.*}", answer)
    settings = RendezvousServer(connections=most)
    async with server.serve(
        app, "127.0.0.1", 0, settings=settings, metrics=metrics, credentials=credentials, **options
    ) as port:
        yield port, metrics


def asking(path):
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


async def until(holds):
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)


async def test_who_never_says_a_word_is_closed(monkeypatch):
    """A silent connection, and one whose requests show no credential, end after the limit; a known one stays."""
    monkeypatch.setattr(server, "STRANGER_LIMIT", 0.3)
    async with running() as (port, metrics), raws(3, port) as (known, silent, stranger):
        assert (await known.ask(asking("/known"))).status == 200
        assert (await stranger.ask(asking("/"))).status == 200

        assert await silent.ended()
        assert await stranger.ended()
        assert (await known.ask(asking("/"))).status == 200
    assert metrics.connections_closed_total == {"silent": 2}


async def test_an_answer_is_enough_where_no_credential_is_asked_for(monkeypatch):
    """kube-scheduler shows none on loopback; its idle connection stays as long as `keepAlive` says."""
    monkeypatch.setattr(server, "STRANGER_LIMIT", 0.05)
    async with running(credentials=False) as (port, metrics), raws(1, port) as (raw,):
        await raw.ask(asking("/"))
        await asyncio.sleep(0.15)
        assert (await raw.ask(asking("/"))).status == 200
    assert metrics.connections_closed_total == {}


async def test_the_oldest_stranger_makes_room(monkeypatch):
    """However many come, the newest is answered; known connections are not touched."""
    monkeypatch.setattr(listener, "STRANGERS", 4)
    async with running() as (port, metrics), raws(3, port) as known:
        for raw in known:
            await raw.ask(asking("/known"))
        async with raws(12, port) as silent, raws(1, port) as (newest,):
            assert (await newest.ask(asking("/"))).status == 200
            for raw in known:
                assert (await raw.ask(asking("/"))).status == 200
            gone = [await raw.ended() for raw in silent[:9]]
            assert metrics.open() == 3 + 4
    assert all(gone)
    assert metrics.connections_closed_total == {"full": 9}


async def test_known_connections_have_a_bound_too():
    """With none but known ones, the one that was quiet for longest makes room."""
    async with running(most=3) as (port, metrics), raws(3, port) as known:
        for raw in known:
            await raw.ask(asking("/known"))
        await known[0].ask(asking("/"))
        async with raws(1, port) as (newest,):
            assert (await newest.ask(asking("/known"))).status == 200
            assert await known[1].ended()
            assert (await known[0].ask(asking("/"))).status == 200
    assert metrics.connections_closed_total == {"full": 1}


async def test_what_strangers_have_sent_is_bounded_together(monkeypatch):
    """Heads that never end add up over all connections; the one that has sent most is closed."""
    monkeypatch.setattr(listener, "STRANGERS_BYTES", 10_000)
    async with running() as (port, metrics), raws(3, port) as (first, second, third):
        for raw, size in ((first, 3000), (second, 5000), (third, 2500)):
            await raw.send(b"GET / HTTP/1.1\r\nX: " + b"a" * size)
        assert await second.ended()
        await first.send(b"\r\nHost: a\r\n\r\n")
        assert (await first.answer()).status == 200
    assert metrics.connections_closed_total == {"full": 1}


async def test_bytes_of_a_known_connection_do_not_count(monkeypatch):
    """Once it is known, it may send what it likes; what it sent before is given back."""
    monkeypatch.setattr(listener, "STRANGERS_BYTES", 1000)
    async with running() as (port, metrics), raws(1, port) as (raw,):
        for _ in range(50):
            assert (await raw.ask(asking("/known"))).status == 200
    assert metrics.connections_closed_total == {}


async def test_addresses_take_turns():
    """A thousand connections that begin in one moment do not go before the first one of another address."""
    order = []

    class Inner(asyncio.Protocol):
        def connection_made(self, transport):
            order.append(transport.get_extra_info("peername")[0])

    listening = listener.listening("127.0.0.1", 0, 128)
    place = listening.getsockname()
    many = [socket.create_connection(place, source_address=("127.0.0.2", 0)) for _ in range(30)]
    one = socket.create_connection(place, source_address=("127.0.0.3", 0))
    for sock in (*many, one):
        sock.send(b"x")
    own = Listener(Inner, most=100)
    task = asyncio.create_task(own.run(listening))
    await until(lambda: len(order) == 31)
    task.cancel()
    for sock in (*many, one, listening):
        sock.close()
    assert order.index("127.0.0.3") <= 1
    await until(lambda: not own.open)


async def test_without_files_a_stranger_makes_room(monkeypatch):
    """Where the process may open no more files, the oldest stranger is closed instead of all that come being left."""
    causes = []
    own = Listener(asyncio.Protocol, most=100, closed=causes.append)
    listening = listener.listening("127.0.0.1", 0, 16)
    task = asyncio.create_task(own.run(listening))
    first = socket.create_connection(listening.getsockname())
    await until(lambda: len(own.open) == 1)
    loop, broken = asyncio.get_running_loop(), [OSError(errno.EMFILE, "no files")]
    accept = loop.sock_accept

    async def failing(sock):
        if broken:
            raise broken.pop()
        return await accept(sock)

    monkeypatch.setattr(loop, "sock_accept", failing)
    second = socket.create_connection(listening.getsockname())  # wakes it; the next try fails
    await until(lambda: causes == ["full"])
    third = socket.create_connection(listening.getsockname())
    await until(lambda: len(own.open) == 2)
    task.cancel()
    own.close()
    for sock in (first, second, third, listening):
        sock.close()


async def test_idle_handshakes_are_counted_and_closed(monkeypatch):
    """With TLS: bare connections, and those that make a handshake and ask nothing, are strangers and end; the worker
    among them is answered.
    """
    monkeypatch.setattr(server, "STRANGER_LIMIT", 0.5)
    async with served() as run:
        run.hire("a")
        trust = ssl.create_default_context(cadata=run.open.authority)
        async with raws(10, run.open.port) as bare, raws(10, run.open.port, ssl=trust) as idle:
            forged = await run.ask("POST", "/v1/beat", "no-such-token", {"phase": "Ready", "round": 0})
            assert forged.status == 401
            assert (await run.beat("a")).status == 200
            assert all([await raw.ended() for raw in (*bare, *idle)])
        assert (await run.beat("a")).status == 200


async def test_a_stop_ends_connections_that_asked_nothing():
    """A silent peer, one that has sent half of its hello, and one that only made a handshake hold up no end."""
    async with AsyncExitStack() as stack:
        async with served() as run:
            trust = ssl.create_default_context(cadata=run.open.authority)
            silent, half = await stack.enter_async_context(raws(2, run.open.port))
            (idle,) = await stack.enter_async_context(raws(1, run.open.port, ssl=trust))
            await half.send(b"\x16\x03\x01")
            await run.beat(None)
        assert all([await raw.ended() for raw in (silent, half, idle)])
