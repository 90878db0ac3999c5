"""One time for a whole call: name, addresses, TLS, what is sent, and the answer up to its last byte."""

import contextlib
import itertools
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.plane.certificates import Authority
from scheduler.elastic.agent import http_client
from scheduler.elastic.agent.agent_errors import Unreachable
from scheduler.elastic.agent.agent_settings import Address
from scheduler.elastic.agent.http_client import PIECE, Connections, Deadline, Lookup
from tests.elastic.agent.support.master import PATIENCE, Master

LIMIT = 1.5
"""Of a beat."""

CONNECT = socket.create_connection


class Clock:
    """It passes when it is told to, and by `tick` with each look."""

    def __init__(self, tick: float = 0.0) -> None:
        self.now, self.tick = 100.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


class Network:
    """Addresses that swallow whatever is sent to them, and the seconds that each was given."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.swallow: set[str] = set()
        self.refuse: set[str] = set()
        self.given: list[float] = []

    def __call__(self, place: tuple[str, int], timeout: float, *_: Any) -> socket.socket:
        self.given.append(timeout)
        if place[0] in self.swallow:
            self.clock.now += timeout
            raise TimeoutError("timed out")
        if place[0] in self.refuse:
            raise ConnectionRefusedError
        return CONNECT(place, PATIENCE)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def network(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Network:
    one = Network(clock)
    monkeypatch.setattr(socket, "create_connection", one)
    return one


def lookup(clock: Clock, *found: str, port: int = 443, takes: float = 0.0) -> Lookup:
    """Of a name with these addresses, for which the resolver takes so long."""
    one = Lookup("master", port, clock)

    def addresses(limit: float) -> list[tuple[str, int]]:
        clock.now += min(limit, takes)
        return [(own, port) for own in found]

    one.addresses = addresses  # type: ignore[method-assign]
    return one


@pytest.mark.parametrize(
    ("takes", "given"), [(0.0, [0.75, 0.75]), (0.3, [0.6, 0.6]), (PATIENCE, [0.375, 0.375])]
)
def test_addresses_that_do_not_answer_share_the_time(
    clock: Clock, network: Network, takes: float, given: list[float]
) -> None:
    """Of a Service with two families neither answers: the call fails when its time is over, the name's included."""
    network.swallow = {"10.0.0.1", "fd00::1"}
    with pytest.raises(socket.timeout):
        lookup(clock, "10.0.0.1", "fd00::1", takes=takes).connect(("master", 443), LIMIT)

    assert network.given == pytest.approx(given)
    assert clock.now == pytest.approx(100.0 + LIMIT)


def test_an_address_that_refuses_leaves_its_time_to_the_next(clock: Clock, network: Network) -> None:
    """The last one has all that is left."""
    network.refuse, network.swallow = {"10.0.0.1", "10.0.0.2"}, {"10.0.0.3"}
    with pytest.raises(socket.timeout):
        lookup(clock, "10.0.0.1", "10.0.0.2", "10.0.0.3").connect(("master", 443), LIMIT)

    assert network.given == pytest.approx([0.5, 0.75, 1.5])


def test_a_family_that_is_cut_off_leaves_time_for_the_other(clock: Clock, network: Network) -> None:
    """The call goes out by the second address, with what is left as the time of its next step."""
    network.swallow = {"fd00::1"}
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        one = lookup(clock, "fd00::1", "127.0.0.1", port=port)
        with one.connect(("master", port), LIMIT) as connection:
            assert connection.gettimeout() == pytest.approx(0.75)


@pytest.fixture
def serving() -> Iterator[Callable[[Callable[[socket.socket], None]], int]]:
    """Listens on loopback, and does this with the first that comes; the port."""
    with contextlib.ExitStack() as stack:

        def begin(serve: Callable[[socket.socket], None]) -> int:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def run() -> None:
                with contextlib.suppress(OSError), listener.accept()[0] as peer:
                    peer.settimeout(PATIENCE)
                    serve(peer)

            thread = threading.Thread(target=run)
            thread.start()
            stack.callback(thread.join)
            port: int = listener.getsockname()[1]
            return port

        yield begin


def byte_by_byte(begin: bytes, over: threading.Event) -> Callable[[socket.socket], None]:
    """Sends this, then a byte a millisecond without end, until it is hung up on."""

    def serve(peer: socket.socket) -> None:
        peer.recv(65536)
        peer.sendall(begin)
        while not over.wait(0.001):
            peer.sendall(b"a")

    return serve


@pytest.fixture
def over() -> Iterator[threading.Event]:
    one = threading.Event()
    yield one
    one.set()


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(b"", id="status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", id="head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", id="body"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", id="body without a length"),
    ],
)
def test_an_answer_that_comes_byte_by_byte_has_no_more_time(
    begin: bytes,
    over: threading.Event,
    serving: Callable[[Callable[[socket.socket], None]], int],
) -> None:
    """However often something comes. The clock passes with each look, so that the test does not wait."""
    one = Connections(Address("127.0.0.1", serving(byte_by_byte(begin, over)), False), "", Clock(0.05))
    try:
        with pytest.raises(Unreachable, match="timed out"):
            one.call("GET", "/", {}, b"", LIMIT)
    finally:
        over.set()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"))


def test_a_handshake_that_comes_byte_by_byte_has_no_more_time(
    over: threading.Event,
    serving: Callable[[Callable[[socket.socket], None]], int],
    authority: Authority,
) -> None:
    """A record of TLS is promised, and would take sixteen seconds."""
    port = serving(byte_by_byte(b"\x16\x03\x03\x40\x00", over))
    one = Connections(Address("127.0.0.1", port, True), authority.certificate_file.read_text())
    try:
        with pytest.raises(Unreachable, match="timed out"):
            one.call("GET", "/", {}, b"", 0.2)
    finally:
        over.set()


def test_a_handshake_has_what_the_connection_left(
    clock: Clock, network: Network, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the handshake begins with the connection, not after it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server())
    handshakes: list[float | None] = []
    wrap = ssl.SSLContext.wrap_socket

    def wrapped(self: ssl.SSLContext, sock: socket.socket, *more: Any, **words: Any) -> ssl.SSLSocket:
        if words.get("server_hostname"):
            handshakes.append(sock.gettimeout())
            sock.settimeout(PATIENCE)
        return wrap(self, sock, *more, **words)

    def slow(place: tuple[str, int], timeout: float, *_: Any) -> socket.socket:
        clock.now += 1.0
        return CONNECT(place, timeout)

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", wrapped)
    monkeypatch.setattr(socket, "create_connection", slow)
    with Master(context) as master:
        host, port = master.url.removeprefix("https://").split(":")
        one = Connections(Address(host, int(port), True), authority.certificate_file.read_text(), clock)
        one.call("GET", "/", {}, b"", 31.0)
        one.close()

    assert handshakes == pytest.approx([http_client.CONNECT - 1.0])


def test_the_second_try_has_what_the_first_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection was kept, and turns out to be closed: the call goes out again, with the same deadline."""
    seen: list[Deadline] = []
    exchange = Connections._exchange

    def noted(self: Connections, *words: Any) -> Any:
        seen.append(words[-1])
        return exchange(self, *words)

    monkeypatch.setattr(Connections, "_exchange", noted)
    with Master() as master:
        host, port = master.url.removeprefix("http://").split(":")
        one = Connections(Address(host, int(port), False), "")
        one.call("GET", "/", {}, b"", PATIENCE)
        master.away()
        master.back()
        one.call("GET", "/", {}, b"", PATIENCE)
        one.close()

    assert len(seen) == 3
    assert seen[1] is seen[2]


def test_what_is_sent_has_no_more_time_either() -> None:
    """A peer may take it piece by piece."""
    near, far = socket.socketpair()
    with near, far:
        pieces = http_client._pieces(near, b"x" * (40 * PIECE), Deadline(LIMIT, Clock(0.1)))
        sent = list(itertools.islice(pieces, 10))
        assert [len(one) for one in sent] == [PIECE] * 10
        with pytest.raises(socket.timeout):
            list(pieces)
