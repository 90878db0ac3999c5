"""The gangs that have somebody to seat now, in the order in which they are asked about."""

import operator
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, Final, TypeAlias

from scheduler.ledger.gang import GangRecord
from scheduler.ledger.phase import Facts
from scheduler.ledger.serial_gangs import Singly
from scheduler.ledger.timers import Timers
from scheduler.model.decision import Wait
from scheduler.model.queueing import Waiting
from scheduler.model.workload import GangKey

Turn: TypeAlias = tuple[Any, ...]
"""A sort key: smaller goes first. All keys of one function can be compared with each other."""

FirstOpen: TypeAlias = Callable[[Iterable[GangRecord]], GangRecord | None]
"""The first of these, which are in order, that is worth a question."""

_ORDER: Final = operator.attrgetter("order")

FEW: Final = 16
"""Who came or went, up to which a copy of the queue is mended: each costs some comparisons; made anew it costs as
many as gangs wait.
"""

REORDER: Final = 5.0
"""Seconds after which places are worked out anew that change by themselves: who has waited long, who has used much."""


def in_order(waiting: Waiting, _now: float) -> Turn:
    """Partly bound first, then priority, then arrival; within a second by name."""
    gang = waiting.gang
    return (not waiting.first, -gang.priority, waiting.arrived, gang.key)


class Wanting:
    """The queue. `turn`, `ages_at`, `moved` and `shifted` are the engine's to set: whose turn it is, and when that
    changes by itself.
    """

    def __init__(self, turn: Callable[[Waiting, float], Turn] = in_order) -> None:
        self.turn = turn
        self.ages_at: Callable[[Waiting], float] = lambda _waiting: float("inf")
        """When each moves forward by age alone."""
        self.moved: Callable[[], Mapping[str, float]] = dict
        """Namespaces whose gangs have another turn than when this was asked last, by what others did: what they go
        by now.
        """
        self.shifted: Callable[[Turn, float], Turn] = lambda turn, _by: turn
        """The turn that a gang has now, of the one that it had; only where it has not come of age meanwhile."""
        self.singly = Singly()
        self._waiting: dict[GangKey, Waiting] = {}
        self._aging = Timers()
        self._again = float("-inf")
        """When it is asked anew who has moved."""
        self._records: dict[GangKey, GangRecord] = {}
        self._sorted: list[GangRecord] = []
        """The queue when it was asked for last: the next is made from it, since a list that is nearly in order is
        sorted quickly.
        """
        self._added: dict[int, GangRecord] = {}
        """By identity, who has come since."""
        self._left: dict[int, GangRecord] = {}
        """And who of it has gone."""
        self.touched: dict[int, GangRecord] = {}
        """By identity, those of whom something may be new since a pass has looked at all of them."""
        self._stale = self._shuffled = False
        """The queue is another; and somebody who is still in it has another place."""
        self.version = 0
        """Changes whenever the queue does."""
        self.shuffles = 0
        """Grows whenever those who are in it change places by themselves."""
        self.rekeyed = 0
        """Grows whenever their places are worked out anew: what was a place before is none now, even where the order
        is the same.
        """

    def __len__(self) -> int:
        return len(self._records)

    def has(self, record: GangRecord) -> bool:
        """This gang waits, and it is still this one and not another of its name."""
        return self._records.get(record.key) is record

    def touch(self, record: GangRecord) -> None:
        """Something about this gang may be new, so it is looked at again if it waits."""
        if self.has(record):
            self.touched[id(record)] = record

    def queue(self) -> Sequence[GangRecord]:
        """In order; another list as soon as anything changes, so that whoever reads one reads it to its end."""
        if self._stale:
            self._sorted = self._mended() or self._made_anew()
            self._added, self._left, self._stale, self._shuffled = {}, {}, False, False
        return self._sorted

    def _mended(self) -> list[GangRecord] | None:
        """The queue without the few who have gone, and with the few who have come; None: too much has changed."""
        if self._shuffled or len(self._left) + len(self._added) > FEW:
            return None
        mended = list(self._sorted)
        for record in self._left.values():
            place = bisect_left(mended, record.order, key=_ORDER)
            if place == len(mended) or mended[place] is not record:
                return None
            del mended[place]
        for record in self._added.values():
            insort(mended, record, key=_ORDER)
        return mended

    def _made_anew(self) -> list[GangRecord]:
        stay = [record for record in self._sorted if id(record) not in self._left]
        return sorted([*stay, *self._added.values()], key=_ORDER)

    def note(self, record: GangRecord, waiting: Waiting | None, now: float) -> None:
        """What this gang wants now; None: nothing."""
        if waiting is None:
            self.strike(record.key)
            record.wanted = None
            return
        self._waiting[record.key] = waiting
        known, wanted = self._records.get(record.key) is record, waiting.gang
        order = self.turn(waiting, now)
        ages_at = self.ages_at(waiting)
        self._aging.set(record.key, ages_at if ages_at > now else float("inf"))
        self.touch(record)
        same = known and record.wanted == wanted
        if same and record.order == order:
            return
        self._shuffled |= known and record.order != order
        record.order = order
        if not same:  # else it stays the very request that its verdict counts for
            record.wanted = wanted
        if not known:
            self._leaves(record.key)  # another gang of this name
            self._comes(record)
        self._changed()

    def behind(self, record: GangRecord) -> Iterator[GangRecord]:
        """Those behind this gang, in order."""
        queue = self.queue()
        return islice(queue, bisect_right(queue, record.order, key=_ORDER), None)

    def waiting(self) -> list[Waiting]:
        """Everybody who waits, in order."""
        return [self._waiting[record.key] for record in self.queue()]

    def reorder(self, now: float, *, at_once: bool = False) -> None:
        """Work out anew whose turn it is, where that changes by itself: when somebody has waited long, and every few
        seconds, or at once, where others have moved.
        """
        due = self._aging.next() <= now
        if not self._records or not (due or at_once or now >= self._again):
            return
        moved, self._again = self.moved(), now + REORDER
        if not due and not moved:
            return
        before, shifted = self.queue(), self.shifted
        for key in self._aging.due(now):
            self._records[key].order = self.turn(self._waiting[key], now)
        movers = [record for record in before if record.key.namespace in moved] if moved else []
        for record in movers:
            record.order = shifted(record.order, moved[record.key.namespace])
        self._sorted = sorted(before, key=_ORDER)  # most are in order already, which is quick
        self.rekeyed += 1
        if any(map(operator.is_not, before, self._sorted)):
            self.version += 1
            self.shuffles += 1

    def strike(self, key: GangKey) -> None:
        self._waiting.pop(key, None)
        self._aging.forget(key)
        if self._leaves(key):
            self._changed()

    def _comes(self, record: GangRecord) -> None:
        self._records[record.key] = record
        self.touch(record)
        if id(record) in self._left:
            del self._left[id(record)]
            self._shuffled = True  # it has another place now than when it went
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
        """Where this gang is now: one that holds up others no more lets them be asked about."""
        if self.singly.note(record, facts):
            self._let_on()

    def close(self, key: GangKey) -> None:
        """This gang holds up no other."""
        if self.singly.close(key):
            self._let_on()

    def _let_on(self) -> None:
        for record in self.queue():
            if isinstance(record.verdict, Wait) and record.verdict.behind is not None:
                record.verdict_for = None
                self.touch(record)
        self.ask_again()

    def ask_again(self) -> None:
        """An answer came too late: begin at the head of the queue once more."""
        self.version += 1


FIRST: Final = 16
"""The first gangs of a namespace that are asked about in vain in every pass; then come others, by turns."""

ROUND: Final = 32
"""Gangs of a namespace that are asked about in vain in one pass at most, so that it does not keep others waiting."""


class Rounds:
    """Whose turn it is of a namespace of which more gangs are refused than one pass has time for.

    A gang that is set aside keeps its place in the queue. In the next pass those behind the last that was asked about
    have their turn. So the first ones are asked about in every pass, and of N others each one in N / (ROUND - FIRST) + 1
    passes. Only what costs a question counts, and what is seated does not.

    A gang that is set aside stands in front still, as far as the setting `backfill` says so. `none`: nothing passes it,
    for the only gang that is asked about is never set aside. `reserve`: the first that waits is never set aside, and what
    passes does not delay its reservation. `free`: what fits may pass what was told to wait, and so it may pass what is
    asked about in the next pass.
    """

    def __init__(self) -> None:
        self._refused: Counter[str] = Counter()
        self._resume: dict[str, Turn] = {}
        """By namespace, the place of the last gang that was asked about beyond the first ones."""
        self._aside: dict[int, GangRecord] = {}

    def has_turn(self, record: GangRecord) -> bool:
        """This gang may be asked about in this pass; if not, it is looked at again in the next."""
        namespace = record.key.namespace
        refused = self._refused[namespace]
        if refused < FIRST or (refused < ROUND and record.order > self._resume.get(namespace, ())):
            return True
        self._aside[id(record)] = record
        return False

    def refused(self, record: GangRecord) -> None:
        """It was asked about in vain."""
        namespace = record.key.namespace
        if self._refused[namespace] >= FIRST:
            self._resume[namespace] = record.order
        self._refused[namespace] += 1

    def over(self, wanting: Wanting) -> None:
        """The pass is over; where the turns came to the end of the queue, they begin at its head again."""
        for record in self._aside.values():
            wanting.touch(record)
        self._resume = {name: turn for name, turn in self._resume.items() if self._refused[name] >= ROUND}
        self._refused.clear()
        self._aside.clear()


HEAD: Final = 4
"""Gangs at the head of the queue that are asked about again between two steps of a pass, when room has changed."""


class Pass:
    """Where in the queue the asking has come to.

    Who was looked at and is not worth a question is looked at again only when he was touched, or when the circumstances
    are others than they were: so a pass costs as much as what has changed.
    """

    def __init__(self) -> None:
        self._cursor: Turn = ()
        self._began: tuple[int, int] = (-1, -1)
        self._seen: tuple[int, int] = (-1, -1)
        self._head = 0
        self._left = HEAD
        self._passed: Turn = ()
        """Nobody up to this place in the queue is open, but for those who were touched: under these circumstances."""
        self._under: Hashable = None
        self.rounds = Rounds()

    def next(self, wanting: Wanting, room: int, under: Hashable, first_open: FirstOpen) -> GangRecord | None:
        """The next open gang; None at the end of a pass in which nothing changed. The next call begins the next pass,
        with those that were set aside: None twice means that all have been asked about.

        under: what decides, beside the gang itself, whether it is open.
        """
        queue = wanting.queue()
        if (wanting.rekeyed, under) != self._under:
            self._under, self._passed = (wanting.rekeyed, under), ()
            wanting.touched.clear()
        while True:
            now = (wanting.version, room)
            if now != self._seen:
                self._seen, self._head = now, 0
            if not self._cursor:
                self._began = now  # nobody was passed yet: what changed until now is seen by this very pass
            if (record := self._at_head(queue, first_open)) is not None:
                return record
            if (record := self._onwards(wanting, queue, first_open)) is not None:
                return record
            self.rounds.over(wanting)
            self._cursor, self._head = (), 0
            if self._began == now:
                self._left = HEAD
                return None
            self._began = now

    def again(self) -> None:
        """Ask from the head once more, whatever changed."""
        self._began = (-1, -1)

    def doubt(self) -> None:
        """Look at everybody again."""
        self._under = None

    def _at_head(self, queue: Sequence[GangRecord], first_open: FirstOpen) -> GangRecord | None:
        while self._left and self._head < min(HEAD, len(queue)) and queue[self._head].order <= self._cursor:
            record = queue[self._head]
            self._head += 1
            if first_open((record,)) is not None:
                self._left -= 1
                return record
        return None

    def _onwards(
        self, wanting: Wanting, queue: Sequence[GangRecord], first_open: FirstOpen
    ) -> GangRecord | None:
        record = self._among_touched(wanting, first_open)
        if record is None:
            known = self._cursor <= self._passed  # who is looked at now comes right after those
            start = bisect_right(queue, max(self._cursor, self._passed), key=_ORDER)
            record = first_open(islice(queue, start, None))
            if record is not None:
                wanting.touch(record)
            if known and queue:
                self._passed = record.order if record is not None else queue[-1].order
        if record is not None:
            self._cursor, self._left = record.order, HEAD
        return record

    def _among_touched(self, wanting: Wanting, first_open: FirstOpen) -> GangRecord | None:
        """The first open gang of those who were looked at before, and touched since."""
        if self._cursor >= self._passed:
            return None
        between = (r for r in wanting.touched.values() if self._cursor < r.order <= self._passed)
        again = sorted(between, key=_ORDER)
        found = first_open(again)
        for record in takewhile(lambda record: record is not found, again):
            del wanting.touched[id(record)]
        return found
