"""Gangs whose claims wait for their first consumer: kube-scheduler binds all of them on the planned nodes. No controller
for volumes runs on the plane, so the tests play it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

import pytest
import pytest_asyncio

from bench.plane import Client, Fleet, where
from bench.plane.client import Object
from bench.plane.errors import ApiError
from tests.stories.support.cluster import Cluster, per_node
from tests.stories.support.workloads import gang, pod

STORAGE: Final = "storage.k8s.io/v1"
SELECTED: Final = "volume.kubernetes.io/selected-node"
DRIVER: Final = "csi.example"
HOST: Final = "kubernetes.io/hostname"


class Storage:
    """Classes, volumes and limits of one test, and the controller that completes what kube-scheduler begins."""

    def __init__(self, api: Client, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self._made: list[str] = []

    async def create(self, kind: str, name: str, body: Object, version: str) -> None:
        thing = {"apiVersion": version, "metadata": {"name": name}, **body}
        await self.api.create(where(kind), thing)
        self._made.append(where(kind, name=name))

    async def a_class(self, name: str, provisioner: str, **more: Any) -> None:
        body = {
            "kind": "StorageClass",
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await self.create(f"{STORAGE}/storageclasses", name, body | more, STORAGE)

    async def a_volume(self, name: str, klass: str, key: str, value: str, **source: Any) -> None:
        matches = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
        spec = {
            "storageClassName": klass,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [matches]}},
            **source,
        }
        await self.create("persistentvolumes", name, {"kind": "PersistentVolume", "spec": spec}, "v1")
        await self._status("persistentvolumes", name, "Available")

    async def a_limit(self, node: str, count: int) -> None:
        driver = {"name": DRIVER, "nodeID": node, "topologyKeys": None, "allocatable": {"count": count}}
        await self.create(
            f"{STORAGE}/csinodes", node, {"kind": "CSINode", "spec": {"drivers": [driver]}}, STORAGE
        )

    async def claims(self, klass: str, *names: str, mode: str = "ReadWriteOnce") -> None:
        for name in names:
            spec = {
                "storageClassName": klass,
                "accessModes": [mode],
                "resources": {"requests": {"storage": "1Gi"}},
            }
            thing = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
            await self.api.create(where("persistentvolumeclaims", self.namespace), {**thing, "spec": spec})

    async def bind(self) -> None:
        """Binds volumes that name a claim, and creates volumes for claims with a selected node. Never ends."""
        while True:
            with suppress(ApiError):  # kube-scheduler wrote at the same moment
                for claim in await self.api.items(where("persistentvolumeclaims", self.namespace)):
                    if not claim["spec"].get("volumeName"):
                        await self._serve(claim)
            await asyncio.sleep(0.05)

    async def _serve(self, claim: Object) -> None:
        meta = claim["metadata"]
        node = meta.get("annotations", {}).get(SELECTED)
        if node is not None:
            reference = {key: meta[key] for key in ("name", "namespace", "uid")}
            source = {"csi": {"driver": DRIVER, "volumeHandle": meta["uid"]}, "claimRef": reference}
            await self.a_volume(f"pv-{meta['name']}", claim["spec"]["storageClassName"], HOST, node, **source)
        for volume in await self.api.items(where("persistentvolumes")):
            name, reference = volume["metadata"]["name"], volume["spec"].get("claimRef") or {}
            if reference.get("uid") == meta["uid"]:
                done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
                place = where("persistentvolumeclaims", self.namespace, meta["name"])
                await self.api.patch(place, {**done, "spec": {"volumeName": name}})
                await self.api.patch(f"{place}/status", {"status": {"phase": "Bound"}})
                await self._status("persistentvolumes", name, "Bound")

    async def _status(self, kind: str, name: str, phase: str) -> None:
        await self.api.patch(where(kind, name=name, part="status"), {"status": {"phase": phase}})

    async def remove(self) -> None:
        for claim in await self.api.items(where("persistentvolumeclaims", self.namespace)):
            place = where("persistentvolumeclaims", self.namespace, claim["metadata"]["name"])
            await self._delete(place)
        for place in self._made:
            await self._delete(place)

    async def _delete(self, place: str) -> None:
        with suppress(ApiError):  # its node may have taken it along
            await self.api.patch(place, {"metadata": {"finalizers": None}}, how="merge")
        await self.api.delete(place)


@pytest_asyncio.fixture
async def storage(cluster: Cluster) -> AsyncIterator[Storage]:
    """The storage of one test, whose claims are bound as soon as kube-scheduler asks for it."""
    made = Storage(cluster.api, cluster.namespace)
    binding = asyncio.create_task(made.bind())
    yield made
    binding.cancel()
    with suppress(asyncio.CancelledError):
        await binding
    await made.remove()


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
