"""The planner against kube-scheduler's own tests of neighbors, on random small clusters and gangs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.decision import Place, Reason, Wait
from scheduler.model.demand import Operator, Requirement
from scheduler.model.neighbors import (
    NO_NEIGHBORS,
    Neighbors,
    PodLabels,
    PodSelector,
    PodTerm,
    PreferredTerm,
    TopologySpread,
)
from scheduler.model.workload import Strategy
from tests.placement.support.accountant import domain
from tests.placement.support.asking import decide, place, wait
from tests.placement.support.neighborhood import Resident, a_picture, in_this_order, seats_exist
from tests.placement.test_properties import nodes
from tests.support.builders import AREA, HOST, RACK, a_demand, a_gang, a_node, a_role

KEYS = [HOST, RACK, AREA]
VALUES = ["a", "b"]


def selector(value: str | None = "a", *, namespaces=("default",), of_labels=None) -> PodSelector:
    """Pods with app=value; None: pods with any app."""
    own = Requirement("app", Operator.EXISTS) if value is None else Requirement("app", Operator.IN, (value,))
    return PodSelector(namespaces, of_labels, (own,))


def seen(value: str = "a", namespace: str = "default") -> PodLabels:
    return PodLabels(namespace, (("app", value),))


def apart(key: str = HOST, value: str | None = "a") -> Neighbors:
    return Neighbors(anti_affinity=(PodTerm(key, selector(value)),))


def near(key: str = RACK, value: str | None = "a") -> Neighbors:
    return Neighbors(affinity=(PodTerm(key, selector(value)),))


def even(key: str = AREA, value: str | None = "a", **rule) -> Neighbors:
    return Neighbors(spread=(TopologySpread(key, selector(value), **{"max_skew": 1, **rule}),))


def a_gang_of(count: int, neighbors: Neighbors, *, value: str = "a", surplus: int = 0, gpu: int = 1, **how):
    role = a_role("", count, surplus=surplus, demand=a_demand(gpu=gpu))
    return a_gang(roles=[replace(role, neighbors=neighbors, labels=seen(value))], **how)


@st.composite
def selectors(draw) -> PodSelector:
    of_labels = draw(st.sampled_from([None, None, (Requirement("team", Operator.EXISTS),)]))
    return selector(
        draw(st.sampled_from(["a", "a", "b", None])),
        namespaces=draw(st.sampled_from([("default",), ("default",), (), ("default", "other")])),
        of_labels=of_labels,
    )


@st.composite
def rules(draw, *, spread: bool = True) -> Neighbors:
    terms = st.builds(PodTerm, st.sampled_from(KEYS), selectors())
    spreads = st.builds(
        TopologySpread,
        st.sampled_from(KEYS),
        st.builds(selector, st.sampled_from(["a", "b", None])),
        max_skew=st.integers(1, 2),
        min_domains=st.sampled_from([1, 1, 2, 3]),
        honors_affinity=st.booleans(),
        tolerations=st.sampled_from([None, None, ()]),
    )
    return Neighbors(
        affinity=tuple(draw(st.lists(terms, max_size=draw(st.sampled_from([0, 0, 2]))))),
        anti_affinity=tuple(draw(st.lists(terms, max_size=draw(st.sampled_from([0, 1, 2]))))),
        spread=tuple(draw(st.lists(spreads, max_size=draw(st.sampled_from([0, 1, 2]))))) if spread else (),
    )


@st.composite
def cases(draw):
    """Up to six nodes, some pods on them, and a gang of up to four members in up to two roles."""
    own = draw(nodes(most=6))
    there = draw(
        st.lists(
            st.builds(
                Resident,
                st.sampled_from([node.name for node in own]),
                st.builds(lambda value: {"app": value}, st.sampled_from(VALUES)),
                rules(spread=False),
                namespace=st.sampled_from(["default", "default", "other"]),
                deleting=st.sampled_from([False, False, True]),
            ),
            max_size=4,
        )
    )
    roles = []
    for number in range(draw(st.integers(1, 2))):
        wants = draw(rules())
        demand = a_demand(
            gpu=draw(st.integers(0, 2)), selector=draw(st.sampled_from([None, None, {"pool": "x"}]))
        )
        wants = replace(wants, spread=tuple(_with_selector(one, demand) for one in wants.spread))
        role = a_role(f"role{number}", draw(st.integers(1, 2)), demand=demand)
        roles.append(replace(role, neighbors=wants, labels=seen(draw(st.sampled_from(VALUES)))))
    gang = a_gang(
        roles=roles,
        strategy=draw(st.sampled_from([Strategy.PACK, Strategy.PACK, Strategy.COSINE])),
        level=draw(st.sampled_from(["host", "rack", "area"])),
        required=draw(st.sampled_from([False, False, True])),
    )
    return own, there, gang, {"default": {"team": "x"}, "other": draw(st.sampled_from([{}, {"team": "y"}]))}


def _with_selector(rule: TopologySpread, demand) -> TopologySpread:
    return replace(rule, selector=demand.selector) if rule.honors_affinity else rule


@given(cases())
def test_yes_is_what_kube_scheduler_accepts_and_no_is_no(case):
    """Seats are accepted one by one in the order of the decision. Without seats, no order of any seats is accepted."""
    own, there, gang, namespaces = case
    decision = decide(a_picture(own, there, [gang], namespaces), gang)
    inside = {node.name: domain(node, gang.level) for node in own} if gang.required else None
    if isinstance(decision, Place):
        assert in_this_order(own, there, gang, decision.seats, namespaces)
    elif decision.reason is not Reason.UNKNOWN_LEVEL:
        assert not seats_exist(own, there, gang, inside, namespaces)


def test_one_member_a_host_needs_as_many_hosts():
    """Three hosts hold three of four members that keep apart; the message says why."""
    gang = a_gang_of(4, apart())
    reason, short = wait(a_picture([a_node(f"n{i}", gpu=8) for i in range(3)], [], [gang]), gang)
    assert (reason, short.best) == ("ExceedsCluster", 3)
    assert "the cluster fits 3 (at most one member per host by anti-affinity" in str(short)
    four = [a_node(f"n{i}", gpu=8) for i in range(4)]
    assert len(set(place(a_picture(four, [], [gang]), gang).seats.values())) == 4


def test_the_packing_is_as_good_as_without_rules():
    """Members that keep apart by host still share one rack, which the resources alone would allow, too."""
    racks = [
        a_node(f"r{r}-n{i}", gpu=8, rack=f"r{r}", area="a") for r in range(4) for i in range(3 + (r == 2))
    ]
    gang = a_gang_of(4, apart())
    seats = place(a_picture(racks, [], [gang]), gang).seats
    assert {node[:2] for node in seats.values()} == {"r2"}


def test_two_gangs_that_keep_apart_do_not_share_the_hosts():
    """With one of four members of another such gang on each of two hosts, four do not fit; they fit when it is gone."""
    hosts = [a_node(f"n{i}", gpu=8) for i in range(4)]
    there = [Resident(f"n{i}", {"app": "a"}, apart()) for i in range(2)]
    gang = a_gang_of(4, apart())
    reason, short = wait(a_picture(hosts, there, [gang]), gang)
    assert (reason, short.best, short.blocked["anti-affinity"]) == ("InsufficientResources", 2, 2)


def test_pods_that_are_there_keep_members_away():
    """Anti-affinity counts both ways: a neighbor that carries the term closes its rack."""
    racks = [a_node(f"n{i}", gpu=8, rack=f"r{i}", area="a") for i in range(2)]
    there = [Resident("n0", {"app": "b"}, apart(RACK, "a"))]
    gang = a_gang_of(2, NO_NEIGHBORS)
    assert set(place(a_picture(racks, there, [gang]), gang).seats.values()) == {"n1"}


def test_a_spread_is_filled_evenly_and_in_turn():
    """Of six members over three zones with maxSkew 1, each three in a row go to three zones."""
    zones = [a_node(f"z{z}-n{i}", gpu=1, rack=f"z{z}-{i}", area=f"z{z}") for z in range(3) for i in range(4)]
    gang = a_gang_of(6, even())
    seats = [node[:2] for node in place(a_picture(zones, [], [gang]), gang).seats.values()]
    assert sorted(seats[:3]) == sorted(seats[3:]) == ["z0", "z1", "z2"]


def test_a_spread_that_cannot_hold_all_waits_whole():
    """One zone holds a single member, so with maxSkew 1 four of four do not fit."""
    zones = [a_node("a", gpu=8, area="z0"), a_node("b", gpu=1, area="z1")]
    gang = a_gang_of(4, even())
    reason, short = wait(a_picture(zones, [], [gang]), gang)
    assert (reason, short.best) == ("InsufficientResources", 3)
    assert "spread over topology.kubernetes.io/zone with maxSkew 1" in str(short)


def test_affinity_to_a_role_seats_that_role_first():
    """Workers that must be near a parameter server wait for it: it comes first in the order."""
    racks = [a_node(f"r{r}-n{i}", gpu=2, rack=f"r{r}", area="a") for r in range(2) for i in range(2)]
    server = replace(a_role("ps", 1, demand=a_demand(gpu=1)), labels=seen("b"))
    workers = replace(
        a_role("worker", 3, demand=a_demand(gpu=1)), neighbors=near(RACK, "b"), labels=seen("a")
    )
    gang = a_gang(roles=[workers, server])
    seats = place(a_picture(racks, [], [gang]), gang).seats
    assert next(iter(seats)).startswith("ps")
    assert len({node[:2] for node in seats.values()}) == 1


def test_surplus_keeps_the_rules_too():
    """Of three surplus members that keep apart by host, as many are seated as hosts are left."""
    hosts = [a_node(f"n{i}", gpu=8) for i in range(4)]
    found = place(a_picture(hosts, [], []), a_gang_of(2, apart(), surplus=3))
    assert len(found.seats) == len(set(found.seats.values())) == 4
    assert len(found.unseated) == 1
    zones = [a_node(f"z{z}", gpu=8, area=f"z{z}") for z in range(2)]
    found = place(a_picture(zones, [], []), a_gang_of(2, even(), surplus=3))
    counts = sorted(list(found.seats.values()).count(node) for node in ("z0", "z1"))
    assert counts == [2, 3]


@pytest.mark.parametrize(("weight", "node"), [(1, "n1"), (-1, "n0")])
def test_preferred_terms_decide_between_equal_nodes(weight: int, node: str):
    """Of two equal nodes, the one near (or away from) the preferred pods is taken."""
    hosts = [a_node(f"n{i}", gpu=8, host=True, rack="r", area="a") for i in range(2)]
    there = [Resident("n1", {"app": "b"})]
    wants = Neighbors(preferred=(PreferredTerm(PodTerm(HOST, selector("b")), weight),))
    gang = a_gang_of(1, wants)
    assert set(place(a_picture(hosts, there, [gang]), gang).seats.values()) == {node}


def test_a_rule_about_pods_that_do_not_exist_is_no_lack_of_hardware():
    """Affinity to pods of others waits for them: more nodes would not help, an empty cluster would not, they would."""
    hosts = [a_node("n0", gpu=8, rack="r0", area="a")]
    gang = a_gang_of(2, near(RACK, "b"))
    decision = decide(a_picture(hosts, [], [gang]), gang)
    assert isinstance(decision, Wait)
    assert decision.reason is Reason.INSUFFICIENT_RESOURCES
    assert decision.shortfall is not None
    assert decision.shortfall.blocked == {"pod-affinity": 1}


def test_nodes_without_the_label_are_in_no_domain():
    """Members that keep apart by rack may share a node that is in no rack, even where every rack has a single node."""
    nodes = [a_node("n0", gpu=2, area="a"), a_node("n1", rack="r", area="a")]
    gang = a_gang_of(2, apart(RACK))
    assert set(place(a_picture(nodes, [], [gang]), gang).seats.values()) == {"n0"}


def test_affinity_and_anti_affinity_to_the_same_pods_cannot_both_hold():
    """The only host with such a pod is closed by one rule, and all others by the other."""
    hosts = [a_node(f"n{i}", gpu=1) for i in range(2)]
    both = Neighbors(near(HOST).affinity, apart().anti_affinity)
    gang = a_gang_of(1, both)
    assert isinstance(decide(a_picture(hosts, [Resident("n0", {"app": "a"})], [gang]), gang), Wait)


@pytest.mark.parametrize(
    "rules", [even(), near(AREA, "b"), Neighbors(near(AREA, "b").affinity, spread=even().spread)]
)
def test_pods_of_others_may_help_later(rules: Neighbors):
    """They fill a zone that has no devices, or are what members want near. So such a wait is no lack of nodes."""
    zones = [a_node("a", gpu=8, rack="ra", area="z0"), a_node("b", rack="rb", area="z1")]
    gang = a_gang_of(3, rules)
    reason, _ = wait(a_picture(zones, [], [gang]), gang)
    assert reason == Reason.INSUFFICIENT_RESOURCES
    there = [Resident("b", {"app": "a"}) for _ in range(2)] + [Resident("a", {"app": "b"})]
    assert len(place(a_picture(zones, there, [gang]), gang).seats) == 3
