"""Threads that take connections: always one is free, never too many, and none is lost."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from typing import Self

import pytest

from scheduler.elastic.agent import local_server
from scheduler.elastic.agent.local_server import SPARE, Acceptors
from tests.elastic.agent.support.master import PATIENCE
from tests.elastic.agent.support.worker import until


class Echo:
    """Answers with what comes in; `hold` waits for the gate first, `break` raises."""

    def __init__(self, most: int = 64) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.gate = threading.Event()
        self.acceptors = Acceptors(self.listener, self._answer, most)
        self.place = self.listener.getsockname()
        self.callers = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self.acceptors.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self.callers.close()
        self.acceptors.close()

    def _answer(self, connection: socket.socket, _: object) -> None:
        said = connection.recv(64)
        if said == b"hold":
            self.gate.wait(PATIENCE)
        if said == b"break":
            raise ValueError("not this one")
        connection.sendall(said)

    def call(self, said: bytes) -> socket.socket:
        caller = self.callers.enter_context(socket.create_connection(self.place, PATIENCE))
        caller.sendall(said)
        return caller

    def asks(self, said: bytes) -> bytes:
        with self.call(said) as caller:
            return caller.recv(64)

    @property
    def counts(self) -> tuple[int, int]:
        """Threads, and of these the free ones."""
        return self.acceptors._threads, self.acceptors._free


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as one:
        yield one


def test_who_is_answered_for_long_keeps_nobody_waiting(echo: Echo) -> None:
    """Every connection that is held has a thread, and there is one for the next."""
    held = [echo.call(b"hold") for _ in range(20)]

    assert echo.asks(b"quick") == b"quick"

    echo.gate.set()
    assert [caller.recv(64) for caller in held] == [b"hold"] * 20


def test_threads_that_nobody_needs_end(echo: Echo) -> None:
    """After a burst a few stay, all of them free; a single caller at a time needs no more of them."""
    held = [echo.call(b"hold") for _ in range(20)]
    assert until(lambda: echo.counts == (21, 1))
    echo.gate.set()
    assert until(lambda: echo.counts == (SPARE, SPARE))
    assert [caller.recv(64) for caller in held] == [b"hold"] * 20

    for _ in range(10):
        echo.asks(b"again")
    assert until(lambda: echo.counts == (SPARE, SPARE))


def test_more_than_are_served_at_a_time_wait_their_turn() -> None:
    """They stay in the backlog, and are answered when one of the others has been."""
    with Echo(most=2) as echo:
        held = [echo.call(b"hold") for _ in range(2)]
        assert until(lambda: echo.counts == (2, 0))
        waiting = echo.call(b"late")
        waiting.settimeout(0.1)
        with pytest.raises(TimeoutError):
            waiting.recv(64)

        echo.gate.set()
        waiting.settimeout(PATIENCE)

        assert [caller.recv(64) for caller in (waiting, *held)] == [b"late", b"hold", b"hold"]


def test_one_that_breaks_ends_that_connection_alone() -> None:
    """Closed without an answer, and its thread serves on: more break than there may be threads."""
    with Echo(most=2) as echo:
        assert [echo.asks(b"break") for _ in range(5)] == [b""] * 5
        assert echo.asks(b"fine") == b"fine"
        assert until(lambda: echo.counts == (2, 2))


def test_without_another_thread_callers_wait_for_one_of_ours(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training at the limit of its processes is answered later; nobody is turned away, and no place is lost."""
    with monkeypatch.context() as limit:

        def start(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        limit.setattr(threading.Thread, "start", start)
        held = echo.call(b"hold")
        assert until(lambda: echo.counts == (1, 0))
        late = echo.call(b"late")
        echo.gate.set()
        assert (held.recv(64), late.recv(64)) == (b"hold", b"late")

    assert echo.asks(b"again") == b"again"
    assert until(lambda: echo.counts == (2, 2))


def test_too_many_open_files_end_nobody(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that cannot be taken waits until it can."""
    monkeypatch.setattr(local_server, "PAUSE", 0.01)
    accept, left = socket.socket.accept, [3]

    def failing(listener: socket.socket) -> tuple[socket.socket, object]:
        if left[0]:
            left[0] -= 1
            raise OSError(24, os.strerror(24))
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", failing)

    assert [echo.asks(b"in the end") for _ in range(4)] == [b"in the end"] * 4
    assert left == [0]


def test_close_wakes_who_waits() -> None:
    """No thread stays behind, and nobody is let in any more."""
    others = set(threading.enumerate())
    with Echo() as echo:
        echo.asks(b"x")
        mine = set(threading.enumerate()) - others

    assert mine
    assert until(lambda: not any(thread.is_alive() for thread in mine))
    with pytest.raises(ConnectionRefusedError):
        echo.asks(b"x")
