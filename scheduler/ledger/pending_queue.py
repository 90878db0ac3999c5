"""The gangs with pods to place now, in planning order.

Serial gangs go one at a time: those that kube-scheduler places by rules that the planner does not model. Such a gang is
planned by capacity only, and rejections by kube-scheduler show up after ungating. Two of them in parallel may each get
half of the resources that one needs. Never here: the rollback of a rejected one (reconcile).
"""

import operator
from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any, Final, Protocol, TypeAlias

from scheduler.ledger.gang import GangRecord, Step
from scheduler.ledger.phase import QUORUM_BOUND, Facts
from scheduler.ledger.timers import Timers
from scheduler.model.decision import Wait
from scheduler.model.queueing import Waiting
from scheduler.model.workload import GangKey

Turn: TypeAlias = tuple[Any, ...]
"""A sort key: smaller goes first. All keys of one function are comparable."""

_ORDER: Final = operator.attrgetter("order")

FEW: Final = 16
"""Maximum number of additions and removals for which a copy of the queue is patched. Each costs a few comparisons,
while a rebuild costs as many as gangs wait."""

REORDER: Final = 5.0
"""Seconds between updates of positions that change on their own, by waiting time or by use."""


class Turns(Protocol):
    """The order of gangs, and when it changes on its own."""

    def turn(self, waiting: Waiting, now: float) -> Turn:
        """The position of this gang in the queue."""

    def ages_at(self, waiting: Waiting) -> float:
        """When it moves forward by age alone; infinity: never."""

    def group(self, waiting: Waiting) -> Hashable:
        """The group of this gang. The gangs of one group move together."""

    def moved(self, groups: AbstractSet[Hashable]) -> Mapping[Hashable, float]:
        """Groups of gangs that moved since the last call because of other gangs, and their new sort values.

        groups: those of all waiting gangs.
        """

    def shifted(self, turn: Turn, by: float) -> Turn:
        """The new turn of a gang of such a group. Only valid if it did not come of age meanwhile."""

    def at_once(self, queued: int) -> bool:
        """Update the positions of a queue of this length now, instead of every few seconds only."""


class ByArrival:
    """Partially bound first, then priority, then arrival; within a second by name."""

    def turn(self, waiting: Waiting, _now: float) -> Turn:
        gang = waiting.gang
        return (not waiting.first, -gang.priority, waiting.arrived, gang.key)

    def ages_at(self, _waiting: Waiting) -> float:
        return float("inf")

    def group(self, _waiting: Waiting) -> Hashable:
        return None

    def moved(self, _groups: AbstractSet[Hashable]) -> Mapping[Hashable, float]:
        return {}

    def shifted(self, turn: Turn, _by: float) -> Turn:
        return turn

    def at_once(self, _queued: int) -> bool:
        return False


class SerialGangs:
    """Serial gangs that have some but not all of their seats. After a restart they are derived from the pods."""

    def __init__(self) -> None:
        self._open: dict[GangKey, None] = {}

    def before(self, record: GangRecord) -> GangKey | None:
        """The gang that this one waits for, if any. A partially or fully bound gang waits for no other."""
        if not record.unmodeled or record.partly_bound or record.state in QUORUM_BOUND:
            return None
        return next((key for key in self._open if key != record.key), None)

    def note(self, record: GangRecord, facts: Facts) -> bool:
        """Record this gang's state after it was derived. Returns whether it no longer blocks others."""
        # A bound pod no longer shows its node requirements, so a partially bound gang stays what it was.
        kept = record.unmodeled and facts.bound > 0
        record.unmodeled = facts.quorum > 1 and (
            kept or any(m.live and m.pod.unmodeled for m in record.members.values())
        )
        short = record.unmodeled and facts.bound < facts.quorum and not record.was_bound
        if short and (facts.bound > 0 or _is_on_its_way(record)):
            self._open[record.key] = None
            return False
        return self.close(record.key)

    def close(self, key: GangKey) -> bool:
        """This gang is complete, has released everything, or no longer exists. Returns whether it blocked others until
        now.
        """
        if key not in self._open:
            return False
        del self._open[key]
        return True


def _is_on_its_way(record: GangRecord) -> bool:
    """It has seats that end with its plan, its pods or its pins."""
    planned = record.plan is not None and record.plan.step is not Step.DONE
    return planned or any(m.hold is not None and m.hold.until is None for m in record.live())


class PendingQueue:
    """The queue, in the order of `turns`."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.serial = SerialGangs()
        self._waiting: dict[GangKey, Waiting] = {}
        self._groups: dict[GangKey, Hashable] = {}
        self._aging = Timers()
        self._again = float("-inf")
        """When moved gangs are checked again."""
        self._records: dict[GangKey, GangRecord] = {}
        self._sorted: list[GangRecord] = []
        """The queue at its last read. The next one is built from it, because sorting a nearly sorted list is fast."""
        self._added: dict[int, GangRecord] = {}
        """By identity, additions since then."""
        self._left: dict[int, GangRecord] = {}
        """Removals since then."""
        self.touched: dict[int, GangRecord] = {}
        """By identity, gangs that may have changed since a pass examined all of them."""
        self._stale = self._shuffled = False
        """The queue has changed; and a gang that is still in it has moved."""
        self.version = 0
        """Changes with the queue."""
        self.shuffles = 0
        """Grows whenever gangs in the queue move on their own."""
        self.rekeyed = 0
        """Grows whenever positions are recomputed: earlier sort keys are invalid, even if the order is the same."""

    def __len__(self) -> int:
        return len(self._records)

    def has(self, record: GangRecord) -> bool:
        """This very gang waits, not another one of its name."""
        return self._records.get(record.key) is record

    def touch(self, record: GangRecord) -> None:
        """This gang may have changed, so it is examined again if it waits."""
        if self.has(record):
            self.touched[id(record)] = record

    def queue(self) -> Sequence[GangRecord]:
        """The queue in order. A new list after every change, so that a reader can finish the old one."""
        if self._stale:
            stay = (record for record in self._sorted if id(record) not in self._left)
            self._sorted = self._patched() or sorted([*stay, *self._added.values()], key=_ORDER)
            self._added, self._left, self._stale, self._shuffled = {}, {}, False, False
        return self._sorted

    def _patched(self) -> list[GangRecord] | None:
        """The queue after a few removals and additions. None: too much has changed."""
        if self._shuffled or len(self._left) + len(self._added) > FEW:
            return None
        patched = list(self._sorted)
        for record in self._left.values():
            place = bisect_left(patched, record.order, key=_ORDER)
            if place == len(patched) or patched[place] is not record:
                return None
            del patched[place]
        for record in self._added.values():
            insort(patched, record, key=_ORDER)
        return patched

    def note(self, record: GangRecord, waiting: Waiting | None, now: float) -> None:
        """Record what this gang requests now; None: nothing."""
        if waiting is None:
            self.strike(record.key)
            record.wanted = None
            return
        self._waiting[record.key] = waiting
        self._groups[record.key] = self.turns.group(waiting)
        known, wanted = self._records.get(record.key) is record, waiting.gang
        order = self.turns.turn(waiting, now)
        ages_at = self.turns.ages_at(waiting)
        self._aging.set(record.key, ages_at if ages_at > now else float("inf"))
        self.touch(record)
        same = known and record.wanted == wanted
        if same and record.order == order:
            return
        self._shuffled |= known and record.order != order
        record.order = order
        if not same:  # otherwise it keeps the very request that its verdict is for
            record.wanted = wanted
        if not known:
            self._leaves(record.key)  # another gang of this name
            self._comes(record)
        self._changed()

    def behind(self, record: GangRecord) -> Iterator[GangRecord]:
        """The gangs behind this one, in order."""
        queue = self.queue()
        return islice(queue, bisect_right(queue, record.order, key=_ORDER), None)

    def waiting(self) -> list[Waiting]:
        """All waiting gangs, in order."""
        return [self._waiting[record.key] for record in self.queue()]

    def reorder(self, now: float) -> None:
        """Recompute positions that change on their own: when a gang comes of age, and every few seconds, or at once, if
        others have moved.
        """
        if not self._records:
            self.turns.moved(frozenset())  # what dry runs left is forgotten
            return
        due, at_once = self._aging.next() <= now, self.turns.at_once(len(self))
        if not (due or at_once or now >= self._again):
            return
        moved, self._again = self.turns.moved(set(self._groups.values())), now + REORDER
        if not due and not moved:
            return
        before, shifted = self.queue(), self.turns.shifted
        for key in self._aging.due(now):
            self._records[key].order = self.turns.turn(self._waiting[key], now)
        for record in before if moved else ():
            by = moved.get(self._groups[record.key])
            if by is not None:
                record.order = shifted(record.order, by)
        self._sorted = sorted(before, key=_ORDER)  # mostly sorted already, which is fast
        self.rekeyed += 1
        if any(map(operator.is_not, before, self._sorted)):
            self.version += 1
            self.shuffles += 1

    def strike(self, key: GangKey) -> None:
        if self._waiting.pop(key, None) is not None:
            self._aging.forget(key)
            del self._groups[key]
        if self._leaves(key):
            self._changed()

    def _comes(self, record: GangRecord) -> None:
        self._records[record.key] = record
        self.touch(record)
        if id(record) in self._left:
            del self._left[id(record)]
            self._shuffled = True  # its position may differ from before its removal
        else:
            self._added[id(record)] = record

    def _leaves(self, key: GangKey) -> bool:
        record = self._records.pop(key, None)
        if record is not None and self._added.pop(id(record), None) is None:
            self._left[id(record)] = record
        self.touched.pop(id(record), None)
        return record is not None

    def _changed(self) -> None:
        self._stale = True
        self.version += 1

    def note_state(self, record: GangRecord, facts: Facts) -> None:
        """Record this gang's state. If it no longer blocks others, they are asked about again."""
        if self.serial.note(record, facts):
            self._let_on()

    def close(self, key: GangKey) -> None:
        """This gang blocks no other."""
        if self.serial.close(key):
            self._let_on()

    def _let_on(self) -> None:
        for record in self.queue():
            if isinstance(record.verdict.decision, Wait) and record.verdict.decision.behind is not None:
                record.verdict.ask_again()
                self.touch(record)
        self.ask_again()

    def ask_again(self) -> None:
        """An answer came too late: start at the head of the queue again."""
        self.version += 1
