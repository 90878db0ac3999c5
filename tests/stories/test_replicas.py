"""Two replicas: the one beside the kube-scheduler that leads acts, and the other takes over what it began."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from bench.plane import Fleet, Plane
from bench.plane.installation import EXTENDER, Installation
from bench.plane.processes import Program
from bench.plane.proxy import Proxy
from tests.stories.support import rights
from tests.stories.support.cluster import Cluster
from tests.stories.test_kills import HARD, hard

FLEET = Fleet(racks=2, nodes_per_rack=3, gpus=4)


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with Plane(controllers=True, audit=True) as running:
        yield running


@pytest.fixture(scope="module")
def doors(plane: Plane) -> Iterator[list[Proxy]]:
    """Before the API server each replica has a door of its own, so that it is known who wrote."""
    context = plane.context(EXTENDER)
    with Proxy(plane.url, context) as first, Proxy(plane.url, context) as second:
        yield [first, second]


@pytest.fixture(scope="module")
def replicas(plane: Plane, doors: list[Proxy]) -> Iterator[list[Installation]]:
    """As the Deployment runs them: one Lease, two Pods of a kube-scheduler and an extender each; neither was
    forbidden anything.
    """
    urls = [door.url for door in doors]
    with (
        Installation(plane, lease=True, name="gangwright", hostname="pod-a", through=urls[0]) as first,
        Installation(
            plane, manifests=None, lease=True, name="standby", hostname="pod-b", through=urls[1]
        ) as second,
    ):
        yield [first, second]
    rights.check(plane.audit)


@pytest.fixture(scope="module")
def gangwright(replicas: list[Installation]) -> Installation:
    return replicas[0]


async def the_one_that_acts(replicas: list[Installation], within: float = 30.0) -> Installation:
    """The replica that acts, once exactly one does."""
    async with asyncio.timeout(within):
        while True:
            acting = [
                one for one in replicas if one.extender.alive and one.metrics().value("gangwright_acting")
            ]
            if len(acting) == 1:
                return acting[0]
            await asyncio.sleep(0.2)


@pytest.mark.timeout(240)
async def test_the_standby_takes_over(cluster: Cluster, replicas: list[Installation]):
    """One replica places a gang; when its kube-scheduler is stopped the other places the next, and only one ever
    acts.
    """
    await cluster.nodes(FLEET)
    leader = await the_one_that_acts(replicas)
    await cluster.submit(*hard("before"))
    await cluster.seated("before", 4)

    await asyncio.to_thread(leader.kube_scheduler.stop)
    await cluster.submit(*hard("after"))

    await cluster.seated("after", 4)
    taken_over = await the_one_that_acts([one for one in replicas if one is not leader])
    assert taken_over is not leader
    await asyncio.to_thread(leader.kube_scheduler.restart)


@pytest.mark.timeout(240)
async def test_a_leader_that_slept(cluster: Cluster, replicas: list[Installation], doors: list[Proxy]):
    """Frozen between two writes of a gang the leader is replaced, and the other finishes the gang; woken, it writes
    nothing more.
    """
    await cluster.nodes(FLEET)
    leader = await the_one_that_acts(replicas)
    door = doors[replicas.index(leader)]
    door.forget()
    door.shut_after(HARD - 2)
    await cluster.submit(*hard("begun"))
    await asyncio.to_thread(door.until_shut)
    try:
        signalled(leader, signal.SIGSTOP)
        await cluster.seated("begun", 4, within=60.0)
    finally:
        door.open()
        signalled(leader, signal.SIGCONT)
    await ended(leader.extender)
    await asyncio.to_thread(leader.kube_scheduler.restart)
    await asyncio.to_thread(leader.restart)

    assert len(door.writes) == HARD - 2, "the two that were left are the other's"


def signalled(replica: Installation, number: signal.Signals) -> None:
    for program in (replica.extender, replica.kube_scheduler):
        program.signal(number)


async def ended(program: Program, within: float = 15.0) -> None:
    """By itself."""
    async with asyncio.timeout(within):
        while program.alive:
            await asyncio.sleep(0.1)
