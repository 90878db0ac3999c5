"""Who has to leave for a gang: one situation a test."""

import numpy as np
import pytest

from scheduler.model.preemption_units import Kind
from scheduler.placement.victim_selection import choose
from tests.placement.support.asking import POLICY
from tests.placement.support.crowds import a_unit, filled, fits, irreducible
from tests.support.builders import (
    a_cluster,
    a_demand,
    a_gang,
    a_mask,
    a_node,
    a_role,
    a_snapshot,
    a_taint,
    some_nodes,
)

HIGH = 100


def victims(snapshot, gang, units, **how) -> list[str]:
    """The names of the units that leave from the picture with them in it, sorted."""
    found = choose(filled(snapshot, units), gang, units, POLICY, **how)
    assert found is not None
    return sorted(unit.uids[0].rsplit("-", 1)[0] for unit in found.victims)


def a_pod(snapshot, name, node, gpu=1, **how):
    return a_unit(snapshot, name, [(node, {"gpu": gpu})], **how)


TWO = a_cluster(nodes=2, gpu=4)
A, B = TWO.names


def test_nobody_leaves_where_there_is_room():
    """A gang that fits gets its seats and no victims."""
    found = choose(TWO, a_gang(2, gpu=4), [a_pod(TWO, "p", A, gpu=0)], POLICY)

    assert found is not None
    assert found.victims == ()
    assert sorted(found.seats.values()) == [A, B]


def test_less_work_lost_is_cheaper():
    """Of two equal pods the one that loses less leaves."""
    units = [a_pod(TWO, "long", A, 4, lost=100.0), a_pod(TWO, "short", B, 4, lost=10.0)]

    assert victims(TWO, a_gang(gpu=4, priority=HIGH), units) == ["short"]


def test_lower_priority_leaves_whatever_it_loses():
    """A pod of lower priority leaves before one of higher that would lose much less."""
    units = [
        a_pod(TWO, "high", A, 4, priority=2, lost=1.0),
        a_pod(TWO, "low", B, 4, priority=1, lost=1e6),
    ]

    assert victims(TWO, a_gang(gpu=4, priority=HIGH), units) == ["low"]


def test_many_of_low_priority_leave_before_one_of_higher():
    """The highest priority that is touched is minimal, however many leave for it."""
    low = [a_pod(TWO, f"low{n}", A, lost=1000.0) for n in range(4)]

    assert victims(TWO, a_gang(gpu=4, priority=HIGH), [*low, a_pod(TWO, "high", B, 4, priority=1)]) == [
        "low0",
        "low1",
        "low2",
        "low3",
    ]


@pytest.mark.parametrize("dear", [Kind.POD, Kind.GANG])
def test_surplus_goes_first_where_cost_is_equal(dear):
    """Shrink before kill: what is lost being equal, surplus leaves before a pod and before a gang."""
    units = [a_pod(TWO, "other", A, 4, kind=dear), a_pod(TWO, "surplus", B, 4, kind=Kind.SURPLUS)]

    assert victims(TWO, a_gang(gpu=4, priority=HIGH), units) == ["surplus"]


def test_pod_goes_before_a_gang_where_cost_is_equal():
    """What is lost being equal, a pod leaves before a gang."""
    units = [a_pod(TWO, "gang", A, 4, kind=Kind.GANG), a_pod(TWO, "pod", B, 4)]

    assert victims(TWO, a_gang(gpu=4, priority=HIGH), units) == ["pod"]


def test_a_gang_takes_its_surplus_along():
    """When a gang leaves, none of its surplus stays, whether its room is needed or not."""
    gang = a_unit(TWO, "g", [(A, {"gpu": 4})], kind=Kind.GANG, lost=1.0)
    surplus = a_pod(TWO, "s", B, kind=Kind.SURPLUS, of="g")
    dear = a_pod(TWO, "dear", B, 3, lost=1e6)

    assert victims(TWO, a_gang(gpu=4, priority=HIGH), [gang, surplus, dear]) == ["g", "s"]


def test_surplus_leaves_alone():
    """Surplus makes room without its gang."""
    gang = a_unit(TWO, "g", [(A, {"gpu": 3})], kind=Kind.GANG, lost=1.0)
    surplus = a_pod(TWO, "s", A, kind=Kind.SURPLUS, of="g")

    assert victims(TWO, a_gang(gpu=4), [gang, surplus]) == []
    assert victims(TWO, a_gang(5, gpu=1), [gang, surplus]) == ["s"]


def test_one_gang_on_two_nodes_is_paid_once():
    """A gang whose room helps on both nodes leaves rather than two pods that lose more together."""
    gang = a_unit(TWO, "g", [(A, {"gpu": 2}), (B, {"gpu": 2})], kind=Kind.GANG, lost=15.0)
    pods = [a_pod(TWO, f"p{node}", node, 2, lost=10.0) for node in (A, B)]

    assert victims(TWO, a_gang(2, gpu=2, priority=HIGH), [gang, *pods]) == ["g"]


def test_surplus_of_the_preemptor_takes_nobodys_room():
    """Room is made for the quorum only."""
    units = [a_pod(TWO, "p", A, 4), a_pod(TWO, "q", B, 4)]

    assert len(victims(TWO, a_gang(1, surplus=3, gpu=4, priority=HIGH), units)) == 1


def test_required_level_empties_one_domain():
    """A gang that must lie in one rack takes the cheapest rack, not the cheapest pods of all racks."""
    cluster = a_cluster(racks=2, nodes=2, gpu=4)
    cheap = [10.0, 10.0, 1.0, 15.0]
    units = [a_pod(cluster, f"p{n}", name, 4, lost=cheap[n]) for n, name in enumerate(sorted(cluster.names))]
    gang = a_gang(2, gpu=4, priority=HIGH, level="rack", required=True)

    assert victims(cluster, gang, units) == ["p2", "p3"]


def test_required_spread_takes_one_of_each_domain():
    """Evenly over two racks: a victim in each, though one rack alone would be cheaper."""
    cluster = a_cluster(racks=2, nodes=2, gpu=4)
    cheap = [1.0, 1.0, 50.0, 40.0]
    units = [a_pod(cluster, f"p{n}", name, 4, lost=cheap[n]) for n, name in enumerate(sorted(cluster.names))]
    gang = a_gang(2, gpu=4, priority=HIGH, level="rack", required=True, strategy="spread")

    assert victims(cluster, gang, units) == ["p0", "p3"]


def test_nobody_leaves_a_node_that_the_gang_may_not_have():
    """Tainted, barred and excluded nodes are not emptied, however cheap."""
    nodes = [*some_nodes(nodes=3, gpu=4), a_node("tainted", gpu=4, taints=[a_taint("team")])]
    cluster = a_snapshot(nodes)
    first, second, third = (name for name in cluster.names if name != "tainted")
    units = [a_pod(cluster, name, name, 4, lost=float(n)) for n, name in enumerate([*cluster.names][::-1])]
    gang = a_gang(gpu=4, priority=HIGH, barred=[second])
    allowed = {gang.roles[0].quorum[0]: a_mask(cluster, first, second, "tainted")}

    assert victims(cluster, gang, units) == [third]
    assert victims(cluster, gang, units, allowed=allowed) == [first]


def test_promised_room_is_not_given_away():
    """Where a pod of higher priority is nominated, leaving makes room for that pod only."""
    cluster = a_snapshot(some_nodes(nodes=2, gpu=4), nominations=[(A, HIGH + 1, a_demand(gpu=4))])
    units = [a_pod(cluster, "promised", A, 4, lost=1.0), a_pod(cluster, "other", B, 4, lost=9.0)]

    assert victims(cluster, a_gang(gpu=4, priority=HIGH), units) == ["other"]


@pytest.mark.parametrize(
    "gang",
    [
        a_gang(3, gpu=4, priority=HIGH),
        a_gang(gpu=5, priority=HIGH),
        a_gang(level="galaxy", priority=HIGH, gpu=4),
        a_gang(demand=a_demand(more={"example.com/fpga": 1}), priority=HIGH),
        a_gang(gpu=4, selector={"pool": "none"}, priority=HIGH),
    ],
    ids=["too many", "too large", "unknown level", "unknown resource", "no node matches"],
)
def test_nobody_leaves_in_vain(gang):
    """A gang that would not fit even if all left preempts nobody."""
    units = [a_pod(TWO, "p", A, 4), a_pod(TWO, "q", B, 4)]

    assert choose(filled(TWO, units), gang, units, POLICY) is None


def test_nobody_may_be_taken():
    """Without units there is no answer."""
    assert choose(filled(TWO, [a_pod(TWO, "p", A, 4)]), a_gang(2, gpu=4), [], POLICY) is None


def test_pods_that_free_nothing_of_use_stay():
    """A pod without devices stays where only devices are short."""
    units = [a_pod(TWO, "gpu", A, 4, lost=5.0), a_pod(TWO, "cpu", A, 0), a_pod(TWO, "b", B, 4, lost=9.0)]

    assert victims(TWO, a_gang(gpu=4, priority=HIGH), units) == ["gpu"]


def test_roles_that_differ_are_seated_together():
    """Servers and workers of one gang: the answer seats both, and nobody leaves in vain."""
    cluster = a_cluster(racks=4, nodes=5, gpu=4, cpu=8)
    rng = np.random.default_rng(7)
    units = [
        a_unit(cluster, f"p{n}-{k}", [(name, {"gpu": 1, "cpu": 2})], lost=float(rng.integers(1, 99)))
        for n, name in enumerate(cluster.names)
        for k in range(4)
    ]
    roles = [a_role("ps", 3, cpu=3), a_role("worker", 12, gpu=2, cpu=1)]
    gang = a_gang(roles=roles, priority=HIGH)
    found = choose(filled(cluster, units), gang, units, POLICY)

    assert found is not None
    assert len(found.seats) == 15
    assert fits(filled(cluster, units), gang, found.victims)
    assert irreducible(filled(cluster, units), gang, found.victims)
    assert sum(unit.lost for unit in found.victims) < sum(unit.lost for unit in units) / 2


def test_crowded_nodes_are_not_emptied_for_one_seat():
    """Of sixty pods on one node only the cheap ones leave that are needed."""
    cluster = a_cluster(nodes=1, gpu=60, cpu=60)
    (name,) = cluster.names
    units = [a_pod(cluster, f"p{n:02}", name, lost=float(n)) for n in range(60)]

    assert victims(cluster, a_gang(2, gpu=8), units) == [f"p{n:02}" for n in range(16)]


@pytest.mark.parametrize("lost", [float("nan"), float("inf"), -1.0, 1e300])
def test_work_lost_that_is_no_amount_does_not_confuse(lost):
    """Whatever stands for the work that is lost, those who are needed leave."""
    cluster = a_cluster(nodes=20, gpu=4)
    units = [a_pod(cluster, f"p{n:02}", name, 4, lost=lost) for n, name in enumerate(cluster.names)]

    assert len(victims(cluster, a_gang(7, gpu=4), units)) == 7


def test_gang_and_all_its_surplus_on_one_crowded_node():
    """A gang that stands with much surplus of its own on the only node is counted once."""
    cluster = a_cluster(nodes=1, gpu=16)
    (name,) = cluster.names
    gang = a_unit(cluster, "g", [(name, {"gpu": 1})] * 2, kind=Kind.GANG, lost=9.0)
    surplus = [a_pod(cluster, f"s{n:02}", name, kind=Kind.SURPLUS, of="g") for n in range(14)]

    assert victims(cluster, a_gang(gpu=16), [gang, *surplus]) == ["g", *(f"s{n:02}" for n in range(14))]
    assert victims(cluster, a_gang(gpu=3), [gang, *surplus]) == ["s00", "s01", "s02"]
