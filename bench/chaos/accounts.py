"""What must never be in a cluster, asked of a whole picture of it after every change. Pure."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from tests.stories.accountant import ENDED, Room, read, wants

Object = Mapping[str, Any]

GANG: Final = "gangwright.io/gang"
QUORUM: Final = "gangwright.io/min-members"
SEAT: Final = "gangwright.io/seat"

PARTLY: Final = 30.0
"""Seconds for which a gang may be bound in part (invariant I3)."""


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
        """Seconds during which the API server answered. An outage does not count against a gang."""
        self.longest_partly = 0.0
        """Seconds that any gang was seen bound in part, at the most."""
        self._partly: dict[str, float] = {}
        self._wants: dict[str, Room] = {}

    def look(self, pods: Iterable[Object], nodes: Iterable[Object], jobs: Iterable[Object] = ()) -> None:
        """Judges one picture: whole lists, as they stood at one moment."""
        self.looks += 1
        own, room = list(pods), {_name(node): read(node["status"]["allocatable"]) for node in nodes}
        self._wants = {uid: self._wants.get(uid) or wants(pod) for uid, pod in _by_uid(own).items()}
        for pod in own:
            self._placed(pod)
        self._counted("over-committed", own, room, seats=False)
        self._counted("over-committed with seats", own, room, seats=True)
        self._whole(own)
        for job in jobs:
            for said in job.get("status", {}).get("conditions", ()):
                if said["type"] == "Failed" and said["status"] == "True":
                    self.note("job failed", _name(job), f"{said.get('reason')}: {said.get('message')}")

    def note(self, kind: str, name: str, sentence: str) -> None:
        if (kind, name) not in self.violations:
            self.violations[kind, name] = sentence

    def counts(self) -> dict[str, int]:
        """Violations by kind."""
        return dict(Counter(kind for kind, _ in self.violations))

    def _placed(self, pod: Object) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if not node:
            return
        before = self.bound.setdefault(uid, node)
        if before != node:
            self.note("moved", uid, f"{_name(pod)} was bound to {before} and is on {node}")
        if _seat(pod) != node:
            self.note("off its seat", uid, f"{_name(pod)} is on {node}, its seat is {_seat(pod)}")

    def _counted(self, kind: str, pods: list[Object], room: Mapping[str, Room], *, seats: bool) -> None:
        used: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
        for pod in pods:
            node = pod["spec"].get("nodeName") or (_seat(pod) if seats else None)
            if node and pod.get("status", {}).get("phase") not in ENDED:
                for resource, amount in self._wants[pod["metadata"]["uid"]].items():
                    used[node, resource] += amount
        for (node, resource), amount in used.items():
            have = room.get(node, {}).get(resource, Decimal(0))
            if amount > have:
                self.note(kind, f"{node} {resource}", f"{node} has {have} {resource} and gives {amount}")

    def _whole(self, pods: list[Object]) -> None:
        """A failed pod is no member any more; one that succeeded still is."""
        bound: Counter[str] = Counter()
        quorum: dict[str, int] = {}
        for pod in pods:
            meta = pod["metadata"]
            gang = meta.get("labels", {}).get(GANG)
            if gang and pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") != "Failed":
                bound[gang] += 1
                quorum[gang] = int(meta["annotations"][QUORUM])
        self.gangs |= {gang for gang, count in bound.items() if count >= quorum[gang]}
        partly = {gang for gang, count in bound.items() if count < quorum[gang]}
        self._partly = {gang: self._partly.get(gang, self.clock) for gang in partly}
        for gang, since in self._partly.items():
            self.longest_partly = max(self.longest_partly, self.clock - since)
            if self.clock - since > PARTLY:
                told = f"{bound[gang]} of {quorum[gang]} are bound for over {PARTLY:g} s"
                self.note("partly bound", gang, f"{gang}: {told}")


def _by_uid(things: Iterable[Object]) -> dict[str, Object]:
    return {thing["metadata"]["uid"]: thing for thing in things}


def _name(thing: Object) -> str:
    return str(thing["metadata"]["name"])


def _seat(pod: Object) -> str | None:
    text = pod["metadata"].get("annotations", {}).get(SEAT)
    return None if text is None else str(json.loads(text)["node"])
