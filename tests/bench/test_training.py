"""One job on a clock of its own, under the real membership."""

import pytest

from bench.training import IDLE, WARM, Job, Training
from scheduler.elastic.sizing import decode

PERFECT = Job("perfect", 8, 8e6, {workers: 1.6 / workers for workers in range(1, 9)})


@pytest.fixture
def grown():
    training = Training(PERFECT, decode("offer", {}), 2, 0.0, 0)
    training.run(30.0)
    return training


def test_a_resize_costs_what_is_said(grown):
    """From two workers to all eight: newcomers start while two train on, and all stand still once."""
    (began, two), (at, eight) = grown.trail

    assert (began, two, eight) == (0.0, 2, 8)
    assert WARM <= at <= 30.0
    before, after = at - IDLE, grown.now - began - at
    steps = before / PERFECT.steps[2] + after / PERFECT.steps[8]
    assert grown.done == pytest.approx(steps, abs=40)


def test_the_end_is_counted_at_the_size_that_it_has(grown):
    """What is left to do at so many samples a second."""
    left = PERFECT.samples - grown.done * PERFECT.batch

    assert grown.end - left / PERFECT.rate(8) == pytest.approx(grown.trail[-1][0] + 30.0, abs=1.0)


def test_equal_seeds_have_equal_courses():
    """Chance is the seed's alone."""
    runs = [Training(PERFECT, decode("efficiency", {}), 2, 0.2, seed) for seed in (1, 1, 2)]
    for one in runs:
        one.run(20.0)

    assert runs[0].now == runs[1].now != runs[2].now
