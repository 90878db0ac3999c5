"""The memory of preemptions: gangs that preempt each other alternately, and owners that are spared.

Two gangs can't alternate with priorities alone, nor with constant guarantees: a namespace within its own is spared. But
if shares are reconfigured, or other gangs of the two namespaces come and go, each may have its claim in turn, and both
would only start over and over.

Pods of another scheduler come back: their owner recreates them, and that scheduler does not know Gangwright's seats. So
such an owner is preempted once and then spared for a while, because another round would only evict its new pods. The
same applies to an owner whose pod was bound into capacity that was freed for a gang.

Never here: why a pod may be preempted at all (engine.preemption_policy). Only in memory: a restart forgets it.
"""

from collections import OrderedDict
from typing import Final, TypeVar

from scheduler.ledger.gang import GangRecord
from scheduler.ledger.registry import lineage
from scheduler.model.workload import GangKey

PAIRS: Final = 1024
"""Pairs. The oldest is forgotten first."""

MOST_ALTERNATIONS: Final = 2
"""Maximum consecutive preemptions of a gang by one that it preempted before. Then the two spare each other."""

WINDOW: Final = 3600.0
"""Seconds after which an old preemption no longer counts."""

Pair = tuple[str, str]


class PreemptionCycles:
    """Which gang preempted which, and how often alternately. Gangs are identified by what survives a recreation
    (`line`).
    """

    def __init__(self) -> None:
        self._turns: OrderedDict[Pair, tuple[str, int, float]] = OrderedDict()

    def took(self, winner: str, loser: str, now: float) -> None:
        """`loser` was preempted for `winner`."""
        pair = _pair(winner, loser)
        last, turns, at = self._turns.get(pair, (winner, 0, now))
        turns = turns + (last != winner) if now < at + WINDOW else 0
        self._turns[pair] = (winner, turns, now)
        self._turns.move_to_end(pair)
        if len(self._turns) > PAIRS:
            self._turns.popitem(last=False)

    def alternate(self, winner: str, loser: str, now: float) -> bool:
        """`winner` would preempt a gang that preempted it before, once too often."""
        last, turns, at = self._turns.get(_pair(winner, loser), (winner, 0, now))
        return last == loser and turns >= MOST_ALTERNATIONS - 1 and now < at + WINDOW

    def ends(self, winner: str, now: float) -> float:
        """When `winner` may preempt a gang again that it may not preempt now. Infinity if there is none."""
        ends = (
            at + WINDOW
            for pair, (last, turns, at) in self._turns.items()
            if winner in pair and last != winner and turns >= MOST_ALTERNATIONS - 1
        )
        return min((end for end in ends if end > now), default=float("inf"))

    def __len__(self) -> int:
        return len(self._turns)


def line(record: GangRecord) -> str:
    """The identity of a gang that survives its recreation."""
    return lineage(record.key, next(iter(record.members.values())).pod)


def _pair(one: str, other: str) -> Pair:
    return (one, other) if one <= other else (other, one)


T = TypeVar("T")

SPARED: Final = 1024
"""Owners, and nodes on which they freed capacity. The oldest are forgotten first."""

LEFT_ALONE: Final = 3600.0
"""Seconds for which such an owner is spared."""


class SparedOwners:
    """Spared owners, by uid; and the nodes on which their pods freed capacity, with the gang it is for."""

    def __init__(self) -> None:
        self._until: OrderedDict[str, float] = OrderedDict()
        self._owners: frozenset[str] = frozenset()
        self._rooms: OrderedDict[str, GangKey] = OrderedDict()

    def leave_alone(self, owner: str, now: float) -> None:
        """Its pods are spared from now on."""
        _keep(self._until, owner, now + LEFT_ALONE)
        self._owners = frozenset(self._until)

    def owners(self, now: float) -> frozenset[str]:
        """The owners that are spared now."""
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
            self._owners = frozenset(self._until)
        return self._owners

    @property
    def next_end(self) -> float:
        """When the first of them may be preempted again. Infinity if there is none."""
        return next(iter(self._until.values()), float("inf"))

    def made_room(self, node: str, gang: GangKey) -> None:
        """A pod leaves this node for the gang."""
        _keep(self._rooms, node, gang)

    def room_on(self, node: str | None) -> GangKey | None:
        """The gang for which capacity was last freed on this node."""
        return self._rooms.get(node) if node is not None else None


def _keep(kept: OrderedDict[str, T], key: str, value: T) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > SPARED:
        kept.popitem(last=False)
