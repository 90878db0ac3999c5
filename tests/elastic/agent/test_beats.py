"""When a beat goes out: with the child's report if one comes about then, and without it a little later."""

import math
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from scheduler.elastic.agent.agent_errors import Unreachable
from scheduler.elastic.agent.heartbeat import EARLY, Heartbeat
from scheduler.elastic.agent.master_client import Answer
from scheduler.elastic.agent.retry import Outage
from tests.elastic.agent.support.master import PATIENCE

INTERVAL = 600.0
"""So long that no beat of a test goes out for the time that really passes."""


class Asked:
    """A master that is beaten to, and wants the next beat after `interval` seconds."""

    def __init__(self) -> None:
        self.beats: queue.Queue[Mapping[str, Any]] = queue.Queue()
        self.interval, self.away = INTERVAL, False

    def beat(self, report: Mapping[str, Any]) -> Answer:
        self.beats.put(report)
        if self.away:
            raise Unreachable("nobody is there")
        return Answer(1, None, self.interval)

    def one(self) -> Mapping[str, Any]:
        return self.beats.get(timeout=PATIENCE)


class Here:
    """Beats that run, and the time they see."""

    def __init__(self, master: Asked) -> None:
        self.master, self.now = master, 1000.0
        self.answered: queue.Queue[int] = queue.Queue()
        self._stop = threading.Event()
        outage = Outage(lambda _: None, lambda: self.now)
        self.beats = Heartbeat(
            master,  # type: ignore[arg-type]
            outage,
            self._stop,
            lambda: (1, {"at": self.now}),
            lambda number, _: self.answered.put(number),
            lambda: self.now,
        )

    def first(self) -> Mapping[str, Any]:
        """The first beat, when its answer was heard and the next one is waited for."""
        self.beats.start()
        report = self.master.one()
        for _ in range(int(PATIENCE * 100)):
            if self.beats._due_from < math.inf:
                return report
            threading.Event().wait(0.01)
        raise TimeoutError("no beat is waited for")

    def end(self) -> None:
        self._stop.set()
        self.now += 10 * INTERVAL
        self.beats.child_told()


@pytest.fixture
def master() -> Asked:
    return Asked()


@pytest.fixture
def here(master: Asked) -> Iterator[Here]:
    one = Here(master)
    yield one
    one.end()


def rests(here: Here, until: Callable[[], bool]) -> None:
    """Reports until a beat waits for one."""
    for _ in range(int(PATIENCE * 100)):
        here.beats.child_told()
        if until():
            return
        threading.Event().wait(0.01)
    raise TimeoutError("no beat went out with any report")


def test_a_beat_that_is_nearly_due_goes_out_with_the_report(here: Here, master: Asked) -> None:
    """What the agent has to do once a second it does at one waking, and the master hears the newest."""
    assert here.first() == {"at": 1000.0}

    here.now += EARLY * INTERVAL
    rests(here, lambda: not master.beats.empty())

    assert master.one() == {"at": 1000.0 + EARLY * INTERVAL}


def test_reports_do_not_make_beats_more_frequent(here: Here, master: Asked) -> None:
    """A child that reports ten times a second is passed on as often as the master wants to hear it."""
    here.first()
    here.now += EARLY * INTERVAL
    rests(here, lambda: not master.beats.empty())
    master.one()
    here.answered.get(timeout=PATIENCE)
    here.answered.get(timeout=PATIENCE)
    here.now += EARLY * INTERVAL / 2  # before or after the next is waited for: too soon for it
    for _ in range(50):
        here.beats.child_told()
        threading.Event().wait(0.002)

    assert master.beats.empty()


def test_who_says_nothing_is_beaten_for_all_the_same(here: Here, master: Asked) -> None:
    """A child that hangs, or does not run yet, takes its agent's voice away from nobody."""
    master.interval = 0.01
    here.beats.start()

    assert [master.one() for _ in range(3)]


def test_an_answer_that_failed_to_come_is_asked_for_with_pauses_of_its_own(here: Here, master: Asked) -> None:
    """A master that is away is not waited for until the child says something."""
    master.away = True
    here.beats.start()

    assert [master.one() for _ in range(3)]
