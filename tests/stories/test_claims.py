"""Devices that kube-scheduler allocates itself: claims of Dynamic Resource Allocation, and resources that a class backs.

The objects of a driver are written by the stories. kube-scheduler allocates with the rights that manifests/ gives it.
"""

import pytest
import pytest_asyncio

from bench.plane import Fleet
from bench.plane.client import Object
from bench.plane.installation import ROOT
from tests.stories.support.cluster import Cluster
from tests.stories.support.devices import DRIVER, GROUP, Devices, claiming, collection
from tests.stories.support.workloads import gang, made_by

RESOURCE = "example.com/accelerator"


@pytest_asyncio.fixture
async def nodes(cluster: Cluster, devices: Devices) -> list[str]:
    """Three nodes with two devices each, one class for all and one for large ones, and a template for each."""
    names = await cluster.nodes(Fleet(racks=1, nodes_per_rack=3, gpus=0))
    cluster.accountant.elsewhere.add(RESOURCE)
    for node in names:
        own = (("uuid", {"string": f"{node}-{n}"}, n) for n in range(2))
        await devices.on(
            node, [{"name": f"d{n}", "attributes": {key: uuid, "size": {"int": n}}} for key, uuid, n in own]
        )
    driver = f'device.driver == "{DRIVER}"'
    await devices.a_class("gpu.example.com", driver, extendedResourceName=RESOURCE)
    await devices.a_class("large", f'{driver} && device.attributes["{DRIVER}"].size > 0')
    return names


async def allocated(cluster: Cluster) -> list[str]:
    """The devices that any claim has."""
    claims = await cluster.api.items(collection("resourceclaims", cluster.namespace))
    return [
        f"{own['pool']}/{own['device']}"
        for claim in claims
        for own in (claim.get("status", {}).get("allocation") or {}).get("devices", {}).get("results", [])
    ]


@pytest.mark.timeout(240)
async def test_gangs_with_claims_run_whole_one_after_another(cluster: Cluster, nodes: list[str]):
    """Four gangs of four pods, one device each, on six devices: one runs at a time, never a part of another."""
    names = [f"claims-{number}" for number in range(4)]
    await cluster.submit(
        *(member for name in names for member in gang(name, 4, gpus=0, spec=claiming("gpu.example.com")))
    )

    left = set(names)
    while left:
        parts = dict.fromkeys(left, 0)
        while not (done := {name for name, count in parts.items() if count == 4}):
            parts = {name: len(await cluster.bound(name)) for name in left}
        assert len(done) == 1
        assert sum(parts.values()) == 4
        assert len(set(await allocated(cluster))) == 4
        (name,) = done
        await cluster.complete(name)
        left -= done
    await cluster.nothing_held()


@pytest.mark.timeout(120)
async def test_a_selector_limits_a_gang(cluster: Cluster, nodes: list[str]):
    """Only one device of each node is large: three members are seated, one on each node, and a gang of four waits."""
    await cluster.submit(*gang("four", 4, gpus=0, spec=claiming("large")))
    await cluster.told("four", "ExceedsCluster")
    assert await cluster.bound("four") == {}
    await cluster.submit(*gang("three", 3, gpus=0, spec=claiming("large")))
    assert sorted((await cluster.seated("three", 3)).values()) == sorted(nodes)


@pytest.mark.timeout(120)
async def test_a_resource_that_only_a_class_backs(cluster: Cluster, nodes: list[str]):
    """Pods request a number, as of a device plugin; kube-scheduler creates their claims, and no device counts twice."""

    def members(name: str, size: int) -> list[Object]:
        found = gang(name, size, gpus=0)
        for own in found:
            resources = own["spec"]["containers"][0]["resources"]
            resources["requests"][RESOURCE] = resources.setdefault("limits", {})[RESOURCE] = "2"
        return found

    await cluster.submit(*members("first", 2))
    await cluster.seated("first", 2)
    await cluster.submit(*members("second", 2), *members("third", 1))
    await cluster.seated("third", 1)
    assert await cluster.bound("second") == {}
    assert len(set(await allocated(cluster))) == 6
    await cluster.complete("first")
    await cluster.seated("second", 2)


@pytest.mark.timeout(120)
async def test_the_sample_with_devices(cluster: Cluster, nodes: list[str]):
    """It is seated whole, with a device for each member."""
    await cluster.apply(ROOT / "manifests" / "samples" / "devices.yaml")
    await cluster.seated("devices", 4)
    assert len(set(await allocated(cluster))) == 4


@pytest.mark.timeout(120)
async def test_a_claim_that_a_gang_shares(cluster: Cluster, nodes: list[str]):
    """Its planner does not know yet where the claim will be; all members end up on the node of its device."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    body = {"metadata": {"name": "shared"}, "spec": {"devices": {"requests": [request]}}}
    await cluster.api.create(collection("resourceclaims", cluster.namespace), {"apiVersion": GROUP, **body})
    spec = claiming("") | {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}

    await cluster.submit(*gang("sharing", 3, gpus=0, spec=spec))

    places = await cluster.seated("sharing", 3, within=60)
    (own,) = await allocated(cluster)
    assert set(places.values()) == {own.partition("/")[0]}


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("priorities")
async def test_an_urgent_gang_gets_the_devices_of_another(cluster: Cluster, nodes: list[str]):
    """The victims leave, their claims are deallocated, and then the urgent gang starts whole."""
    spec = claiming("gpu.example.com")
    await cluster.submit(made_by("ReplicaSet", "low", 6, gpus=0, spec=spec))
    await cluster.seated("low", 6)

    urgent = {**spec, "priorityClassName": "urgent"}
    await cluster.submit(*gang("high", 4, gpus=0, spec=urgent))

    await cluster.seated("high", 4, within=60)
    assert len(set(await allocated(cluster))) == 4
    assert await cluster.bound("low") == {}
    await cluster.remove("high")
    await cluster.seated("low", 6, within=60)
