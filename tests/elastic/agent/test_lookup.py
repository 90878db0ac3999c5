"""Where the master is: looked up in bounded time, whatever the resolver does."""

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler.elastic.agent.http_client import Lookup
from tests.elastic.agent.support.master import PATIENCE

ADDRESSES = socket.getaddrinfo


class Resolver:
    """Answers for the name of the master when it is let, with what it is told to; for addresses as ever."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.asked = 0
        self.says: list[str] | OSError = ["127.0.0.1"]

    def __call__(self, host: str, port: int, *more: Any, **words: Any) -> list[Any]:
        if host != "master":
            return ADDRESSES(host, port, *more, **words)
        self.asked += 1
        self.answers.wait(PATIENCE)
        if isinstance(self.says, OSError):
            raise self.says
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in self.says]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    one = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", one)
    yield one
    one.answers.set()


def test_what_was_found_before_is_taken_while_no_answer_comes(resolver: Resolver) -> None:
    """After the limit, however long the resolver waits for a packet that was lost; and nobody asks it twice meanwhile."""
    lookup = Lookup("master", 443)
    assert lookup.addresses(PATIENCE) == [("127.0.0.1", 443)]
    resolver.answers.clear()
    for _ in range(3):
        assert lookup.addresses(0.01) == [("127.0.0.1", 443)]
    assert resolver.asked <= 2


def test_a_name_that_was_never_found_is_told(resolver: Resolver) -> None:
    """As the time-out that it is, or in the resolver's own words."""
    resolver.answers.clear()
    with pytest.raises(socket.timeout, match="master: no answer in"):
        Lookup("master", 443).addresses(0.01)
    resolver.answers.set()
    resolver.says = socket.gaierror(-2, "Name or service not known")
    with pytest.raises(socket.gaierror, match="not known"):
        Lookup("master", 443).addresses(PATIENCE)


def test_a_no_changes_nothing_of_what_was_found(resolver: Resolver) -> None:
    """A name service that is down cuts nobody off; a new address counts at once."""
    lookup = Lookup("master", 443)
    lookup.addresses(PATIENCE)
    resolver.says = socket.gaierror(-3, "Temporary failure in name resolution")
    assert lookup.addresses(PATIENCE) == [("127.0.0.1", 443)]
    resolver.says = ["127.0.0.2"]
    assert lookup.addresses(PATIENCE) == [("127.0.0.2", 443)]


def test_an_answer_that_comes_late_counts(resolver: Resolver) -> None:
    """Nobody waited for it any more: whoever asks next has it, however long the next answer takes."""
    lookup = Lookup("master", 443)
    resolver.answers.clear()
    with pytest.raises(socket.timeout):
        lookup.addresses(0.01)
    resolver.answers.set()
    end = time.monotonic() + PATIENCE
    while not lookup._known and time.monotonic() < end:
        time.sleep(0.001)
    resolver.answers.clear()
    assert lookup.addresses(0.01) == [("127.0.0.1", 443)]


def test_a_container_without_a_process_to_spare(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found before is taken; where there is nothing, that is told as any fault of a connection, and the next
    call tries again.
    """

    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    lookup, fresh = Lookup("master", 443), Lookup("master", 443)
    lookup.addresses(PATIENCE)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", full)
        assert lookup.addresses(PATIENCE) == [("127.0.0.1", 443)]
        with pytest.raises(OSError, match="can't start new thread"):
            fresh.addresses(PATIENCE)
    assert fresh.addresses(PATIENCE) == [("127.0.0.1", 443)]


def test_every_address_is_tried(resolver: Resolver) -> None:
    """The first that takes the connection is it; where none does, the last refusal is told."""
    with socket.create_server(("127.0.0.3", 0)) as server:
        port = server.getsockname()[1]
        resolver.says = ["127.0.0.2", "127.0.0.3"]
        with Lookup("master", port).connect(("master", port), PATIENCE) as connection:
            assert connection.getpeername() == ("127.0.0.3", port)
    with pytest.raises(ConnectionRefusedError):
        Lookup("master", port).connect(("master", port), PATIENCE)
    resolver.says = []
    with pytest.raises(OSError, match="master has no address"):
        Lookup("master", port).connect(("master", port), PATIENCE)


def test_what_is_no_name_is_told() -> None:
    """Without a word of its own thread on the agent's output."""
    with pytest.raises(OSError, match="label"):
        Lookup("x" * 70 + ".example", 443).addresses(PATIENCE)
