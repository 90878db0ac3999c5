"""How a planning pass goes through the queue.

When more capacity is free, a pass asks about the first gangs of the queue again, and then continues at its position.

Never here: the order itself (queue_order), the queue (ledger.pending_queue), or which gang is open (equivalence).
"""

import operator
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice, takewhile
from typing import Final, TypeAlias

from scheduler.ledger.gang import GangRecord
from scheduler.ledger.pending_queue import PendingQueue, Turn

FirstOpen: TypeAlias = Callable[[Iterable[GangRecord]], GangRecord | None]
"""Returns the first of these gangs that is worth a question. They are in the order of the queue."""

_ORDER: Final = operator.attrgetter("order")

FIRST: Final = 16
"""The first gangs of a namespace, which are asked about in every pass even if rejected. The others take turns."""

ROUND: Final = 32
"""Rejected questions per namespace in one pass at most, so that one namespace does not delay the others."""


class PassRounds:
    """Turns within a namespace, if more of its gangs are rejected than one pass has time for.

    A gang that is set aside keeps its place in the queue. In the next pass, the gangs behind the last one asked about
    have their turn. So the first gangs are asked about in every pass, and each of N others once in
    N / (ROUND - FIRST) + 1 passes. Only real questions count, and seated gangs do not count.

    A gang that is set aside keeps its rank as the setting `backfill` defines it. `none`: no gang passes it, because the
    only gang that is asked about is never set aside. `reserve`: the first waiting gang is never set aside, and gangs
    that pass do not delay its reservation. `free`: a gang that fits may pass a waiting gang, and so it may pass one
    that is asked about in the next pass.
    """

    def __init__(self) -> None:
        self._refused: Counter[str] = Counter()
        self._resume: dict[str, Turn] = {}
        """By namespace, the place in the queue of the last gang asked about beyond the first ones."""
        self._aside: dict[int, GangRecord] = {}

    def has_turn(self, record: GangRecord) -> bool:
        """This gang may be asked about in this pass. If not, the next pass looks at it again."""
        namespace = record.key.namespace
        refused = self._refused[namespace]
        if refused < FIRST or (refused < ROUND and record.order > self._resume.get(namespace, ())):
            return True
        self._aside[id(record)] = record
        return False

    def refused(self, record: GangRecord) -> None:
        """Count a question about this gang that did not seat it."""
        namespace = record.key.namespace
        if self._refused[namespace] >= FIRST:
            self._resume[namespace] = record.order
        self._refused[namespace] += 1

    def over(self, pending: PendingQueue) -> None:
        """End the pass. Namespaces whose turns reached the end of the queue begin at its head again."""
        for record in self._aside.values():
            pending.touch(record)
        self._resume = {name: turn for name, turn in self._resume.items() if self._refused[name] >= ROUND}
        self._refused.clear()
        self._aside.clear()


HEAD: Final = 4
"""Gangs at the head of the queue that are asked about again between two steps of a pass, when capacity has changed."""


class Pass:
    """The position of a pass in the queue.

    A gang that was not worth a question is looked at again only if it was touched, or if the circumstances (`under`)
    changed. So the cost of a pass depends on what has changed.
    """

    def __init__(self) -> None:
        self._cursor: Turn = ()
        self._began: tuple[int, int] = (-1, -1)
        self._seen: tuple[int, int] = (-1, -1)
        self._head = 0
        self._left = HEAD
        self._passed: Turn = ()
        """Up to this place in the queue no gang is open under `_under`, except for touched ones."""
        self._under: Hashable = None
        self.rounds = PassRounds()

    def next(
        self, pending: PendingQueue, room: int, under: Hashable, first_open: FirstOpen
    ) -> GangRecord | None:
        """The next open gang, or None at the end of a pass in which nothing changed. The next call then begins a new pass
        with the gangs that were set aside. None twice in a row means that all have been asked about.

        under: everything except the gang itself that decides whether it is open.
        """
        queue = pending.queue()
        if (pending.rekeyed, under) != self._under:
            self._under, self._passed = (pending.rekeyed, under), ()
            pending.touched.clear()
        while True:
            now = (pending.version, room)
            if now != self._seen:
                self._seen, self._head = now, 0
            if not self._cursor:
                self._began = now  # nothing is passed yet, so this pass sees all changes until now
            if (record := self._at_head(queue, first_open)) is not None:
                return record
            if (record := self._onwards(pending, queue, first_open)) is not None:
                return record
            self.rounds.over(pending)
            self._cursor, self._head = (), 0
            if self._began == now:
                self._left = HEAD
                return None
            self._began = now

    def again(self) -> None:
        """Start once more at the head, even if nothing changed."""
        self._began = (-1, -1)

    def doubt(self) -> None:
        """Look at all gangs again."""
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
        self, pending: PendingQueue, queue: Sequence[GangRecord], first_open: FirstOpen
    ) -> GangRecord | None:
        record = self._among_touched(pending, first_open)
        if record is None:
            known = self._cursor <= self._passed  # the scan continues right after the known part
            start = bisect_right(queue, max(self._cursor, self._passed), key=_ORDER)
            record = first_open(islice(queue, start, None))
            if record is not None:
                pending.touch(record)
            if known and queue:
                self._passed = record.order if record is not None else queue[-1].order
        if record is not None:
            self._cursor, self._left = record.order, HEAD
        return record

    def _among_touched(self, pending: PendingQueue, first_open: FirstOpen) -> GangRecord | None:
        """The first open gang among those that were looked at before and touched since."""
        if self._cursor >= self._passed:
            return None
        between = (r for r in pending.touched.values() if self._cursor < r.order <= self._passed)
        again = sorted(between, key=_ORDER)
        found = first_open(again)
        for record in takewhile(lambda record: record is not found, again):
            del pending.touched[id(record)]
        return found
