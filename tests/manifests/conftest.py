"""A control plane with Gangwright's manifests on it, and the people who speak to it."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from bench.plane import ADMIN, Client, Identity, Plane
from bench.plane.installation import EXTENDER, GANGWRIGHT, install
from tests.manifests import TEAM
from tests.manifests.support.elastic import MASTER, until_in_force
from tests.manifests.support.rendering import MANIFESTS, ROOT

ALICE = Identity("alice", ("people",))
"""A user who may do with pods in TEAM what he likes."""

TENANT = Identity("tenant")
"""A user who may edit TEAM by the rules that Kubernetes ships for its role `edit`, which nothing aggregates here."""

CRDS = ROOT / "tests" / "manifests" / "crds"


@pytest.fixture(scope="package")
def installed() -> Iterator[Plane]:
    """A real API server on which everything of manifests/ was installed as the README says; nothing schedules."""
    with Plane(scheduler=False, kwok=False, audit=True) as plane:
        plane.kubectl("apply", "--server-side", "-f", CRDS)
        plane.kubectl("apply", "--server-side", "-k", MANIFESTS / "overlays" / "default")
        install(plane)  # the same once more without the Deployment, and waits until the policies count
        plane.kubectl("create", "namespace", TEAM)
        plane.kubectl(
            *("create", "rolebinding", "tenant", "--clusterrole=system:aggregate-to-edit"),
            *("--user=tenant", "-n", TEAM),
        )
        plane.kubectl("create", "role", "people", "--verb=*", "--resource=pods", "-n", TEAM)
        plane.kubectl("create", "rolebinding", "people", "--role=people", "--group=people", "-n", TEAM)
        yield plane


@pytest.fixture
async def admin(installed: Plane) -> AsyncIterator[Client]:
    async with installed.client(ADMIN) as client:
        yield client


@pytest.fixture
async def alice(installed: Plane) -> AsyncIterator[Client]:
    async with installed.client(ALICE) as client:
        yield client


@pytest.fixture
async def tenant(installed: Plane) -> AsyncIterator[Client]:
    async with installed.client(TENANT) as client:
        yield client


@pytest.fixture(params=[GANGWRIGHT, EXTENDER], ids=["pod's account", "extender's account"])
async def ours(installed: Plane, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """The extender, under the account of the Pod and under the one that has its role alone."""
    async with installed.client(request.param) as client:
        yield client


@pytest.fixture(scope="package")
def elastic(installed: Plane) -> Plane:
    """The plane with the elastic master's manifests on it, and its policies in force."""
    installed.kubectl("apply", "--server-side", "-k", MANIFESTS / "overlays" / "with-elastic")
    installed.kubectl("wait", "--for=condition=Established", "crd/elasticjobs.gangwright.io")
    asyncio.run(until_in_force(installed))
    return installed


@pytest.fixture
async def master(elastic: Plane) -> AsyncIterator[Client]:
    """The API server as the master's account sees it."""
    async with elastic.client(MASTER) as client:
        yield client
