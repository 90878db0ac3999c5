"""Which nodes may hold a demand, whatever room they have."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.model.cluster import Node, Snapshot
from scheduler.model.demand import (
    HostPort,
    Operator,
    Requirement,
    TaintEffect,
    Term,
    Toleration,
)
from scheduler.placement import planner
from scheduler.placement.feasibility import FeasibilityCache, where
from tests.placement.support.asking import POLICY
from tests.support.builders import (
    RACK,
    a_demand,
    a_gang,
    a_mask,
    a_node,
    a_role,
    a_snapshot,
    a_taint,
    some_amounts,
    some_nodes,
)

WORLD = a_snapshot(
    [
        a_node("a", labels={"disk": "ssd", "size": "10"}),
        a_node("b", labels={"disk": "hdd", "size": "9"}),
        a_node("c", labels={"size": "x"}),
    ]
)


def open_to(demand, snapshot=WORLD) -> list[str]:
    return [name for name, open_ in zip(snapshot.names, where(snapshot, demand).open, strict=True) if open_]


def by_label(key, operator, *values):
    return a_demand(constraints=[(Term(labels=(Requirement(key, operator, values),)),)])


def by_name(operator, *values):
    return a_demand(constraints=[(Term(fields=(Requirement("metadata.name", operator, values),)),)])


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("disk", Operator.IN, ("ssd",), ["a"]),
        ("disk", Operator.IN, ("ssd", "hdd", "tape"), ["a", "b"]),
        ("disk", Operator.IN, ("tape",), []),
        ("disk", Operator.NOT_IN, ("ssd",), ["b", "c"]),
        ("disk", Operator.EXISTS, (), ["a", "b"]),
        ("disk", Operator.DOES_NOT_EXIST, (), ["c"]),
        ("size", Operator.GREATER, ("9",), ["a"]),
        ("size", Operator.LESS, ("10",), ["b"]),
        ("size", Operator.GREATER, ("-1",), ["a", "b"]),
        ("size", Operator.GREATER, ("1_0",), []),
        ("size", Operator.GREATER, (), []),
        ("disk", Operator.GREATER, ("0",), []),
        ("nobody", Operator.IN, ("x",), []),
        ("nobody", Operator.NOT_IN, ("x",), ["a", "b", "c"]),
        ("nobody", Operator.EXISTS, (), []),
        ("nobody", Operator.DOES_NOT_EXIST, (), ["a", "b", "c"]),
        ("nobody", Operator.LESS, ("1",), []),
    ],
)
def test_label_requirement(key, operator, values, expected):
    """A requirement matches the nodes that the Kubernetes API says it matches."""
    assert open_to(by_label(key, operator, *values)) == expected


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        (Operator.IN, ("b",), ["b"]),
        (Operator.IN, ("gone",), []),
        (Operator.NOT_IN, ("b",), ["a", "c"]),
        (Operator.EXISTS, (), []),
    ],
)
def test_name_field(operator, values, expected):
    """Fields know the node's name, by In and NotIn alone."""
    assert open_to(by_name(operator, *values)) == expected


def test_unknown_field():
    """A field other than metadata.name matches nothing."""
    demand = a_demand(constraints=[(Term(fields=(Requirement("spec.x", Operator.NOT_IN, ("a",)),)),)])

    assert open_to(demand) == []


def test_empty_term_and_empty_list():
    """A term without conditions matches nothing, and neither does a list without terms."""
    assert open_to(a_demand(constraints=[(Term(),)])) == []
    assert open_to(a_demand(constraints=[()])) == []


def test_terms_are_ored_and_lists_anded():
    """One term of each list must hold, and within a term each condition."""
    ssd = Term(labels=(Requirement("disk", Operator.IN, ("ssd",)),))
    hdd = Term(labels=(Requirement("disk", Operator.IN, ("hdd",)),))
    big = Term(labels=(Requirement("size", Operator.GREATER, ("9",)),))
    both = Term(labels=ssd.labels + big.labels, fields=(Requirement("metadata.name", Operator.IN, ("b",)),))

    assert open_to(a_demand(constraints=[(ssd, hdd)])) == ["a", "b"]
    assert open_to(a_demand(constraints=[(ssd, hdd), (big,)])) == ["a"]
    assert open_to(a_demand(constraints=[(both,)])) == []


def test_selector():
    """Each pair of the selector must be a label of the node."""
    assert open_to(a_demand(selector={"disk": "ssd"})) == ["a"]
    assert open_to(a_demand(selector={"disk": "ssd", "size": "9"})) == []
    assert open_to(a_demand(selector={"nobody": "x"})) == []


@pytest.mark.parametrize(
    ("toleration", "admitted"),
    [
        (None, False),
        (Toleration("team", value="red"), True),
        (Toleration("team", value="blue"), False),
        (Toleration("team", exists=True), True),
        (Toleration(exists=True), True),
        (Toleration("team", exists=True, effect="NoExecute"), False),
        (Toleration("other", exists=True), False),
    ],
)
def test_taint(toleration, admitted):
    """A tainted node holds only who tolerates the taint."""
    snapshot = a_snapshot([a_node("plain"), a_node("red", taints=[a_taint("team", "red")])])
    demand = a_demand(tolerations=[toleration] if toleration else [])

    assert open_to(demand, snapshot) == (["plain", "red"] if admitted else ["plain"])


def test_every_taint_counts():
    """Tolerating one of two taints is not enough."""
    taints = [a_taint("team", "red"), a_taint("fire", effect=TaintEffect.NO_EXECUTE)]
    snapshot = a_snapshot([a_node("red", taints=taints)])

    assert open_to(a_demand(tolerations=[Toleration("team", exists=True)]), snapshot) == []


@pytest.mark.parametrize("tainted", [True, False])
def test_cordon(tainted):
    """A cordoned node is closed but to those who tolerate being unschedulable; lifted, it would match."""
    taints = [a_taint("node.kubernetes.io/unschedulable")] if tainted else []
    snapshot = a_snapshot([a_node("idle", schedulable=False, taints=taints)])
    daemon = a_demand(tolerations=[Toleration("node.kubernetes.io/unschedulable", exists=True)])

    assert open_to(a_demand(), snapshot) == []
    assert where(snapshot, a_demand()).matches.all()
    assert open_to(daemon, snapshot) == ["idle"]


def test_masks_save_work_only():
    """Remembered masks are those that would be found, and a new version of the nodes forgets them."""
    masks = FeasibilityCache(limit=2)
    other = a_snapshot([a_node("z", labels={"disk": "ssd"})], version=2)
    demands = [by_label("disk", Operator.IN, value) for value in ("ssd", "hdd", "tape", "ssd")]

    for snapshot in (WORLD, other, WORLD):
        for demand in demands:
            np.testing.assert_array_equal(masks.of(snapshot, demand).open, where(snapshot, demand).open)


def test_a_gang_that_fits_an_empty_cluster_fits_until_its_nodes_change():
    """Its seats hold until their nodes change in what they depend on. Then the planner is asked again."""
    small = [a_node(f"n{number}", gpu=1, rack=f"r{number // 2}", labels={"pool": "x"}) for number in range(6)]
    gangs = {
        "anywhere": a_gang(2, gpu=1),
        "one rack": a_gang(2, gpu=1, level="rack", required=True),
        "a pool": a_gang(roles=[a_role("", 2, demand=a_demand(gpu=1, selector={"pool": "x"}))]),
        "even": a_gang(2, gpu=1, level="rack", required=True, strategy="spread"),
        "two roles": a_gang(roles=[a_role("a", 1, gpu=1), a_role("b", 1, cpu=1)]),
        "too large": a_gang(7, gpu=1),
    }
    other = {
        "relabeled": lambda node: replace(node, labels={**node.labels, "other": "y"}),
        "cordoned": lambda node: replace(node, schedulable=False),
        "moved": lambda node: replace(node, labels={**node.labels, RACK: "r9"}),
        "out of the pool": lambda node: replace(node, labels={**node.labels, "pool": "y"}),
        "smaller": lambda node: replace(node, capacity=some_amounts(cpu=1, pods=1)),
    }
    lost = {}
    for kind, change in other.items():
        masks, before = FeasibilityCache(), _seen(small, 1, full=True)
        for gang in gangs.values():
            planner.decide(before, gang, POLICY, None, masks)
        after = _seen([change(node) for node in small], 2)
        lost[kind] = {
            name
            for name, gang in gangs.items()
            if not masks.has_seats_if_empty(after, planner.shape_if_empty(gang))
        }
    never = {"even", "too large"}
    everyone = set(gangs)
    assert lost == {
        "relabeled": never,
        "cordoned": never,
        "moved": never | {"one rack"},
        "out of the pool": never | {"a pool"},
        "smaller": everyone,
    }


def _seen(nodes: list[Node], version: int, *, full: bool = False) -> Snapshot:
    used = {node.name: some_amounts(gpu=1, cpu=32) for node in nodes} if full else None
    return replace(a_snapshot(nodes, used=used, version=version), nodes=tuple(nodes))


def test_gangs_that_fit_an_empty_cluster_lean_on_different_nodes():
    """So a change of one node concerns few of them."""
    nodes = [a_node(f"n{number:02}", gpu=1, rack=f"r{number // 2}") for number in range(40)]
    before = _seen(nodes, 1, full=True)
    gangs = [
        a_gang(2, gpu=1, cpu=cpu, level="rack", required=required)
        for cpu in range(1, 21)
        for required in (False, True)
    ]
    for number in range(40):
        after = _seen([*nodes[:number], *nodes[number + 1 :]], 2 + number)
        masks = FeasibilityCache()
        for gang in gangs:
            planner.decide(before, gang, POLICY, None, masks)
        lost = [gang for gang in gangs if not masks.has_seats_if_empty(after, planner.shape_if_empty(gang))]
        assert len(lost) <= 8


def test_a_node_holds_a_demand():
    """A node holds a demand when nothing rules it out and room and ports are free."""
    snapshot = a_snapshot(
        [a_node("a", gpu=2, labels={"disk": "ssd"}), a_node("b", gpu=2, schedulable=False)],
        used={"a": a_demand(gpu=1)},
        ports={"a": [HostPort("TCP", 80, "10.0.0.1")]},
    )

    def held(**demand) -> list[bool]:
        gang = a_gang(roles=[a_role("", 1, demand=a_demand(**demand))])
        return planner.rank(snapshot, gang, POLICY, a_mask(snapshot, "a", "b"))[0].tolist()

    assert held(gpu=1) == [True, False]
    assert held(gpu=1, selector={"disk": "ssd"}, ports=[81]) == [True, False]
    assert held(gpu=2) == [False, False]
    assert held(selector={"disk": "hdd"}) == [False, False]
    assert held(ports=[80]) == [False, False]
    assert held(ports=[HostPort("TCP", 80, "10.0.0.2")]) == [True, False]
    assert held(more={"example.com/unknown": 1}) == [False, False]


def test_empty_cluster():
    """Without nodes every mask is empty."""
    assert where(a_snapshot([]), by_label("disk", Operator.NOT_IN, "ssd")).open.tolist() == []
    assert some_nodes(racks=0) == []
