"""Pods of another scheduler come back: their owner makes them again, and that scheduler does not know our seats.

So such an owner is asked once, and then left alone for a while: another round would only evict its new pods. The same
holds of an owner whose pod was bound into room that was made for a gang. Lives here: which owners these are, and what
took the room. Never here: why a pod may be asked at all (engine.rights). Kept in memory alone: a restart forgets it.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeVar

from scheduler.ledger import freeing, losses, mishaps
from scheduler.ledger.messages import Mishap, Sequel
from scheduler.model.decision import Reason
from scheduler.model.workload import GangKey, Pod

if TYPE_CHECKING:
    from scheduler.ledger.ledger import Ledger

T = TypeVar("T")

REMEMBERED: Final = 1024
"""Owners, and nodes on which they made room; the oldest are forgotten first."""

LEFT_ALONE: Final = 3600.0
"""Seconds for which such an owner is not asked again."""

_TOOK: Final = Sequel(
    "a pod of that controller is not evicted again within an hour",
    "pods of those controllers are not evicted again within an hour",
)


class Comebacks:
    """Owners that are left alone, by uid; and the nodes on which their pods made room, with the gang it is for."""

    def __init__(self) -> None:
        self._until: OrderedDict[str, float] = OrderedDict()
        self._owners: frozenset[str] = frozenset()
        self._rooms: OrderedDict[str, GangKey] = OrderedDict()

    def leave_alone(self, owner: str, now: float) -> None:
        """Its pods are not asked to leave from now on."""
        _keep(self._until, owner, now + LEFT_ALONE)
        self._owners = frozenset(self._until)

    def owners(self, now: float) -> frozenset[str]:
        """The owners that are left alone now."""
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
            self._owners = frozenset(self._until)
        return self._owners

    @property
    def next_end(self) -> float:
        """When the first of them may be asked again; infinity where there is none."""
        return next(iter(self._until.values()), float("inf"))

    def made_room(self, node: str, gang: GangKey) -> None:
        """A pod leaves this node for the gang."""
        _keep(self._rooms, node, gang)

    def room_on(self, node: str | None) -> GangKey | None:
        """The gang for which room was made on this node last."""
        return self._rooms.get(node) if node is not None else None


def _keep(kept: OrderedDict[str, T], key: str, value: T) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)


def bound(ledger: "Ledger", pod: Pod, now: float) -> None:
    """A pod of another scheduler was bound. Where it took a seat for which others left, its owner is left alone."""
    key = ledger.comebacks.room_on(pod.node)
    record = ledger.roll.gangs.get(key) if key is not None else None
    if record is None or pod.node is None:
        return
    seated = (m for m in record.live() if not m.bound and m.hold is not None and m.hold.node == pod.node)
    member = next(seated, None)
    if member is None or not ledger.nodes.is_overdrawn(pod.node, member.pod.demand, freeing.going(ledger)):
        return
    if pod.owner is not None:
        ledger.comebacks.leave_alone(pod.owner.uid, now)
    hidden = pod.key.namespace != record.key.namespace
    taker = losses.called("pod", str(pod.key), pod.uid, hidden=hidden)
    text = f"{member.pod.key.name}: {taker} of {pod.scheduler or 'no scheduler'} took its room on {pod.node}"
    mishaps.note(record, Reason.PIN_BROKEN, [Mishap(member.pod, text)], _TOOK)
    ledger.mark(record.key)
