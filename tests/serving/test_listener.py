"""Connections on real sockets of the loopback: counted when accepted, bounded before they are trusted."""

import asyncio
import errno
import socket
import ssl
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from aiohttp import web

from scheduler.serving import listener, server
from scheduler.serving.listener import Listener, authenticated, connection_of
from scheduler.settings import RendezvousServer
from tests.elastic.rendezvous.support.served import served
from tests.extender.support.raw import Raw

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


@pytest.fixture
def listeners(monkeypatch):
    """The listeners that servers make from here on."""
    made = []

    class Kept(Listener):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.go = asyncio.Event()
            made.append(self)

    monkeypatch.setattr(server, "Listener", Kept)
    return made


def time_passes(listeners):
    """Whatever is a stranger now has been one for too long."""
    for own in listeners:
        for connection in list(own.strangers):
            connection.expire()


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
    """A server over plain TCP. A connection that asks for /known is known from then on."""

    async def answer(request):
        if request.path == "/known":
            authenticated(request)
        if request.path == "/wait":
            await connection_of(request)._listener.go.wait()
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


async def test_who_never_says_a_word_is_closed(listeners):
    """A silent connection, and one whose requests show no credential, end after the limit; a known one stays."""
    async with running() as (port, metrics), raws(3, port) as (known, silent, stranger):
        assert (await known.ask(asking("/known"))).status == 200
        assert (await stranger.ask(asking("/"))).status == 200
        await until(lambda: len(listeners[0].open) == 3)
        time_passes(listeners)

        assert await silent.ended()
        assert await stranger.ended()
        assert (await known.ask(asking("/"))).status == 200
    assert metrics.connections_closed_total == {"silent": 2}


async def test_the_limit_is_set():
    """A stranger ends without a hand on it."""
    causes = []
    own = Listener(asyncio.Protocol, most=10, stranger_limit=0.01, closed=causes.append)
    (listening,) = server.listening("127.0.0.1", 0, 16)
    task = asyncio.create_task(own.run(listening))
    peer = socket.create_connection(listening.getsockname())
    await until(lambda: causes == ["silent"])
    task.cancel()
    for one in (peer, listening):
        one.close()


async def test_an_answer_is_enough_where_no_credential_is_asked_for(listeners):
    """kube-scheduler shows none on loopback; its idle connection stays as long as `keepAlive` says."""
    async with running(credentials=False) as (port, metrics), raws(1, port) as (raw,):
        await raw.ask(asking("/"))
        time_passes(listeners)
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


async def test_known_connections_leave_room_for_strangers():
    """However many are known, a quarter of all is left to strangers: the known one that was quiet for longest goes."""
    async with running(most=8) as (port, metrics), raws(6, port) as known:
        for raw in known:
            await raw.ask(asking("/known"))
        await known[0].ask(asking("/"))
        async with raws(2, port) as strangers:
            for raw in strangers:
                assert (await raw.ask(asking("/"))).status == 200
            assert (await strangers[0].ask(asking("/known"))).status == 200
            assert await known[1].ended()
            assert (await known[0].ask(asking("/"))).status == 200
            assert (await strangers[1].ask(asking("/"))).status == 200
    assert metrics.connections_closed_total == {"full": 1}


async def test_the_connection_that_is_answered_most_is_never_cut(listeners):
    """kube-scheduler keeps one. Others that were answered once, and keep us busy, do not cost it its place."""
    async with running(most=8, credentials=False) as (port, metrics), raws(1, port) as (kept,):
        for _ in range(3):
            assert (await kept.ask(asking("/"))).status == 200
        async with AsyncExitStack() as stack:
            for _ in range(12):
                (raw,) = await stack.enter_async_context(raws(1, port))
                assert (await raw.ask(asking("/"))).status == 200
                await raw.send(asking("/wait"))
            assert metrics.connections_closed_total["full"] >= 5
            listeners[0].go.set()
            assert (await kept.ask(asking("/"))).status == 200


async def test_a_stranger_that_is_being_answered_is_waited_for(listeners):
    """The review of its token may take a while; handlers have limits of their own."""
    async with running() as (port, metrics), raws(1, port) as (raw,):
        await raw.send(asking("/wait"))
        await until(lambda: listeners[0].strangers and next(iter(listeners[0].strangers)).busy)
        time_passes(listeners)
        listeners[0].go.set()
        assert (await raw.answer()).status == 200
    assert metrics.connections_closed_total == {}


async def test_a_request_that_arrived_in_a_pause_is_answered(listeners):
    """It is read in the same turn of the loop as the time-out of its connection, new or not."""
    async with running() as (port, metrics), raws(2, port) as (answered, new):
        assert (await answered.ask(asking("/"))).status == 200
        await until(lambda: len(listeners[0].open) == 2)
        for raw in (answered, new):
            raw.writer.write(asking("/"))
        time.sleep(0.05)  # the process pauses, and both requests arrive
        asyncio.get_running_loop().call_later(0, time_passes, listeners)
        assert (await answered.answer()).status == 200
        assert (await new.answer()).status == 200
    assert metrics.connections_closed_total == {}


async def test_what_is_sent_before_the_answer_ends_the_connection(listeners):
    """It would be kept in memory until then."""
    async with running() as (port, metrics), raws(2, port) as (ahead, patient):
        for raw in (ahead, patient):
            await raw.send(asking("/wait"))
        await until(lambda: sum(one.busy for one in listeners[0].open) == 2)
        await ahead.send(asking("/wait"))
        assert await ahead.ended()
        listeners[0].go.set()
        assert (await patient.answer()).status == 200
        assert (await patient.ask(asking("/"))).status == 200
    assert metrics.connections_closed_total == {"ahead": 1}


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

    (listening,) = server.listening("127.0.0.1", 0, 128)
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


async def test_one_connection_that_cannot_begin_is_its_own_fault(monkeypatch):
    """Whatever goes wrong with one, the next one is accepted."""
    own = Listener(asyncio.Protocol, most=100)
    (listening,) = server.listening("127.0.0.1", 0, 16)
    broken = [ValueError("as scripted"), OSError(errno.ENOSPC, "no watches")]
    make = listener.Connection
    monkeypatch.setattr(listener, "RETRY", 0.01)

    def failing(*args):
        if broken:
            args[1].close()
            raise broken.pop()
        return make(*args)

    monkeypatch.setattr(listener, "Connection", failing)
    task = asyncio.create_task(own.run(listening))
    peers = [socket.create_connection(listening.getsockname()) for _ in range(3)]
    await until(lambda: len(own.open) == 1)
    task.cancel()
    own.close()
    for one in (*peers, listening):
        one.close()


def test_a_name_is_listened_on_by_all_its_addresses():
    """As `localhost`, which may have one of each family: they have one port."""
    sockets = server.listening("localhost", 0, 16)
    assert len({one.getsockname()[1] for one in sockets}) == 1
    for one in sockets:
        socket.create_connection(one.getsockname()[:2], timeout=5).close()
        one.close()


async def test_without_files_a_stranger_makes_room(monkeypatch):
    """Where the process may open no more files, the oldest stranger is closed instead of all that come being left."""
    causes = []
    own = Listener(asyncio.Protocol, most=100, closed=causes.append)
    (listening,) = server.listening("127.0.0.1", 0, 16)
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


async def test_idle_handshakes_are_counted_and_closed(listeners):
    """With TLS: bare connections, those that make a handshake and ask nothing, and those with a token that is none are
    strangers, and end; the worker among them is answered on its own connection.
    """
    async with served() as run:
        run.hire("a")
        trust = ssl.create_default_context(cadata=run.open.authority)
        head = "POST /v1/beat HTTP/1.1\r\nHost: a\r\nContent-Length: 31\r\nAuthorization: Bearer "
        beat = '{"phase": "Ready", "round": 0 }'
        async with raws(10, run.open.port) as bare, raws(12, run.open.port, ssl=trust) as secure:
            *idle, worker, forger = secure
            assert (await worker.ask(f"{head}{run.tokens['a']}\r\n\r\n{beat}".encode())).status == 200
            assert (await forger.ask(f"{head}unknown\r\n\r\n{beat}".encode())).status == 401
            await until(lambda: len(listeners[0].open) == 22 and not listeners[0].handshakes)
            assert len(listeners[0].strangers) == 21
            time_passes(listeners)
            assert all([await raw.ended() for raw in (*bare, *idle, forger)])
            assert (await worker.ask(f"{head}{run.tokens['a']}\r\n\r\n{beat}".encode())).status == 200


async def test_handshakes_under_way_are_bounded(listeners, monkeypatch):
    """A hello that says it is long, and never ends, has OpenSSL set memory aside: the oldest of these goes."""
    monkeypatch.setattr(listener, "HANDSHAKES", 4)
    hello = b"\x16\x03\x01\x00\x10\x01\x01\xff\xb8\x03\x03" + b"r" * 10
    async with served() as run, raws(9, run.open.port) as half:
        run.hire("a")
        for raw in half:
            await raw.send(hello)
        gone = [await raw.ended() for raw in half[:5]]
        assert len(listeners[0].handshakes) == 4
        assert (await run.beat("a")).status == 200
    assert all(gone)


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


async def test_a_stranger_does_not_stay_because_a_request_is_always_on_its_way(listeners):
    """It sends the head of each request in two parts and shows no credential: it is waited for once."""
    async with running() as (port, metrics), raws(1, port) as (raw,):
        head = asking("/")
        await raw.send(head[:10])
        await until(lambda: any(one.heard == 10 for one in listeners[0].strangers))
        time_passes(listeners)
        assert (await raw.ask(head[10:])).status == 200
        await raw.send(head[:10])
        await until(lambda: any(one.heard == len(head) + 10 for one in listeners[0].strangers))
        time_passes(listeners)
        assert await raw.ended()
    assert metrics.connections_closed_total == {"silent": 1}
