"""The arithmetic of waiting."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import errors
from scheduler.kube.retry_backoff import CLOSED, LATE, RULES, SOON, BackOff, rule_of

KINDS = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, errors.KubeError)
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_has_a_rule(kind: type[errors.KubeError]) -> None:
    """The nearest rule of the tree applies to every error the API server can cause."""
    rule = rule_of(kind("GET /", "x"))
    assert rule == next(RULES[parent] for parent in kind.__mro__ if parent in RULES)


def test_no_two_causes_share_a_name() -> None:
    """Causes are metric labels, so each stands for one rule."""
    causes = [rule.cause for rule in (*RULES.values(), CLOSED)]
    assert len(set(causes)) == len(causes)


@given(
    seed=st.integers(),
    ends=st.lists(st.tuples(st.sampled_from([CLOSED, *RULES.values()]), st.none() | st.floats(0, 1e6))),
)
def test_waits_are_bounded(seed: int, ends) -> None:
    """Whatever ends, and whatever the server wishes, the wait is nothing or between 1 s and 36 s."""
    back_off = BackOff(Random(seed))
    for rule, wish in ends:
        delay = back_off.delay(rule, wish)
        assert delay == 0 or 1 <= delay <= LATE * 1.2
        if not wish:
            assert delay <= rule.ceiling


@given(seed=st.integers(), rule=st.sampled_from([RULES[errors.Unreachable], RULES[errors.KubeError]]))
def test_waits_grow_to_the_ceiling(seed: int, rule) -> None:
    """Without progress each wait is longer than the last until the ceiling is near; after progress it starts small."""
    back_off = BackOff(Random(seed))
    waits = [back_off.delay(rule) for _ in range(8)]
    near = 0.75 * rule.ceiling
    assert all(a < b for a, b in pairwise(waits) if a < near)
    assert all(near <= wait <= rule.ceiling for wait in waits[5:])
    back_off.progress()
    assert back_off.delay(rule) <= 2


def test_waits_are_jittered() -> None:
    """A hundred processes that fail together do not come back together."""
    rule = RULES[errors.Unreachable]
    assert len({BackOff(Random(seed)).delay(rule) for seed in range(100)}) == 100


def test_only_the_first_end_is_free() -> None:
    """A stream that ends is opened again at once; one that ends again without progress waits."""
    back_off = BackOff(Random(1))
    assert back_off.delay(CLOSED) == 0
    assert 1 <= back_off.delay(CLOSED) <= 2
    assert SOON * 0.75 <= [back_off.delay(CLOSED) for _ in range(5)][-1] <= SOON


def test_another_cause_starts_small() -> None:
    """After a long outage the API server's first word, that our version expired or that we may not, costs 2 s at
    most.
    """
    back_off = BackOff(Random(1))
    outage = [back_off.delay(RULES[errors.Unreachable]) for _ in range(8)]
    assert outage[-1] > 0.75 * SOON
    assert back_off.delay(RULES[errors.Gone]) == 0
    assert back_off.delay(rule_of(errors.Forbidden("GET /", "x"))) <= 2


def test_a_wish_of_the_server_is_never_free() -> None:
    """Retry-After counts even where the first end would cost nothing."""
    assert BackOff(Random(1)).delay(CLOSED, 5.0) >= 5
