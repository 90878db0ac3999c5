"""Who leaves on terms: no more than was borrowed, and by a claim only for what is claimed."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.cluster import Snapshot
from scheduler.model.preemption_units import FREELY, By, Kind, Limit, Terms, Unit
from scheduler.model.workload import Gang
from scheduler.placement.feasibility import free_for
from scheduler.placement.victim_selection import choose
from scheduler.placement.victims import limits_of, standing_of
from tests.placement.support.asking import POLICY
from tests.placement.support.crowds import a_unit, closed, filled, fits, irreducible
from tests.placement.test_preemption_properties import crowds, preemptors
from tests.support.builders import GPU, a_cluster, a_demand, a_gang, a_role, a_snapshot, some_nodes

HIGH = 100


def gpus(snapshot: Snapshot, units: Sequence[Unit], most: float) -> Terms:
    """So many GPUs of these units may be taken, and no more."""
    column = snapshot.axis.index[GPU]
    uses = {uid: float(own[column]) for unit in units for uid, own in zip(unit.uids, unit.uses, strict=True)}
    return Terms((Limit(most, uses),))


def gone(snapshot: Snapshot, units: Sequence[Unit], gang: Gang, terms: Terms) -> list[str] | None:
    found = choose(filled(snapshot, units), gang, units, POLICY, terms=terms)
    return None if found is None else sorted({unit.gang.name for unit in found.victims})


@pytest.mark.parametrize("more", [0, 12], ids=["a few", "many"])
def test_the_limit_holds_for_the_set_and_not_for_the_cheapest_one_by_one(more: int) -> None:
    """Cheap units that stand on many nodes use the limit up in vain; the one that makes room alone is found."""
    snapshot = a_cluster(nodes=3 + more, gpu=4)
    first, second, third, *rest = snapshot.names
    units = [
        a_unit(snapshot, "whole", [(first, {"gpu": 4})], lost=100.0),
        a_unit(snapshot, "across", [(second, {"gpu": 2}), (third, {"gpu": 2})], kind=Kind.GANG, lost=10.0),
        a_unit(snapshot, "half", [(second, {"gpu": 2})], lost=1.0),
        a_unit(snapshot, "other", [(third, {"gpu": 2})], lost=1.0),
        *(a_unit(snapshot, f"far-{node}", [(node, {"gpu": 4})], lost=200.0) for node in rest),
    ]
    gang = a_gang(gpu=4, priority=HIGH)

    assert gone(snapshot, units, gang, FREELY) == ["across", "half"]
    assert gone(snapshot, units, gang, gpus(snapshot, units, 4)) == ["whole"]
    assert gone(snapshot, units, gang, gpus(snapshot, units, 3)) is None


def test_the_place_is_found_where_nobody_takes_others_along() -> None:
    """Gangs that stand across the nodes are cheap and many; on one node those who stand there alone are within the
    limit.
    """
    snapshot = a_cluster(nodes=10, gpu=4)
    names = snapshot.names
    units = [
        a_unit(
            snapshot,
            f"across-{number}",
            [(names[number], {"gpu": 2}), (names[(number + 1) % 9], {"gpu": 2})],
            kind=Kind.GANG,
            lost=1.0,
        )
        for number in range(9)
    ]
    units += [
        a_unit(snapshot, f"alone-{number}", [(names[9], {"gpu": 1})], lost=500.0) for number in range(4)
    ]
    gang = a_gang(gpu=4, priority=HIGH)

    assert gone(snapshot, units, gang, gpus(snapshot, units, 4)) == [f"alone-{number}" for number in range(4)]


def test_limits_take_as_much_memory_as_the_units_under_them() -> None:
    """Of a hundred limits on two units each, one entry is kept for a unit; a limit that they cannot pass is none."""
    snapshot = a_cluster(nodes=100, gpu=2)
    units = [
        a_unit(snapshot, f"{node}-{number}", [(node, {"gpu": 1})])
        for node in snapshot.names
        for number in range(2)
    ]
    pairs = [{uid: 1.0 for unit in units[at : at + 2] for uid in unit.uids} for at in range(0, len(units), 2)]
    standing = standing_of(units, free_for(filled(snapshot, units), HIGH))

    def size(most: float) -> tuple[int, ...]:
        terms = limits_of(standing, Terms(tuple(Limit(most, uses) for uses in pairs)))
        return len(terms.limit), len(terms.unit), len(terms.value), len(terms.most)

    assert size(1.0) == (200, 200, 200, 100)
    assert size(2.0) == (0, 0, 0, 0)


def test_a_domain_in_which_no_limit_stands_in_the_way_is_found() -> None:
    """Five racks that look cheaper are kept by budgets; the sixth is emptied."""
    snapshot = a_cluster(racks=6, nodes=1, gpu=2)
    units = [
        a_unit(snapshot, f"{node}-{number}", [(node, {"gpu": 1})], lost=float(place))
        for place, node in enumerate(snapshot.names)
        for number in range(2)
    ]
    kept = [{uid: 1.0 for unit in units[at : at + 2] for uid in unit.uids} for at in range(0, 10, 2)]
    gang = a_gang(2, gpu=1, priority=HIGH, level="rack", required=True)

    found = gone(snapshot, units, gang, Terms(tuple(Limit(1.0, uses) for uses in kept)))

    assert found == [f"{snapshot.names[5]}-{number}" for number in range(2)]


def test_room_that_is_promised_to_others_is_none_that_a_claim_may_count_on() -> None:
    """Half of the node is nominated to a pod of higher priority: the borrower on the other half leaves."""
    nodes = some_nodes(nodes=1, gpu=8)
    snapshot = a_snapshot(nodes, nominations=[(nodes[0].name, HIGH + 1, a_demand(gpu=4))])
    unit = replace(a_unit(snapshot, "lodger", [(snapshot.names[0], {"gpu": 4})]), by=By.CLAIM)

    assert gone(snapshot, [unit], a_gang(gpu=4, priority=HIGH), Terms(claimed=frozenset({GPU}))) == ["lodger"]


@pytest.mark.parametrize("claimed", ["cpu", GPU])
def test_nobody_leaves_by_a_claim_for_what_is_not_claimed(claimed: str) -> None:
    """GPUs are short and CPUs are not: a claim to GPUs takes them, one to CPUs takes nothing."""
    snapshot = a_cluster(nodes=1, gpu=4, cpu=32)
    unit = replace(a_unit(snapshot, "lodger", [(snapshot.names[0], {"gpu": 4, "cpu": 1})]), by=By.CLAIM)
    found = gone(snapshot, [unit], a_gang(gpu=4, cpu=4), Terms(claimed=frozenset({claimed})))

    assert found == (["lodger"] if claimed == GPU else None)


@pytest.mark.parametrize("more", [0, 12], ids=["a few", "many"])
def test_each_who_leaves_by_a_claim_leaves_something_that_is_claimed(more: int) -> None:
    """Two who stand in the way of a CPU that is claimed are not both taken, where one of them has only what is not."""
    snapshot = a_cluster(nodes=2 + more, gpu=2, cpu=8)
    first, second, *rest = snapshot.names
    units = [
        a_unit(snapshot, "gpus", [(first, {"gpu": 2, "cpu": 1})]),
        a_unit(snapshot, "cpus", [(first, {"cpu": 7})]),
        a_unit(snapshot, "both", [(second, {"gpu": 2, "cpu": 8})], lost=1000.0),
        *(a_unit(snapshot, f"far-{node}", [(node, {"gpu": 2, "cpu": 8})], lost=2000.0) for node in rest),
    ]
    units = [replace(unit, by=By.CLAIM) for unit in units]

    assert gone(snapshot, units, a_gang(gpu=1, cpu=7), Terms(claimed=frozenset({"cpu"}))) == ["both"]


def test_a_gang_within_the_limit_only_without_its_surplus_stays() -> None:
    """Who takes surplus along takes that of the limit as well; the surplus may leave alone."""
    snapshot = a_cluster(nodes=2, gpu=4)
    first, second = snapshot.names
    units = [
        a_unit(snapshot, "core", [(first, {"gpu": 4})], kind=Kind.GANG),
        a_unit(snapshot, "extra", [(second, {"gpu": 4})], kind=Kind.SURPLUS, of="core", lost=50.0),
    ]
    found = choose(
        filled(snapshot, units), a_gang(gpu=4, priority=HIGH), units, POLICY, terms=gpus(snapshot, units, 4)
    )

    assert found is not None
    assert [unit.kind for unit in found.victims] == [Kind.SURPLUS]


@pytest.mark.parametrize("most", [0, 2])
def test_a_member_without_what_is_claimed_sits_beside_those_with(most: int) -> None:
    """A launcher asks for nothing that is claimed; its gang takes back what its workers ask for."""
    snapshot = a_cluster(nodes=1, gpu=2, cpu=8)
    unit = replace(a_unit(snapshot, "lodger", [(snapshot.names[0], {"gpu": 2})], kind=Kind.GANG), by=By.CLAIM)
    roles = [a_role("launcher", 1, demand=a_demand(cpu=1)), a_role("worker", 2, demand=a_demand(gpu=1))]
    terms = replace(gpus(snapshot, [unit], most), claimed=frozenset({GPU}))

    assert gone(snapshot, [unit], a_gang(roles=roles), terms) == (["lodger"] if most else None)


@pytest.mark.slow
@given(crowds(most=16), preemptors(1), st.integers(0, 12), st.data())
@settings(deadline=None, max_examples=150)
def test_whoever_is_chosen_keeps_the_terms(crowd, gang, most, data) -> None:
    """The set seats the gang, nobody could be left out, and what it takes is within the limit."""
    snapshot, units = crowd
    units = [replace(unit, by=data.draw(st.sampled_from(By))) for unit in units]
    uses = {uid: float(own.max(initial=0.0)) for u in units for uid, own in zip(u.uids, u.uses, strict=True)}
    names = data.draw(st.sampled_from([("cpu",), (GPU,), ("cpu", GPU)]))
    terms = Terms((Limit(float(most), uses),), frozenset(names))
    found = choose(snapshot, gang, units, POLICY, terms=terms)

    if found is not None:
        assert sum(uses[uid] for uid in found.uids) <= most
        assert closed([unit for unit in units if unit in found.victims], found.victims)
        assert fits(snapshot, gang, found.victims)
        assert irreducible(snapshot, gang, found.victims)
