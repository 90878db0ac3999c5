"""Who goes first, and who may start past a gang that waits."""

import asyncio

import pytest

from bench.plane import ApiError, Fleet, where
from bench.plane.client import Object
from bench.plane.installation import Installation
from tests.stories.conftest import Tune
from tests.stories.support.cluster import Cluster, gated
from tests.stories.support.workloads import gang, pod

EIGHT = Fleet(racks=1, nodes_per_rack=2, gpus=4)


@pytest.fixture
def gangwright(frail: Installation) -> Installation:
    return frail


async def head_waits(cluster: Cluster) -> None:
    """Half of eight GPUs are in use for ten minutes, and the first gang of the queue waits for all of them."""
    await cluster.nodes(EIGHT)
    await cluster.submit(*gang("runs", 4, expected_runtime="10m"))
    await cluster.running("runs", 4)
    await cluster.submit(*gang("head", 8, expected_runtime="1h"))
    await cluster.told("head", "InsufficientResources")


def small(name: str, runtime: str) -> list[Object]:
    return gang(name, 2, expected_runtime=runtime)


async def test_short_gangs_pass_and_long_ones_do_not(cluster: Cluster):
    """The room of the first gang is reserved in time: who ends before passes it, who would delay it waits behind it,
    told so.
    """
    await head_waits(cluster)
    await cluster.submit(*small("long", "5h"))
    await cluster.told("long", "CapacityReserved")
    await cluster.submit(*small("short", "1m"))

    await cluster.running("short", 2)
    assert await cluster.bound("long") == {}

    await cluster.complete("short")
    await cluster.complete("runs")
    await cluster.running("head", 8)
    assert await cluster.bound("long") == {}
    await cluster.complete("head")
    await cluster.running("long", 2)


async def test_without_a_reservation(cluster: Cluster, tune: Tune):
    """With `backfill: free` whoever finds room starts, however long it will run."""
    await tune({"queue.backfill": "free"})
    await head_waits(cluster)
    await cluster.submit(*small("long", "5h"))

    await cluster.running("long", 2)
    assert await cluster.bound("head") == {}


async def test_strict_order(cluster: Cluster, tune: Tune):
    """With `backfill: none` nobody starts before the first gang, however short it would run; then the others follow."""
    await tune({"queue.backfill": "none"})
    await head_waits(cluster)
    await cluster.submit(*small("short", "1m"))
    await cluster.told("short", "Queued")
    assert await cluster.bound("short") == {}

    await cluster.complete("runs")
    await cluster.running("head", 8)
    await cluster.complete("head")
    await cluster.running("short", 2)


@pytest.mark.parametrize(
    ("settings", "first"), [({}, "older"), ({"queue.order": "shortest"}, "shorter")], ids=["fifo", "shortest"]
)
async def test_orders(cluster: Cluster, tune: Tune, settings: dict[str, object], first: str):
    """Of two gangs that wait for the whole cluster, the older goes first under `fifo` and the shorter under
    `shortest`.
    """
    await tune(settings)
    await cluster.nodes(EIGHT)
    await cluster.submit(*gang("runs", 8))
    await cluster.running("runs", 8)
    await cluster.submit(*gang("older", 8, expected_runtime="5h"))
    await cluster.told("older", "InsufficientResources")
    await cluster.submit(*gang("shorter", 8, expected_runtime="1m"))
    await cluster.told("shorter", "InsufficientResources")
    await cluster.complete("runs")

    (second,) = {"older", "shorter"} - {first}
    await cluster.running(first, 8)
    assert await cluster.bound(second) == {}
    await cluster.complete(first)
    await cluster.running(second, 8)


async def test_a_duration_that_does_not_parse(cluster: Cluster):
    """A runtime that is none is refused by name, with how one is written; the gang does not start."""
    await cluster.nodes(EIGHT)
    await cluster.submit(*gang("sometime", 2, expected_runtime="soon"))

    message = await cluster.told("sometime", "InvalidSpec")
    assert "gangwright.io/expected-runtime: 'soon'" in message
    assert "90s, 5m or 1h30m" in message
    assert await cluster.bound("sometime") == {}


def of(priority: str) -> Object:
    """The part of a pod's description that says how much it matters."""
    return {"priorityClassName": priority}


async def test_a_class_that_there_is_not(cluster: Cluster):
    """A pod of an unknown class is refused when it is made; those of its gang that came wait for it and keep
    nothing.
    """
    await cluster.nodes(EIGHT)
    await cluster.submit(*gang("runs", 4))
    runs = await cluster.running("runs", 4)
    *others, last = gang("lacks", 4)
    await cluster.submit(*others)
    with pytest.raises(ApiError, match="no PriorityClass with name absent was found") as refused:
        await cluster.submit({**last, "spec": {**last["spec"], **of("absent")}})
    assert refused.value.status == 403

    assert "3 of 4" in await cluster.told("lacks", "MissingMembers")
    await cluster.submit(*gang("peer", 4))
    await cluster.running("peer", 4)
    assert await cluster.bound("runs") == runs
    assert await cluster.bound("lacks") == {}


@pytest.mark.usefixtures("priorities")
async def test_a_class_that_is_deleted_meanwhile(cluster: Cluster):
    """A gang keeps the priority that stands on its pods: it goes before an older one, and who matters less gives way
    to it.
    """
    await cluster.nodes(EIGHT)
    await cluster.submit(*gang("less", 4), *gang("more", 4, spec=of("urgent")))
    for name in ("less", "more"):
        await cluster.running(name, 4)
    await cluster.submit(*gang("older", 4))
    await cluster.told("older", "InsufficientResources")
    made = await cluster.api.create(
        where("priorityclasses"), {"metadata": {"generateName": "fleeting-"}, "value": 500}
    )
    fleeting: str = made["metadata"]["name"]
    await admitted(cluster, of(fleeting))
    await cluster.submit(*gang("late", 8, spec=of(fleeting)))
    await cluster.told("late", "InsufficientResources")
    await cluster.api.delete(where("priorityclasses", name=fleeting))
    await cluster.complete("more")

    await cluster.running("late", 8)
    assert await cluster.members("less") == []
    older = await cluster.members("older")
    assert [gated(own) for own in older] == [True] * 4


async def admitted(cluster: Cluster, spec: Object) -> None:
    """The API server takes pods of a class that was just made; it admits by a list of its own, which follows in a
    moment.
    """
    trial = pod("trial", spec=spec)
    async with asyncio.timeout(20):
        while True:
            try:
                await cluster.api.request("POST", where("pods", cluster.namespace), body=trial, dryRun="All")
            except ApiError:
                await asyncio.sleep(0.05)
            else:
                return
