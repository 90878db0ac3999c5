"""A scene, the service over it, and one that has somebody to act."""

import pytest
import pytest_asyncio

from tests.engine.support.cast import a_gang_of_pods, an_owner
from tests.status.support.reviewing import everybody
from tests.status.support.scene import a_scene
from tests.status.support.scripted import Scripted
from tests.status.support.served import served


@pytest.fixture(scope="module")
def world():
    return a_scene()


@pytest.fixture
def reviewing():
    return everybody()


@pytest_asyncio.fixture
async def status(world, reviewing):
    async with served(world.engine, reviewing, now=world.now) as running:
        yield running


@pytest.fixture
def operator():
    return Scripted()


@pytest_asyncio.fixture
async def acting(reviewing, operator):
    """A service that has somebody to act, over a cluster in which a Job's gang runs."""
    world = a_scene()
    job = an_owner("Job", "work")
    job = type(job)("Job", "work", job.uid, "batch/v1")
    world.submit(a_gang_of_pods("work", 2, namespace="team-a", owner=job, gpu=1))
    world.settle(10)
    async with served(world.engine, reviewing, now=world.now, operator=operator) as running:
        yield running
