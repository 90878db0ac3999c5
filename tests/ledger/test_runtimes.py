"""How long gangs run: declarations, and what was seen."""

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.ledger import runtimes
from scheduler.ledger.runtimes import KEPT, Runtimes, quantiles
from scheduler.model.queueing import Estimate

HOUR = 3600.0
JOB = ("team", "Job")
SPANS = st.floats(1.0, 1e7)


def figures(estimate: Estimate) -> tuple[float, ...]:
    return (estimate.low, estimate.middle, estimate.high)


def ordered(estimate: Estimate) -> bool:
    return 0 <= estimate.low <= estimate.middle <= estimate.high < math.inf


def test_a_first_declaration_is_believed_within_a_factor_of_two():
    """Four of five lie between the tenths of a factor evenly spread, as a logarithm, over half … twice."""
    estimate = Runtimes().expect(*JOB, 4, HOUR, 1.0)

    assert figures(estimate) == pytest.approx((HOUR * 2**-0.8, HOUR, HOUR * 2**0.8))


def test_a_forecast_takes_long_declarations_for_too_long():
    """Of gangs of which those that run longer than t are as 1 / t, declared at half … twice the truth: those that
    declare the same.
    """
    chance = random.Random(1)
    gangs = [(1.0 / chance.uniform(1e-4, 1.0), 2.0 ** chance.uniform(-1, 1)) for _ in range(400_000)]
    found = quantiles(1 / error for runs, error in gangs if 9.0 < runs * error < 11.0)

    likely = Runtimes().likely((*JOB, 1, HOUR, 1.0))

    assert figures(likely) == pytest.approx([HOUR * ratio for ratio in figures(found)], rel=0.06)
    assert likely.middle == pytest.approx(0.8 * HOUR)


def test_a_forecast_learns_like_a_decision():
    """Owners that keep their word are believed, and those that do not are not."""
    memory = Runtimes()
    for _ in range(KEPT):
        memory.ended(*JOB, 1, HOUR, HOUR)
    assert memory.likely((*JOB, 1, HOUR, 1.0)).middle == pytest.approx(HOUR)
    assert memory.likely((*JOB, 1, None, 77.0)) == memory.of((*JOB, 1, None, 77.0))

    memory.ended(*JOB, 8, HOUR, 10 * HOUR)
    assert memory.likely((*JOB, 8, HOUR, 1.0)) == memory.of((*JOB, 8, HOUR, 1.0))


def test_declarations_learn_from_what_was_seen():
    """An owner that always takes four fifths of what it declares is expected to, with less and less spread."""
    memory = Runtimes()
    spreads = []
    for _ in range(KEPT):
        spread = memory.expect(*JOB, 1, HOUR, 1.0)
        spreads.append(spread.high / spread.low)
        memory.ended(*JOB, 1, 1000.0, 800.0)

    estimate = memory.expect(*JOB, 1, HOUR, 1.0)
    assert estimate.middle == pytest.approx(0.8 * HOUR)
    assert estimate.high / estimate.low < 1.5
    assert all(later <= sooner + 1e-9 for sooner, later in pairwise(spreads[5:]))
    assert spreads[-1] < spreads[0] / 1.5


def test_a_lie_replaces_the_declarations_of_its_owner():
    """After one gang ran ten times what it declared, its owner's declarations are not looked at any more."""
    memory = Runtimes()
    memory.ended(*JOB, 8, HOUR, 10 * HOUR)

    estimate = memory.expect(*JOB, 8, HOUR, 1.0)

    assert memory.lies(*JOB)
    assert estimate.middle == pytest.approx(10 * HOUR)
    assert estimate == memory.expect(*JOB, 8, None, 1.0)


def test_other_owners_are_still_believed():
    """A lie convicts its namespace and kind alone."""
    memory = Runtimes()
    memory.ended(*JOB, 8, HOUR, 10 * HOUR)

    assert memory.expect("team", "PyTorchJob", 8, HOUR, 1.0).middle == pytest.approx(HOUR)
    assert memory.expect("other", "Job", 8, HOUR, 1.0).middle == pytest.approx(HOUR)


def test_a_lie_is_forgotten_after_as_many_truths_as_are_kept():
    """Who has kept its word ever since is believed again."""
    memory = Runtimes()
    memory.ended(*JOB, 1, HOUR, 10 * HOUR)
    for _ in range(KEPT - 1):
        memory.ended(*JOB, 1, HOUR, HOUR)
    assert memory.lies(*JOB)

    memory.ended(*JOB, 1, HOUR, HOUR)

    assert not memory.lies(*JOB)


def test_honest_errors_are_no_lies():
    """Twice the declared runtime is within what honest owners are off by."""
    memory = Runtimes()
    for _ in range(60):
        memory.ended(*JOB, 1, HOUR, 2 * HOUR)

    assert not memory.lies(*JOB)
    assert memory.expect(*JOB, 1, HOUR, 1.0).middle == pytest.approx(2 * HOUR)


def test_long_declarations_learn_from_long_ones():
    """Where long declarations are too long and short ones are right, each is corrected by its like."""
    memory = Runtimes()
    for _ in range(KEPT):
        memory.ended(*JOB, 1, 60.0, 60.0)
        memory.ended(*JOB, 1, 50 * HOUR, 30 * HOUR)

    assert memory.expect(*JOB, 1, 60.0, 1.0).middle == pytest.approx(60.0)
    assert memory.expect(*JOB, 1, 50 * HOUR, 1.0).middle == pytest.approx(30 * HOUR)


def test_who_declares_less_says_nothing_of_who_declares_more():
    """All take an hour, and those that declared less than it go first: who declared more is not expected to take
    longer for it.
    """
    memory = Runtimes()
    for _ in range(KEPT):
        memory.ended(*JOB, 1, 1.1 * HOUR, HOUR)
        memory.ended(*JOB, 1, 0.6 * HOUR, HOUR)

    assert memory.expect(*JOB, 1, 0.6 * HOUR, 1.0).middle == pytest.approx(HOUR)
    assert memory.expect(*JOB, 1, 1.1 * HOUR, 1.0).middle == pytest.approx(HOUR)


def of_class(away: int) -> float:
    """A declared runtime so many classes above that of an hour."""
    return HOUR * math.sqrt(2.0) ** away


@pytest.mark.parametrize("side", [-1, 1])
def test_where_few_of_a_class_ended_the_nearest_classes_are_asked(side):
    """The nearest that know enough count, and not those beyond them."""
    memory = Runtimes()
    for _ in range(KEPT):
        memory.ended(*JOB, 1, of_class(side), 1.1 * of_class(side))
        memory.ended(*JOB, 1, of_class(2 * side), 0.6 * of_class(2 * side))

    assert memory.expect(*JOB, 1, HOUR, 1.0).middle == pytest.approx(1.1 * HOUR)


@pytest.mark.parametrize("side", [-1, 1])
def test_classes_further_away_are_asked_only_where_nobody_nearer_is_known(side):
    """Many that declared three times or a third as much count where nobody else is known; a few nearer ones count
    instead of them.
    """
    memory = Runtimes()
    for _ in range(KEPT):
        memory.ended(*JOB, 1, of_class(3 * side), 1.8 * of_class(3 * side))
    assert memory.expect(*JOB, 1, HOUR, 1.0).middle == pytest.approx(1.8 * HOUR)

    for _ in range(10):
        memory.ended(*JOB, 1, of_class(2 * side), 0.6 * of_class(2 * side))
    assert memory.expect(*JOB, 1, HOUR, 1.0).middle < HOUR


def test_knowing_more_makes_no_estimate_worse():
    """A class of which the first few end is not torn away from its neighbours, who say the same."""
    memory = Runtimes()
    for _ in range(KEPT):
        memory.ended(*JOB, 1, of_class(1), 0.6 * of_class(1))
    for _ in range(KEPT):
        estimate = memory.expect(*JOB, 1, HOUR, 1.0)
        assert estimate.middle == pytest.approx(0.6 * HOUR)
        memory.ended(*JOB, 1, HOUR, 0.6 * HOUR)


def test_a_declared_runtime_that_is_none_is_ignored():
    """Zero, negative and endless declarations say nothing."""
    default = Runtimes().expect(*JOB, 1, None, 77.0)

    assert all(Runtimes().expect(*JOB, 1, odd, 77.0) == default for odd in (0.0, -1.0, math.inf, math.nan))


def test_without_any_knowledge_the_default_counts_with_a_wide_spread():
    """The default is the middle, and may be wrong by a factor of ten."""
    assert Runtimes().expect(*JOB, 1, None, 60.0) == Estimate(60.0, 6.0, 600.0)


def test_without_declaration_gangs_of_the_same_size_count_before_others():
    """Once enough of the same size class have ended, the others of the owner are not looked at."""
    memory = Runtimes()
    for _ in range(20):
        memory.ended(*JOB, 1, None, 10.0)
    for _ in range(3):
        memory.ended(*JOB, 8, None, 1000.0)
    assert memory.expect(*JOB, 15, None, 1.0).middle == pytest.approx(10.0)

    memory.ended(*JOB, 15, None, 1000.0)

    assert memory.expect(*JOB, 9, None, 1.0).middle == pytest.approx(1000.0)
    assert memory.expect(*JOB, 2, None, 1.0).middle == pytest.approx(10.0)


def test_few_observations_leave_a_wide_spread():
    """One ended gang says little of the next; many say their quantiles."""
    memory = Runtimes()
    memory.ended(*JOB, 1, None, 100.0)
    one = memory.expect(*JOB, 1, None, 1.0)
    for seconds in range(51, 151):
        memory.ended(*JOB, 1, None, float(seconds))
    many = memory.expect(*JOB, 1, None, 1.0)

    assert one.low < 40 < 250 < one.high
    assert many.low == pytest.approx(91, abs=4)
    assert many.middle == pytest.approx(118.5, abs=2)
    assert many.high == pytest.approx(145, abs=4)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_odd_spans_teach_nothing(seconds):
    """A gang that ended before it began, by some clock, is not remembered."""
    memory = Runtimes()
    memory.ended(*JOB, 1, HOUR, seconds)

    assert len(memory) == 0


def test_memory_is_bounded(monkeypatch):
    """Of more owners than are kept, the one not heard of for longest is forgotten."""
    monkeypatch.setattr(runtimes, "OWNERS", 4)
    memory = Runtimes()
    memory.ended("first", "Job", 1, HOUR, 5 * HOUR)
    assert memory.lies("first", "Job")
    for number in range(50):
        memory.ended(f"team-{number}", "Job", 1, HOUR, HOUR)
        memory.ended("kept", "Job", 1, HOUR, 5 * HOUR)

    assert len(memory) <= 8
    assert not memory.lies("first", "Job")
    assert memory.lies("kept", "Job")


@given(
    st.lists(st.tuples(st.integers(1, 64), st.one_of(st.none(), SPANS), SPANS), max_size=80),
    st.integers(1, 64),
    st.one_of(st.none(), SPANS),
    SPANS,
)
def test_bounds_are_in_order(seen, size, declared, default):
    """Whatever was seen: low ≤ middle ≤ high."""
    memory = Runtimes()
    for members, said, seconds in seen:
        memory.ended(*JOB, members, said, seconds)
    estimate = memory.expect(*JOB, size, declared, default)

    assert ordered(estimate)
    assert estimate.low > 0


def test_namespaces_that_are_no_more_are_forgotten(monkeypatch):
    """However many there were; and what was made of one while it was known counts no longer when it is forgotten."""
    monkeypatch.setattr(runtimes, "OWNERS", 4)
    memory = Runtimes()
    versions = {"never": memory.version("never")}
    for number in range(20):
        namespace = f"ns-{number}"
        before = memory.version(namespace)
        memory.ended(namespace, "Job", 1, HOUR, HOUR)
        versions[namespace] = memory.version(namespace)
        assert versions[namespace] > before
        assert len(memory._versions) <= 4
    assert all(memory.version(namespace) >= known for namespace, known in versions.items())
    assert all(memory.version(f"ns-{number}") == versions[f"ns-{number}"] for number in range(16, 20))
