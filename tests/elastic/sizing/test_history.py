"""What is kept of a job's throughput."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from scheduler.elastic.sizing import History
from scheduler.elastic.sizing.job_view import HALF_LIFE

RATES = some.lists(some.floats(1.0, 1000.0), min_size=2, max_size=20)


def noted(rates, *, size=4, every=0.0, history=None, number=1):
    """A round of that size, with these measurements after the first."""
    history = history or History()
    if history.round != number:
        history = history.noted(number, size, 1e9, 0.0)
    for place, rate in enumerate(rates):
        history = history.noted(number, size, rate, place * every)
    return history


def test_the_first_measurement_of_a_round_is_dropped():
    """Neither the first of a job nor the first after a resize counts: they hold the resize itself."""
    history = History().noted(1, 4, 10.0, 0.0)
    assert history.measured(0.0) == {}

    history = history.noted(1, 4, 100.0, 1.0).noted(2, 5, 20.0, 2.0).noted(2, 5, 120.0, 3.0)
    assert {size: seen.mean for size, seen in history.measured(3.0).items()} == {4: 100.0, 5: 120.0}


@given(RATES)
def test_mean_and_variance(rates):
    """Measurements of one moment have the mean and the variance that statistics says, as long as they do not fall."""
    seen = noted(sorted(rates)).measured(0.0)[4]
    mean = sum(rates) / len(rates)

    assert seen.count == len(rates)
    assert seen.mean == pytest.approx(mean)
    assert seen.variance == pytest.approx(
        sum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1), abs=1e-6
    )


@pytest.mark.parametrize("full", [1, 6, 30])
def test_what_a_filled_queue_made_is_forgotten(full):
    """Loaders that had time to read ahead feed the first steps of a size faster than the disk does: three measurements
    in a row that are clearly lower take the place of what was measured before.
    """
    history = noted([100.0, 102.0, 98.0] * (full // 3) or [100.0])
    slower = noted([41.0, 40.0, 39.0, 40.0], history=history)

    assert slower.measured(0.0)[4].mean == pytest.approx(40.0)
    assert slower.measured(0.0)[4].count == 4


@pytest.mark.parametrize(
    "rates",
    [[60.0, 60.0, 100.0, 60.0, 60.0, 100.0], [95.0] * 6, [140.0] * 6],
    ids=["hiccups", "noise", "faster"],
)
def test_what_does_not_stay_low_is_averaged(rates):
    """Two slow seconds, less than a tenth, or more than before: all that was measured counts."""
    history = noted([100.0] * 6)

    assert noted(rates, history=history).measured(0.0)[4].mean == pytest.approx((600.0 + sum(rates)) / 12)


def test_a_record_of_fast_and_slow_steps_is_forgotten():
    """What was measured when the queue ran dry before scatters by a half; the size is as slow as it is from then on."""
    history = noted([80.0, 82.0, 60.0, 41.0])
    again = noted([40.0, 41.0, 40.0], history=history, number=2)

    assert again.measured(0.0)[4].mean == pytest.approx(40.3, abs=0.1)


def test_what_scatters_is_averaged():
    """Three in a row that are a tenth lower are chance where measurements scatter by as much."""
    history = noted([80.0, 120.0] * 5)

    assert noted([85.0] * 3, history=history).measured(0.0)[4].count == 13


def test_what_is_well_known_is_averaged():
    """A disturbance of some seconds moves no job that has settled, and neither does one that falls into two rounds."""
    settled = noted([100.0] * 60)
    beginner = noted([50.0, 50.0], history=noted([100.0] * 6))

    assert noted([50.0] * 5, history=settled).measured(0.0)[4].mean > 95.0
    assert noted([50.0], history=beginner, number=2).measured(0.0)[4].count == 9


def test_a_record_begins_anew_once_a_round():
    """Queues run dry once after a change: of a job that is slow for seconds now and then, all that follows counts."""
    history = noted([*[100.0] * 20, *[50.0] * 5] * 5)

    assert history.measured(0.0)[4].count == 105
    assert history.measured(0.0)[4].mean == pytest.approx((80 * 100.0 + 25 * 50.0) / 105)


def test_a_record_may_begin_anew_in_each_round():
    """Queues are full again after the next change."""
    former = noted([100.0, 40.0, 40.0, 40.0])
    history = noted([*[100.0] * 9, *[50.0] * 3], history=former, number=2)

    assert history.measured(0.0)[4].count == 3


def test_the_past_fades():
    """A measurement weighs half after its half-life, and next to nothing after ten."""
    young = noted([100.0, 200.0], every=HALF_LIFE).measured(HALF_LIFE)[4]
    old = noted([100.0, 200.0], every=10 * HALF_LIFE).measured(10 * HALF_LIFE)[4]

    assert young.mean == pytest.approx(100.0 + 100.0 / 1.5)
    assert old.mean == pytest.approx(200.0, rel=0.001)


def test_errors_grow_with_age():
    """What was measured long ago is less sure, by the root of the weight that is left."""
    history = noted([90.0, 110.0])
    now, later = history.measured(0.0)[4], history.measured(2 * HALF_LIFE)[4]

    assert later.age == 2 * HALF_LIFE
    assert later.error == pytest.approx(2 * now.error)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_no_rate(rate):
    """What is no positive number is no measurement."""
    history = noted([100.0])

    assert history.noted(1, 4, rate, 1.0) == history


@pytest.mark.parametrize("rate", [1e-200, 1e200])
def test_what_no_job_does(rate):
    """A worker may tell anything; what is beyond every job is no measurement, for its square would be no number."""
    history = noted([100.0])

    assert history.noted(1, 4, rate, 1.0) == history


def test_what_is_nothing_beside_what_was_measured_long_ago():
    """It is all that is left of the mean, and above 0."""
    history = noted([0.01], history=noted([1e15]), number=2, every=1.0)
    later = history.noted(2, 4, 0.01, 30 * 86400.0).measured(30 * 86400.0)[4]

    assert later.mean == 0.01


def test_what_is_older_than_a_week():
    """A job that comes back to a size after weeks has an error for it, a large one."""
    old = noted([90.0, 110.0]).measured(30 * 86400.0)[4]

    assert 1.0 < old.error < math.inf


def test_nothing_is_changed_in_place():
    """A history that was handed out stays as it was."""
    before = noted([100.0])
    before.noted(1, 4, 200.0, 1.0)

    assert before.measured(0.0)[4].mean == 100.0
