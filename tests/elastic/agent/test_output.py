"""The child's output: nothing is lost, and no line ends within another."""

import os
import select

import pytest

from scheduler.elastic.agent import child
from scheduler.elastic.agent.child import CHUNK, Stream, Tail

ENOUGH = 10.0
"""Seconds after which something that should have come has not come."""


class Pipes:
    """A child's pipe and what is made of it."""

    def __init__(self, prefix: bytes) -> None:
        source, self.child = os.pipe()
        self.seen, target = os.pipe()
        self.tail = Tail()
        self.stream = Stream(source, target, self.tail, prefix)
        self.stream.start()

    def write(self, content: bytes) -> None:
        os.write(self.child, content)

    def read(self) -> bytes:
        """What one write of the stream passed on."""
        assert select.select([self.seen], [], [], ENOUGH)[0]
        return os.read(self.seen, 1 << 20)

    def silent(self) -> bool:
        return not select.select([self.seen], [], [], 0)[0]

    def end(self) -> None:
        os.close(self.child)
        self.stream.join(ENOUGH)


@pytest.fixture(params=[b"", b"train-1: "], ids=["as it is", "with a prefix"])
def pipes(request):
    return Pipes(request.param)


@pytest.fixture
def patient(monkeypatch):
    """A machine that stands still for a while does not turn half a line into a prompt."""
    monkeypatch.setattr(child, "PATIENCE", 10 * ENOUGH)


@pytest.mark.usefixtures("patient")
def test_a_line_and_its_end_are_passed_on_together():
    """A child without buffers writes them apart; what the agent writes meanwhile must not come between."""
    pipes = Pipes(b"")
    pipes.write(b'{"step": 180}')
    assert pipes.silent()
    pipes.write(b"\n")
    assert pipes.read() == b'{"step": 180}\n'
    pipes.end()


@pytest.mark.usefixtures("patient")
def test_whole_lines_go_and_the_beginning_of_the_next_waits():
    """One read may end anywhere."""
    pipes = Pipes(b"")
    pipes.write(b"one\ntwo\nthr")
    assert pipes.read() == b"one\ntwo\n"
    pipes.write(b"ee\n")
    assert pipes.read() == b"three\n"
    pipes.end()
    assert pipes.tail.lines() == ["one", "two", "three"]


def test_a_prompt_is_shown():
    """A line that does not end is not kept back for ever."""
    pipes = Pipes(b"")
    pipes.write(b"10 %\r")
    assert pipes.read() == b"10 %\r"
    pipes.end()


def test_the_last_line_needs_no_end(pipes):
    """What a process wrote before it was killed is passed on and kept."""
    pipes.write(b"the last")
    pipes.end()
    assert pipes.read().strip().endswith(b"the last")
    assert pipes.tail.lines() == ["the last"]


def test_a_line_without_end_does_not_grow_here():
    """More than a pipe holds is passed on as it comes."""
    pipes = Pipes(b"")
    content = b"x" * (CHUNK // 2)
    written = seen = 0
    for _ in range(4):
        pipes.write(content)
        written += len(content)
        while written - seen > CHUNK:
            seen += len(pipes.read())
    pipes.end()
    assert seen + len(pipes.read()) == written
