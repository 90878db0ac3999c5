"""What must never be in a cluster, asked of a whole picture of it after every change. Pure."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from tests.stories.support.accountant import ENDED, Room, read, wants

Object = Mapping[str, Any]

GANG: Final = "gangwright.io/gang"
QUORUM: Final = "gangwright.io/min-members"
SEAT: Final = "gangwright.io/seat"

PARTLY: Final = 30.0
"""Seconds for which a gang may be bound in part."""


class Accountant:
    """Looks at pictures, one after the other, and keeps each violation once."""

    def __init__(self) -> None:
        self.violations: dict[tuple[str, str], str] = {}
        """By kind and object, the sentence that tells the first occurrence."""
        self.bound: dict[str, str] = {}
        """By uid, the node of every pod that was ever bound."""
        self.gangs: set[str] = set()
        """Gangs that were bound as a whole."""
        self.looks = 0
        self.clock = 0.0
        """Seconds during which the API server answered: an outage does not count against a gang."""
        self.longest_partly = 0.0
        self._partly: dict[str, float] = {}
        self._wants: dict[str, Room] = {}

    def look(self, pods: Iterable[Object], nodes: Iterable[Object], jobs: Iterable[Object]) -> None:
        """Judges whole lists, as they stood at one moment."""
        self.looks += 1
        pods = list(pods)
        for pod in pods:
            self._placed(pod)
        self._counted(pods, {_name(node): read(node["status"]["allocatable"]) for node in nodes})
        self._whole(pods)
        for job in jobs:
            for said in job.get("status", {}).get("conditions", ()):
                if said["type"] == "Failed" and said["status"] == "True":
                    self.note("job failed", _name(job), f"{_name(job)}: {said.get('message')}")

    def note(self, kind: str, name: str, sentence: str) -> None:
        self.violations.setdefault((kind, name), sentence)

    def _placed(self, pod: Object) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if not node:
            return
        before = self.bound.setdefault(uid, node)
        if before != node:
            self.note("moved", uid, f"{_name(pod)} was bound to {before} and is on {node}")
        if _seat(pod) != node:
            self.note("off its seat", uid, f"{_name(pod)} is on {node}, its seat is {_seat(pod)}")

    def _counted(self, pods: list[Object], room: Mapping[str, Room]) -> None:
        """Bound pods, and bound pods with the seats of those that are not bound yet."""
        fresh = {pod["metadata"]["uid"]: pod for pod in pods}
        self._wants = {uid: self._wants.get(uid) or wants(pod) for uid, pod in fresh.items()}
        used: defaultdict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
        for uid, pod in fresh.items():
            if pod.get("status", {}).get("phase") in ENDED:
                continue
            for what, node in (("bound", _bound(pod)), ("bound and seats", self._place(pod))):
                for resource, amount in self._wants[uid].items() if node else ():
                    used[what, node, resource] += amount
        for (what, node, resource), amount in used.items():
            have = room.get(node, {}).get(resource, Decimal(0))
            if amount > have:
                sentence = f"{node} has {have} {resource} and gives {amount}"
                there = [
                    pod
                    for uid, pod in fresh.items()
                    if self._place(pod) == node and resource in self._wants[uid]
                ]
                names = ", ".join(f"{_name(pod)} ({'bound' if _bound(pod) else 'seat'})" for pod in there)
                self.note(f"over-committed: {what}", f"{node} {resource}", f"{sentence}: {names}")

    def _whole(self, pods: list[Object]) -> None:
        """A failed pod is no member any more; one that succeeded still is."""
        bound: Counter[str] = Counter()
        quorum: dict[str, int] = {}
        for pod in pods:
            gang = pod["metadata"].get("labels", {}).get(GANG)
            if gang and pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") != "Failed":
                bound[gang] += 1
                quorum[gang] = int(pod["metadata"]["annotations"][QUORUM])
        partly = {gang for gang, count in bound.items() if count < quorum[gang]}
        self.gangs |= bound.keys() - partly
        self._partly = {gang: self._partly.get(gang, self.clock) for gang in partly}
        for gang, since in self._partly.items():
            self.longest_partly = max(self.longest_partly, self.clock - since)
            if self.clock - since > PARTLY:
                sentence = f"{bound[gang]} of {quorum[gang]} of {gang} are bound for over {PARTLY:g} s"
                self.note("partly bound", gang, sentence)

    @staticmethod
    def _place(pod: Object) -> str | None:
        """A seat counts until its pod is deleted: the API server binds none that only waits for its finalizers."""
        return _bound(pod) or (None if pod["metadata"].get("deletionTimestamp") else _seat(pod))


def _name(thing: Object) -> str:
    return str(thing["metadata"]["name"])


def _bound(pod: Object) -> str | None:
    return pod["spec"].get("nodeName")


def _seat(pod: Object) -> str | None:
    text = pod["metadata"].get("annotations", {}).get(SEAT)
    return None if text is None else str(json.loads(text)["node"])
