"""Two replicas: the one beside the kube-scheduler that leads acts, and the other takes over what it began."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.plane import Fleet, Plane
from tests.plane.installation import Installation
from tests.stories import rights
from tests.stories.cluster import Cluster
from tests.stories.test_kills import hard

FLEET = Fleet(racks=2, nodes_per_rack=3, gpus=4)


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with Plane(controllers=True, audit=True) as running:
        yield running


@pytest.fixture(scope="module")
def replicas(plane: Plane) -> Iterator[list[Installation]]:
    """As the Deployment runs them: one Lease, two Pods of a kube-scheduler and an extender each; neither was forbidden anything."""
    with (
        Installation(plane, lease=True, name="gangwright", hostname="pod-a") as first,
        Installation(plane, manifests=None, lease=True, name="standby", hostname="pod-b") as second,
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
    """One replica places a gang; when its kube-scheduler is stopped the other places the next, and only one ever acts."""
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
