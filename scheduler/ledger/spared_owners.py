"""Pods of another scheduler come back: their owner makes them again, and that scheduler does not know our seats.

So such an owner is asked once, and then left alone for a while: another round would only evict its new pods. The same
holds of an owner whose pod was bound into room that was made for a gang. Lives here: which owners these are, and what
took the room. Never here: why a pod may be asked at all (engine.preemption_policy). Kept in memory alone: a restart forgets it.
"""

from collections import OrderedDict
from typing import Final, TypeVar

from scheduler.model.workload import GangKey

T = TypeVar("T")

REMEMBERED: Final = 1024
"""Owners, and nodes on which they made room; the oldest are forgotten first."""

LEFT_ALONE: Final = 3600.0
"""Seconds for which such an owner is not asked again."""


class SparedOwners:
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
