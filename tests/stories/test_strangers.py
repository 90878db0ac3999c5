"""Pods that are not ours are left alone, and what they use is used."""

from bench.plane import Fleet
from bench.plane.installation import GATE
from tests.stories.support.cluster import Cluster, said
from tests.stories.support.workloads import gang, pod


async def test_use_of_strangers_counts(cluster: Cluster):
    """GPUs that pods of another scheduler hold are not given to a gang; when they leave, the gang comes."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=4))
    await cluster.submit(
        *(pod(f"other-{n}", gang="others", gpus=4, scheduler="default-scheduler") for n in range(2))
    )
    await cluster.seated("others", 2)
    await cluster.submit(*gang("ours", 8))

    assert (await cluster.told("ours", "InsufficientResources")).startswith(
        "Insufficient resources: needs 8 × 1 nvidia.com/gpu"
    )

    await cluster.remove("others")
    await cluster.seated("ours", 8)


async def test_strangers_are_not_members(cluster: Cluster):
    """A pod of another scheduler that carries the gang's label does not count for its quorum and is told nothing."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=4))
    await cluster.submit(
        *gang("mixed", 2, min_members=3),
        pod("stranger", gang="mixed", min_members=3, scheduler="default-scheduler"),
    )

    assert "2 of 3 exist" in await cluster.told("mixed", "MissingMembers")

    members = {own["metadata"]["name"]: own for own in await cluster.members("mixed")}
    assert list(await cluster.bound("mixed")) == ["stranger"]
    assert said(members["stranger"], "MissingMembers") is None


async def test_pods_that_bring_their_node(cluster: Cluster):
    """A pod of ours that was made with its node, as daemons and static pods are, runs there, and its room counts."""
    first, _ = await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=4))
    await cluster.submit(pod("placed", gpus=4, spec={"nodeName": first}), *gang("ours", 8))

    await cluster.told("ours", "InsufficientResources")
    placed = await cluster.thing("pods", "placed", lambda own: own["status"].get("phase") == "Running")
    assert GATE not in str(placed["spec"])
    assert await cluster.bound("ours") == {}


async def test_both_schedulers_at_once(cluster: Cluster):
    """Gangs and single pods of the cluster's own scheduler are submitted together: all are placed, nothing twice."""
    await cluster.nodes(Fleet(racks=2, nodes_per_rack=4, gpus=4, cpu="8"))
    ours = [own for number in range(4) for own in gang(f"gang-{number}", 4)]
    theirs = [pod(f"web-{n}", gang="web", gpus=0, scheduler="default-scheduler") for n in range(16)]
    await cluster.submit(*(own for pair in zip(ours, theirs, strict=True) for own in pair), at_once=8)

    for number in range(4):
        await cluster.seated(f"gang-{number}", 4)
    await cluster.seated("web", 16)
