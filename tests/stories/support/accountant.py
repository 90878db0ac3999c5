"""Counts along while a story runs: is any node given more than it has, and did any member run without its gang?

It believes the API server alone, adds up plainly, and looks after every single change, not only at the end.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from typing import Any

from bench.plane import watches
from bench.plane.client import Client, Object, where

ENDED = {"Succeeded", "Failed"}

UNITS = {
    "": 1,
    "m": Decimal("0.001"),
    "k": 1000,
    "M": 1000**2,
    "G": 1000**3,
    "Ki": 1024,
    "Mi": 1024**2,
    "Gi": 1024**3,
}

Room = Mapping[str, Decimal]


class Accountant:
    """What nodes have and what pods on them asked for."""

    def __init__(self) -> None:
        self.overdrawn: list[str] = []
        """One sentence for every moment at which a node was given more than it has."""
        self.elsewhere: set[str] = set()
        """Resources that device classes back: the status of a node does not have them."""
        self._nodes: dict[str, Room] = {}
        self._pods: dict[str, tuple[str, Room]] = {}

    def node(self, kind: str, node: Object) -> None:
        name = node["metadata"]["name"]
        if kind == "DELETED":
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = read(node["status"]["allocatable"])

    def pod(self, kind: str, pod: Object) -> None:
        uid, place = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if kind == "DELETED" or not place or pod.get("status", {}).get("phase") in ENDED:
            self._pods.pop(uid, None)
        elif uid not in self._pods:
            self._pods[uid] = (place, wants(pod))
            self._check(place, pod["metadata"]["name"])

    def used(self, node: str) -> Room:
        """The sum over the pods on that node now, by resource."""
        total: defaultdict[str, Decimal] = defaultdict(Decimal)
        for place, room in self._pods.values():
            if place == node:
                for resource, amount in room.items():
                    total[resource] += amount
        return total

    def _check(self, node: str, newcomer: str) -> None:
        have = self._nodes.get(node)
        if have is None:
            return
        self.overdrawn += [
            f"{node} has {have.get(resource, 0)} {resource} and gives {amount} since {newcomer} came"
            for resource, amount in self.used(node).items()
            if amount > have.get(resource, Decimal(0)) and resource not in self.elsewhere
        ]


def wants(pod: Object) -> Room:
    """What the pod's containers ask for, and its place among the node's pods."""
    total: defaultdict[str, Decimal] = defaultdict(Decimal, pods=Decimal(1))
    for container in pod["spec"]["containers"]:
        resources = container.get("resources", {})
        for resource, amount in read(
            {**resources.get("limits", {}), **resources.get("requests", {})}
        ).items():
            total[resource] += amount
    return total


@asynccontextmanager
async def counting(api: Client) -> AsyncIterator[Accountant]:
    """Follows all nodes and pods for as long as the block runs."""
    accountant = Accountant()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_follow(api, "nodes", accountant.node)),
            group.create_task(_follow(api, "pods", accountant.pod)),
        ]
        try:
            yield accountant
        finally:
            for task in tasks:
                task.cancel()


async def _follow(api: Client, kind: str, note: Any) -> None:
    with suppress(asyncio.CancelledError):
        async for change, thing in watches.changes(api, where(kind)):
            note(change, thing)


def read(amounts: Mapping[str, object]) -> Room:
    return {resource: _amount(str(text)) for resource, text in amounts.items()}


def _amount(text: str) -> Decimal:
    number = text.rstrip("".join({letter for unit in UNITS for letter in unit}))
    return Decimal(number) * UNITS[text[len(number) :]]
