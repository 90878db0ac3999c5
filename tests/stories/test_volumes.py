"""Gangs whose claims wait for their first consumer: kube-scheduler binds all of them on the planned nodes. No controller
for volumes runs on the plane, so the tests play it.
"""

import pytest

from bench.plane import Fleet, where
from bench.plane.client import Object
from tests.stories.support.cluster import Cluster, per_node
from tests.stories.support.storage import DRIVER, HOST, Storage
from tests.stories.support.workloads import gang, pod


def claiming(name: str, size: int) -> list[Object]:
    """A gang whose member NAME-n has the claim NAME-n."""
    return [
        pod(
            f"{name}-{number}",
            gang=name,
            min_members=size,
            gpus=0,
            spec={
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": f"{name}-{number}"}}],
            },
        )
        for number in range(size)
    ]


async def test_a_gang_gets_the_local_volumes_of_its_nodes(cluster: Cluster, storage: Storage) -> None:
    """Each node has two, and room for many more pods. A gang of five waits until a fifth volume exists."""
    names = await cluster.nodes(Fleet(racks=1, nodes_per_rack=3))
    await storage.a_class("local", "kubernetes.io/no-provisioner")
    for number in range(4):
        node = names[number % 2]
        await storage.a_volume(f"local-{number}", "local", HOST, node, local={"path": f"/disks/{number}"})
    await storage.claims("local", *(f"train-{number}" for number in range(5)))

    await cluster.submit(*claiming("train", 5))
    await cluster.told("train", "ExceedsCluster")
    assert await cluster.bound("train") == {}

    await storage.a_volume("local-4", "local", HOST, names[2], local={"path": "/disks/4"})
    places = await cluster.seated("train", 5)
    assert per_node(places) == [2, 2, 1]


async def test_a_gang_gets_volumes_where_its_class_and_its_driver_allow(
    cluster: Cluster, storage: Storage
) -> None:
    """The class allows one area of two, and each node attaches two volumes: two of its nodes take two members each."""
    names = await cluster.nodes(Fleet(racks=2, areas=2, nodes_per_rack=2))
    zone = "topology.kubernetes.io/zone"
    nodes = {own["metadata"]["name"]: own for own in await cluster.api.items(where("nodes"))}
    area = nodes[names[-1]]["metadata"]["labels"][zone]
    topologies = [{"matchLabelExpressions": [{"key": zone, "values": [area]}]}]
    for name in names:
        await storage.a_limit(name, 2)
    await storage.a_class("zonal", DRIVER, allowedTopologies=topologies)
    await storage.claims("zonal", *(f"train-{number}" for number in range(4)))

    await cluster.submit(*claiming("train", 4))
    places = await cluster.seated("train", 4)

    assert per_node(places) == [2, 2]
    assert {nodes[node]["metadata"]["labels"][zone] for node in places.values()} == {area}


@pytest.mark.parametrize(
    ("mode", "told"), [("ReadWriteOncePod", "a ReadWriteOncePod claim is for one pod"), ("ReadWriteOnce", "")]
)
async def test_a_claim_that_members_share(cluster: Cluster, storage: Storage, mode: str, told: str) -> None:
    """For one pod: both wait, and the message says why. For one node: both are bound there, also beside a third later."""
    names = await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=1))
    await storage.a_class("zonal", DRIVER)
    await storage.claims("zonal", "data", mode=mode)
    volumes = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    words = {"gpus": 0, "spec": volumes}
    await cluster.submit(*gang("both", 2, **words))
    if told:
        assert told in await cluster.told("both", "ExceedsCluster")
        await cluster.gone_by()
        assert await cluster.bound("both") == {}
        return
    places = await cluster.seated("both", 2)
    await cluster.submit(*gang("later", 1, **words))
    places |= await cluster.seated("later", 1)
    assert len(set(places.values()) & set(names)) == 1
