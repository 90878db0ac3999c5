"""Guarantees that no cluster of this size can keep, told in the log and as a metric."""

from collections.abc import Mapping

import pytest
from structlog.testing import capture_logs

from scheduler.model import events as ev
from scheduler.model.policy import Policy
from scheduler.model.queueing import Share
from scheduler.service.share_guarantees import ShareGuarantees
from tests.service.test_gauges import World
from tests.support.builders import GPU, a_node

NODES = tuple(a_node(f"n{number}", cpu=4, gpu=8) for number in range(2))


def guaranteed(resource: str, *amounts: int) -> Mapping[str, Share]:
    return {f"team-{number}": Share(((resource, amount),)) for number, amount in enumerate(amounts)}


def a_world(shares: Mapping[str, Share]) -> World:
    world = World()
    world.sees(*map(ev.NodeSeen, NODES))
    world.engine.observe([ev.PolicyChanged(Policy(shares=shares))], 0.0)
    return world


def warned(checked: ShareGuarantees) -> list[Mapping[str, object]]:
    with capture_logs() as lines:
        checked.check()
    return [line for line in lines if line["log_level"] == "warning"]


def test_more_than_there_is_at_the_start():
    """Resource, sum and capacity are named, once, and not those of a resource of which there is enough."""
    checked = ShareGuarantees(a_world(guaranteed(GPU, 9, 8) | {"other": Share((("cpu", 8_000),))}).engine)

    (line,) = warned(checked)
    assert line["field"] == f"queue.shares.*.guaranteed.{GPU}"
    assert (line["resource"], line["guaranteed"], line["capacity"]) == (GPU, 17, 16)
    assert warned(checked) == []


def test_cpu_is_told_in_cores():
    """As the file says it, not as it is counted."""
    (line,) = warned(ShareGuarantees(a_world(guaranteed("cpu", 5_000, 4_000)).engine))

    assert (line["guaranteed"], line["capacity"]) == (9, 8)


def test_a_resource_that_no_node_has():
    """Nothing of it is there: that is told too, with a capacity of none."""
    world = a_world(guaranteed("example.com/fpga", 1))

    (line,) = warned(ShareGuarantees(world.engine))
    assert (line["resource"], line["capacity"]) == ("example.com/fpga", 0)
    assert world.shows("guaranteed_ratio", resource="example.com/fpga") == float("inf")


def test_it_is_told_when_nodes_leave_and_again_after_they_came_back():
    """Enough is there, then no more, then again: each time that it becomes too little it is told."""
    world = a_world(guaranteed(GPU, 8, 8))
    checked = ShareGuarantees(world.engine)
    assert warned(checked) == []

    for _ in range(2):
        world.sees(ev.NodeGone("n1"))
        assert [line["capacity"] for line in warned(checked)] == [8]
        world.sees(ev.NodeSeen(NODES[1]))
        assert warned(checked) == []


def test_it_is_told_when_the_settings_change():
    """Another sum that is too much is told, though the one before was too much already."""
    world = a_world(guaranteed(GPU, 9, 8))
    checked = ShareGuarantees(world.engine)
    warned(checked)

    world.engine.observe([ev.PolicyChanged(Policy(shares=guaranteed(GPU, 16, 8)))], 1.0)

    assert [line["guaranteed"] for line in warned(checked)] == [24]


def test_nothing_is_told_before_the_cluster_was_read():
    """No node was seen yet: that says nothing."""
    world = a_world(guaranteed(GPU, 1))
    world.engine.ledger.synced = False

    checked = ShareGuarantees(world.engine)
    assert (warned(checked), dict(checked.check())) == ([], {})


@pytest.mark.parametrize(("amounts", "ratio"), [((4, 4), 0.5), ((16, 8), 1.5)])
def test_the_ratio_is_shown(amounts, ratio):
    """By resource, of all that the nodes have."""
    assert a_world(guaranteed(GPU, *amounts)).shows("guaranteed_ratio", resource=GPU) == ratio


def test_without_shares_nothing_is_shown():
    """Nothing is guaranteed to anybody."""
    assert a_world({}).shows("guaranteed_ratio", resource=GPU) is None
