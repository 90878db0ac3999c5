"""A cluster as a story sees it: what is submitted, what becomes of it, and what people are told.

Every wait ends with what it waited for or with the last state that was seen. Nothing here waits for time to pass.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import yaml

from bench.plane import NeverCameError, watches
from bench.plane.client import Client, Object, where
from bench.plane.installation import GATE, Installation
from bench.plane.scrape import Metrics
from scheduler.serving.probes import RENDER
from tests.stories.support.accountant import Accountant
from tests.stories.support.workloads import GANG, KINDS, disk, pod
from tests.support.plane_fixtures import MakeNodes

SEAT = "gangwright.io/seat"
PLAN = "gangwright.io/plan"
SEATED = "gangwright.io/Seated"
ENDED = {"Succeeded", "Failed"}

Told = Mapping[str, str]
"""What is told of a gang on one member: reason, message, status."""


class Cluster:
    """One namespace of a cluster with Gangwright in it, and nodes of its own."""

    def __init__(
        self,
        api: Client,
        namespace: str,
        make_nodes: MakeNodes,
        gangwright: Installation,
        accountant: Accountant,
    ) -> None:
        self.api = api
        self.namespace = namespace
        self.nodes = make_nodes
        self.gangwright = gangwright
        self.accountant = accountant

    # ── what people do ──────────────────────────────────────────────────────────────────────────────────

    async def submit(self, *things: Object, at_once: int = 1) -> list[Object]:
        """Creates pods and controllers, in this order when one at a time."""
        turn = asyncio.Semaphore(at_once)

        async def one(thing: Object) -> Object:
            async with turn:
                return await self.api.create(self._collection(thing), thing)

        return list(await asyncio.gather(*(one(thing) for thing in things)))

    async def apply(self, place: Any) -> None:
        """Applies a file as a user does: with kubectl."""
        kubectl = self.gangwright.plane.kubectl
        await asyncio.to_thread(kubectl, "apply", "--server-side", "-n", self.namespace, "-f", place)

    async def complete(self, gang: str) -> None:
        """The work of a gang is done: its running members succeed, and their room is free."""
        for member in await self.members(gang):
            await self.api.patch(
                self.at(member), {"metadata": {"annotations": {"plane.gangwright.io/runs-for": "0s"}}}
            )
        await self.until(gang, lambda pods: all(own["status"]["phase"] in ENDED for own in pods))

    async def remove(self, gang: str) -> None:
        """Deletes all members of a gang."""
        for member in await self.members(gang):
            await self.api.delete(self.at(member))

    async def cordon(self, node: str, unschedulable: bool = True) -> None:
        await self.api.patch(where("nodes", name=node), {"spec": {"unschedulable": unschedulable}})

    async def label(self, node: str, key: str, value: str | None) -> None:
        """Writes a label of a node; None takes it away."""
        await self.api.patch(where("nodes", name=node), {"metadata": {"labels": {key: value}}})

    # ── what becomes of it ──────────────────────────────────────────────────────────────────────────────

    async def members(self, gang: str) -> list[Object]:
        return await self.api.items(self._pods, labels=f"{GANG}={gang}")

    async def until(
        self, gang: str, holds: Callable[[list[Object]], object], within: float = 30.0
    ) -> list[Object]:
        """The members of a gang, as soon as `holds(members)`."""
        return await watches.until(self.api, self._pods, holds, within=within, labels=f"{GANG}={gang}")

    async def seated(self, gang: str, members: int, within: float = 30.0) -> dict[str, str]:
        """Member → node, as soon as so many unended members are bound."""
        found = await self.until(gang, lambda pods: len(bound(pods)) >= members, within)
        return bound(found)

    async def running(self, gang: str, members: int, within: float = 30.0) -> dict[str, str]:
        """Member → node, as soon as so many members run."""

        def run(pods: list[Object]) -> bool:
            return sum(own["status"].get("phase") == "Running" for own in pods) >= members

        return bound(await self.until(gang, run, within))

    async def bound(self, gang: str) -> dict[str, str]:
        """Member → node, now."""
        return bound(await self.members(gang))

    async def gone_by(self, name: str = "passer-by") -> None:
        """A pod that came later and fits anywhere was seated: whoever waits has been asked about before it."""
        await self.submit(pod(name, gang=name, min_members=1, gpus=0, cpu="1m"))
        await self.seated(name, 1)

    async def thing(self, kind: str, name: str, holds: Callable[[Object], object] = bool) -> Object:
        return await self.api.until(where(kind, self.namespace, name), holds)

    # ── what people are told ────────────────────────────────────────────────────────────────────────────

    async def told(self, gang: str, reason: str, within: float = 30.0) -> str:
        """The message on a member whose condition gives this reason, as soon as one of those has an event."""
        found = await self.until(gang, lambda pods: any(said(own, reason) for own in pods), within)
        members = [own for own in found if said(own, reason)]
        message = said(members[0], reason)
        assert message is not None
        await self._event({own["metadata"]["name"] for own in members}, reason, within)
        return message

    async def event(self, about: str, reason: str, within: float = 30.0) -> str:
        """The note of the newest event of this reason on that object."""
        found = await self._event({about}, reason, within)
        note: str = max(found, key=lambda own: own["eventTime"])["note"]
        return note

    async def _event(self, about: set[str], reason: str, within: float) -> list[Object]:
        path = where("events", self.namespace)

        def mine(events: Iterable[Object]) -> list[Object]:
            return [own for own in events if own["regarding"]["name"] in about and own["reason"] == reason]

        return mine(await watches.until(self.api, path, mine, within=within))

    # ── what an administrator sees ──────────────────────────────────────────────────────────────────────

    async def metrics(self) -> Metrics:
        """What a scrape says that is rendered after this call."""
        await asyncio.sleep(RENDER)
        return await asyncio.to_thread(self.gangwright.metrics)

    async def measured(self, holds: Callable[[Metrics], object], within: float = 15.0) -> Metrics:
        """The first scrape that holds; gauges are brought up to date every few seconds."""
        async with asyncio.timeout(within):
            while True:
                scraped = await self.metrics()
                if holds(scraped):
                    return scraped
                await asyncio.sleep(0.1)

    async def nothing_held(self) -> None:
        """No seat is kept for anybody: none leaked."""
        try:
            await self.measured(lambda metrics: metrics.value("gangwright_holds") == 0)
        except TimeoutError:
            held = (await self.metrics()).value("gangwright_holds")
            raise NeverCameError(f"{held:g} seats are still held") from None

    def at(self, thing: Object, part: str | None = None) -> str:
        return where("pods", thing["metadata"]["namespace"], thing["metadata"]["name"], part)

    @property
    def _pods(self) -> str:
        return where("pods", self.namespace)

    def _collection(self, thing: Object) -> str:
        kind = KINDS.get(thing["kind"], ("", "pods"))[1]
        return where(kind, self.namespace)


async def a_loud_neighbour(cluster: Cluster, node: str) -> None:
    """Beside it no pod with the rule QUIET may be, which kube-scheduler knows and the planner does not."""
    there = {"nodeSelector": {"kubernetes.io/hostname": node}, **disk(shared=False)}
    loud = pod("loud", gang="loud", scheduler="default-scheduler", spec=there)
    await cluster.submit(loud)
    await cluster.seated("loud", 1)


async def bind(api: Client, member: Object, node: str) -> None:
    """As kube-scheduler does."""
    meta = member["metadata"]
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": meta["name"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await api.create(where("pods", meta["namespace"], meta["name"], "binding"), body)


def bound(pods: Iterable[Object]) -> dict[str, str]:
    """Pod → node, of those that have one and have not ended."""
    return {
        own["metadata"]["name"]: own["spec"]["nodeName"]
        for own in pods
        if own["spec"].get("nodeName") and own.get("status", {}).get("phase") not in ENDED
    }


def gated(pod: Object) -> bool:
    return {"name": GATE} in pod["spec"].get("schedulingGates", [])


def pinned(pod: Object) -> str | None:
    """The one node that the pod's required node affinity names."""
    required = (
        pod["spec"]
        .get("affinity", {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", {})
    )
    names = {
        field["values"][0]
        for term in required.get("nodeSelectorTerms", [])
        for field in term.get("matchFields", [])
    }
    return names.pop() if len(names) == 1 else None


def seat(pod: Object) -> str | None:
    """The node that our annotation names."""
    text = pod["metadata"].get("annotations", {}).get(SEAT)
    return None if text is None else str(yaml.safe_load(text)["node"])


def said(pod: Object, reason: str) -> str | None:
    """The message of our condition, if it gives this reason."""
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == SEATED and condition["reason"] == reason:
            return str(condition["message"])
    return None


def per_node(places: Mapping[str, str]) -> list[int]:
    """How many members each used node has, the most first."""
    return sorted(Counter(places.values()).values(), reverse=True)


def racks(places: Mapping[str, str]) -> list[str]:
    """The racks that are used; a node of a fleet has its rack's name before the dash."""
    return sorted({node.rpartition("-")[0] for node in places.values()})
