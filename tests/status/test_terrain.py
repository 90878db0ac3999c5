"""Nodes and the cluster as people see them."""

import msgspec
import pytest

from scheduler.status import node_views
from scheduler.status.authorization import Sight
from scheduler.status.gang_views import Page, at_once
from tests.engine.support.world import World
from tests.status.support.scene import ALIAS, EVERYTHING, NOBODY, POLICY, a_scene
from tests.support.builders import GPU, a_node

ALL = Page(0, 1000)


@pytest.fixture(scope="module")
def world():
    return a_scene()


def test_every_node_says_where_it_is_and_who_is_on_it(world):
    """Domains by level, room, and the gangs with what they use."""
    found = at_once(node_views.nodes(world.engine, EVERYTHING, ALL))
    uses = [tenant for node in found.nodes for tenant in node.gangs if tenant.name == "train"]

    assert found.levels == ["area", "rack", "host"]
    assert [node.name for node in found.nodes] == sorted(node.name for node in found.nodes)
    assert found.nodes[0].levels == {"area": "a0", "rack": "a0/a0-r0", "host": "a0/a0-r0/a0-r0-n0"}
    assert sum(tenant.uses[GPU] for tenant in uses) == 16
    assert sum(tenant.pods for tenant in uses) == 4
    for node in found.nodes:
        used = sum(tenant.uses.get(GPU, 0) for tenant in node.gangs)
        assert node.capacity[GPU] - node.free[GPU] == used


def test_a_gang_has_one_colour_everywhere(world):
    """What stands for a gang is the same on every node, and says nothing of its name."""
    found = at_once(node_views.nodes(world.engine, EVERYTHING, ALL))
    ids = {tenant.id for node in found.nodes for tenant in node.gangs if tenant.name == "train"}

    assert len(ids) == 1


def test_tenants_of_others_have_no_names(world):
    """Their pods and uses are shown."""
    found = at_once(node_views.nodes(world.engine, NOBODY, ALL))
    text = msgspec.json.encode(found).decode()

    assert "train" not in text
    assert "team-a" not in text
    assert sum(tenant.pods for node in found.nodes for tenant in node.gangs) == 5


def test_nodes_come_in_pages(world):
    """Each page goes on where the one before it ended."""
    first = at_once(node_views.nodes(world.engine, EVERYTHING, Page(0, 5)))
    rest = at_once(node_views.nodes(world.engine, EVERYTHING, Page(first.next, 5)))

    assert (len(first.nodes), len(rest.nodes), rest.next) == (5, 3, None)


def test_pods_of_other_schedulers_are_counted(world):
    """A stranger's room is used, and he has no name here."""
    own = World([a_node("n0", gpu=8)], POLICY)
    own.steal("n0", gpu=3)
    own.settle(1)

    (node,) = at_once(node_views.nodes(own.engine, EVERYTHING, ALL)).nodes

    assert (node.others, node.gangs, node.free[GPU]) == (1, [], 5)
    assert node.levels == {"host": "//n0"}


def test_the_cluster_at_a_glance(world):
    """Totals, gangs by state, and who asks."""
    found = at_once(node_views.cluster(world.engine, world.now, "jane", {GPU: 0.25}))
    gpus = next(row for row in found.resources if row.name == GPU)

    assert (found.nodes, found.schedulable, found.acting, found.synced, found.user) == (
        8,
        8,
        True,
        True,
        "jane",
    )
    assert found.gangs == {"gathering": 1, "refused": 1, "running": 2, "waiting": 1}
    assert (gpus.capacity, gpus.free, gpus.fragmentation) == (64, 47, 0.25)
    assert gpus.use == pytest.approx(17 / 64, abs=1e-3)
    assert found.waiting == 1


def test_an_empty_cluster_is_no_fault():
    """Nothing to show is shown."""
    own = World([], POLICY)
    own.settle(1)

    assert at_once(node_views.nodes(own.engine, Sight(None, ALIAS), ALL)).nodes == []
    assert at_once(node_views.cluster(own.engine, 0.0, "", {})).resources == []
