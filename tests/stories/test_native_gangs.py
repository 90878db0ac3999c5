"""kube-scheduler's own gangs beside ours: our kube-scheduler seats both, and asks Gangwright about every pod of
both.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from bench.load.work import GROUPS, native_objects
from bench.plane import Fleet, Plane, watches, where
from bench.plane.client import Object
from bench.plane.installation import Installation
from tests.stories.support import rights
from tests.stories.support.cluster import SEATED, Cluster, bound, gated
from tests.stories.support.workloads import gang, pod

THEIRS = "app=native"


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with Plane(controllers=True, audit=True, native_gangs=True) as running:
        yield running


@pytest.fixture(scope="module")
def gangwright(plane: Plane) -> Iterator[Installation]:
    """As manifests/ install it, on a cluster that has kube-scheduler's own gangs; nothing of ours was forbidden
    there.
    """
    with Installation(plane) as installed:
        yield installed
    rights.check(plane.audit)


def native(name: str, size: int) -> list[Object]:
    """The pods NAME-0 … of kube-scheduler's own gang NAME, each of one GPU."""
    spec: dict[str, Any] = {"schedulingGroup": {"podGroupName": name}}
    return [pod(f"{name}-{number}", labels={"app": "native"}, spec=spec) for number in range(size)]


async def submit(cluster: Cluster, name: str, size: int) -> None:
    for plural, thing in native_objects(name, size).items():
        await cluster.api.create(where(f"{GROUPS}/{plural}", cluster.namespace), thing)
    await cluster.submit(*native(name, size))


async def seated(cluster: Cluster, members: int) -> list[Object]:
    path = where("pods", cluster.namespace)
    return await watches.until(cluster.api, path, lambda pods: len(bound(pods)) >= members, labels=THEIRS)


async def answers(cluster: Cluster, reason: str) -> float:
    return (await cluster.metrics()).value("gangwright_answers_total", verb="filter", reason=reason)


async def test_native_gang_is_passed_through(cluster: Cluster) -> None:
    """Its pods get no gate, we are asked about them and stand in nobody's way, and they are told nothing of ours."""
    before = await answers(cluster, "NativeGroup")
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=4))
    await submit(cluster, "theirs", 6)

    pods = await seated(cluster, 6)

    assert await answers(cluster, "NativeGroup") >= before + 6
    assert not any(gated(own) or SEATED in str(own["status"]) for own in pods)
    await cluster.nothing_held()


async def test_both_kinds_of_gangs_share_the_nodes(cluster: Cluster) -> None:
    """Room that a native gang has is not given to one of ours, nor ours to it: each waits whole until the other is
    gone.
    """
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=4))
    await submit(cluster, "first", 6)
    await seated(cluster, 6)

    await cluster.submit(*gang("ours", 4))
    assert "needs 4 × 1 nvidia.com/gpu" in await cluster.told("ours", "InsufficientResources")
    assert await cluster.bound("ours") == {}
    await cluster.api.delete_all(where("pods", cluster.namespace), grace=0, labels=THEIRS)
    await cluster.seated("ours", 4)

    await submit(cluster, "second", 6)
    await cluster.gone_by()
    assert bound(await cluster.api.items(where("pods", cluster.namespace), labels=THEIRS)) == {}
    await cluster.remove("ours")
    await seated(cluster, 6)
