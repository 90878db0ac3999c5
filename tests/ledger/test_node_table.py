"""The columns of the cluster: a pod uses room once, wherever it is, and no order of events changes the sum."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.ledger.node_table import FEW, GONE_KEPT, KEYS_KEPT, VECTORS_KEPT, NodeTable
from scheduler.model.cluster import DEFAULT_LEVELS, PRODUCTS, Node
from scheduler.model.resources import UNLIMITED
from scheduler.model.workload import Uid
from tests.ledger.support.desk import QUICK, overdrawn
from tests.ledger.support.invariants import of_nodes
from tests.support.builders import AREA, GPU, HOST, RACK, a_demand, a_node, a_taint

NODES = [a_node(f"n{number}", gpu=4, cpu=8, rack=f"r{number % 2}") for number in range(3)]


def a_table(*nodes) -> NodeTable:
    table = NodeTable(DEFAULT_LEVELS)
    for node in nodes or NODES:
        table.seen(node)
    return table


def free_of(table: NodeTable, node: str, resource: str = GPU) -> float:
    picture = table.snapshot([])
    return float(picture.free[picture.index[node], picture.axis.index[resource]])


def test_a_pod_uses_room_in_one_place() -> None:
    """Put twice it counts once; put elsewhere it counts there alone; taken it counts nowhere."""
    table = a_table()
    uid, demand = Uid("a"), a_demand(gpu=2)
    table.put(uid, "n0", demand)
    table.put(uid, "n0", demand)
    assert free_of(table, "n0") == 2
    table.put(uid, "n1", demand)
    assert (free_of(table, "n0"), free_of(table, "n1")) == (4, 2)
    table.take(uid)
    table.take(uid)
    assert free_of(table, "n1") == 4


NPU, VOLUMES = {"example.com/npu": 1}, {"attachable-volumes-disk": 2}
OTHERS = ({}, NPU, VOLUMES, NPU | VOLUMES)
KEYS = (HOST, RACK, AREA, "example.com/note")


def changed(node: Node, what: str, two: int, three: int) -> Node:
    """The node with another label or without one, cordoned or not, tainted or not."""
    if what == "cordon":
        return replace(node, schedulable=not node.schedulable)
    if what == "taint":
        return replace(node, taints=() if node.taints else (a_taint(f"t{two}"),))
    labels = {key: value for key, value in node.labels.items() if key != KEYS[two]}
    return replace(node, labels=labels if three == 0 else {**labels, KEYS[two]: f"v{three}"})


moves = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("take"), st.integers(0, 4), st.just(0), st.just(0)),
        st.tuples(st.just("node"), st.integers(0, 3), st.integers(0, 4), st.integers(0, 3)),
        st.tuples(st.just("gone"), st.integers(0, 3), st.just(0), st.just(0)),
        st.tuples(st.just("label"), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("cordon"), st.integers(0, 3), st.just(0), st.just(0)),
        st.tuples(st.just("taint"), st.integers(0, 3), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("ask"), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("look"), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@QUICK
@given(moves)
def test_columns_kept_step_by_step_equal_columns_added_up(steps) -> None:
    """Whatever came and went, in whatever order, also resources, free is capacity less the pods that are there."""
    table, nodes, pods = NodeTable(DEFAULT_LEVELS), {}, {}
    for what, one, two, three in steps:
        if what == "put":
            pods[one] = (f"n{two}", a_demand(gpu=three, cpu=1, more=OTHERS[one % 4]))
            table.put(Uid(str(one)), *pods[one])
        elif what == "take":
            pods.pop(one, None)
            table.take(Uid(str(one)))
        elif what == "node":
            nodes[f"n{one}"] = a_node(f"n{one}", gpu=two, cpu=8, more=OTHERS[three])
            table.seen(nodes[f"n{one}"])
        elif what == "gone":
            nodes.pop(f"n{one}", None)
            table.gone(f"n{one}")
        elif what in {"label", "cordon", "taint"} and (node := nodes.get(f"n{one}")) is not None:
            nodes[node.name] = changed(node, what, two, three)
            table.seen(nodes[node.name])
        elif what == "ask":
            table.admits(f"n{one}", a_demand(selector={KEYS[two]: f"v{three}"}))
        else:
            table.snapshot([])
            assert list(of_nodes(table)) == []
    assert list(of_nodes(table)) == []
    picture = table.snapshot([])
    assert picture.names == tuple(sorted(nodes))
    for name, node in nodes.items():
        there = [dict(demand.requests) for where, demand in pods.values() if where == name]
        for resource, amount in node.capacity:
            used = sum(own.get(resource, 0) for own in there)
            assert picture.free[picture.index[name], picture.axis.index[resource]] == amount - used
    over = {
        name
        for name, node in nodes.items()
        if GPU in picture.axis.index
        and sum(dict(d.requests).get(GPU, 0) for where, d in pods.values() if where == name)
        > dict(node.capacity).get(GPU, 0)
    }
    assert set(overdrawn(table)) >= over


def test_pods_that_request_what_no_node_has_count_when_one_has_it() -> None:
    """Also after the last node with it was deleted, and for volumes, of which other nodes attach any number."""
    table = a_table()
    for resource, elsewhere in (("example.com/npu", 0), ("attachable-volumes-disk", UNLIMITED)):
        table.put(Uid("a"), "n0", a_demand(more={resource: 3}))
        table.gone("n0")
        assert list(of_nodes(table)) == []
        table.seen(NODES[0])
        assert resource not in table.axis.index
        for _ in range(2):
            table.seen(a_node("m", more={resource: 8}))
            assert [free_of(table, name, resource) for name in ("m", "n0")] == [8, elsewhere - 3]
            assert list(of_nodes(table)) == []
            table.gone("m")
            assert resource not in table.axis.index
            assert list(of_nodes(table)) == []
        table.take(Uid("a"))
        table.seen(a_node("m", more={resource: 8}))
        assert free_of(table, "n0", resource) == elsewhere
        table.gone("m")
        assert list(of_nodes(table)) == []
    assert not any(table._unserved.values())


def test_a_pin_changes_no_room() -> None:
    """A demand that differs in where it may go, and not in how much, neither frees nor takes anything."""
    table = a_table()
    table.put(Uid("a"), "n0", a_demand(gpu=2))
    before = (table.room_version, table.generation)
    table.put(Uid("a"), "n0", a_demand(gpu=2, selector={"kubernetes.io/hostname": "n0"}))
    assert (table.room_version, table.generation) == before
    assert free_of(table, "n0") == 2


def test_the_three_counters_move_for_their_own_reasons() -> None:
    """room: something may fit now; version: nodes differ; generation: anything does."""
    table = a_table()
    version, generation, room = table.version, table.generation, table.room_version
    table.put(Uid("a"), "n0", a_demand(gpu=1))
    assert (table.version, table.room_version) == (version, room)
    assert table.generation > generation
    table.take(Uid("a"))
    assert table.room_version > room
    generation = table.generation
    table.seen(NODES[0])
    assert (table.version, table.generation) == (version, generation)
    table.seen(a_node("n0", gpu=5))
    assert table.version > version


def test_snapshots_never_change() -> None:
    """A picture that was taken stays as it was, and nobody can paint on it."""
    table = a_table()
    picture = table.snapshot([])
    before = picture.free.copy()
    table.put(Uid("a"), "n0", a_demand(gpu=4))
    assert np.array_equal(picture.free, before)
    with pytest.raises(ValueError, match="read-only"):
        picture.free[0, 0] = 1


def test_room_is_amounts_and_ports() -> None:
    """has_room says no for what is not there, for a clash of host ports, and for unknown nodes and resources."""
    table = a_table()
    table.put(Uid("a"), "n0", a_demand(gpu=3, ports=[80]))
    assert table.has_room("n0", a_demand(gpu=1))
    assert not table.has_room("n0", a_demand(gpu=2))
    assert not table.has_room("n0", a_demand(gpu=1, ports=[80]))
    assert table.has_room("n0", a_demand(gpu=1, ports=[81]))
    assert not table.has_room("elsewhere", a_demand())
    assert not table.has_room("n0", a_demand(more={"example.com/thing": 1}))
    table.take(Uid("a"))
    assert table.has_room("n0", a_demand(gpu=4, ports=[80]))


def test_an_overdrawn_resource_does_not_matter_to_who_needs_none() -> None:
    """A node whose GPUs are overdrawn has room for a pod without GPUs."""
    table = a_table()
    table.put(Uid("a"), "n0", a_demand(gpu=5))
    assert overdrawn(table) == ["n0"]
    assert table.is_overdrawn("n0", a_demand(gpu=1))
    assert not table.is_overdrawn("n0", a_demand(cpu=1))
    assert table.has_room("n0", a_demand(cpu=1))


def test_pods_of_a_node_that_comes_back_count_again() -> None:
    """A node that is seen after its pods, or once more, has them on its account."""
    table = NodeTable(DEFAULT_LEVELS)
    table.put(Uid("a"), "n0", a_demand(gpu=3))
    table.seen(NODES[0])
    assert free_of(table, "n0") == 1
    table.gone("n0")
    table.seen(NODES[0])
    assert free_of(table, "n0") == 1


def test_pictures_carry_labels_taints_ports_and_nominations() -> None:
    """Everything that decides about a node is in the picture, nodes in the order of their names."""
    table = a_table(
        a_node("b", gpu=1, taints=[a_taint("dedicated")]), a_node("a", gpu=1, rack="r1", schedulable=False)
    )
    table.put(Uid("x"), "b", a_demand(ports=[80]))
    picture = table.snapshot([("b", 5, a_demand(gpu=1)), ("gone", 5, a_demand(gpu=1))])
    assert picture.names == ("a", "b")
    assert list(picture.schedulable) == [False, True]
    assert [(taint.key, list(mask)) for taint, mask in picture.taints] == [("dedicated", [False, True])]
    assert [(port.port, list(mask)) for port, mask in picture.ports] == [(80, [False, True])]
    assert [(one.node, one.priority) for one in picture.nominations] == [(1, 5)]
    assert picture.labels["gangwright.io/rack"].codes.tolist() == [0, -1]


def test_nothing_is_kept_of_what_is_gone() -> None:
    """Ports of pods that went, and vectors of demands long past, are forgotten."""
    table = a_table()
    for number in range(VECTORS_KEPT + 10):
        demand = a_demand(memory=number / 2**20, ports=[80])
        table.put(Uid("a"), "n0", demand)
        table.take(Uid("a"))
    assert len(table._vectors) <= VECTORS_KEPT
    assert table._ports == {}
    assert list(table.places()) == []


def test_devices_in_use_that_no_pod_counts() -> None:
    """They use the node like a pod; what changes with them is not what nodes are, so no column is computed again."""
    table = a_table()
    version, columns = table.version, table._now()
    assert table.seen(replace(NODES[0], held=((GPU, 3),)))
    assert not table.seen(replace(NODES[0], held=((GPU, 3),)))
    assert (free_of(table, "n0"), table.version) == (1, version)
    assert table._now() is columns
    assert table.is_overdrawn("n0", a_demand(gpu=1)) is False
    table.put(Uid("a"), "n0", a_demand(gpu=2))
    assert table.is_overdrawn("n0", a_demand(gpu=1))
    table.seen(NODES[0])
    assert free_of(table, "n0") == 2
    table.seen(replace(NODES[1], held=((GPU, 1),)))
    table.gone("n1")
    table.seen(NODES[1])
    assert free_of(table, "n1") == 4


def test_a_label_that_nothing_asks_about_changes_no_answer() -> None:
    """It is in the next snapshot, and neither answers nor rows are computed again. Levels, products of devices, and what
    a pod selects by do count.
    """
    table = a_table()
    before = table.snapshot([])
    counters, racks = (table.version, table.room_version), before.labels[RACK]

    table.seen(replace(NODES[0], labels={**NODES[0].labels, "example.com/note": "x"}))
    after = table.snapshot([])

    assert (table.version, table.room_version) == counters
    assert after.generation > before.generation
    assert after.labels["example.com/note"].codes.tolist() == [0, -1, -1]
    assert after.topology is before.topology
    assert after.labels[RACK] is racks
    for key in (RACK, PRODUCTS[0]):
        version = table.version
        table.seen(replace(table._nodes["n0"], labels={**table._nodes["n0"].labels, key: "y"}))
        assert table.version > version
    table.asked(a_demand(selector={"example.com/note": "y"}))
    version = table.version
    table.seen(replace(table._nodes["n0"], labels={**table._nodes["n0"].labels, "example.com/note": "y"}))
    assert table.version == version + 1


def test_too_many_labels_are_asked_about() -> None:
    """Then each one counts, and no more of them are kept."""
    table = a_table()
    for number in range(2 * KEYS_KEPT):
        table.asked(a_demand(selector={f"example.com/{number}": "x"}))
    version = table.version

    table.seen(replace(NODES[0], labels={"example.com/other": "x"}))

    assert len(table._keys) <= KEYS_KEPT
    assert table.version > version


def test_nodes_keep_their_numbers() -> None:
    """A node that comes or goes moves rows and no number. A resource that comes or goes moves columns, and neither."""
    table = a_table()
    table.put(Uid("a"), "n1", a_demand(gpu=1))
    numbering, rows, number = table.numbering, table.rows, table.number(Uid("a"))
    table.seen(replace(NODES[0], schedulable=False, taints=(a_taint("x"),)))
    table.seen(a_node("n1", gpu=3, cpu=9, rack="r0"))
    assert (table.numbering, table.number(Uid("a"))) == (numbering, number)
    assert table.rows is rows
    assert free_of(table, "n1") == 2
    table.seen(a_node("m", gpu=1))
    assert (table.numbering, table.number(Uid("a")), table.rows.tolist()) == (numbering, number, [1, 2, 3, 0])
    assert rows.tolist() == [0, 1, 2]
    table.gone("n1")
    assert (table.numbering, table.number(Uid("a")), table.rows.tolist()) == (numbering, None, [1, -1, 2, 0])
    for change in (
        lambda: table.seen(a_node("m", gpu=1, more={"example.com/thing": 1})),
        lambda: table.seen(a_node("n2", gpu=4, more={"example.com/thing": 1})),
        lambda: table.gone("m"),
        lambda: table.seen(a_node("n1", gpu=1)),
    ):
        change()
        assert list(of_nodes(table)) == []
    assert table.numbering == numbering


def test_numbers_of_deleted_nodes_are_bounded() -> None:
    """However many nodes come and go, there are no more numbers than twice the nodes and some."""
    table = a_table()
    table.put(Uid("a"), "n0", a_demand(more=NPU))
    for number in range(200):
        table.seen(a_node(f"m{number}", gpu=1))
        table.rows  # noqa: B018 - renews the columns
        table.gone(f"m{number}")
        assert len(table.rows) <= 2 * len(NODES) + GONE_KEPT + 2
    assert list(of_nodes(table)) == []


def test_many_changed_nodes_are_taken_up_before_a_snapshot() -> None:
    """While nodes are listed or relabeled, the columns follow every so many of them, so no later step takes long."""
    table = NodeTable(DEFAULT_LEVELS)
    for number in range(3 * FEW):
        table.seen(a_node(f"n{number}", gpu=1 + number % 4, rack=f"r{number // 20}"))
        assert len(table._stale) < FEW
    numbering = table.numbering
    for number in range(2 * FEW):
        table.seen(a_node(f"n{number}", gpu=1, labels={"example.com/note": f"{number}"}))
        assert len(table._stale) < FEW
    assert list(of_nodes(table)) == []
    assert table.numbering == numbering == 1
