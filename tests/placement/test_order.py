"""Whose turn it is: the sort key of waiting gangs, policy by policy."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.policy import Policy
from scheduler.model.queueing import Estimate, Order, Share, Usage, Waiting
from scheduler.placement.order import (
    LAST_BAND,
    ages_at,
    band,
    begins_at,
    dominant_share,
    goes_first,
    shifted,
    turn,
)
from tests.support.builders import a_gang

HOUR = 3600.0
NOW = 100 * HOUR


def waiting(name="gang", arrived=NOW - HOUR, *, priority=0, runs=None, **more) -> Waiting:
    span = None if runs is None else Estimate(runs, runs / 2, runs * 2)
    return Waiting(a_gang(name=name, priority=priority), arrived, runs=span, **more)


def in_order(policy, *gangs, dominant=None):
    """The names in the order of their turns."""
    shares = dominant or {}
    line = sorted(gangs, key=lambda w: turn(w, policy, NOW, shares.get(w.gang.key.name, 0.0)))
    return [w.gang.key.name for w in line]


@pytest.mark.parametrize("order", list(Order))
def test_partly_bound_goes_before_priority_before_everything_else(order):
    """The rest of a gang that has begun goes first, then higher priority, whatever the order looks at."""
    policy = Policy(order=order)
    begun = waiting("begun", NOW, first=True, attained=1e9, runs=1e9)
    urgent = waiting("urgent", NOW, priority=1, attained=1e9, runs=1e9)
    old = waiting("old", NOW - 90 * HOUR, runs=1.0)
    new = waiting("new", NOW - HOUR, runs=1.0)

    assert in_order(policy, new, old, urgent, begun) == ["begun", "urgent", "old", "new"]


@pytest.mark.parametrize("order", list(Order))
def test_who_has_waited_long_enough_goes_by_arrival(order):
    """From the age limit on a gang goes before all younger ones of its priority, the oldest first."""
    policy = Policy(order=order, age_limit=10 * HOUR, age_factor=0.0)
    favoured = waiting("favoured", NOW - 9 * HOUR, runs=1.0)
    aged = waiting("aged", NOW - 10 * HOUR, attained=1e9, runs=1e9)
    older = waiting("older", NOW - 11 * HOUR, attained=2e9, runs=2e9)

    line = in_order(policy, favoured, aged, older, dominant={"aged": 0.9, "older": 1.0})

    assert line == ["older", "aged", "favoured"]


@pytest.mark.parametrize("order", list(Order))
def test_equals_go_by_arrival_and_within_a_second_by_name(order):
    """No order of meeting counts: every reader of the cluster knows the time and the name."""
    line = [waiting("b"), waiting("a"), waiting("z", NOW - 2 * HOUR)]

    assert in_order(Policy(order=order), *line) == ["z", "a", "b"]


def test_las_goes_by_band_and_inside_a_band_by_arrival():
    """A little more service changes nothing inside a band; a band more does."""
    policy = Policy(order=Order.LAS, las_quantum=100.0)
    little = waiting("little", NOW - HOUR, attained=99.0)
    none = waiting("none", NOW - HOUR / 2, attained=0.0)
    much = waiting("much", NOW - 2 * HOUR, attained=100.0)

    assert in_order(policy, much, none, little) == ["little", "none", "much"]


def test_las_goes_by_the_birth_of_the_job_inside_a_band():
    """Who was suspended and came back waits behind those whose Jobs are older, and before the younger ones."""
    policy = Policy(order=Order.LAS, las_quantum=100.0)
    back = waiting("back", NOW, attained=500.0, born=NOW - 5 * HOUR)
    older = waiting("older", NOW - HOUR, attained=400.0, born=NOW - 6 * HOUR)
    younger = waiting("younger", NOW - 3 * HOUR, attained=600.0, born=NOW - 4 * HOUR)
    newcomer = waiting("newcomer", NOW)

    assert in_order(policy, back, older, younger, newcomer) == ["newcomer", "older", "back", "younger"]


@pytest.mark.parametrize(("runs", "aged"), [(HOUR, True), (2 * HOUR, True), (3 * HOUR, False)])
def test_shortest_ages_by_the_runtime(runs, aged):
    """Who waits for ten hours has waited long for two hours of work, and not for three."""
    policy = Policy(order=Order.SHORTEST, age_limit=HOUR, age_factor=5.0)
    old, short = waiting("old", NOW - 10 * HOUR, runs=runs), waiting("short", runs=1.0)

    assert in_order(policy, old, short) == (["old", "short"] if aged else ["short", "old"])


def test_age_counts_from_the_last_arrival():
    """A Job that was born long ago and ran since has not waited long."""
    policy = Policy(order=Order.LAS, age_limit=10 * HOUR)

    assert ages_at(waiting(arrived=NOW, born=NOW - 99 * HOUR), policy) == NOW + 10 * HOUR


def test_shortest_takes_the_default_for_the_unknown():
    """A gang that says nothing stands where the default runtime stands."""
    policy = Policy(order=Order.SHORTEST, default_runtime=600.0)

    line = in_order(policy, waiting("long", runs=601.0), waiting("silent"), waiting("short", runs=599.0))

    assert line == ["short", "silent", "long"]


def test_fair_goes_by_the_share_of_the_namespace():
    """Whose namespace has less of its share goes first, even when it came later."""
    rich, poor = waiting("rich", NOW - 5 * HOUR), waiting("poor")

    assert in_order(Policy(order=Order.FAIR), rich, poor, dominant={"rich": 0.5, "poor": 0.2}) == [
        "poor",
        "rich",
    ]


@pytest.mark.parametrize(
    ("attained", "number"),
    [(0, 0), (9.99, 0), (10, 1), (29.99, 1), (30, 2), (69.99, 2), (70, 2), (1e9, 2), (-5, 0)],
)
def test_bands_double(attained, number):
    """Bands of a quantum of 10 are 10 and 20 wide; the last has no end."""
    assert band(attained, 10.0) == number


@given(st.floats(0, 1e12), st.floats(0.1, 1e6))
def test_a_band_begins_where_the_one_before_ends(attained, quantum):
    """So much service lies between the bounds of its band."""
    number = band(attained, quantum)

    assert begins_at(number, quantum) * (1 - 1e-9) <= attained
    assert number == LAST_BAND or attained < begins_at(number + 1, quantum) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("own", "other", "first"),
    [
        ((0, 9.0), (1, 5.0), True),
        ((1, 5.0), (1, 9.0), False),
        ((1, 5.0), (0, 9.0), False),
        ((LAST_BAND, 5.0), (LAST_BAND, 9.0), True),
        ((LAST_BAND, 9.0), (LAST_BAND, 5.0), False),
        ((LAST_BAND, 5.0), (LAST_BAND, 5.0), False),
    ],
)
def test_lower_band_goes_first_and_in_the_last_the_older(own, other, first):
    """Who may take whose room, by band and birth; never each of two the other's."""
    assert goes_first(own, other) is first


def test_the_dominant_share_is_the_largest_by_weight():
    """A namespace is measured by the resource that it has the largest part of, divided by its weight."""
    capacity = {"cpu": 9000.0, "memory": 18.0}
    first = Usage({"cpu": 3000.0, "memory": 12.0})
    second = Usage({"cpu": 6000.0, "memory": 2.0}, Share(weight=2.0))

    assert dominant_share(first, capacity) == pytest.approx(2 / 3)
    assert dominant_share(second, capacity) == pytest.approx(1 / 3)


def test_what_the_cluster_does_not_have_does_not_count():
    """Use of a resource without capacity, or of nothing, is no share; without weight any use is above all others."""
    weightless = Share(weight=0.0)

    assert dominant_share(Usage({"gone": 5.0, "empty": 1.0}), {"empty": 0.0, "cpu": 1.0}) == 0
    assert dominant_share(Usage({}, weightless), {"cpu": 1.0}) == 0
    assert dominant_share(Usage({"cpu": 1.0}, weightless), {"cpu": 9.0}) == math.inf


GANGS = st.builds(
    waiting,
    name=st.sampled_from("abc"),
    arrived=st.sampled_from([NOW, NOW - 1, NOW - 9 * HOUR, NOW - 99 * HOUR]),
    priority=st.integers(-1, 1),
    runs=st.one_of(st.none(), st.floats(1, 1e6)),
    born=st.sampled_from([None, NOW - 50 * HOUR]),
    first=st.booleans(),
    attained=st.floats(0, 1e6),
)


@given(st.lists(GANGS, max_size=6), st.sampled_from(list(Order)), st.floats(0, 50 * HOUR))
def test_nothing_starves(gangs, order, limit):
    """Before a gang older than the limit go only partly bound ones, higher priority, and those that came before it."""
    policy = Policy(order=order, age_limit=limit)
    line = sorted(gangs, key=lambda w: turn(w, policy, NOW, 0.5))
    for place, one in enumerate(line):
        if ages_at(one, policy) > NOW:
            continue
        for other in line[:place]:
            assert other.first or other.gang.priority > one.gang.priority or other.arrived <= one.arrived


def test_the_turn_of_a_gang_does_not_depend_on_the_others():
    """The key of the same gang at the same time is the same."""
    one = waiting("a", attained=5.0)

    assert turn(one, Policy(order=Order.LAS), NOW, 0.0) == turn(
        replace(one), Policy(order=Order.LAS), NOW, 0.0
    )


SHARES = st.sampled_from([0.0, 0.3, 0.5, math.inf])


@given(SHARES, SHARES, st.floats(0, 50), st.booleans(), st.integers(-1, 1))
def test_a_place_that_is_shifted_is_the_place_worked_out_anew(before, after, waited, first, priority):
    """With the order `fair`, young and of age: only the share is another one."""
    policy = Policy(order=Order.FAIR)
    own = waiting(arrived=NOW - waited * HOUR, first=first, priority=priority)

    assert shifted(turn(own, policy, NOW, before), after) == turn(own, policy, NOW, after)
