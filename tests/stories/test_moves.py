"""Stories of gangs that go elsewhere: an administrator asks which moves would help, and has a node emptied."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest_asyncio

from bench.plane import Fleet, Plane, watches, where
from bench.plane.client import Object
from tests.cli.support.speaking import Said
from tests.stories.support.cluster import Cluster, bound
from tests.stories.support.people import binding, hired, role
from tests.stories.support.workloads import gang, made_by

KEEPER = "keeper"
KEEPS_NODES = role(
    "keeps-nodes",
    [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    ],
)
"""What README asks of whoever drains nodes, and the right to see what is on them."""

Ask = Callable[..., Awaitable[Said]]


@pytest_asyncio.fixture
async def ask(cluster: Cluster, plane: Plane, tmp_path: Path) -> AsyncIterator[Ask]:
    """The command in the hands of somebody who keeps the nodes, and may do nothing else."""
    keeper = await hired(cluster.api, plane, cluster.namespace, KEEPER, tmp_path)
    given = f"{KEEPER}-of-{cluster.namespace}"
    plane.apply([KEEPS_NODES, binding(given, "keeps-nodes", KEEPER, cluster.namespace)])
    yield keeper.says
    plane.kubectl("delete", "clusterrolebinding", given)


def running(pods: list[Object]) -> dict[str, str]:
    """Pod → node, of those that run and are not on their way out."""
    staying = [own for own in pods if "deletionTimestamp" not in own["metadata"]]
    return bound(own for own in staying if own["status"].get("phase") == "Running")


@asynccontextmanager
async def counted(cluster: Cluster) -> AsyncIterator[list[int]]:
    """How many pods of the story ran, at every change since."""
    counts: list[int] = []

    def note(pods: list[Object]) -> bool:
        counts.append(len(running(pods)))
        return False

    path = where("pods", cluster.namespace)
    watching = asyncio.create_task(watches.until(cluster.api, path, note, within=60.0))
    yield counts
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def put(cluster: Cluster, node: str, other: str, replicas: Object) -> None:
    """Has these run on this node of the two; afterwards both take new pods."""
    await cluster.cordon(other)
    await cluster.submit(replicas)
    await cluster.running(replicas["metadata"]["name"], replicas["spec"]["replicas"])
    await cluster.cordon(other, unschedulable=False)


async def places(cluster: Cluster) -> Mapping[str, str | None]:
    """Where every pod of the story is, by uid."""
    found = await cluster.api.items(where("pods", cluster.namespace))
    return {own["metadata"]["uid"]: own["spec"].get("nodeName") for own in found}


async def drain(cluster: Cluster, ask: Ask, node: str, *words: str) -> Said:
    """What a drain of a cordoned node tells; asked again for as long as the service has not heard of the cordon."""
    async with asyncio.timeout(10):
        while True:
            said = await ask("drain", node, "--server", cluster.gangwright.status, *words)
            if "kubectl cordon" not in said.err:
                return said
            await asyncio.sleep(0.1)


async def test_the_moves_that_defrag_shows_make_room(cluster: Cluster, ask: Ask):
    """It names what could go where, and moves nothing. With --yes that moves, as shown, and the gang that waited runs
    where it was said to.
    """
    left, right = await cluster.nodes(Fleet(nodes_per_rack=2, gpus=8))
    await put(cluster, left, right, made_by("ReplicaSet", "left", 1, gpus=4))
    await put(cluster, right, left, made_by("ReplicaSet", "right", 2, gpus=2))
    await cluster.submit(*gang("large", 1, gpus=8))
    await cluster.told("large", "InsufficientResources")
    before = await places(cluster)

    by = ("--server", cluster.gangwright.status)
    shown = await ask("defrag", *by)
    told = await ask("defrag", *by, "-o", "json")

    assert told.code == 0, told.err
    (move,) = told.json["moves"]
    assert (move["gang"], move["from"], move["to"]) == ("left", left, right), "the fewest members"
    assert told.json["head"]["seats"] == {"large-0": left}
    assert f"then {cluster.namespace}/large would start on these nodes:" in shown.out
    assert "gangwright defrag --yes" in shown.err
    assert await places(cluster) == before, "nothing was moved"

    said = await ask("defrag", "--yes", *by)
    assert (
        said.code,
        f"the moves have started; these nodes are reserved for {cluster.namespace}/large" in said.out,
    ) == (0, True), said
    assert await cluster.running("large", 1) == {"large-0": left}
    assert list((await cluster.running("left", 1)).values()) == [right]
    await cluster.nothing_held()


async def test_no_moves_are_shown_where_none_help(cluster: Cluster, ask: Ask):
    """Pods that nobody would make again are not moved for anybody: that is said, with exit code 1."""
    left, right = await cluster.nodes(Fleet(nodes_per_rack=2, gpus=8))
    await cluster.submit(*gang("bare", 2, gpus=4, strategy="spread", level="host"))
    assert set((await cluster.running("bare", 2)).values()) == {left, right}
    await cluster.submit(*gang("large", 1, gpus=8))
    await cluster.told("large", "InsufficientResources")

    said = await ask("defrag", "--offline")

    assert said.code == 1
    assert len(said.err.splitlines()) == 2, "the settings, and all kinds that are not for the keeper's eyes"
    assert "no controller would recreate it at no cost" in said.out


async def test_a_drained_node_is_left_for_seats_that_were_found(cluster: Cluster, ask: Ask):
    """The member above the quorum goes where the first answer said, the quorum never stops, and then the node is
    empty.
    """
    await cluster.nodes(Fleet(nodes_per_rack=4, gpus=2))
    await cluster.submit(made_by("ReplicaSet", "train", 5, min_members=3))
    before = await cluster.running("train", 5)
    (node,) = {own for own in before.values() if list(before.values()).count(own) == 1}
    open_ = await ask("drain", node, "--server", cluster.gangwright.status)
    assert (open_.code, f"`kubectl cordon {node}`" in open_.err) == (2, True)
    await cluster.cordon(node)

    async with counted(cluster) as counts:
        first = await drain(cluster, ask, node)
        last = await drain(cluster, ask, node, "--wait", "--timeout", "30s")
        after = running(await cluster.until("train", lambda pods: len(running(pods)) == 5))

    (told,) = first.rows[:-1]
    assert (first.code, told["GANG"], told["PODS"]) == (1, "train", "1")
    (fresh,) = set(after) - set(before)
    assert told["OUTCOME"] == f"moves to {after[fresh]}"
    assert (last.code, last.out) == (0, f"node {node}: no pods of Gangwright are left\n")
    assert node not in after.values()
    assert min(counts) >= 4, "the others ran all the time"
    await cluster.nothing_held()


async def test_a_node_that_cannot_be_emptied(cluster: Cluster, ask: Ask):
    """Nobody leaves for a seat that is not there, or who would not come back: why is said of each, and what to do."""
    keeps, other = await cluster.nodes(Fleet(nodes_per_rack=2, gpus=4))
    await put(cluster, keeps, other, made_by("ReplicaSet", "full", 3))
    await cluster.submit(*gang("bare", 1))
    assert await cluster.running("bare", 1) == {"bare-0": keeps}, "packed"
    await put(cluster, other, keeps, made_by("ReplicaSet", "rest", 2))
    before = await places(cluster)
    await cluster.cordon(keeps)

    said = await drain(cluster, ask, keeps, "--wait", "--timeout", "1s")

    assert said.code == 1
    told = {row["GANG"]: row["OUTCOME"] for row in said.rows[:-1]}
    assert told["full"].startswith(
        "3 stay: no other nodes fit: needs 3 × 1 nvidia.com/gpu, 1 cpu; the cluster fits 2"
    )
    assert told["bare"] == "1 stays: bare-0: no controller would recreate it at no cost"
    assert said.out.splitlines()[-1] == f"node {keeps}: not empty yet"
    assert "free capacity on other nodes" in said.err
    assert await places(cluster) == before
