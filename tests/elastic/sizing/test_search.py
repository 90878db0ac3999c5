"""The search for the best size."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from scheduler.elastic import sizing
from scheduler.elastic.sizing import History
from scheduler.elastic.sizing.policy_parameters import Efficiency
from tests.elastic.sizing.pictures import job, seen, wanted


def climbed(rate, *, least=1, most=64, policy="efficiency", parameters=None, spread=0.0, asked=400, seed=0):
    """Sizes that a job has, asked so often: `rate` gives the throughput of a size, measured with that relative
    spread.
    """
    chance = random.Random(seed)
    history, size, sizes = History(), least, [least]
    for now in range(asked):
        history = history.noted(len(sizes), size, rate(size) * chance.lognormvariate(0.0, spread), float(now))
        view = job(
            policy,
            {"hold": 0} | (parameters or {}),
            min=least,
            max=most,
            size=size,
            measured=history.measured(float(now)),
            idle=0.1,
            remaining=1e9,
        )
        if (want := wanted(view)) != size:
            size = want
            sizes.append(size)
    return sizes


def answer(picture):
    return sizing.size([picture], sizing.slots(100))[picture.name]


def amdahl(part):
    return lambda size: 100.0 / (part + (1.0 - part) / size)


def test_a_new_job_has_its_minimum():
    """Before anything was measured there is nothing to compare."""
    assert wanted(job("efficiency", min=3)) == 3


def test_a_size_is_measured_first():
    """Until a size has its measurements the job stays there."""
    few, enough = (
        job("efficiency", size=4, measured=seen({2: 200.0}) | seen({4: 190.0}, count=count, error=0.001))
        for count in (2, 3)
    )

    assert wanted(few) == 4
    assert wanted(enough) < 4


def test_the_smallest_is_measured_once():
    """A larger size is tried next whatever the smallest one says: one measurement is enough to go on."""
    none, one = (job("efficiency", size=4, measured=seen(rates, count=1)) for rates in ({}, {4: 400.0}))

    assert wanted(none) == 4
    assert wanted(one) == 8


def test_a_smaller_size_that_is_looked_at_later_is_measured_in_full():
    """One bad measurement of it sends nobody back."""
    known = seen({16: 100.0, 24: 100.5, 32: 101.0})
    one = job("efficiency", max=32, size=8, measured=known | seen({8: 60.0}, count=1))
    all_three = job("efficiency", max=32, size=8, measured=known | seen({8: 60.0}, count=3))

    assert wanted(one) == 8
    assert wanted(all_three) > 8


@pytest.mark.parametrize(("rate", "size"), [(380.0, 8), (210.0, 4), (100.0, 4)])
def test_what_is_clearly_better_is_measured_once(rate, size):
    """Whatever disturbs a step makes it longer: what looks good is, what looks bad is looked at again."""
    measured = seen({2: 200.0}) | seen({4: rate}, count=1)

    assert wanted(job("efficiency", size=4, measured=measured)) == size


def test_what_scatters_is_measured_again():
    """How clear one measurement is goes by how much those of other sizes scatter."""
    for error, size in ((0.02, 8), (0.3, 4)):
        measured = seen({2: 200.0}, error=error) | seen({4: 300.0}, count=1)
        assert wanted(job("efficiency", size=4, measured=measured)) == size


def test_who_has_found_its_size_is_in_no_hurry():
    """Once nothing is to be tried any more a decision every few seconds will do."""
    picture = job("efficiency", max=8, size=8, measured=seen({4: 400.0, 8: 800.0}))

    assert not answer(picture).soon


def test_a_job_that_begins_is_asked_again_soon():
    """Once its quorum has seats, until it has told what is left to do; not one that never tells."""
    queued, begins, mute = (
        job("utility", min=2, size=0, held=0),
        job("utility", min=2, size=0, held=2),
        job("utility", min=2, size=2, measured=seen({2: 100.0})),
    )

    assert [answer(one).soon for one in (queued, begins, mute)] == [False, True, False]


@pytest.mark.parametrize("top", [5, 11, 21, 37, 45])
def test_the_top_of_a_smooth_curve(top):
    """Between three sizes the next one tried is the top of the parabola: a round top is found in a trial or two."""

    def rate(size):
        return 100.0 * size**0.1 * math.exp(-(math.log(size / top) ** 2))

    sizes = climbed(rate, least=2)
    doublings = math.ceil(math.log2(top / 2)) + 1

    assert rate(sizes[-1]) / sizes[-1] ** 0.1 >= 0.97 * rate(top) / top**0.1
    assert len(sizes) <= 1 + doublings + 2


def test_a_top_that_is_near_the_best_is_not_looked_at():
    """What differs by less than a tenth is not worth another resize."""
    rates = {8: 152.0, 16: 255.0, 32: 178.0}

    assert wanted(job("efficiency", max=64, size=16, measured=seen(rates))) == 16


def test_perfect_scaling():
    """A job that scales perfectly doubles up to its maximum, and stays."""
    assert climbed(lambda size: 100.0 * size) == [1, 2, 4, 8, 16, 32, 64]


def test_step_by_step():
    """With a stride of 1 it tries one size after the other, and settles at the last that was worth it, as MLSys'20
    does.
    """
    sizes = climbed(
        lambda size: 100.0 * min(size, 5) + size, parameters={"stride": 1, "threshold": 0.2, "tolerance": 0}
    )

    assert sizes[:6] == [1, 2, 3, 4, 5, 6]
    assert sizes[-1] == 5


def test_steps_of_whole_nodes():
    """All sizes tried are the minimum and multiples of the step above it."""
    sizes = climbed(amdahl(0.05), least=4, parameters={"step": 4, "threshold": 0.3})

    assert len(sizes) > 2
    assert {size % 4 for size in sizes} == {0}


def test_no_scaling_at_all():
    """A job that is no faster with more workers ends where it began."""
    assert climbed(lambda _: 100.0, least=2)[-1] == 2


def test_too_large_to_begin_with():
    """A job that is found at a size that is not worth it goes below."""
    rates = seen({16: 100.0, 24: 100.5, 32: 101.0})

    assert wanted(job("efficiency", max=32, size=16, measured=rates)) < 16


def test_across_a_node():
    """Where the second node costs more than it brings, but a third brings it back, the search looks once beyond."""
    rate = {1: 25, 2: 50, 4: 100, 8: 110, 16: 230}
    sizes = climbed(
        lambda size: rate.get(size, 110.0 + (size - 8) * 15), most=16, parameters={"threshold": 0.3}
    )

    assert 16 in sizes
    assert sizes[-1] == 16


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(part=some.floats(0.001, 0.3), least=some.sampled_from([1, 2, 4]), threshold=some.floats(0.05, 0.5))
def test_the_best_size(part, least, threshold):
    """On any curve of Amdahl's it ends within a few per cent of the best size by its rule, in few resizes."""
    rate = amdahl(part)
    sizes = climbed(rate, least=least, parameters={"threshold": threshold}, asked=150)
    worth = {size: rate(size) / _needed(threshold, least, size) for size in range(least, 65)}

    assert worth[sizes[-1]] >= 0.95 * max(worth.values())
    assert len(sizes) <= 12


def _needed(threshold, low, high):
    product = 1.0
    for at in range(low, high):
        product *= 1.0 + threshold / at
    return product


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("seed", range(2))
def test_noise_moves_nobody(spread, seed):
    """On a noisy curve the job finds its size and stays: after the search there is no resize to and fro."""
    sizes = climbed(amdahl(0.05), spread=spread, seed=seed, asked=600)

    assert len(sizes) <= 14


def test_what_is_not_clear_changes_nothing():
    """Two sizes whose confidence intervals overlap the rule: the job stays at whichever it has."""
    unsure = seen({8: 800.0, 12: 830.0}, count=4, error=0.2)
    for at in (8, 12):
        assert wanted(job("efficiency", {"tolerance": 1}, max=12, min=8, size=at, measured=unsure)) == at


def test_what_is_clear_does():
    """The same means, measured well: the smaller one it is."""
    sure = seen({8: 800.0, 12: 830.0}, count=400, error=0.01)

    assert wanted(job("efficiency", {"tolerance": 1}, max=12, min=8, size=12, measured=sure)) == 8


def test_old_measurements_are_forgotten():
    """A size that failed long ago may be tried again."""
    for age, size in ((10.0, 4), (Efficiency().forget + 1, 8)):
        failed = seen({8: 400.0}, age=age) | seen({2: 200.0, 4: 400.0})
        assert wanted(job("efficiency", {"tolerance": 1}, max=8, size=4, measured=failed)) == size


def test_a_maximum_that_was_lowered():
    """What was measured above the maximum does not count, and nobody stays there."""
    assert wanted(job("efficiency", max=4, size=8, measured=seen({4: 400.0, 8: 800.0}))) == 4
