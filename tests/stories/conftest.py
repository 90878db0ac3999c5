"""One cluster for all stories, with nodes for each story alone. Gangwright in it is one for all stories but those that
break something, which share another: whichever a story asks for runs, and the other does not.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import pytest
import pytest_asyncio
import yaml

from bench.plane import Client, Plane, where
from bench.plane.audit import Audit, Request
from bench.plane.installation import EXTENDER, Installation
from bench.plane.proxy import Proxy
from tests.manifests.support.rendering import ROOT
from tests.stories.support import rights
from tests.stories.support.accountant import counting
from tests.stories.support.cluster import Cluster
from tests.stories.support.devices import Devices
from tests.stories.support.storage import Storage
from tests.support.plane_fixtures import MakeNodes, clear

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Stories carry the marker `plane`. Those that break something come after the others, so that Gangwright changes
    once.
    """

    def turn(item: pytest.Item) -> int:
        if item.path.parent.name != "stories":
            return 0
        return 1 + ("frail" in getattr(item, "fixturenames", ()))

    for item in items:
        if turn(item):
            item.add_marker(pytest.mark.plane)
    items.sort(key=turn)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A story that fails shows what Gangwright wrote last."""
    report = yield
    told = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(told, Cluster) and told.gangwright.name in told.gangwright.plane.programs:
        report.sections.append(("Gangwright's log", told.gangwright.extender.log_end(100)))
    return report


class Installed:
    """Gangwright on the stories' plane, steady or frail: what is asked for runs, and what ran before is ended."""

    def __init__(self, plane: Plane, door: Proxy) -> None:
        self._made: dict[str, Callable[[], Installation]] = {
            "steady": lambda: Installation(plane),
            "frail": lambda: Installation(plane, set_=SHORT, through=door.url),
        }
        self._kind, self._running = "", ExitStack()

    def of(self, kind: str) -> Installation:
        if kind != self._kind:
            self.end()
            self._installation = self._running.enter_context(self._made[kind]())
            self._kind = kind
        return self._installation

    def end(self) -> None:
        self._kind = ""
        self._running.close()


@pytest.fixture(scope="session")
def way(plane: Plane) -> Iterator[Proxy]:
    """The door before the API server, for what is frail."""
    with Proxy(plane.url, plane.context(EXTENDER)) as opened:
        yield opened


@pytest.fixture(scope="session")
def installed(plane: Plane, way: Proxy, outages: "Outages") -> Iterator[Installed]:
    """On a plane with the definitions of other systems. In all stories, of kills, accidents and outages too, no request
    of ours was forbidden, but while an API server was just starting.
    """
    plane.kubectl("apply", "--server-side", "-f", CRDS)
    each = Installed(plane, way)
    yield each
    each.end()
    rights.check(plane.audit, outages.refused)


@pytest.fixture
def gangwright(installed: Installed) -> Installation:
    """Gangwright as manifests/ install it: both policies, both programs under their own accounts."""
    return installed.of("steady")


@pytest.fixture
def frail(installed: Installed) -> Installation:
    """Gangwright that reaches its API server through a door, and is quick to give up."""
    return installed.of("frail")


class Outages:
    """Stretches of the audit log, from the first story on, in which an API server went and came: until it has read its
    own roles it refuses all.
    """

    def __init__(self, audit: Audit) -> None:
        self._audit, self._began = audit, audit.mark()
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
        edges = [self._began, *(edge for stretch in self._stretches for edge in stretch)]
        later = [self._audit.refused(user, since=edge) for edge in edges]
        quiet = [
            began[: len(began) - len(ended)]
            for began, ended in zip(later[::2], [*later[1::2], []], strict=True)
        ]
        return [request for stretch in quiet for request in stretch]


@pytest.fixture(scope="session")
def outages(plane: Plane) -> Outages:
    return Outages(plane.audit)


@pytest_asyncio.fixture
async def door(way: Proxy, frail: Installation) -> AsyncIterator[Proxy]:
    """The door, open; afterwards everything is as if nothing had been broken."""
    way.open()
    way.forget()
    yield way
    way.open()
    if not frail.extender.alive:
        await asyncio.to_thread(frail.restart)


@pytest.fixture(scope="session")
def priorities(plane: Plane) -> None:
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
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(classes))


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


@pytest_asyncio.fixture
async def storage(cluster: Cluster) -> AsyncIterator[Storage]:
    """The storage of one test, whose claims are bound as soon as kube-scheduler asks for it."""
    made = Storage(cluster.api, cluster.namespace)
    binding = asyncio.create_task(made.bind())
    yield made
    binding.cancel()
    with suppress(asyncio.CancelledError):
        await binding
    await made.remove()


@pytest_asyncio.fixture
async def devices(cluster: Cluster) -> AsyncIterator[Devices]:
    """The devices of one test, gone at its end."""
    made = Devices(cluster.api, cluster.namespace)
    yield made
    await made.remove()
