"""Each policy by its formula."""

import pytest

from scheduler.elastic.sizing import JobView, Stage
from scheduler.elastic.sizing.policies import needed, net, scaling, utility, worth_at
from scheduler.elastic.sizing.policies import offer as whatever_is_free
from scheduler.elastic.sizing.policies import schedule as by_epoch
from scheduler.elastic.sizing.policy_parameters import Efficiency, Point, Utility
from scheduler.elastic.sizing.proposal import Proposal
from tests.elastic.sizing.pictures import job, seen, wanted

# --- efficiency ---


def test_scaling_efficiency():
    """400 → 480 img/s from 4 to 5 workers is a throughput scaling efficiency of 0.8, exactly."""
    assert scaling(4, 400.0, 5, 480.0) == 0.8


def test_scaling_of_several():
    """Perfect scaling is 1 for any number of workers, no gain is 0, a loss is below."""
    assert scaling(4, 400.0, 8, 800.0) == 1.0
    assert scaling(4, 400.0, 8, 400.0) == 0.0
    assert scaling(4, 400.0, 8, 200.0) == -0.5


@pytest.mark.parametrize("step", [1, 4])
def test_the_rule_is_the_threshold(step):
    """A size one step on is worth it if and only if its scaling efficiency is above the threshold."""
    policy = Efficiency(threshold=0.3, step=step)
    for rate in (400.0, 420.0, 429.9, 430.1, 480.0, 800.0):
        above = scaling(8, 400.0, 8 + step, rate) > policy.threshold
        assert (rate / 400.0 > needed(policy, 8, 8 + step)) == above


def test_the_rule_does_not_mind_the_way():
    """What is needed over several steps is the product of what each needs."""
    policy = Efficiency(threshold=0.3)

    assert needed(policy, 2, 9) == pytest.approx(needed(policy, 2, 5) * needed(policy, 5, 9))


def test_image_throughput():
    """2200, 4000 and 5000 img/s at 16, 32 and 64 workers: 32 are worth it at a threshold of one half, 64 are not."""
    measured = seen({16: 2200.0, 32: 4000.0, 64: 5000.0})
    picture = job("efficiency", {"threshold": 0.5, "step": 16, "tolerance": 1}, max=64, min=16)
    at = {
        size: JobView(**{f: getattr(picture, f) for f in picture.__struct_fields__} | where)
        for size in (16, 32, 64)
        for where in ({"size": size, "held": size, "want": size, "measured": measured},)
    }

    assert {size: wanted(view) for size, view in at.items()} == {16: 32, 32: 32, 64: 32}


# --- utility ---


def test_linear_utility():
    """Linear utility is the whole value at once, half at half the deadline, nothing at it, and a loss beyond."""
    policy = Utility(value=100.0, deadline=1000.0)

    assert [worth_at(policy, end) for end in (0.0, 500.0, 1000.0, 1500.0)] == [100.0, 50.0, 0.0, -50.0]


def test_utility_in_points():
    """Points are joined by lines; before the first it is as there, and after the last it goes on falling."""
    policy = Utility(points=(Point(100.0, 10.0), Point(200.0, 10.0), Point(300.0, 4.0)))

    assert [worth_at(policy, end) for end in (0.0, 150.0, 250.0, 300.0, 350.0)] == [10.0, 10.0, 7.0, 4.0, 1.0]


def test_one_point_is_a_step():
    """One point alone: what it says until then, nothing later."""
    policy = Utility(points=(Point(100.0, 10.0),))

    assert [worth_at(policy, end) for end in (0.0, 100.0, 101.0)] == [10.0, 10.0, 0.0]


def test_utility_less_cost():
    """1000 samples at 10 a second with 4 workers at 36 an hour each: 100 s, 4 units of money, and what the end is
    worth.
    """
    policy = Utility(value=50.0, deadline=1000.0, price=36.0)
    picture = job(remaining=1000.0, elapsed=400.0)

    assert net(policy, picture, 4, 10.0) == 50.0 * (1.0 - 500.0 / 1000.0) - 36.0 / 3600.0 * 4 * 100.0


def test_linear_utility_is_efficiency_with_a_threshold_of_its_size():
    """With v = value / deadline lost a second and P the price of a worker-second, growth is worth it if s > 1 / (1 +
    v / (k·P)).
    """
    policy = Utility(value=3600.0, deadline=3600.0, price=900.0)  # v = 1, P = 0.25
    picture = job(remaining=10_000.0)
    threshold = 1.0 / (1.0 + 1.0 / (4 * 0.25))
    for s in (threshold - 0.01, threshold + 0.01):
        rate = 100.0 * (1.0 + s / 4)  # 4 → 5
        gain = net(policy, picture, 5, rate) - net(policy, picture, 4, 100.0)
        assert (gain > 0) == (s > threshold)


def test_price_decides():
    """The dearer a worker, the fewer: nothing for workers is the maximum, a fortune the minimum."""
    rates = seen({size: 100.0 * size**0.7 for size in range(1, 17)})
    sizes = [
        wanted(
            job("utility", {"price": price, "value": 100}, size=8, measured=rates, remaining=1e6, idle=0.1)
        )
        for price in (0, 2, 20, 1e6)
    ]

    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 16
    assert sizes[-1] == 1


def test_no_end_in_sight():
    """Where what is left is not known there is nothing to weigh: the job stays."""
    assert wanted(job("utility", size=5, measured=seen({5: 100.0}))) == 5


def test_who_does_not_say_what_is_left_hears_how():
    """The reason names the calls by which a script says it."""
    told = utility(job("utility", size=5)).reason
    assert "gangwright.total(samples)" in told
    assert "gangwright.advance(count)" in told


def test_a_schedule_without_epochs_says_so():
    """Where no epoch is told the reason claims none."""
    assert by_epoch(job("schedule", size=2, epoch=None, schedule=STAGES)).reason == (
        "the schedule at its beginning, because no epoch is reported yet"
    )
    assert by_epoch(job("schedule", size=2, epoch=3.0, schedule=STAGES)).reason == "the schedule at epoch 3"


# --- schedule ---

STAGES = (Stage(0.0, 2), Stage(10.0, 8), Stage(30.0, 4))


@pytest.mark.parametrize(
    ("epoch", "workers"), [(0.0, 2), (9.0, 2), (10.0, 8), (29.9, 8), (30.0, 4), (99.0, 4)]
)
def test_the_stage_that_has_begun(epoch, workers):
    """The size is that of the last stage whose epoch has begun."""
    picture = job("schedule", {"lead": 0}, size=2, schedule=STAGES, epoch=epoch, epoch_s=60.0)

    assert wanted(picture) == workers


def test_growth_ahead_of_time():
    """Newcomers of the next stage are started so early that they are warm when it begins; a shrink is never early."""
    early = {"schedule": STAGES, "epoch_s": 60.0, "warm": None}

    assert wanted(job("schedule", {"lead": 30}, size=2, epoch=9.4, **early)) == 2
    assert wanted(job("schedule", {"lead": 30}, size=2, epoch=9.5, **early)) == 8
    assert wanted(job("schedule", {"lead": 30}, size=8, epoch=29.9, **early)) == 8


def test_growth_ahead_by_what_newcomers_take():
    """Once a newcomer was timed, its time counts instead of the lead."""
    picture = job("schedule", {"lead": 30}, size=2, epoch=9.8, epoch_s=60.0, schedule=STAGES, warm=6.0)

    assert wanted(picture) == 2


def test_before_the_schedule():
    """Before its first stage a job has its minimum, and the clamp holds for what the schedule says."""
    assert wanted(job("schedule", size=3, min=3, schedule=(Stage(5.0, 8),), epoch=1.0)) == 3
    assert wanted(job("schedule", size=3, min=3, schedule=(Stage(0.0, 1),), epoch=1.0)) == 3


def test_what_is_stated_need_not_pay():
    """No horizon and no end in sight keeps a schedule from its sizes: a person has weighed that."""
    near = {"remaining": 1.0, "idle": 60.0, "measured": seen({2: 400.0})}

    assert wanted(job("schedule", {"horizon": 0}, size=2, epoch=10.0, schedule=STAGES, **near)) == 8
    assert wanted(job("offer", {"horizon": 0}, size=2, **near)) == 2


# --- offer, and what all of them respect ---


def test_whatever_is_free():
    """As many as there is room for, up to the maximum."""
    assert wanted(job(size=4), room=3) == 7
    assert wanted(job(size=4), room=100) == 16
    assert wanted(job(size=4), room=0) == 4


@pytest.mark.parametrize("policy", ["offer", "efficiency", "schedule"])
def test_the_batch_limit(policy):
    """No policy grows beyond the size at which the batch is at its limit."""
    picture = job(
        policy,
        size=8,
        batch_limit=1024,
        per_worker=128,
        measured=seen({4: 400.0, 8: 800.0}),
        schedule=(Stage(0.0, 16),),
    )

    assert wanted(picture) == 8


def test_the_batch_limit_is_rounded_up():
    """The last worker may take less than the others."""
    assert wanted(job(size=4, batch_limit=1000, per_worker=128)) == 8


@pytest.mark.parametrize("policy", ["offer", "efficiency"])
def test_a_resize_must_pay(policy):
    """A job that has no time left to win back a resize does not grow; one that has, does."""
    rates = seen({4: 400.0})
    soon, late = (
        job(policy, size=4, measured=rates, remaining=seconds * 400.0, idle=10.0) for seconds in (5.0, 50.0)
    )

    assert wanted(soon) == 4
    assert wanted(late) > 4


@pytest.mark.parametrize(
    ("there", "remaining", "said"),
    [
        (800.0, 5.0 * 400.0, "the remaining time is too short to win back another resize"),
        (400.0, 5.0 * 400.0, "16 workers would not win back the cost of a resize"),
        (400.0, None, "16 workers would not win back the cost of a resize"),
    ],
)
def test_why_a_resize_does_not_pay(there, remaining, said):
    """The end is named where there is one, and where without it the resize would pay."""
    picture = job(size=4, measured=seen({4: 400.0, 16: there}), remaining=remaining, idle=10.0)

    assert whatever_is_free(picture) == Proposal(size=4, reason=said)


@pytest.mark.parametrize(("age", "workers"), [(7200.0, 4), (7201.0, 16)])
def test_a_size_that_was_no_faster_long_ago(age, workers):
    """It counts as unknown by then, and whatever is free is taken; what the present size makes counts at any age."""
    rates = seen({4: 400.0}, age=1e6) | seen({16: 400.0}, age=age)

    assert wanted(job(size=4, measured=rates)) == workers


def test_newcomers_take_their_time():
    """The seconds in which newcomers start win nothing back."""
    words = {"size": 4, "measured": seen({4: 400.0}), "remaining": 50.0 * 400.0, "idle": 10.0}

    assert wanted(job(warm=48.0, **words)) == 4


def test_after_a_resize():
    """A job that was resized a moment ago stays, until the pause is over."""
    assert wanted(job(parameters={"hold": 10}, size=4, since_change=9.0)) == 4
    assert wanted(job(parameters={"hold": 10}, size=4, since_change=10.0)) == 16


def test_one_resize_at_a_time():
    """While a resize is under way the answer is the size that it goes to."""
    assert wanted(job(size=4, want=6, in_flight=True)) == 6
