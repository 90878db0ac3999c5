"""Racks and areas are labels of nodes. A gang asks for one of them, as a condition or as a wish."""

import re
from collections.abc import Iterable

from bench.plane import Fleet, watches, where
from bench.plane.client import Object
from tests.stories.support.cluster import Cluster, racks, said
from tests.stories.support.workloads import gang, pod

TWO_RACKS = Fleet(racks=2, nodes_per_rack=4, gpus=4)
"""Sixteen GPUs a rack."""


async def test_required_rack_waits_for_room_in_one_rack(cluster: Cluster):
    """Eight members of four GPUs that require one rack wait while the best has room for five, all say so, and start in
    it. What is said again is counted on one Event.
    """
    await cluster.nodes(TWO_RACKS, Fleet(racks=1, nodes_per_rack=8, gpus=4, prefix="big-"))
    await cluster.submit(
        *(
            pod(f"tenant-{n}", gang="tenants", min_members=3, gpus=4, spec=on(f"big-r00-n{n:02d}"))
            for n in range(3)
        )
    )
    await cluster.seated("tenants", 3)
    await cluster.submit(*gang("wide", 8, gpus=4, level="rack", level_required=True))

    message = await cluster.told("wide", "TopologyUnsatisfied")

    assert "needs 8 × 4 nvidia.com/gpu, 1 cpu; the best rack, big-a0/big-r00, fits 5" in message
    assert await cluster.bound("wide") == {}
    await cluster.until("wide", lambda pods: all(said(own, "TopologyUnsatisfied") for own in pods))
    (event,) = [
        own
        for own in await watches.until(cluster.api, where("events", cluster.namespace), counted)
        if own["reason"] == "TopologyUnsatisfied" and own["regarding"]["kind"] == "Pod"
    ]
    first, *others = sorted(
        (f"wide-{n}" for n in range(8)), key=lambda name: name != event["regarding"]["name"]
    )
    kubectl = cluster.gangwright.plane.kubectl
    shown = [kubectl("describe", "pod", "-n", cluster.namespace, name) for name in (first, others[-1])]
    assert re.search(r"TopologyUnsatisfied +.*\(x\d+ over", shown[0])
    assert re.search(r"gangwright.io/Seated +False", shown[1])

    await cluster.remove("tenants")
    assert racks(await cluster.seated("wide", 8)) == ["big-r00"]
    await cluster.told("wide", "Seated")
    await cluster.until("wide", lambda pods: all(said(own, "Seated") for own in pods))


def counted(events: Iterable[Object]) -> bool:
    """The notice was said twice."""
    return any(own["reason"] == "TopologyUnsatisfied" and own.get("series") for own in events)


def on(node: str):
    """The demands of a pod that must have this node."""
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


async def test_rack_that_is_too_small_for_ever(cluster: Cluster):
    """Five members of four GPUs fit no rack of sixteen: the gang is told that waiting is in vain, and nobody starts."""
    await cluster.nodes(TWO_RACKS)
    await cluster.submit(*gang("wide", 5, gpus=4, level="rack", level_required=True))

    message = await cluster.told("wide", "ExceedsCluster")

    assert "needs 5 × 4 nvidia.com/gpu" in message
    assert "; the best rack, " in message
    assert await cluster.bound("wide") == {}


async def test_preferred_rack_falls_back(cluster: Cluster):
    """The same five members run over two racks when one rack is only a wish."""
    await cluster.nodes(TWO_RACKS)
    await cluster.submit(*gang("wide", 5, gpus=4, level="rack"))

    assert racks(await cluster.seated("wide", 5)) == ["r00", "r01"]


async def test_preferred_rack_is_kept_where_it_fits(cluster: Cluster):
    """A gang that fits one rack gets one rack, also when that leaves a half-used rack as it is."""
    await cluster.nodes(TWO_RACKS)
    await cluster.submit(*gang("first", 2, gpus=4, level="rack"))
    began = racks(await cluster.seated("first", 2))
    await cluster.submit(*gang("second", 4, gpus=4, level="rack"))

    assert began != racks(await cluster.seated("second", 4))
    assert len(began) == 1


async def test_required_area(cluster: Cluster):
    """Two racks of one area serve a gang that requires one area and is too large for a rack."""
    await cluster.nodes(Fleet(racks=4, nodes_per_rack=2, areas=2, gpus=4))
    await cluster.submit(*gang("wide", 4, gpus=4, level="area", level_required=True))

    assert racks(await cluster.seated("wide", 4)) in (["r00", "r01"], ["r02", "r03"])


async def test_spread_over_racks(cluster: Cluster):
    """Four members that are spread over racks as a condition sit one in each of four racks."""
    await cluster.nodes(Fleet(racks=4, nodes_per_rack=2, gpus=4))
    await cluster.submit(*gang("replicas", 4, strategy="spread", level="rack", level_required=True))

    assert racks(await cluster.seated("replicas", 4)) == ["r00", "r01", "r02", "r03"]


async def test_level_that_no_node_has(cluster: Cluster):
    """A required level that no node carries is refused by name, with the label that would make it one."""
    await cluster.nodes(TWO_RACKS)
    for name in await names(cluster):
        await cluster.label(name, "topology.kubernetes.io/zone", None)
    await cluster.submit(*gang("lost", 2, level="area", level_required=True))

    message = await cluster.told("lost", "UnknownLevel")

    assert "gangwright.io/level: 'area'" in message
    assert "label nodes with topology.kubernetes.io/zone" in message
    assert await cluster.bound("lost") == {}

    for name in await names(cluster):
        await cluster.label(name, "topology.kubernetes.io/zone", "a0")
    await cluster.seated("lost", 2)


async def test_level_that_nobody_configured(cluster: Cluster):
    """A word that is no level is refused, and the message names those that are."""
    await cluster.nodes(TWO_RACKS)
    await cluster.submit(*gang("lost", 2, level="pod-of-racks"))

    message = await cluster.told("lost", "UnknownLevel")

    assert (
        "gangwright.io/level: 'pod-of-racks': use one of the configured levels: host, rack, area" in message
    )


async def test_nodes_without_a_rack(cluster: Cluster):
    """Nodes without the rack's label are in no rack: a required rack passes them by, any other gang may use them."""
    loose = await cluster.nodes(Fleet(racks=1, nodes_per_rack=4, gpus=4, prefix="loose-"))
    for name in loose:
        await cluster.label(name, "gangwright.io/rack", None)
    racked = await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=4))
    await cluster.submit(*gang("racked", 2, gpus=4, level="rack", level_required=True))
    assert sorted((await cluster.seated("racked", 2)).values()) == racked

    await cluster.submit(*gang("more", 2, gpus=4, level="rack", level_required=True))
    await cluster.told("more", "TopologyUnsatisfied")
    await cluster.submit(*gang("free", 2, gpus=4))
    assert set((await cluster.seated("free", 2)).values()) <= set(loose)
    assert await cluster.bound("more") == {}


async def names(cluster: Cluster):
    return [node["metadata"]["name"] for node in await cluster.api.items("/api/v1/nodes")]
