"""The plane for pytest: one for the whole session, a namespace and nodes for each test.

The programs are built before the first test runs, outside of any test's time limit. A test that uses one of these
fixtures carries the marker `plane`, so that `-m "not plane"` leaves all of them out.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
import pytest_asyncio

from bench.plane import binaries, nodes
from bench.plane.client import Client, where
from bench.plane.control_plane import Plane
from bench.plane.nodes import Fleet

MakeNodes = Callable[..., Awaitable[list[str]]]


def build_before_tests(session: pytest.Session) -> None:
    """Builds the plane's programs when a collected test is going to need them."""
    needed = any(item.get_closest_marker("plane") for item in session.items)
    if not needed or session.config.option.collectonly:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        binaries.ensure()


@pytest.fixture(scope="session")
def plane() -> Iterator[Plane]:
    """A running plane with every program; the plain kube-scheduler serves `default-scheduler`."""
    with Plane(controllers=True, audit=True) as running:
        yield running


@pytest_asyncio.fixture
async def api(plane: Plane) -> AsyncIterator[Client]:
    """A client of the plane with an admin's rights."""
    async with plane.client() as client:
        yield client


@pytest_asyncio.fixture
async def namespace(api: Client) -> AsyncIterator[str]:
    """A namespace of the test's own, ready for pods; afterwards everything in it is gone."""
    made = await api.create(where("namespaces"), {"metadata": {"generateName": "test-"}})
    name: str = made["metadata"]["name"]
    await api.until(where("serviceaccounts", name, "default"), bool)
    yield name
    await api.delete(where("namespaces", name=name))
    await clear(api, name)


@pytest_asyncio.fixture
async def make_nodes(api: Client) -> AsyncIterator[MakeNodes]:
    """`await make_nodes(Fleet(racks=2))` or `await make_nodes(racks=2)` gives node names; afterwards no node is
    left.
    """

    async def make(*fleets: Fleet, **words: object) -> list[str]:
        return await nodes.create(api, *fleets, *([nodes.fleet(words)] if words or not fleets else []))

    yield make
    await nodes.delete_all(api)


async def clear(api: Client, namespace: str) -> None:
    """Removes every pod of a namespace at once, whoever still holds a finalizer on it.

    The namespace must be terminating already: nobody can then make new ones. Waiting for its own clean-up would take
    10 s and more.
    """
    while pods := await api.items(where("pods", namespace)):
        for pod in pods:
            path = where("pods", namespace, pod["metadata"]["name"])
            if pod["metadata"].get("finalizers"):
                await api.patch(path, {"metadata": {"finalizers": None}}, how="merge")
            await api.delete(path, grace=0)
        await asyncio.sleep(0.02)
