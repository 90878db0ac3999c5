"""The text for nodes that cannot hold a pod."""

import pytest

from scheduler.model.demand import NO_NODES, blocked_nodes


@pytest.mark.parametrize(
    "kind",
    ["selector", "affinity", "taint", "cordon", "excluded", "resources", "ports", "level", "candidates"],
)
def test_every_kind_of_obstacle_has_its_words(kind: str) -> None:
    """In the words of kube-scheduler: how many nodes, and why."""
    assert blocked_nodes({kind: 4}).startswith("4 node(s) ")
    assert blocked_nodes({kind: 4}) != f"4 node(s) {kind}"


def test_an_unknown_kind_is_named() -> None:
    """A newer service may report a kind that an older command line does not know."""
    assert blocked_nodes({"future": 1}) == "1 node(s) future"


def test_a_cluster_without_nodes() -> None:
    """No node is excluded, because none exists."""
    assert blocked_nodes({NO_NODES: 0}) == "Gangwright sees no nodes in the cluster"
