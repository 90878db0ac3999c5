"""One cluster with Gangwright for all stories but those that break it, which share another; nodes for each story
alone.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import pytest
import pytest_asyncio
import yaml

from tests.manifests.rendering import ROOT
from tests.plane import Client, Plane, where
from tests.plane.audit import Audit, Request
from tests.plane.fixtures import MakeNodes, clear
from tests.plane.installation import EXTENDER, Installation
from tests.plane.proxy import Proxy
from tests.stories.accountant import counting
from tests.stories.cluster import Cluster

CRDS = ROOT / "tests" / "manifests" / "crds"

SHORT = {
    "gangs.timeout": "60s",
    "gangs.backoff": "1s",
    "gangs.pinGrace": "2s",
    "gangs.pinLimit": "8s",
    "gangs.barred": "20s",
    "gangs.outcomeLimit": "5s",
    "gangs.announceEvery": "2s",
}
"""Where things break nobody waits for minutes."""


PRIORITIES = {
    "urgent": {"value": 1000},
    "patient": {"value": 1000, "preemptionPolicy": "Never"},
    "spare": {"value": -10},
}
"""Priority classes of the stories about the queue; pods of none of them have priority 0."""

Tune = Callable[[Mapping[str, object]], Awaitable[Callable[[Mapping[str, object]], None]]]


STEADY = ["--node-monitor-grace-period=1h"]
"""Words for the controller-manager: nodes of one name come and go with every story, faster than their leases are
renewed; no node is to be given up for that."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Stories carry the marker `plane`; the one about rights looks back on all others, so it comes last."""
    for item in items:
        if item.path.parent.name == "stories":
            item.add_marker(pytest.mark.plane)
    items.sort(key=lambda item: item.path.parent.name == "stories" and item.path.name == "test_rights.py")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A story that fails shows what Gangwright wrote last."""
    report = yield
    told = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(told, Cluster):
        report.sections.append(("Gangwright's log", told.gangwright.extender.log_end(100)))
    return report


@pytest.fixture(scope="session")
def plane() -> Iterator[Plane]:
    """A plane of the stories' own: policies of ours, and definitions of other systems, are on it."""
    with Plane(controllers=True, audit=True, controller_flags=STEADY) as running:
        running.kubectl("apply", "--server-side", "-f", CRDS)
        yield running


@pytest.fixture(scope="session")
def gangwright(plane: Plane) -> Iterator[Installation]:
    """Gangwright as manifests/ install it: both policies, both programs under their own accounts."""
    with Installation(plane) as installed:
        yield installed


@pytest.fixture(scope="session")
def frail_plane() -> Iterator[Plane]:
    """The plane of the stories in which something breaks."""
    with Plane(controllers=True, audit=True, controller_flags=STEADY) as running:
        yield running


@pytest.fixture(scope="session")
def frail_door(frail_plane: Plane) -> Iterator[Proxy]:
    with Proxy(frail_plane.url, frail_plane.context(EXTENDER)) as opened:
        yield opened


@pytest.fixture(scope="session")
def frail(frail_plane: Plane, frail_door: Proxy) -> Iterator[Installation]:
    """Gangwright that reaches its API server through a door, and is quick to give up."""
    with Installation(frail_plane, set_=SHORT, through=frail_door.url) as installed:
        yield installed


class Outages:
    """Stretches of the audit log in which an API server went and came: until it has read its own roles it refuses
    all.
    """

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._stretches: list[tuple[int, int]] = []

    @contextmanager
    def one(self) -> Iterator[None]:
        began = self._audit.mark()
        try:
            yield
        finally:
            self._stretches.append((began, self._audit.mark()))

    def refused(self, user: str) -> list[Request]:
        """What this user was refused outside of them."""
        edges = [0, *(edge for stretch in self._stretches for edge in stretch)]
        later = [self._audit.refused(user, since=edge) for edge in edges]
        quiet = [
            began[: len(began) - len(ended)]
            for began, ended in zip(later[::2], [*later[1::2], []], strict=True)
        ]
        return [request for stretch in quiet for request in stretch]


@pytest.fixture(scope="session")
def outages(frail_plane: Plane) -> Outages:
    return Outages(frail_plane.audit)


@pytest_asyncio.fixture
async def door(frail_door: Proxy, frail: Installation) -> AsyncIterator[Proxy]:
    """The door, open; afterwards everything is as if nothing had been broken."""
    frail_door.open()
    frail_door.forget()
    yield frail_door
    frail_door.open()
    if not frail.extender.alive:
        await asyncio.to_thread(frail.restart)


@pytest.fixture(scope="session")
def priorities(frail_plane: Plane) -> None:
    """The classes of PRIORITIES are there."""
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            **words,
        }
        for name, words in PRIORITIES.items()
    ]
    frail_plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(classes))


@pytest_asyncio.fixture
async def tune(gangwright: Installation) -> Tune:
    """`await tune({"queue.order": "las"})` starts Gangwright anew with these settings; the next story has its own
    again.

    Gives a function that changes the settings file while Gangwright runs.
    """

    async def retuned(settings: Mapping[str, object]) -> Callable[[Mapping[str, object]], None]:
        place = await asyncio.to_thread(gangwright.retune, settings)
        return partial(gangwright.lay, place)

    return retuned


@pytest_asyncio.fixture
async def neighbour(api: Client) -> AsyncIterator[str]:
    """A second namespace, as `namespace` is the first."""
    made = await api.create(where("namespaces"), {"metadata": {"generateName": "neighbour-"}})
    name: str = made["metadata"]["name"]
    await api.until(where("serviceaccounts", name, "default"), bool)
    yield name
    await api.delete(where("namespaces", name=name))
    await clear(api, name)


@pytest_asyncio.fixture
async def cluster(
    gangwright: Installation,
    api: Client,
    make_nodes: MakeNodes,
    namespace: str,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Cluster]:
    """A cluster without nodes yet. When the story is over, no node was ever given more than it has."""
    if "tune" not in request.fixturenames:
        await asyncio.to_thread(gangwright.retune)
    async with counting(api) as accountant:
        yield Cluster(api, namespace, make_nodes, gangwright, accountant)
    assert accountant.overdrawn == []
