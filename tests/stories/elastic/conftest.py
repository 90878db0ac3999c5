"""What the stories of elastic jobs share: a kubelet, the master, and Horovod, built before the first test."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from bench.elastic.jobs import TRAINING, Jobs
from bench.horovod import SELDOM
from bench.plane import Plane
from bench.plane.client import Client
from bench.plane.elastic_master import ELASTIC, IMPATIENT, MANIFESTS, Master
from bench.plane.installation import EXTENDER, GANGWRIGHT, Installation
from bench.plane.kubelet import OURS, PLAIN, Image, Kubelet
from tests.stories.conftest import Installed
from tests.stories.support.rights import forbidden
from tests.support.horovod_fixtures import build_before_tests, horovod_python, torch_python

__all__ = ["horovod_python", "torch_python"]

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", **SELDOM}
"""What an image for training on two cores would say."""


def pytest_collection_finish(session: pytest.Session) -> None:
    build_before_tests(session)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.plane)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A story that fails shows what the master wrote last."""
    report = yield
    told = getattr(item, "funcargs", {}).get("elastic")
    if report.failed and isinstance(told, Master) and told.name in told.plane.programs:
        report.sections.append(("The elastic master's log", told.program.log_end(80)))
    return report


@pytest.fixture(scope="session")
def elastic(plane: Plane, installed: Installed) -> Iterator[Master]:
    """The master as manifests/elastic installs it, beside Gangwright."""
    installed.of("steady")
    plane.apply_manifests(MANIFESTS)
    with Master(plane) as running:
        yield running


@pytest.fixture
def impatient(request: pytest.FixtureRequest, plane: Plane, elastic: Master) -> Iterator[Master]:
    """The master with waits of seconds where it has minutes, or with the settings that are the fixture's parameter; the
    stories' own one rests meanwhile."""
    plane.end(elastic.name)
    try:
        with Master(plane, set_=getattr(request, "param", IMPATIENT)) as running:
            yield running
    finally:
        elastic.start()


@pytest_asyncio.fixture
async def kubelet(plane: Plane, horovod_python: Path) -> AsyncIterator[Kubelet]:
    """No nodes yet; `await asyncio.to_thread(kubelet.add, slots(3))`."""
    images = {
        TRAINING: Image(path=[horovod_python.parent], env=QUIET),
        "gangwright": OURS,
        "plain": PLAIN,
    }
    running = Kubelet(plane, images=images)
    await asyncio.to_thread(running.start)
    yield running
    await asyncio.to_thread(running.stop)


@pytest_asyncio.fixture
async def jobs(
    plane: Plane, elastic: Master, gangwright: Installation, kubelet: Kubelet, api: Client, namespace: str
) -> AsyncIterator[Jobs]:
    """A namespace for jobs, in a cluster without nodes. When the story is over, no request of ours was forbidden."""
    await asyncio.to_thread(gangwright.retune)
    began = plane.audit.mark()
    told = Jobs(api, namespace, kubelet)
    yield told
    await told.remove()
    assert plane.audit.refused(ELASTIC.user, since=began) == []
    for account in (EXTENDER, GANGWRIGHT):
        assert forbidden(plane.audit.refused(account.user, since=began)) == []
