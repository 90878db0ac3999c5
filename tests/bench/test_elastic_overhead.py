"""What a step costs more, of turns that take each other's place."""

import os
import subprocess
import sys

import pytest

from bench.elastic.following import Output
from bench.elastic.overhead import (
    BARE,
    OURS,
    Job,
    Step,
    Turn,
    middle,
    over_starts,
    steps_of,
    summary,
    who_ended,
)


def turn(whose, number, cores=2.0):
    return Turn(whose, 10.0 * number, 10.0 * number + 9, cores)


def steps(turns, whose, took):
    """Three steps a turn that take so long, by turn, and one that began before the turn counted."""
    for own, seconds in zip((one for one in turns if one.whose == whose), took, strict=True):
        yield Step(own.began + 1e-6, 5.0)
        yield from (Step(own.began + 1 + n, seconds) for n in range(3))


def test_a_step_is_compared_with_its_neighbours():
    """The machine gets slower by half in the middle: that is in both, and does not count."""
    turns = [turn(whose, number) for number, whose in enumerate((BARE, OURS) * 4)]
    bare, ours = (0.010, 0.010, 0.015, 0.015), (0.0101, 0.0101, 0.01515, 0.01515)

    found = summary(turns, {BARE: list(steps(turns, BARE, bare)), OURS: list(steps(turns, OURS, ours))})

    assert found["overhead_percent"] == pytest.approx(1.0, abs=0.01)
    assert len(found["pairs"]) == 7
    assert found["bare_step_s"] == 0.0125


def test_a_few_slow_steps_count():
    """What comes once a second is in few steps: the mean of a turn holds it, a median would not."""
    turns = [turn(whose, number) for number, whose in enumerate((BARE, OURS) * 2)]
    ours = [Step(own.began + 1 + n, 0.013 if n == 2 else 0.01) for own in turns[1::2] for n in range(3)]

    found = summary(turns, {BARE: list(steps(turns, BARE, [0.01] * 2)), OURS: ours})

    assert found["overhead_percent"] == pytest.approx(10.0)


def test_what_a_step_takes_of_processors():
    """Ours take as long, on a core and a half instead of one."""
    turns = [
        turn(whose, number, {BARE: 1.0, OURS: 1.5}[whose]) for number, whose in enumerate((BARE, OURS) * 2)
    ]

    found = summary(turns, {whose: list(steps(turns, whose, [0.01] * 2)) for whose in (BARE, OURS)})

    assert (found["overhead_percent"], found["overhead_processors_percent"]) == (
        pytest.approx(0.0),
        pytest.approx(50.0),
    )


def test_either_may_come_first():
    """Ours after a bare turn and before one: the same cost."""
    turns = [turn(whose, number) for number, whose in enumerate((OURS, BARE, OURS))]

    found = summary(
        turns, {BARE: list(steps(turns, BARE, [0.01])), OURS: list(steps(turns, OURS, [0.0102] * 2))}
    )

    assert found["overhead_percent"] == pytest.approx(2.0)


def test_what_happened_to_one_turn_is_left_out():
    """The middle of few and of many values, however far off an eighth of them are."""
    assert middle([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 1000.0]) == 4.5
    assert middle([-900.0, 1.0, 3.0]) == 1.0
    assert middle([1.0, 2.0]) == 1.5
    assert middle([7.0]) == 7.0


def start(*pairs):
    return {"pairs": list(pairs), "pairs_processors": [one / 2 for one in pairs]}


def test_the_figure_is_the_middle_of_all_pairs_of_all_starts():
    """With its standard error by the jackknife: without one start each it is 1.5, 1.125, 1.375 and 1.0. A single start
    knows none.
    """
    each = [start(0.5, 0.5), start(1.5, 1.5), start(1.0, 1.0), start(2.0, 2.0)]
    found = over_starts(each)

    assert found["overhead_percent"] == 1.25
    assert found["overhead_processors_percent"] == pytest.approx(0.62)
    assert found["overhead_error"] == 0.34
    assert found["starts"] == each
    assert over_starts(each[:1])["overhead_error"] is None


def test_a_start_beside_another_load_does_not_move_the_figure():
    """Its pairs lie far off on both sides, and those are left out."""
    steady = [start(*[1.0] * 10) for _ in range(6)]

    assert over_starts([*steady, start(-40.0, 60.0, 1.0, 90.0)])["overhead_percent"] == 1.0


def test_rank_0_speaks_for_all():
    """Every worker prints every step; what lies between two steps is the later one's."""
    output = Output(list)
    output.lines = [
        {"step": step, "rank": rank, "began": step + 0.2, "at": step + 0.5 + rank, "worker": "a"}
        for step in (1, 2)
        for rank in (0, 1)
    ]

    assert steps_of(output) == [Step(2.5, 1.0)]


def test_a_job_that_ended_meanwhile_is_named_with_its_last_words():
    """The other one is not."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    last = Output(list)
    last.lines = [{"step": 7}, {"said": "killing the training: hangs"}]

    said = who_ended({OURS: Job(last, [os.getpid(), gone.pid]), BARE: Job(Output(list), [os.getpid()])})

    assert str([gone.pid]) in said
    assert OURS in said
    assert "killing the training: hangs" in said
    assert BARE not in said
