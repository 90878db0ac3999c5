"""The compute time of a step, while the wall clock is set."""

import contextlib
import sys
from types import SimpleNamespace

import pytest

from scheduler.elastic.runtime import step_timer


class Clocks:
    """Both clocks of a machine, in the place of `time`. skew: seconds that the wall clock was set ahead."""

    def __init__(self) -> None:
        self.now, self.skew = 100.0, 0.0

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return int((1_000_000 + self.now + self.skew) * 1e9)

    def wall(self) -> float:
        return self.time_ns() / 1e9


class Variable:
    """Of a graph, which writes the wall clock into it."""

    def __init__(self, value, **_):
        self.value = value

    def numpy(self):
        return self.value


@pytest.fixture
def clocks(monkeypatch):
    made = Clocks()
    monkeypatch.setattr(step_timer, "time", made)
    tf = SimpleNamespace(
        device=lambda _: contextlib.nullcontext(),
        Variable=Variable,
        float64=float,
        executing_eagerly=lambda: True,
    )
    monkeypatch.setitem(sys.modules, "tensorflow", tf)
    return made


def step(clocks, stamp, mark, set_ahead=0.0):
    """Half a second of compute, as much of collective; the clock is set before the mark."""
    stamp.begin()
    clocks.now += 0.25
    clocks.skew += set_ahead
    clocks.now += 0.25
    mark()
    clocks.now += 0.5
    return stamp.compute()


def marks(stamp, clocks):
    """How each kind of step is marked."""
    return {"python": stamp.mark, "graph": lambda: setattr(stamp.variable, "value", clocks.wall())}


@pytest.mark.parametrize("kind", ["python", "graph"])
@pytest.mark.parametrize("jump", [-3600.0, -0.2, 0.2, 3600.0])
def test_a_clock_that_is_set_makes_no_straggler(clocks, kind, jump):
    """The step in which that happens has its true compute time or none, all others have theirs."""
    stamp = step_timer.GraphStamp()
    mark = marks(stamp, clocks)[kind]
    found = [step(clocks, stamp, mark), step(clocks, stamp, mark, jump)]
    assert stamp.marked()
    found.append(step(clocks, stamp, mark))
    stamp.begin()
    clocks.skew += jump
    assert not stamp.marked()
    found.append(step(clocks, stamp, mark))

    assert [one for one in found if one is not None] == pytest.approx([0.5] * (4 if kind == "python" else 3))
    assert found[2] == found[3] == pytest.approx(0.5)


def test_a_clock_that_is_slewed_changes_nothing(clocks):
    """Half a millisecond a second."""
    stamp = step_timer.GraphStamp()

    assert step(clocks, stamp, marks(stamp, clocks)["graph"], 0.0005) == pytest.approx(0.5, abs=0.001)


def test_no_compute_time_is_below_nothing(clocks):
    """Of a step that is shorter than what a clock may be off the mark can seem to lie before the beginning."""
    stamp = step_timer.GraphStamp()
    stamp.begin()
    clocks.now += 0.002
    clocks.skew -= 0.008
    stamp.variable.value = clocks.wall()

    assert stamp.marked()
    assert stamp.compute() is None


def test_a_mark_that_was_seen_is_not_looked_up_again(clocks, monkeypatch):
    """Until the next step begins; before it is there every question is a look."""
    stamp = step_timer.GraphStamp()
    looks = []
    noted = stamp._noted
    monkeypatch.setattr(stamp, "_noted", lambda: looks.append(clocks.now) or noted())
    for marked_at in (1, 3):
        clocks.now += 1
        stamp.begin()
        looks.clear()
        seen = []
        for question in range(4):
            if question == marked_at:
                stamp.variable.value = clocks.wall()
            seen.append(stamp.marked())
        assert seen == [question >= marked_at for question in range(4)]
        assert len(looks) == marked_at + 1


def test_who_asks_while_a_step_begins_does_not_see_the_mark_of_the_one_before(clocks, monkeypatch):
    """Another thread asks; its answer would hold for the whole step."""
    stamp = step_timer.GraphStamp()
    step(clocks, stamp, marks(stamp, clocks)["graph"])
    noted = stamp._noted

    def asked_meanwhile():
        found = noted()
        monkeypatch.setattr(stamp, "_noted", noted)
        stamp.marked()
        return found

    monkeypatch.setattr(stamp, "_noted", asked_meanwhile)
    clocks.now += 1
    stamp.begin()

    assert not stamp.marked()


@pytest.mark.parametrize("kind", ["python", "graph"])
def test_every_mark_is_another_number(clocks, kind):
    """Nothing else changes it, whatever is asked and however long it takes."""
    stamp = step_timer.GraphStamp()
    seen = [stamp.last()]
    for _ in range(2):
        step(clocks, stamp, marks(stamp, clocks)[kind])
        seen.append(stamp.last())
        clocks.now += 10
        stamp.begin()
        assert stamp.last() == seen[-1]

    assert len(set(seen)) == 3


def test_a_step_without_a_collective_has_no_compute_time(clocks):
    """The mark of the one before is none of this."""
    stamp = step_timer.GraphStamp()
    step(clocks, stamp, marks(stamp, clocks)["graph"])

    assert step(clocks, stamp, lambda: None) is None
    assert step(clocks, stamp, lambda: None, -3600.0) is None
    assert not stamp.marked()
