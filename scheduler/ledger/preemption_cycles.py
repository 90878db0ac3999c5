"""Two gangs that take turns in throwing each other out: noticed, and stopped.

With priorities alone this cannot happen, nor with guarantees that stay as they are: a namespace within its own is left
alone. Where shares are set again, or others of the two namespaces come and go, each of the two may be right in its turn,
and then both only start over and over.
"""

from collections import OrderedDict
from typing import Final

from scheduler.ledger.gang import GangRecord
from scheduler.ledger.registry import lineage

REMEMBERED: Final = 1024
"""Pairs; the oldest is forgotten first."""

TURNS: Final = 2
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
        if len(self._turns) > REMEMBERED:
            self._turns.popitem(last=False)

    def alternate(self, winner: str, loser: str, now: float) -> bool:
        """`winner` would throw out a gang that threw it out before, once too often."""
        last, turns, at = self._turns.get(_pair(winner, loser), (winner, 0, now))
        return last == loser and turns >= TURNS - 1 and now < at + WINDOW

    def at_odds(self, winner: str, now: float) -> float:
        """Until when there is a gang that `winner` must not evict once more; in the past: none."""
        ends = (
            at + WINDOW
            for pair, (last, turns, at) in self._turns.items()
            if winner in pair and last != winner and turns >= TURNS - 1
        )
        return max((end for end in ends if end > now), default=float("-inf"))

    def __len__(self) -> int:
        return len(self._turns)


def line(record: GangRecord) -> str:
    """What stays of a gang when it is made again."""
    return lineage(record.key, next(iter(record.members.values())).pod)


def _pair(one: str, other: str) -> Pair:
    return (one, other) if one <= other else (other, one)
