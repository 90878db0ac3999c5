"""What is true of every choice of victims, on random small clusters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.preemption_units import Kind
from scheduler.model.workload import Strategy
from scheduler.placement.victim_selection import choose
from tests.placement.support.asking import POLICY
from tests.placement.support.crowds import a_unit, closed, filled, fits, irreducible
from tests.placement.test_properties import LEVELS, demands, nodes
from tests.support.builders import a_gang, a_mask, a_role, a_snapshot

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
