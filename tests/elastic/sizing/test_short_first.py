"""Short jobs come first: weights by remaining work, or by attained service; and how often sizes change for it."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from scheduler.elastic.sizing import size, slots
from scheduler.elastic.sizing.allocation import SHORTEST, weight
from tests.elastic.sizing.pictures import job, seen

RATES = {1: 10.0, 2: 20.0, 4: 40.0}


def pair(**words):
    """Two jobs that scale alike, one of two names."""
    return [job(name=f"team/{name}", min=2, size=2, measured=seen(RATES), **words[name]) for name in words]


@given(some.floats(1e3, 1e5), some.floats(2.0, 100.0))
def test_a_short_job_before_a_long_one(left, longer):
    """Of two jobs with equal gains, the one with less remaining work gets the free worker, whatever their names."""
    for short, other in (("a", "b"), ("b", "a")):
        wants = size(pair(**{short: {"remaining": left}, other: {"remaining": left * longer}}), slots(1))

        assert (wants[f"team/{short}"].size, wants[f"team/{other}"].size) == (3, 2)


def test_equal_weights():
    """Without `short_first` the remaining work does not count."""
    jobs = pair(b={"remaining": 1e3}, a={"remaining": 1e6})
    wants = size(jobs, slots(1), short_first=False)

    assert (wants["team/a"].size, wants["team/b"].size) == (3, 2)


def test_unknown_work():
    """If the remaining work is unknown, the job with less attained service comes first."""
    wants = size(pair(a={"attained": 1e5}, b={"attained": 1e3}), slots(1))

    assert (wants["team/a"].size, wants["team/b"].size) == (2, 3)


def test_weights():
    """Four times the one-worker time is half the weight; without measurements the service counts; the shortest are
    alike.
    """
    measured = seen(RATES)
    known = [weight(job(size=2, measured=measured, remaining=left)) for left in (1e4, 4e4)]

    assert known[0] == pytest.approx(2 * known[1])
    assert weight(job(size=2, measured=measured, remaining=1e4)) == pytest.approx(1e3**-0.5)
    assert weight(job(size=2, remaining=1e4, attained=400.0)) == pytest.approx(400.0**-0.5)
    assert weight(job()) == weight(job(attained=SHORTEST)) == pytest.approx(SHORTEST**-0.5)


@given(
    some.lists(some.tuples(some.floats(0.0, 1e6), some.integers(1, 12)), min_size=2, max_size=6),
    some.randoms(),
)
def test_order_does_not_matter(drawn, chance):
    """The same jobs in another order get the same."""
    jobs = [
        job(
            name=f"team/{number}",
            size=at,
            remaining=left if number % 2 else None,
            attained=left,
            measured=seen(RATES),
        )
        for number, (left, at) in enumerate(drawn)
    ]
    shuffled = list(jobs)
    chance.shuffle(shuffled)
    for free in (0, 3):
        assert size(shuffled, slots(free)) == size(jobs, slots(free))


def test_surplus_moves_to_a_short_job_at_once():
    """A short job takes several workers from long ones in one call, while it gains more than twice their loss."""
    long = job(name="team/long", size=12, remaining=1e7, measured=seen({1: 10.0, 12: 120.0}))
    short = job(name="team/short", size=1, remaining=1e4, measured=seen({1: 10.0}))
    given = 12 - size([long, short], slots(0))["team/long"].size

    assert given > 4
    assert size([long, short], slots(0))["team/short"].size == 1
    assert (
        size(
            [
                short,
                job(
                    name="team/long",
                    size=12 - given,
                    held=12 - given,
                    remaining=1e7,
                    measured=seen({1: 10.0, 12: 120.0}),
                ),
            ],
            slots(given),
        )["team/short"].size
        == 1 + given
    )


def test_like_jobs_keep_theirs():
    """Jobs with remaining work that differs by less than four times do not take workers of one another."""
    for seed in range(20):
        chance = random.Random(seed)
        jobs = [
            job(
                name=f"team/{number}",
                size=6,
                remaining=1e5 * chance.uniform(1.0, 3.5),
                measured=seen({6: 60.0}),
            )
            for number in range(4)
        ]
        assert {want.size for want in size(jobs, slots(0)).values()} == {6}


def test_surplus_is_not_taken_twice():
    """While a job still gives up workers, no other job is asked for the same ones."""
    rates = seen({1: 10.0, 8: 80.0})
    givers = [job(name=f"team/long{number}", size=8, remaining=1e7, measured=rates) for number in range(4)]
    short = job(name="team/short", size=1, max=8, remaining=1e4, measured=seen({1: 10.0}))
    first = size([*givers, short], slots(0))
    leaving = [
        replace(giver, want=first[giver.name].size, in_flight=first[giver.name].size < giver.size)
        for giver in givers
    ]
    second = size([*leaving, short], slots(0))

    assert sum(8 - want.size for name, want in first.items() if name != short.name) == 7
    assert {name: want.size for name, want in second.items()} == {
        name: want.size for name, want in first.items()
    }


def test_all_that_is_free_is_used():
    """A job that was just resized still grows into the last free slot."""
    lately = job(
        name="team/big", size=16, max=64, remaining=1e7, measured=seen({16: 160.0}), since_change=60.0
    )

    assert size([lately], slots(3))["team/big"].size == 19
