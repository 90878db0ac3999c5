"""What is remembered of preemptions: gangs that throw each other out by turns, and owners that are left alone.

With priorities alone two gangs cannot take turns, nor with guarantees that stay as they are: a namespace within its own is
left alone. Where shares are set again, or others of the two namespaces come and go, each of the two may be right in its
turn, and both only start over and over.

Pods of another scheduler come back: their owner makes them again, and that scheduler does not know our seats. So such an
owner is asked once, and then left alone for a while: another round would only evict its new pods. The same holds of an
owner whose pod was bound into room that was made for a gang.

Never here: why a pod may be asked at all (engine.preemption_policy). Kept in memory alone: a restart forgets it.
"""

from collections import OrderedDict
from typing import Final, TypeVar

from scheduler.ledger.gang import GangRecord
from scheduler.ledger.registry import lineage
from scheduler.model.workload import GangKey

PAIRS: Final = 1024
"""Pairs; the oldest is forgotten first."""

MOST_ALTERNATIONS: Final = 2
"""So often in a row may a gang be thrown out by one that it threw out itself before; then the two leave each other
alone.
"""

WINDOW: Final = 3600.0
"""Seconds after which an old turn no longer counts."""

Pair = tuple[str, str]


class PreemptionCycles:
    """Which gang evicted which, and how often by turns. Gangs go by what stays when they are made again (`line`)."""

    def __init__(self) -> None:
        self._turns: OrderedDict[Pair, tuple[str, int, float]] = OrderedDict()

    def took(self, winner: str, loser: str, now: float) -> None:
        """`loser` was asked to leave for `winner`."""
        pair = _pair(winner, loser)
        last, turns, at = self._turns.get(pair, (winner, 0, now))
        turns = turns + (last != winner) if now < at + WINDOW else 0
        self._turns[pair] = (winner, turns, now)
        self._turns.move_to_end(pair)
        if len(self._turns) > PAIRS:
            self._turns.popitem(last=False)

    def alternate(self, winner: str, loser: str, now: float) -> bool:
        """`winner` would throw out a gang that threw it out before, once too often."""
        last, turns, at = self._turns.get(_pair(winner, loser), (winner, 0, now))
        return last == loser and turns >= MOST_ALTERNATIONS - 1 and now < at + WINDOW

    def ends(self, winner: str, now: float) -> float:
        """When `winner` may evict a gang that it may not evict once more now; infinity: there is none."""
        ends = (
            at + WINDOW
            for pair, (last, turns, at) in self._turns.items()
            if winner in pair and last != winner and turns >= MOST_ALTERNATIONS - 1
        )
        return min((end for end in ends if end > now), default=float("inf"))

    def __len__(self) -> int:
        return len(self._turns)


def line(record: GangRecord) -> str:
    """What stays of a gang when it is made again."""
    return lineage(record.key, next(iter(record.members.values())).pod)


def _pair(one: str, other: str) -> Pair:
    return (one, other) if one <= other else (other, one)


T = TypeVar("T")

SPARED: Final = 1024
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
    if len(kept) > SPARED:
        kept.popitem(last=False)
