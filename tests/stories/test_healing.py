"""Nodes that die under running gangs, members that never start, and nodes that are drained."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest_asyncio

from bench.plane import Fleet, Plane, watches, where
from bench.plane.client import Client, Object
from tests.stories.support.cluster import Cluster, bound, racks
from tests.stories.support.workloads import made_by, pod

KNOWN = 10.0
"""Seconds after a node's death is known, within which its gang is whole again."""

NEVER = {"plane.gangwright.io/starts-in": "1h"}
"""A pod whose containers do not start while a story lasts."""

Drain = Callable[[str], Awaitable[dict[str, Any]]]


def running(pods: list[Object]) -> dict[str, str]:
    """Pod → node, of those that run and are not on their way out."""
    alive = [own for own in pods if not own["metadata"].get("deletionTimestamp")]
    return bound(own for own in alive if own["status"].get("phase") == "Running")


def staying(pods: list[Object]) -> set[str]:
    """Those that nobody has sent away."""
    return {own["metadata"]["name"] for own in pods if not own["metadata"].get("deletionTimestamp")}


async def lose(cluster: Cluster, node: str) -> dict[str, str]:
    """The node is gone, as when a cloud takes it back; member → node, as soon as four run elsewhere."""
    await cluster.api.delete(where("nodes", name=node))

    def whole(pods: list[Object]) -> bool:
        return len(running(pods)) == 4 and node not in running(pods).values()

    return running(await cluster.until("train", whole, within=KNOWN))


# ── lost ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_member_lost_with_its_node_is_replaced_where_its_gang_is(cluster: Cluster):
    """Within 10 s of the node's death being known: its members are made again, in the rack of the others."""
    await cluster.nodes(Fleet(racks=2, nodes_per_rack=3, gpus=2))
    await cluster.submit(made_by("ReplicaSet", "train", 4, level="rack"))
    before = await cluster.running("train", 4)
    lost = next(iter(before.values()))

    after = await lose(cluster, lost)

    assert racks(after) == racks(before)
    assert {name for name, node in before.items() if node != lost} <= set(after), "the others run on"
    told = await cluster.event("train", "MemberLost")  # one for all of them, on one pod and on their owner
    assert all(
        f"{name} was lost with its node {lost}" in told for name, node in before.items() if node == lost
    )
    await cluster.nothing_held()


async def test_gang_with_no_room_left_in_its_rack_moves_whole(cluster: Cluster):
    """The rack is required and full: all members leave together, for seats in another rack that were kept first."""
    await cluster.nodes(Fleet(racks=2, nodes_per_rack=2, gpus=2))
    await cluster.submit(made_by("ReplicaSet", "train", 4, level="rack", level_required=True))
    before = await cluster.running("train", 4)

    after = await lose(cluster, next(iter(before.values())))

    assert len(racks(after)) == 1
    assert racks(after) != racks(before)
    assert set(after).isdisjoint(before)
    await cluster.nothing_held()


async def test_gang_that_asks_for_it_is_restarted_whole(cluster: Cluster):
    """`on-member-loss: restart`: after the loss of one member all are new."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=3, gpus=2))
    await cluster.submit(made_by("ReplicaSet", "train", 4, on_member_loss="restart"))
    before = await cluster.running("train", 4)

    after = await lose(cluster, next(iter(before.values())))

    assert set(after).isdisjoint(before)


# ── refused by kubelet ──────────────────────────────────────────────────────────────────────────────────

REFUSED = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed"}


async def test_node_whose_kubelet_refuses_a_pod_is_left(cluster: Cluster):
    """The pod in its place goes to another node, and an event names the node and kubelet's reason."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=3, gpus=2))
    await cluster.submit(made_by("ReplicaSet", "train", 2, gpus=2, annotations=NEVER))
    ((name, node), (other, stays)) = sorted((await cluster.seated("train", 2)).items())
    await cluster.api.patch(where("pods", cluster.namespace, name, "status"), {"status": REFUSED})

    def whole(pods: list[Object]) -> bool:
        return name not in bound(pods) and len(bound(pods)) == 2

    after = bound(await cluster.until("train", whole))
    assert after[other] == stays
    assert node not in after.values()
    said = await cluster.event(name, "NotStarted")
    assert f"{name} on {node}: the kubelet rejected the pod: UnexpectedAdmissionError" in said


# ── never started ───────────────────────────────────────────────────────────────────────────────────────


async def test_member_that_never_starts_is_told_of_and_made_again(cluster: Cluster):
    """After its start-timeout: an event names member and node, and it is evicted; a bare pod is told of alone."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=2))
    words = {"start_timeout": "1s", "annotations": NEVER, "gpus": 1}
    await cluster.submit(
        made_by("ReplicaSet", "again", 2, **words), pod("alone", gang="alone", min_members=1, **words)
    )
    first = await cluster.seated("again", 2)

    note = await cluster.event("alone", "NotStarted")
    assert "alone" in note
    assert "not evicted" in note
    await cluster.until("again", lambda pods: not set(first) & staying(pods))
    told = await cluster.event("again", "NotStarted")
    assert any(f"{name} on {node} for 1 s" in told for name, node in first.items())
    assert list(await cluster.bound("alone")) == ["alone"]


# ── drained ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest_asyncio.fixture
async def drain(cluster: Cluster, plane: Plane) -> AsyncIterator[Drain]:
    """Cordons a node and asks the status service to drain it, as somebody who may do everything."""
    account = "drainer"
    await cluster.api.create(where("serviceaccounts", cluster.namespace), {"metadata": {"name": account}})
    role = f"drainer-of-{cluster.namespace}"
    plane.kubectl(
        "create",
        "clusterrolebinding",
        role,
        "--clusterrole=cluster-admin",
        f"--serviceaccount={cluster.namespace}:{account}",
    )
    token = await _token(cluster.api, cluster.namespace, account)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:

        async def drained(node: str) -> dict[str, Any]:
            await cluster.cordon(node)
            address = f"{cluster.gangwright.status}/v1/nodes/{node}/drain"
            async with asyncio.timeout(10):
                while True:
                    async with session.post(address, json={}) as answer:
                        said: dict[str, Any] = await answer.json()
                        if answer.status == 200:
                            return said
                    await asyncio.sleep(0.1)  # the watch has not told of the cordon yet

        yield drained
    plane.kubectl("delete", "clusterrolebinding", role)


async def _token(api: Client, namespace: str, account: str) -> str:
    path = f"{where('serviceaccounts', namespace, account)}/token"
    made = await api.create(path, {"spec": {"expirationSeconds": 600}})
    return str(made["status"]["token"])


async def until_empty(cluster: Cluster, drain: Drain, node: str) -> None:
    async with asyncio.timeout(30):
        while not (await drain(node))["done"]:
            await asyncio.sleep(0.1)
    pods = await cluster.api.items(where("pods", cluster.namespace), fields=f"spec.nodeName={node}")
    assert bound(pods) == {}


async def test_drain_takes_no_gang_below_its_quorum(cluster: Cluster, drain: Drain):
    """One member above the quorum leaves alone, for a seat that was kept for its successor; the quorum never moves."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=4, gpus=2))
    await cluster.submit(made_by("ReplicaSet", "train", 5, min_members=3))
    before = await cluster.running("train", 5)
    counts = {node: list(before.values()).count(node) for node in before.values()}
    node = min(counts, key=lambda name: counts[name])
    least = len(before)

    async def watch() -> None:
        nonlocal least
        path = where("pods", cluster.namespace)
        await watches.until(cluster.api, path, lambda pods: noted(pods), within=60.0)

    def noted(pods: list[Object]) -> bool:
        nonlocal least
        least = min(least, len(running(pods)))
        return False

    watching = asyncio.create_task(watch())
    said = await drain(node)
    await until_empty(cluster, drain, node)
    after = await cluster.until("train", lambda pods: len(running(pods)) == 5)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)

    assert [(move["name"], move["pods"]) for move in said["moves"]] == [("train", counts[node])]
    assert least >= 3, "the quorum ran all the time"
    assert {name for name, where_ in before.items() if where_ != node} <= set(running(after))
    await cluster.nothing_held()


async def test_drain_moves_a_gang_at_its_quorum_whole(cluster: Cluster, drain: Drain):
    """All its members leave together, onto seats that were found first; without such seats nobody leaves."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=3, gpus=2))
    await cluster.submit(made_by("ReplicaSet", "train", 4))
    before = await cluster.running("train", 4)
    node = next(iter(before.values()))
    said = await drain(node)
    assert "the whole gang moves" in said["moves"][0]["outcome"]
    await until_empty(cluster, drain, node)
    after = running(await cluster.until("train", lambda pods: len(running(pods)) == 4))
    assert set(after).isdisjoint(before)

    said = await drain(next(iter(after.values())))
    assert "stay" in said["moves"][0]["outcome"]
    assert running(await cluster.members("train")) == after
