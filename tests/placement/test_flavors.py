"""Flavors of nodes, and how much of each is free."""

import numpy as np
import pytest

from scheduler.model.cluster import PRODUCTS
from scheduler.placement.flavors import flavors, free_share
from tests.support.builders import GPU, a_demand, a_node, a_snapshot


@pytest.mark.parametrize("label", PRODUCTS)
def test_devices_and_product(label):
    """Nodes are of one flavor if they have as many devices of the same product, whatever their memory."""
    snapshot = a_snapshot(
        [
            a_node("a", gpu=8, memory=512, labels={label: "A100"}),
            a_node("b", gpu=8, memory=511, labels={label: "A100"}),
            a_node("c", gpu=8, labels={label: "H100"}),
            a_node("d", gpu=4, labels={label: "A100"}),
            a_node("e", gpu=8),
            a_node("f"),
        ]
    )
    one, same, *others = flavors(snapshot).tolist()

    assert one == same
    assert len({one, *others}) == 5


def test_free_share():
    """The free share counts all nodes of a flavor, and is 0 without devices."""
    snapshot = a_snapshot(
        [a_node("a", gpu=8), a_node("b", gpu=8), a_node("c", gpu=2), a_node("d")],
        used={"a": a_demand(gpu=8), "b": a_demand(gpu=4), "c": a_demand(gpu=1)},
    )

    assert free_share(snapshot, snapshot.free, flavors(snapshot)).tolist() == [0.25, 0.25, 0.5, 0]


def test_cordoned_nodes():
    """Devices that no new pod can use are not free."""
    snapshot = a_snapshot([a_node("a", gpu=4), a_node("b", gpu=4, schedulable=False)])

    assert free_share(snapshot, snapshot.free, flavors(snapshot)).tolist() == [0.5, 0.5]


def test_overcommitted_nodes():
    """A node with more devices in use than it has counts as full."""
    snapshot = a_snapshot([a_node("a", gpu=4), a_node("b", gpu=4)])
    free = snapshot.free.copy()
    free[0, snapshot.axis.index[GPU]] = -2

    assert np.allclose(free_share(snapshot, free, flavors(snapshot)), 0.5)


def test_no_nodes():
    """A cluster without nodes has no flavors."""
    empty = a_snapshot([])

    assert not len(flavors(empty))
    assert not len(free_share(empty, empty.free, flavors(empty)))
