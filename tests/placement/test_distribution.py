"""How members are shared out over bins."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.distribution import ascending, fill, share


def filled(units, quota, *, group=None, tier=None):
    bins = np.array(units, dtype=float)
    groups = np.zeros(len(units), dtype=np.int64) if group is None else np.array(group)
    tiers = np.zeros(len(units), dtype=np.int64) if tier is None else np.array(tier)
    return fill(bins, groups, np.atleast_1d(np.array(quota, dtype=float)), tiers).astype(int).tolist()


def test_roomiest_first_then_the_tightest_for_the_rest():
    """Full bins first; what is left goes to the smallest bin that holds it."""
    assert filled([3, 8, 4, 2, 8], 10) == [0, 8, 0, 2, 0]
    assert filled([3, 8, 4, 2], 11) == [3, 8, 0, 0]


def test_one_member_goes_to_the_tightest_bin():
    """A single member takes the smallest bin, the earlier one of equals."""
    assert filled([3, 1, 2, 1], 1) == [0, 1, 0, 0]


def test_tiers_are_used_up_in_turn():
    """Bins of a lower tier are full before any of a higher one is touched."""
    assert filled([1, 8, 1], 4, tier=[0, 1, 0]) == [1, 2, 1]
    assert filled([4, 2, 3], 2, tier=[1, 1, 0]) == [0, 0, 2]


def test_groups_do_not_mix():
    """Each group gets its own quota, and bins of no group get nothing."""
    assert filled([2, 2, 5, 5], [3, 5], group=[0, 0, 1, -1]) == [2, 1, 5, 0]
    assert filled([1, 1], [0], group=[-1, -1]) == [0, 0]


def test_too_little_room():
    """A group without enough room takes what it can."""
    assert filled([2, 1], 9) == [2, 1]
    assert filled([], 3) == []


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=9),
    st.lists(st.integers(0, 12), min_size=3, max_size=3),
)
def test_fill_is_exact(bins, quotas):
    """Every group gets its quota or all its room, never more than a bin holds, lower tiers first."""
    units, group, tier = (list(column) for column in zip(*bins, strict=True))
    take = filled(units, quotas, group=group, tier=tier)

    assert all(0 <= got <= room for got, room in zip(take, units, strict=True))
    for number, quota in enumerate(quotas):
        own = [b for b in range(len(bins)) if group[b] == number]
        assert sum(take[b] for b in own) == min(quota, sum(units[b] for b in own))
        for low in own:
            for high in own:
                assert not (tier[low] < tier[high] and take[high] and take[low] < units[low])


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 2), st.integers(0, 3)), min_size=1, max_size=12),
    st.lists(st.integers(0, 12), min_size=3, max_size=3),
)
def test_numbers_of_groups_do_not_matter(bins, quotas):
    """Groups with numbers too large to sort by two digits are dealt with as others are, equal bins in their order
    too.
    """
    units, group, tier = (list(column) for column in zip(*bins, strict=True))
    far = 70_000
    distant = filled(units, [0] * far + quotas, group=[g + far if g >= 0 else g for g in group], tier=tier)

    assert distant == filled(units, quotas, group=group, tier=tier)


@given(st.lists(st.sampled_from([0.0, 1.0, -1.0, 0.5, 32767.0, -32768.0, 1e9])))
def test_ascending_keeps_ties_as_they_stand(values):
    """Whatever the numbers are, their order is the one that Python's stable sort finds."""
    assert ascending(np.array(values)).tolist() == sorted(range(len(values)), key=values.__getitem__)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 30))
def test_fill_uses_the_fewest_bins(units, quota):
    """No smaller number of bins could hold as many."""
    take = filled(units, quota)
    used = sum(1 for got in take if got)

    assert all(sum(chosen) < sum(take) for chosen in combinations(units, used - 1)) if used else not sum(take)


def shared(have, room, members):
    return share(np.array(have, dtype=float), np.array(room, dtype=float), members).astype(int).tolist()


def test_share_is_level():
    """The lowest rise first, and all rise together."""
    assert shared([0, 0, 0], [9, 9, 9], 6) == [2, 2, 2]
    assert shared([3, 0, 1], [9, 9, 9], 3) == [0, 2, 1]
    assert shared([0, 0, 0], [1, 9, 9], 5) == [1, 2, 2]


def test_last_layer_goes_to_the_roomiest():
    """What does not go round goes where most room is left, of equals to the earlier."""
    assert shared([0, 0, 0], [1, 3, 3], 1) == [0, 1, 0]
    assert shared([0, 0, 0], [2, 2, 2], 4) == [2, 1, 1]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=7),
    st.integers(0, 20),
)
def test_share_is_what_one_by_one_would_give(domains, members):
    """As many and as level as when each member in turn went to the lowest domain that has room."""
    have, room = [h for h, _ in domains], [r for _, r in domains]
    given_ = shared(have, room, members)
    level, left = list(have), list(room)
    for _ in range(min(members, sum(room))):
        lowest = min((d for d in range(len(have)) if left[d]), key=lambda d: level[d])
        level[lowest] += 1
        left[lowest] -= 1

    assert all(0 <= got <= most for got, most in zip(given_, room, strict=True))
    assert sorted(h + g for h, g in zip(have, given_, strict=True)) == sorted(level)
