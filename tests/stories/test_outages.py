"""The API server stops, forgets, or hangs up: what was begun is finished when it is back, and nothing is done twice."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.plane import Fleet, Plane, watches, where
from bench.plane.installation import Installation
from bench.plane.processes import Program
from bench.plane.proxy import WRITES, Proxy
from tests.stories.conftest import Outages
from tests.stories.support.cluster import Cluster, bind, gated, pinned
from tests.stories.support.workloads import gang, made_by
from tests.stories.test_kills import hard, soft

FLEET = Fleet(racks=2, nodes_per_rack=3, gpus=4)
NAMES = [f"gang-{number}" for number in range(6)]

OURS = 20.0
"""Seconds after the API server's return until we have written all that was to be written; we need about ten."""

PATIENT = ("kube-controller-manager", "kwok", "kube-scheduler", "gangwright-kube-scheduler")
"""Programs whose own watches come back up to a minute after an API server that was away for long."""


@pytest.fixture
def gangwright(frail: Installation) -> Installation:
    return frail


async def burst(cluster: Cluster) -> None:
    """Six gangs that fill the cluster, of both kinds."""
    await cluster.submit(
        *(own for number, name in enumerate(NAMES) for own in (hard, soft)[number % 2](name)), at_once=4
    )


async def all_whole(cluster: Cluster) -> None:
    for name in NAMES:
        await cluster.seated(name, 4)
    await cluster.nothing_held()


def impatient(plane: Plane) -> None:
    """Starts those again that would otherwise sleep on: the story is about us."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(Program.restart, (plane.programs[name] for name in PATIENT)))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seconds", [10, 30])
async def test_api_server_stops(cluster: Cluster, door: Proxy, outages: Outages, seconds: int):
    """Stopped in the middle of a burst and started again, the API server finds all gangs whole soon after."""
    await cluster.nodes(FLEET)
    door.hold_after(12)
    await burst(cluster)
    await asyncio.to_thread(door.until_held)
    await watches.until(cluster.api, where("pods", cluster.namespace), lambda pods: len(pods) == 24)
    plane = cluster.gangwright.plane
    with outages.one():
        await asyncio.to_thread(plane.apiserver.stop)
        door.open()
        await asyncio.sleep(seconds)  # the outage is the story
        ready = await asyncio.to_thread(cluster.gangwright.ready)
        await asyncio.to_thread(plane.apiserver.restart)
        await watches.until(
            cluster.api, where("pods", cluster.namespace), lambda pods: not any(map(gated, pods)), within=OURS
        )
        await asyncio.to_thread(impatient, plane)
        await all_whole(cluster)

    if seconds > 20:
        assert not ready, "after so long a silence nobody is to believe us"
    assert cluster.gangwright.ready()


async def test_requests_during_an_outage(cluster: Cluster, door: Proxy):
    """An API server that does not answer is not stormed: with six gangs on their way, one write a second asks for
    it.
    """
    await cluster.nodes(FLEET)
    door.shut_after(3)
    await burst(cluster)
    await asyncio.to_thread(door.until_shut)
    await asyncio.sleep(1)  # what was under way is over
    door.knocks.clear()
    await asyncio.sleep(5)  # the outage is the story
    knocks = list(door.knocks)
    door.open()

    assert 0 < sum(method in WRITES for method in knocks) < 10
    await all_whole(cluster)


async def test_watches_cut(cluster: Cluster, door: Proxy):
    """Every connection is cut again and again while gangs come: all of them become whole."""
    await cluster.nodes(FLEET)
    submitting = asyncio.create_task(burst(cluster))
    while not submitting.done():
        await asyncio.to_thread(door.cut)
        await asyncio.sleep(0.05)
    await submitting
    await asyncio.to_thread(door.cut)

    await all_whole(cluster)


async def test_watches_expired(cluster: Cluster, door: Proxy):
    """Told that it comes too late, Gangwright reads everything anew: what went meanwhile is gone, what came is
    there.
    """
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=4))
    await cluster.submit(*gang("first", 8))
    await cluster.seated("first", 8)
    door.expire(10)
    await asyncio.to_thread(door.cut)
    await cluster.remove("first")
    await cluster.submit(*gang("second", 8))

    await cluster.seated("second", 8)
    assert door.expiring < 10
    expired = await cluster.measured(lambda seen: restarts(seen, "expired") > 0)
    assert restarts(expired, "expired") > 0
    door.expire(0)


DEAF = 30.0
"""Seconds after which what happened on a deaf watch has been acted upon for certain; it is told after a minute else."""


async def test_a_deaf_watch(cluster: Cluster, door: Proxy):
    """Whoever stands between takes what the watch of pods tells, and passes nothing on, while all else goes through:
    a gang that comes then is whole before a bookmark is missed.
    """
    await cluster.nodes(FLEET)
    await cluster.submit(*gang("before", 4))
    await cluster.seated("before", 4)
    before = await cluster.metrics()
    await asyncio.to_thread(door.deafen, "/api/v1/pods")
    await cluster.submit(*gang("after", 4))
    await watches.until(
        cluster.api,
        where("pods", cluster.namespace),
        lambda pods: len(pods) == 8 and not any(map(gated, pods)),
        within=DEAF,
    )

    await cluster.seated("after", 4)
    told = await cluster.measured(lambda seen: restarts(seen, "deaf") > restarts(before, "deaf"))
    # Watches of other things may still come back from the story before.
    assert restarts(told, "expired", resource="pods") == restarts(before, "expired", resource="pods")


PATIENCE = 25
"""Seconds that the gang has to be bound, which is longer than it takes until we know that we are blind."""


@pytest.mark.timeout(180)
async def test_pods_alone_are_not_seen(cluster: Cluster, door: Proxy):
    """Pods may not be read any more, all else may: who was bound unseen keeps its seat beyond its time limit, /readyz
    says what is wrong, nobody is placed; and when pods are read again, all goes on.
    """
    await cluster.nodes(FLEET)
    scheduler = cluster.gangwright.kube_scheduler
    await asyncio.to_thread(scheduler.stop)  # so that the binds come when they are not seen
    try:
        await cluster.submit(made_by("ReplicaSet", "unseen", 4, timeout=f"{PATIENCE}s"))
        members = await cluster.until("unseen", lambda pods: len(pods) == 4 and not any(map(gated, pods)))
        began = asyncio.get_running_loop().time()
        await asyncio.to_thread(door.bar, "/api/v1/pods")
        for member in members:
            node = pinned(member)
            assert node is not None
            await bind(cluster.api, member, node)
        await cluster.submit(*hard("late"))
        await cluster.running("unseen", 4)
        await asyncio.sleep(began + PATIENCE + 5 - asyncio.get_running_loop().time())  # its time is up
        told = await asyncio.to_thread(cluster.gangwright.readiness)
    finally:
        await asyncio.to_thread(scheduler.restart)
    late = await cluster.members("late")
    ready = await asyncio.to_thread(cluster.gangwright.ready)
    door.open()

    assert not ready
    assert told["fresh"].startswith("the watch of pods has been down for ")
    assert "barred at the door" in told["fresh"]
    assert all(map(gated, late))
    await cluster.seated("late", 4)
    assert {own["metadata"]["uid"] for own in await cluster.members("unseen")} == {
        own["metadata"]["uid"] for own in members
    }
    assert len(await cluster.bound("unseen")) == 4
    assert not [write for write in door.writes if write.path.endswith("/eviction")]
    assert cluster.gangwright.ready()


def restarts(metrics, cause, **labels):
    return metrics.value("gangwright_watch_restarts_total", cause=cause, **labels)
