"""Victims of one pod: kube-scheduler's proposal for each node, made cheaper or given up."""

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.preemption_units import Kind
from scheduler.placement.victim_rewriting import Here, cheapest
from tests.builders import a_cluster, some_amounts
from tests.placement.crowds import a_unit, price

NODE = a_cluster(nodes=1, gpu=8, cpu=8)
(NAME,) = NODE.names


def a_pod(name, gpu=1, cpu=0, **how):
    return a_unit(NODE, name, [(NAME, {"gpu": gpu, "cpu": cpu})], **how)


def here(units, *, held=None):
    """The node with these on it, and so much of it held for others."""
    used = sum((unit.uses.sum(axis=0) for unit in units), NODE.axis.vector(some_amounts(**(held or {}))))
    return Here(NODE.capacity[0] - used, tuple(units))


def needs(gpu=0, cpu=0):
    return NODE.axis.vector(some_amounts(gpu=gpu, cpu=cpu, pods=1))


def uids(*names):
    return tuple(f"{name}-0" for name in names)


def answer(units, offered, wants, *, survive=lambda _: True, held=None):
    """The victims that remain for the node; None: it is no candidate any more."""
    return cheapest({NAME: uids(*offered)}, {NAME: here(units, held=held)}, wants, survive).get(NAME)


PODS = [a_pod("a", 4, lost=50.0), a_pod("b", 4, lost=10.0)]


def test_cheaper_victim_takes_the_place_of_the_proposed_one():
    """Of two pods that would do, the one that loses less leaves, whichever was proposed."""
    assert answer(PODS, ["a"], needs(gpu=4)) == uids("b")
    assert answer(PODS, ["b"], needs(gpu=4)) == uids("b")


def test_quorum_of_a_gang_is_never_taken():
    """Where a gang's quorum was proposed, others leave instead, or the node is no candidate."""
    member = a_pod("member", 4, kind=Kind.GANG)

    assert answer([member, a_pod("pod", 4, lost=1e6)], ["member"], needs(gpu=4)) == uids("pod")
    assert answer([member, a_pod("pod", 4)], ["member"], needs(gpu=5)) is None


def test_gang_that_can_spare_one_spares_one():
    """Surplus is taken as long as the gang survives it."""
    spare = [a_pod(f"s{n}", 2, kind=Kind.SURPLUS, of="g") for n in range(3)]
    units = [*spare, a_pod("pod", 2, lost=9.0)]

    def survive(leaving):
        return len([uid for uid in leaving if uid.startswith("s")]) <= 1

    assert answer(units, ["s0", "s1"], needs(gpu=4), survive=survive) == uids("pod", "s0")
    assert answer(spare, ["s0", "s1"], needs(gpu=4), survive=survive) is None


def test_victim_named_for_another_reason_than_room_is_kept():
    """Whoever is in the way though there is room without him (a host port, an anti-affinity) leaves as proposed."""
    units = [a_pod("port", 0, lost=99.0), a_pod("a", 4, lost=50.0), a_pod("b", 4, lost=10.0)]

    assert answer(units, ["port"], needs(cpu=1)) == uids("port")
    assert answer(units, ["a", "port"], needs(gpu=4)) == uids("port", "b")


def test_victim_of_a_quorum_named_for_another_reason_ends_the_candidate():
    """A member of a quorum that is in the way for no want of room cannot be exchanged."""
    assert answer([a_pod("member", 0, kind=Kind.GANG)], ["member"], needs(cpu=1)) is None


def test_more_leave_where_room_is_held():
    """kube-scheduler does not know what is held: its proposal is kept and completed."""
    units = [a_pod("a", 2, lost=3.0), a_pod("b", 2, lost=5.0), a_pod("c", 2, lost=1.0)]

    assert answer(units, ["a"], needs(gpu=2), held={"gpu": 2}) == uids("c")
    assert answer(units, ["b"], needs(gpu=4), held={"gpu": 2}) == uids("b", "c")
    assert answer(units, ["b"], needs(gpu=8), held={"gpu": 2}) is None


def test_empty_proposal_stays_empty_where_there_is_room():
    """From 1.38 on a node may need no victim; where room is held it gets some."""
    units = [a_pod("a", 4, lost=2.0), a_pod("b", 2, lost=1.0)]

    assert answer(units, [], needs(gpu=2)) == ()
    assert answer(units, [], needs(gpu=2), held={"gpu": 2}) == uids("b")
    assert answer(units, [], needs(gpu=8), held={"gpu": 2}) is None


def test_most_important_victim_comes_first():
    """Victims are in the order of priority, and then of what they lose, highest first."""
    units = [a_pod("a", 2, priority=1), a_pod("b", 2, priority=3), a_pod("c", 2, priority=3, lost=5.0)]

    assert answer(units, ["a", "b", "c"], needs(gpu=8)) == uids("c", "b", "a")


@pytest.mark.parametrize("offers", [{"elsewhere": ()}, {NAME: uids("stranger")}], ids=["node", "victim"])
def test_unknown_nodes_and_victims_are_no_candidates(offers):
    """A picture that is late answers nothing."""
    assert cheapest(offers, {NAME: here(PODS)}, needs(gpu=4), lambda _: True) == {}


def test_many_small_pods_of_which_a_gang_can_spare_few():
    """Among many of one gang only as many leave as it can spare, and then others, though they lose more."""
    spare = [a_pod(f"s{n:02}", 0, 0.25, kind=Kind.SURPLUS, of="g") for n in range(16)]
    pods = [a_pod(f"p{n:02}", 0, 0.25, lost=5.0 + n) for n in range(16)]

    def survive(leaving):
        return len([uid for uid in leaving if uid.startswith("s")]) <= 2

    found = answer([*spare, *pods], ["p15", "p14", "p13", "p12"], needs(cpu=1), survive=survive)

    assert found is not None
    assert set(found) == {*uids("s00", "s01"), *uids("p00", "p01")}


@st.composite
def crowds(draw):
    return [
        a_pod(
            f"u{number}",
            draw(st.integers(0, 3)),
            draw(st.integers(0, 3)),
            kind=draw(st.sampled_from(Kind)),
            priority=draw(st.integers(0, 2)),
            lost=float(draw(st.integers(0, 4))),
        )
        for number in range(draw(st.integers(1, 7)))
    ]


@pytest.mark.slow
@given(crowds(), st.integers(0, 8), st.integers(0, 8), st.data())
@settings(deadline=None)
def test_no_set_is_cheaper(units, gpu, cpu, data):
    """Of all sets that keep who cannot be exchanged, make room, and break no gang, the chosen one is the cheapest."""
    node, wants = here(units), needs(gpu, cpu)
    offered = [unit for unit in units if data.draw(st.booleans())]
    found = cheapest({NAME: tuple(u.uids[0] for u in offered)}, {NAME: node}, wants, lambda _: True).get(NAME)

    def fits(leaving):
        return bool(
            (node.free + sum((u.uses[0] for u in leaving), np.zeros_like(wants)) >= wants)[wants > 0].all()
        )

    kept = offered
    if fits(offered):
        kept = [one for one in offered if fits([other for other in offered if other is not one])]
    sets = chain.from_iterable(combinations(units, size) for size in range(len(units) + 1))
    able = [
        price(units, own)
        for own in sets
        if fits(own)
        and all(u.kind is not Kind.GANG for u in own)
        and {id(u) for u in kept} <= {id(u) for u in own}
    ]
    chosen = None if found is None else price(units, [unit for unit in units if unit.uids[0] in found])

    assert chosen == min(able, default=None)
    assert found != () or not offered
