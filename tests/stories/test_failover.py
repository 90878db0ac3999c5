"""A leader that hangs, is told to end, or is cut off: the other replica takes over, or the same goes on."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
import pytest

from bench.plane import Plane
from bench.plane.installation import Installation
from bench.plane.processes import Program
from tests.manifests.support.rendering import containers
from tests.stories.support.cluster import Cluster
from tests.stories.test_kills import hard
from tests.stories.test_replicas import FLEET, ended, the_one_that_acts

pytestmark = pytest.mark.extended

AT_ONCE, BACK_OFF = 1.0, 10.0
"""Seconds that kubelet takes to start a container again, the first time and the second."""


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with Plane(controllers=True) as running:
        yield running


@pytest.fixture(scope="module")
def replicas(plane: Plane) -> Iterator[list[Installation]]:
    """As the Deployment runs them."""
    with (
        Installation(plane, lease=True, name="gangwright", hostname="pod-a") as first,
        Installation(plane, manifests=None, lease=True, name="standby", hostname="pod-b") as second,
    ):
        yield [first, second]


@pytest.fixture(scope="module")
def gangwright(replicas: list[Installation]) -> Installation:
    return replicas[0]


@pytest.mark.timeout(300)
async def test_a_leader_whose_extender_hangs(cluster: Cluster, replicas: list[Installation]):
    """The liveness probe of the manifests ends a kube-scheduler that no extender answers, and the other replica places
    the next gang. The one that hung then ends by itself; a kube-scheduler whose extender answers is left alone.
    """
    await cluster.nodes(FLEET)
    for replica in replicas:
        await asyncio.to_thread(replica.retune, {"probes.kubeScheduler": replica.kube_scheduler_url})
    leader = await the_one_that_acts(replicas)
    (other,) = (one for one in replicas if one is not leader)
    async with kubelets(replicas) as restarted:
        await cluster.submit(*hard("before"))
        await cluster.seated("before", 4)
        leader.extender.signal(signal.SIGSTOP)
        try:
            await cluster.submit(*hard("after"))
            await cluster.seated("after", 4, within=90.0)
        finally:
            leader.extender.signal(signal.SIGCONT)
        await ended(leader.extender)

    assert set(restarted) == {leader.name}
    assert await the_one_that_acts(replicas) is other
    await asyncio.to_thread(leader.restart)


@pytest.mark.timeout(240)
async def test_a_kube_scheduler_alone_is_told_to_end(cluster: Cluster, replicas: list[Installation]):
    """Its own next kube-scheduler takes the Lease again: the extender's process goes on, and the next gang is bound."""
    await cluster.nodes(FLEET)
    leader = await the_one_that_acts(replicas)
    (other,) = (one for one in replicas if one is not leader)
    await asyncio.to_thread(other.kube_scheduler.stop)  # so that it is the same one that takes over
    before = leader.extender.pid

    await asyncio.to_thread(leader.kube_scheduler.restart)
    await cluster.submit(*hard("after"))

    await cluster.seated("after", 4)
    assert leader.extender.alive
    assert leader.extender.pid == before
    await asyncio.to_thread(other.kube_scheduler.restart)


@pytest.mark.timeout(240)
async def test_an_extender_alone_is_told_to_end(cluster: Cluster, replicas: list[Installation]):
    """Its kube-scheduler keeps the Lease, and binds on once the extender is back."""
    await cluster.nodes(FLEET)
    leader = await the_one_that_acts(replicas)
    before = leader.kube_scheduler.pid

    await asyncio.to_thread(leader.restart)
    await cluster.submit(*hard("after"))

    await cluster.seated("after", 4)
    assert leader.kube_scheduler.alive
    assert leader.kube_scheduler.pid == before


@pytest.mark.timeout(240)
@pytest.mark.parametrize("stands_still", ["kube-apiserver", "etcd"])
async def test_a_standstill_of_20_seconds(cluster: Cluster, replicas: list[Installation], stands_still: str):
    """The leader's kube-scheduler gives up, and its extender is not ready for want of the Lease; both extenders live on,
    and one of them places the next gang.
    """
    await cluster.nodes(FLEET)
    leader = await the_one_that_acts(replicas)
    stopped = leader.plane.programs[stands_still]
    stopped.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(20)  # the standstill is the story
        unready = await asyncio.to_thread(leader.readiness)
    finally:
        stopped.signal(signal.SIGCONT)
    await ended(leader.kube_scheduler)
    lives_on = all(one.extender.alive for one in replicas)
    await cluster.submit(*hard("after"))

    await cluster.seated("after", 4)
    assert lives_on
    assert "lease" in unready
    await asyncio.to_thread(leader.kube_scheduler.restart)
    if not leader.extender.alive:  # the other took over meanwhile
        await asyncio.to_thread(leader.restart)


def started(program: Program) -> None:
    program.start().until_ready()


@asynccontextmanager
async def kubelets(replicas: list[Installation]) -> AsyncIterator[list[str]]:
    """Do to each kube-scheduler what kubelet does by the liveness probe in the manifests; yields which were restarted."""
    restarted: list[str] = []
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        working = [group.create_task(_kubelet(session, one, restarted)) for one in replicas]
        try:
            yield restarted
        finally:
            for task in working:
                task.cancel()
            for one in replicas:
                await asyncio.to_thread(started, one.kube_scheduler)


async def _kubelet(session: aiohttp.ClientSession, replica: Installation, restarted: list[str]) -> None:
    probe = containers()["kube-scheduler"]["livenessProbe"]
    (port,) = containers()["gangwright"]["ports"]
    assert probe["httpGet"]["port"] == port["containerPort"]  # which is elsewhere on the plane
    url = f"http://{urlsplit(replica.probes).netloc}{probe['httpGet']['path']}"
    limit = aiohttp.ClientTimeout(total=probe["timeoutSeconds"])
    failures, loop = 0, asyncio.get_running_loop()
    while True:
        began = loop.time()
        try:
            async with session.get(url, timeout=limit) as answer:
                failures = 0 if answer.status < 400 else failures + 1
        except (aiohttp.ClientError, TimeoutError):
            failures += 1
        if failures >= probe["failureThreshold"]:
            pause = BACK_OFF if replica.name in restarted else AT_ONCE
            restarted.append(replica.name)
            await asyncio.to_thread(replica.kube_scheduler.stop)
            await asyncio.sleep(pause)
            await asyncio.to_thread(started, replica.kube_scheduler)
            failures = 0
        await asyncio.sleep(max(0.0, began + probe["periodSeconds"] - loop.time()))
