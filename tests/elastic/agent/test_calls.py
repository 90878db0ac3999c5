"""Calls to the master: who is believed, what is kept alive, and what happens to answers that are none."""

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.plane.certificates import Authority
from scheduler.elastic.agent import master_client as calls
from scheduler.elastic.agent.agent_errors import Garbled, Refused, Unreachable
from scheduler.elastic.agent.agent_settings import Address
from scheduler.elastic.agent.http_client import Connections, Reply
from scheduler.elastic.agent.master_client import Master as Client
from scheduler.elastic.agent.retry import Backoff, Outage, Over, Patience
from scheduler.elastic.reconciler.timeouts import Timeouts
from tests.elastic.agent.support.master import PATIENCE, Master


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"))


@pytest.fixture
def secure(authority: Authority) -> Iterator[Master]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server())
    with Master(context) as one:
        yield one


@pytest.fixture
def token(tmp_path: Path) -> Path:
    place = tmp_path / "token"
    place.write_text("token-1\n")
    return place


@pytest.fixture
def client(token: Path) -> Iterator[Callable[..., Client]]:
    pools: list[Connections] = []

    def make(url: str, ca: str = "") -> Client:
        scheme, _, rest = url.partition("://")
        host, _, port = rest.partition(":")
        pools.append(Connections(Address(host, int(port), scheme == "https"), ca))
        return Client(pools[-1], str(token))

    yield make
    for pool in pools:
        pool.close()


BEAT_LIMIT = calls.BEAT
BEAT = {"phase": "Starting", "round": 0}


def test_the_pinned_authority_is_believed(
    secure: Master, authority: Authority, client: Callable[..., Client]
) -> None:
    """A master whose certificate our authority signed hears us, over TLS."""
    secure.newest = 4

    answer = client(secure.url, authority.certificate_file.read_text()).beat(BEAT)

    assert (answer.round, answer.abort, answer.interval) == (4, None, 0.1)
    assert secure.calls["beat"] == [BEAT]


def test_words_that_are_no_unicode_cost_no_body() -> None:
    """The name of a file that is not UTF-8 comes with a question mark, and the master's reader takes all the rest."""
    body = {"why": "FileNotFoundError: bild-\udce4-ü.png", "code": 1}

    assert msgspec.json.decode(calls._packed(body)) == {"why": "FileNotFoundError: bild-?-ü.png", "code": 1}


def test_another_authority_is_not_believed(
    secure: Master, tmp_path: Path, client: Callable[..., Client]
) -> None:
    """Who cannot show a certificate of the pinned authority gets no request, and so no token."""
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")

    with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        client(secure.url, other.certificate_file.read_text()).beat(BEAT)

    assert secure.calls == {}


def test_the_certificate_must_be_for_the_name_that_is_called(
    authority: Authority, client: Callable[..., Client]
) -> None:
    """A certificate of the right authority for another host is refused too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server())
    with Master(context, "127.0.0.2") as elsewhere:
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            client(elsewhere.url, authority.certificate_file.read_text()).beat(BEAT)

        assert elsewhere.calls == {}


def test_plain_http_is_no_answer_to_tls(authority: Authority, client: Callable[..., Client]) -> None:
    """Nobody in between can talk us out of TLS."""
    with Master() as plain:
        with pytest.raises(Unreachable):
            client(plain.url.replace("http:", "https:"), authority.certificate_file.read_text()).beat(BEAT)

        assert plain.calls == {}


def test_connections_are_kept(secure: Master, authority: Authority, client: Callable[..., Client]) -> None:
    """The second call needs no new connection; one that the master closed meanwhile is replaced unnoticed."""
    one = client(secure.url, authority.certificate_file.read_text())
    one.beat(BEAT)
    one.beat(BEAT)
    assert len(secure._server.open) == 1

    secure.away()
    secure.back()
    one.beat(BEAT)

    assert len(secure.calls["beat"]) == 3


class Stalling(Master):
    """Answers on every connection, until `stall` is set: then on none of those that were open by then."""

    def __init__(self) -> None:
        super().__init__()
        self.stall = threading.Event()
        self.over = threading.Event()
        self.both = threading.Barrier(2)
        self.mine = threading.local()  # a connection is a thread of the server's

    def _beat(self, told: dict[str, Any], query: Any) -> tuple[int, bytes]:
        if not self.stall.is_set():
            self.mine.old = True
            self.both.wait(PATIENCE)
        elif hasattr(self.mine, "old"):
            self.over.wait(2 * PATIENCE)
        return super()._beat(told, query)


def test_a_stalled_connection_costs_one_beat(
    client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a time-out nothing kept is used again, and there is time for two more beats until the master gives us
    up.
    """
    assert Timeouts().silent >= 3 * BEAT_LIMIT
    monkeypatch.setattr(calls, "BEAT", 0.3)
    with Stalling() as master:
        one = client(master.url)
        beats = [threading.Thread(target=one.beat, args=(BEAT,)) for _ in range(2)]
        for beat in beats:
            beat.start()
        for beat in beats:
            beat.join()
        master.stall.set()
        try:
            with pytest.raises(Unreachable, match="timed out"):
                one.beat(BEAT)
            monkeypatch.setattr(calls, "BEAT", PATIENCE / 2)
            assert one.beat(BEAT).round == 0
        finally:
            master.over.set()


def test_the_token_is_read_for_every_call(token: Path, client: Callable[..., Client]) -> None:
    """A renewed token counts with the next call; one that cannot be read is told without its content."""
    with Master() as master:
        one = client(master.url)
        one.beat(BEAT)
        master.tokens = {"token-2"}
        with pytest.raises(Refused) as refused:
            one.beat(BEAT)
        assert refused.value.passing
        token.write_text("token-2")
        one.beat(BEAT)
        for content in (b"", b"two words", b"line\nbreak: x", b"\xff\xfe"):
            token.write_bytes(content)
            with pytest.raises(Unreachable, match="cannot read the token") as told:
                one.beat(BEAT)
            assert "two" not in str(told.value)
        token.unlink()
        with pytest.raises(Unreachable, match="cannot read the token: FileNotFoundError"):
            one.beat(BEAT)


def test_errors_of_the_master_are_understood(client: Callable[..., Client]) -> None:
    """Status, reason and message come from the body; whatever else is in it does not matter."""
    with Master() as master:
        master.refusal = {"leave": 409}
        with pytest.raises(Refused, match="409 Refused: no") as refused:
            client(master.url).leave("SIGTERM", 5.0)

    assert not refused.value.passing


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("0.5", 0.5),
        ("0", 0.1),
        ("-1", 0.1),
        ("1" + "0" * 400, 10.0),
        ("NaN", 1.0),
        ("Infinity", 10.0),
        ('"1"', 1.0),
    ],
)
def test_the_next_beat_comes_in_time_whatever_is_said(told: str, seconds: float) -> None:
    """Between a tenth of a second and ten; a number that is none means the usual second."""
    assert calls._interval(json.loads(told)) == seconds


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", Garbled),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{x}", Garbled),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"round": -1}', Garbled),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"round": "12"}', Garbled),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 62\r\n\r\n{"round": 1%s}' % (b"0" * 50), Garbled),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000, Garbled),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + b" " * 2_000_000, Garbled),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}", Unreachable),
        (b"SSH-2.0-OpenSSH_9.6\r\n", Unreachable),
        (b"", Unreachable),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nlater", Refused),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", Refused),
    ],
    ids=[
        "list",
        "no-json",
        "negative",
        "text",
        "beyond",
        "deep",
        "huge",
        "short",
        "no-http",
        "nothing",
        "busy",
        "elsewhere",
    ],
)
def test_strange_answers_are_errors_of_ours(
    content: bytes, error: type[Exception], client: Callable[..., Client]
) -> None:
    """Whatever comes back, it becomes a MasterError, is bounded, and is followed nowhere."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener.accept()[0] as peer:
            request = b""
            while not request.endswith(b"}"):
                request += peer.recv(65536)
            with contextlib.suppress(ConnectionError):  # who has had enough hangs up
                peer.sendall(content)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with pytest.raises(error):
            client(f"http://127.0.0.1:{listener.getsockname()[1]}").beat(BEAT)
    finally:
        listener.close()
        thread.join()


class Script:
    """A clock, and the words that were said."""

    def __init__(self) -> None:
        self.now = 0.0
        self.said: list[str] = []

    def clock(self) -> float:
        self.now += 1.0
        return self.now


def test_pauses_double_up_to_a_second() -> None:
    """From 0.05 s; and begin small again after a success."""
    backoff = Backoff()

    assert [backoff.pause() for _ in range(7)] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    backoff.reset()
    assert backoff.pause() == 0.05


def test_patience_outlasts_an_outage_and_tells_it_once() -> None:
    """However many tries fail, the loss is told once and the return once."""
    script = Script()
    patience = Patience(Outage(script.said.append, script.clock), threading.Event())
    left = [Unreachable("gone"), Refused(503, "Busy", "later"), Refused(401, "Unauthorized", "who?")]

    def call() -> str:
        if left:
            raise left.pop(0)
        return "yes"

    assert patience.ask(call) == "yes"
    assert patience.ask(call) == "yes"
    assert script.said == [
        "the master is unavailable, retrying: gone",
        "the master answers again after 3.0 s",
    ]


def test_a_master_that_is_lost_and_found_at_every_turn_is_not_told_at_every_turn() -> None:
    """One thread is answered and another refused, second by second: one line in ten seconds, and one back."""
    script = Script()
    outage = Outage(script.said.append, script.clock)
    for _ in range(8):
        outage.failed(Refused(400, "Invalid", "step"))
        outage.went_well()

    assert len(script.said) == 2


def test_a_no_that_will_stay_one_is_told_at_once() -> None:
    """404 and 409 are answers; 403 is one where the caller says so, by its reason; and enough is enough."""
    patience = Patience(Outage(lambda _: None), threading.Event())

    def no(status: int) -> Callable[[], None]:
        def call() -> None:
            raise Refused(status, "No", "no")

        return call

    for status in (400, 404, 409, 413):
        with pytest.raises(Refused):
            patience.ask(no(status))
    with pytest.raises(Refused):
        patience.ask(no(403), final=frozenset({"No"}))
    tries = iter((False, True))
    with pytest.raises(Over):
        patience.ask(no(403), lambda: next(tries))


def test_a_master_that_knows_of_none_beside_it_answers_with_the_value() -> None:
    """One of an earlier version passes the question over; the value's media type tells."""
    assert calls._values(Reply(200, b"{}", "application/octet-stream"), "1") == {"1": b"{}"}
    assert calls._values(Reply(200, b'{"values": {"1": "AP8=", "2": ""}}', calls.JSON), "1") == {
        "1": b"\x00\xff",
        "2": b"",
    }


@pytest.mark.parametrize(
    "body",
    [b"[]", b"{}", b'{"values": 3}', b'{"values": [["1", "AP8="]]}', b'{"values": {"2": "AP8="}}', b'{"values": {"1": "A"}}',
     b'{"values": {"1": 1}}', b'{"values": {"1": null}}', b'{"values": {"1": "\xc3\xa4"}}'],
)  # fmt: skip
def test_values_that_make_no_sense_are_not_believed(body: bytes) -> None:
    """An answer without what was asked for, or with what is no base64, is asked for again."""
    with pytest.raises(Garbled):
        calls._values(Reply(200, body, calls.JSON), "1")
