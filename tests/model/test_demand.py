"""The text for nodes that cannot hold a pod."""

import pytest

from scheduler.model.demand import NO_NODES, blocked_nodes
from scheduler.model.resources import is_part_of_device


@pytest.mark.parametrize(
    "kind",
    ["selector", "affinity", "taint", "cordon", "excluded", "resources", "ports", "level", "candidates"],
)
def test_every_kind_of_obstacle_has_its_words(kind: str) -> None:
    """In the words of kube-scheduler: how many nodes, and why."""
    assert blocked_nodes({kind: 4}).startswith("4 node(s) ")
    assert blocked_nodes({kind: 4}) != f"4 node(s) {kind}"


def test_a_resource_that_no_node_has_is_named() -> None:
    """The kind is the resource itself."""
    assert blocked_nodes({"taint": 1, "nvidia.com/gpumem": 4}) == (
        "no node has nvidia.com/gpumem, 1 node(s) had untolerated taints"
    )
    devices = "deviceclass.resource.kubernetes.io/gpu~1f3a"
    assert blocked_nodes({devices: 4}) == "no node has a device of device class gpu with selectors"


@pytest.mark.parametrize(
    ("resource", "part"),
    [
        ("nvidia.com/gpumem", True),
        ("nvidia.com/gpumem-percentage", True),
        ("nvidia.com/gpucores", True),
        ("hygon.com/dcumem", True),
        ("volcano.sh/vgpu-number", True),
        ("koordinator.sh/gpu-memory-ratio", True),
        ("aliyun.com/gpu-mem", True),
        ("deviceclass.resource.kubernetes.io/gpu-mem", False),
        ("nvidia.com/gpu", False),
        ("nvidia.com/gpu.shared", False),
        ("nvidia.com/mig-1g.5gb", False),
        ("rdma/hca", False),
        ("memory", False),
    ],
)
def test_parts_of_devices(resource: str, part: bool) -> None:
    """Known by their names: memory, cores and virtual devices. MIG and time slices are devices of their own."""
    assert is_part_of_device(resource) is part


def test_an_unknown_kind_is_named() -> None:
    """A newer service may report a kind that an older command line does not know."""
    assert blocked_nodes({"future": 1}) == "1 node(s) future"


def test_a_cluster_without_nodes() -> None:
    """No node is excluded, because none exists."""
    assert blocked_nodes({NO_NODES: 0}) == "Gangwright sees no nodes in the cluster"
