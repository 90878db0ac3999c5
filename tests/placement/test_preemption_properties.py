"""The choice of victims against every set there is, on random small clusters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.preemption_units import Kind
from scheduler.model.workload import Strategy
from scheduler.placement.victim_selection import choose
from tests.builders import a_demand, a_gang, a_mask, a_node, a_role, a_snapshot
from tests.placement.asking import POLICY
from tests.placement.crowds import a_unit, cheapest, closed, filled, fits, irreducible, price
from tests.placement.test_properties import LEVELS, demands, nodes

LOST = st.sampled_from([0, 0, 1, 5, 5, 20, 100])


@st.composite
def crowds(draw, most: int, prios: int = 3):
    """Nodes, and up to `most` units that stand on them: pods, gangs, surplus of gangs. Some nodes may be overdrawn."""
    empty = a_snapshot(draw(nodes(most=4)))
    stands = st.tuples(
        st.sampled_from(empty.names),
        st.fixed_dictionaries({"cpu": st.integers(0, 3), "gpu": st.integers(0, 2)}),
    )
    units = []
    while len(units) < most and draw(st.integers(0, 9)):
        name = f"u{len(units)}"
        kind = draw(st.sampled_from(Kind))
        gangs = [unit.gang.name for unit in units if unit.kind is Kind.GANG]
        size = draw(st.integers(1, 4)) if kind is Kind.GANG else 1
        units.append(
            a_unit(
                empty,
                name,
                [
                    (node, fit(empty, use))
                    for node, use in draw(st.lists(stands, min_size=size, max_size=size))
                ],
                kind=kind,
                of=draw(st.sampled_from(gangs)) if kind is Kind.SURPLUS and gangs else None,
                priority=draw(st.integers(0, prios - 1)),
                lost=float(draw(LOST)),
            )
        )
    return filled(empty, units), units


def fit(snapshot, use):
    """Only resources that the cluster has."""
    return {
        name: count for name, count in use.items() if name == "cpu" or "nvidia.com/gpu" in snapshot.axis.index
    }


@st.composite
def preemptors(draw, roles: int, *, required_spread: bool = True):
    own = [
        a_role(
            f"role{number}", draw(st.integers(1, 5)), surplus=draw(st.integers(0, 2)), demand=draw(demands())
        )
        for number in range(roles)
    ]
    strategy, required = draw(st.sampled_from(list(Strategy))), draw(st.booleans())
    return a_gang(
        roles=own,
        priority=10,
        strategy=strategy if required_spread or strategy is not Strategy.SPREAD else Strategy.PACK,
        level=draw(LEVELS),
        required=required,
        barred=draw(st.sampled_from([(), (), ("n0",)])),
        anchors=draw(st.sampled_from([(), (), (), ("n1",), ("n0", "n2")])),
    )


@pytest.mark.slow
@given(crowds(most=8), preemptors(1))
@settings(deadline=None, max_examples=60)
def test_cheapest_of_a_few_is_the_cheapest_of_all_sets(crowd, gang):
    """Among up to eight units the price of the chosen set is that of the cheapest set that suffices."""
    snapshot, units = crowd
    found = choose(snapshot, gang, units, POLICY)

    assert (None if found is None else price(units, found.victims)) == cheapest(snapshot, gang, units)


@pytest.mark.slow
@given(crowds(most=6), preemptors(2))
@settings(deadline=None)
def test_cheapest_of_a_few_for_two_roles(crowd, gang):
    """The same where members of a gang differ."""
    snapshot, units = crowd
    found = choose(snapshot, gang, units, POLICY)

    assert (None if found is None else price(units, found.victims)) == cheapest(snapshot, gang, units)


@st.composite
def contests(draw, most: int):
    """Up to `most` units that fill a few equal nodes, and a gang of one role or two that has to fit in between them."""
    racks = draw(st.integers(1, 3))
    empty = a_snapshot(
        [
            a_node(f"n{number}", cpu=8, memory=9, gpu=8, pods=30, rack=f"r{number % racks}", area="a0")
            for number in range(draw(st.integers(2, 3)))
        ]
    )
    left = dict.fromkeys(empty.names, 8)
    units = []
    for number in range(draw(st.integers(9, most))):
        stands = []
        for _ in range(draw(st.sampled_from([1, 1, 2]))):
            node = draw(st.sampled_from(empty.names))
            gpu = min(left[node], draw(st.integers(1, 3)))
            left[node] -= gpu
            stands.append((node, {"cpu": draw(st.integers(0, 1)), "gpu": gpu}))
        kind = Kind.GANG if len(stands) > 1 else Kind.POD
        lost = float(draw(st.sampled_from([1, 5, 7, 20])))
        units.append(
            a_unit(empty, f"u{number}", stands, kind=kind, priority=draw(st.integers(0, 1)), lost=lost)
        )
    own = [
        a_role(
            f"role{number}",
            draw(st.integers(1, 4)),
            demand=a_demand(cpu=draw(st.integers(0, 4)), memory=0, gpu=draw(st.integers(1, 6))),
        )
        for number in range(draw(st.integers(1, 2)))
    ]
    strategy = draw(st.sampled_from([Strategy.SPREAD, Strategy.PACK, Strategy.COSINE]))
    level, required = draw(st.sampled_from(["host", "rack"])), draw(st.booleans())
    gang = a_gang(roles=own, priority=10, strategy=strategy, level=level, required=required)
    return filled(empty, units), units, gang


@pytest.mark.slow
@given(contests(most=12))
@settings(deadline=None, max_examples=5)
def test_cheapest_of_twelve_where_the_planner_often_says_no(contest):
    """Among nine to twelve units, alike or of two roles, spread evenly or not: nothing cheaper than the choice
    suffices.
    """
    snapshot, units, gang = contest
    found = choose(snapshot, gang, units, POLICY)

    assert (None if found is None else price(units, found.victims)) == cheapest(snapshot, gang, units)


@pytest.mark.slow
@given(crowds(most=26), st.one_of(preemptors(1), preemptors(2)), st.data())
@settings(deadline=None)
def test_every_answer_is_proven_whole_and_irreducible(crowd, gang, data):
    """Whoever is chosen: the planner then seats the quorum, no gang leaves in part, and nobody leaves in vain."""
    snapshot, units = crowd
    names = data.draw(st.lists(st.sampled_from(snapshot.names), min_size=1, unique=True))
    mask = a_mask(snapshot, *names)
    quorum = [uid for role in gang.roles for uid in role.quorum]
    allowed = data.draw(st.sampled_from([None, {quorum[0]: mask}, dict.fromkeys(quorum, mask)]))
    found = choose(snapshot, gang, units, POLICY, allowed)

    if found is None:
        assert not fits(snapshot, gang, units, allowed)
        return
    assert set(found.seats) == set(quorum)
    assert fits(snapshot, gang, found.victims, allowed)
    assert closed(units, found.victims)
    assert irreducible(snapshot, gang, found.victims, allowed)


@pytest.mark.slow
@given(crowds(most=20, prios=4), preemptors(1, required_spread=False))
@settings(deadline=None)
def test_highest_priority_is_minimal(crowd, gang):
    """Nobody of the highest priority that is touched would be needed if all below left."""
    snapshot, units = crowd
    found = choose(snapshot, gang, units, POLICY)
    if found is None or not found.victims:
        return
    top = max(unit.priority for unit in found.victims)
    heirs = {unit.gang for unit in units if unit.kind is Kind.SURPLUS and unit.priority >= top}
    below = [u for u in units if u.priority < top and not (u.kind is Kind.GANG and u.gang in heirs)]

    assert not fits(snapshot, gang, below)


@pytest.mark.slow
@given(crowds(most=20), preemptors(1), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_order_of_the_units_does_not_matter(crowd, gang, random):
    """The same units in any order give the same victims."""
    snapshot, units = crowd
    shuffled = list(units)
    random.shuffle(shuffled)
    one, other = (choose(snapshot, gang, own, POLICY) for own in (units, shuffled))

    assert (one and one.uids) == (other and other.uids)
    assert np.array_equal(snapshot.free, filled(snapshot, []).free)


def test_cheapest_of_twelve_though_hundreds_of_sets_look_cheaper():
    """Each role alone would have its seats once fewer had left, in hundreds of sets: the answer is the cheapest for
    both.
    """
    empty = a_snapshot(
        [
            a_node(f"n{row}", cpu=cpu, memory=9, gpu=8, pods=20, rack=f"r{row % 3}", area="a0")
            for row, cpu in enumerate((8, 8, 12))
        ]
    )
    crowd = [
        (0, 1.0, ("n0", 0, 3), ("n2", 0, 3), ("n0", 2, 2)),
        (1, 7.0, ("n2", 0, 1)),
        (0, 7.0, ("n1", 2, 3)),
        (1, 7.0, ("n2", 0, 1), ("n2", 2, 1)),
        (1, 7.0, ("n1", 1, 1), ("n0", 1, 2)),
        (0, 1.0, ("n1", 0, 2)),
        (1, 5.0, ("n2", 1, 2)),
        (1, 20.0, ("n1", 2, 2), ("n2", 0, 0), ("n0", 1, 1)),
        (0, 5.0, ("n2", 0, 0)),
        (0, 7.0, ("n1", 0, 0)),
        (1, 7.0, ("n1", 2, 0)),
        (0, 1.0, ("n1", 1, 0), ("n1", 0, 0), ("n0", 0, 0)),
    ]
    units = [
        a_unit(
            empty,
            f"u{number}",
            [(node, {"cpu": cpu, "gpu": gpu}) for node, cpu, gpu in stands],
            kind=Kind.GANG if len(stands) > 1 else Kind.POD,
            priority=priority,
            lost=lost,
        )
        for number, (priority, lost, *stands) in enumerate(crowd)
    ]
    roles = [
        a_role("one", 4, demand=a_demand(cpu=4, memory=0, gpu=1)),
        a_role("two", 2, demand=a_demand(cpu=3, memory=0, gpu=4)),
    ]
    gang = a_gang(roles=roles, priority=10, strategy=Strategy.COSINE, level="rack")

    found = choose(filled(empty, units), gang, units, POLICY)

    assert found is not None
    assert [unit.gang.name for unit in found.victims] == ["u0", "u2", "u3", "u4", "u6"]
