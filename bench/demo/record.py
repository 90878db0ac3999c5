"""An independent record of a namespace: a watch of its own, through a client that knows nothing of the product.

Lives here: what was seen, in the order in which the API server tells it (all pods come from one store, so this is the
order in which things happened), and the figures that follow from it. Never here: what should have happened.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from bench.plane import Client, NeverCameError, watches, where
from bench.plane.client import Object

GANG_LABEL = "gangwright.io/gang"
SURPLUS_LABEL = "gangwright.io/surplus"
PLAN = "gangwright.io/plan"
ENDED = {"Succeeded", "Failed"}

PATIENCE = 60.0
"""Seconds to wait for what takes one or two on an idle machine."""


@dataclass
class Seen:
    """One pod. Times are seconds of the event loop's clock; None: not yet."""

    name: str
    gang: str
    uid: str
    gpus: int
    node: str = ""
    phase: str = "Pending"
    together: bool = False
    """Member of a gang; else a pod for itself."""
    surplus: bool = False
    """Above the quorum of its gang."""
    created: float = 0.0
    bound: float | None = None
    leaving: float | None = None
    """Its deletion was requested."""
    ended: float | None = None
    pod: Object = field(default_factory=dict)
    """As last seen."""


@dataclass
class Record:
    """Everything seen in one namespace. `planned`: by gang what its plans said, each uid → node."""

    pods: dict[str, Seen] = field(default_factory=dict)
    planned: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    unplanned: list[str] = field(default_factory=list)
    """Pods of gangs of two or more that were bound before a plan for their whole gang was written, or elsewhere."""
    version: int = 0
    """Grows with every change."""
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    # ── what is asked of it ─────────────────────────────────────────────────────────────────────────────

    def gangs(self) -> list[str]:
        """In order of arrival."""
        return list(dict.fromkeys(seen.gang for seen in self.pods.values()))

    def of(self, gang: str) -> list[Seen]:
        return [seen for seen in self.pods.values() if seen.gang == gang]

    def members(self, gang: str) -> list[str]:
        return [seen.name for seen in self.of(gang)]

    def bound(self, gang: str) -> int:
        """Members that were ever bound."""
        return sum(seen.bound is not None for seen in self.of(gang))

    def running(self, gang: str) -> int:
        return sum(seen.phase == "Running" for seen in self.of(gang))

    def ended(self, gang: str) -> int:
        return sum(seen.ended is not None for seen in self.of(gang))

    def nodes(self, gang: str) -> list[str]:
        """One entry a bound member."""
        return [seen.node for seen in self.of(gang) if seen.node]

    def present(self) -> list[Seen]:
        """Pods that hold room now."""
        return [seen for seen in self.pods.values() if seen.bound is not None and seen.ended is None]

    def here(self, gang: str) -> list[Seen]:
        """Members that hold room now."""
        return [seen for seen in self.present() if seen.gang == gang]

    def evicted(self) -> list[Seen]:
        """Bound pods that were asked to leave before they had ended, in that order."""
        gone = [seen for seen in self.pods.values() if seen.leaving is not None and seen.bound is not None]
        return sorted(gone, key=lambda seen: seen.leaving or 0.0)

    def whole_at(self, gang: str) -> float:
        """When its last member was bound."""
        return max(seen.bound for seen in self.of(gang) if seen.bound is not None)

    def first_at(self, gang: str) -> float:
        return min(seen.bound for seen in self.of(gang) if seen.bound is not None)

    def wait(self, gang: str) -> float:
        """Seconds from its last member's creation to its last member's bind."""
        return self.whole_at(gang) - max(seen.created for seen in self.of(gang))

    def partly(self, gang: str) -> float:
        """Seconds from its first bind to its last."""
        return self.whole_at(gang) - self.first_at(gang)

    # ── waiting ─────────────────────────────────────────────────────────────────────────────────────────

    async def news(self, since: int) -> int:
        """Until there is a change after version `since`; gives the version then."""
        async with self._news:
            await self._news.wait_for(lambda: self.version > since)
        return self.version

    async def until(
        self, holds: Callable[["Record"], object], what: str, *, within: float = PATIENCE
    ) -> None:
        """Until `holds(record)`. Raises NeverCameError, saying how it stands instead."""
        try:
            async with asyncio.timeout(within), self._news:
                await self._news.wait_for(lambda: holds(self))
        except TimeoutError:
            stand = ", ".join(f"{g} {self.bound(g)}/{len(self.of(g))} bound" for g in self.gangs())
            raise NeverCameError(f"not within {within:g} s: {what} ({stand})") from None

    # ── watching ────────────────────────────────────────────────────────────────────────────────────────

    async def follow(self, stream: AsyncIterator[watches.Change]) -> None:
        async for kind, pod in stream:
            self._note(kind, pod, asyncio.get_running_loop().time())
            self.version += 1
            async with self._news:
                self._news.notify_all()

    def _note(self, kind: str, pod: Object, now: float) -> None:
        seen = self.pods.get(pod["metadata"]["name"]) or self._add(pod, now)
        seen.pod, seen.phase = pod, pod["status"].get("phase", "Pending")
        self._read_plan(seen.gang, pod)
        if pod["spec"].get("nodeName") and seen.bound is None:
            seen.node, seen.bound = pod["spec"]["nodeName"], now
            self._judge(seen)
        if seen.leaving is None and seen.ended is None and pod["metadata"].get("deletionTimestamp"):
            seen.leaving = now
        if seen.ended is None and (seen.phase in ENDED or kind == "DELETED"):
            seen.ended = now

    def _add(self, pod: Object, now: float) -> Seen:
        meta = pod["metadata"]
        gpus = sum(
            int(container["resources"].get("limits", {}).get("nvidia.com/gpu", 0))
            for container in pod["spec"]["containers"]
        )
        labels = meta.get("labels", {})
        owner = next((own["name"] for own in meta.get("ownerReferences", ())), meta["name"])
        seen = Seen(meta["name"], labels.get(GANG_LABEL, owner), meta["uid"], gpus, created=now)
        seen.together, seen.surplus = GANG_LABEL in labels, SURPLUS_LABEL in labels
        self.pods[seen.name] = seen
        return seen

    def _read_plan(self, gang: str, pod: Object) -> None:
        written = pod["metadata"].get("annotations", {}).get(PLAN)
        if written:
            seats = json.loads(written)["seats"]
            plan = {uid: node for node, uids in seats.items() for uid in uids}
            if plan not in (known := self.planned.setdefault(gang, [])):
                known.append(plan)

    def _judge(self, seen: Seen) -> None:
        """One plan of a gang must name its whole quorum, this pod with this node, before any member is bound.

        Members that have ended were recreated; those above the quorum come and go one by one.
        """
        gang = [own for own in self.of(seen.gang) if own.ended is None and not own.surplus]
        whole = any(
            all(member.uid in plan for member in gang) and plan.get(seen.uid) == seen.node
            for plan in self.planned.get(seen.gang, ())
        )
        if seen.together and not seen.surplus and len(gang) > 1 and not whole:
            self.unplanned.append(seen.name)


@asynccontextmanager
async def recording(api: Client, namespace: str) -> AsyncIterator[Record]:
    """Watches the pods of a namespace for as long as the block runs."""
    record = Record()
    task = asyncio.create_task(record.follow(watches.changes(api, where("pods", namespace))))
    try:
        yield record
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def refused(pods: Iterable[Object]) -> dict[str, str]:
    """Pod → kube-scheduler's own word, for those whose condition PodScheduled is False."""
    return {
        pod["metadata"]["name"]: condition.get("message", "")
        for pod in pods
        for condition in pod["status"].get("conditions", ())
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    }
