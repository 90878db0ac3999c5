"""What a step costs more, of two jobs side by side."""

import os
import subprocess
import sys

import pytest

from bench.elastic.following import Output
from bench.elastic.overhead import (
    BARE,
    OURS,
    Job,
    Look,
    Step,
    hold,
    over_starts,
    steps_of,
    summary,
    who_ended,
)
from bench.plane.errors import NotReadyError

MINUTE = Look(100.0, 160.0, training=1.8, agents=0.0)


def steps(*took):
    """One after the other from the beginning of the minute on, and one before that had begun earlier."""
    yield Step(MINUTE.began + 1e-6, 5.0)
    at = MINUTE.began + 1e-6
    for seconds in took:
        at += seconds
        yield Step(at, seconds)


def found(bare, ours, look=MINUTE):
    return summary(look, {BARE: list(steps(*bare)), OURS: list(steps(*ours))})


def test_a_step_is_compared_with_a_bare_one():
    """Of the steps that lie within what is looked at."""
    said = found([0.2] * 290, [0.202] * 290)

    assert said["steps_percent"] == said["overhead_percent"] == pytest.approx(1.0)
    assert said["bare_step_s"] == 0.2


def test_what_agents_take_is_added():
    """It is missing from both jobs on these cores, and so from their ratio."""
    said = found([0.2] * 290, [0.202] * 290, MINUTE._replace(agents=0.009))

    assert said["agents_percent"] == pytest.approx(0.5)
    assert said["overhead_percent"] == pytest.approx(1.5)


def test_a_few_slow_steps_count():
    """What comes once a second is in few steps: the mean holds it, a median would not."""
    assert found([0.2] * 100, ([0.2] * 9 + [0.4]) * 10)["steps_percent"] == pytest.approx(10.0)


def test_steps_after_the_end_do_not_count():
    """Nor one that ends after it."""
    slow = [0.2] * 299 + [0.7, 9.0]

    assert found([0.2] * 299, slow)["steps_percent"] == pytest.approx(0.0)


def test_no_step_is_no_figure():
    """The job is named, and for how long it was looked at."""
    with pytest.raises(NotReadyError, match=f"{OURS} took no whole step in 60.0 s"):
        found([0.2], [61.0])


def start(percent, agents=0.25):
    return {"overhead_percent": percent, "agents_percent": agents}


def test_the_figure_is_the_mean_of_all_starts():
    """With its standard error: of 0.5, 1.5, 1.0 and 2.0 the deviation is 0.645, and half of it is left of four. A
    single start knows none.
    """
    each = [start(0.5), start(1.5), start(1.0), start(2.0, 0.45)]
    said = over_starts(each)

    assert said["overhead_percent"] == 1.25
    assert said["overhead_agents_percent"] == pytest.approx(0.3)
    assert said["overhead_error"] == 0.32
    assert said["starts"] == each
    assert over_starts(each[:1])["overhead_error"] is None


def test_each_worker_has_a_core_of_its_own():
    """The first of either job the first one: what the machine does to it, it does to both."""
    cores = sorted(os.sched_getaffinity(0))
    code = [sys.executable, "-c", "input()"]
    with (
        subprocess.Popen(code, stdin=subprocess.PIPE) as first,
        subprocess.Popen(code, stdin=subprocess.PIPE) as second,
    ):
        hold([first.pid, second.pid])
        held = [os.sched_getaffinity(one.pid) for one in (first, second)]
        for one in (first, second):
            one.communicate(b"\n")

    assert held == [{cores[0]}, {cores[1 % len(cores)]}]


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

    said = who_ended({OURS: Job(last, [os.getpid()], [gone.pid]), BARE: Job(Output(list), [os.getpid()], [])})

    assert str([gone.pid]) in said
    assert OURS in said
    assert "killing the training: hangs" in said
    assert BARE not in said
