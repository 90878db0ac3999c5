"""Whose turn it is, and how a planning pass goes through the queue.

Turns go by the policy in force; with `fair`, by the share that a namespace had at the last sorting. A pass asks about the
first gangs of the queue again whenever there is more room, and goes on where it was with all others.

Never here: the order itself (placement.order), the queue (ledger.pending_queue), or which gang is open (equivalence).
"""

import operator
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice, takewhile
from typing import Final, TypeAlias

from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord
from scheduler.ledger.pending_queue import PendingQueue, Turn
from scheduler.model.cluster import Snapshot
from scheduler.model.queueing import Order, Waiting
from scheduler.placement import order

FirstOpen: TypeAlias = Callable[[Iterable[GangRecord]], GangRecord | None]
"""The first of these, which are in order, that is worth a question."""

_ORDER: Final = operator.attrgetter("order")

FIRST: Final = 16
"""The first gangs of a namespace that are asked about in vain in every pass; then come others, by turns."""

ROUND: Final = 32
"""Gangs of a namespace that are asked about in vain in one pass at most, so that it does not keep others waiting."""


class PassRounds:
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

    def over(self, pending: PendingQueue) -> None:
        """The pass is over; where the turns came to the end of the queue, they begin at its head again."""
        for record in self._aside.values():
            pending.touch(record)
        self._resume = {name: turn for name, turn in self._resume.items() if self._refused[name] >= ROUND}
        self._refused.clear()
        self._aside.clear()


HEAD: Final = 4
"""Gangs at the head of the queue that are asked about again between two steps of a pass, when room has changed."""


class Pass:
    """Where in the queue the asking has come to.

    A gang that was looked at and is not worth a question is looked at again only when it was touched, or when the circumstances
    are others than they were: so a pass costs as much as what has changed.
    """

    def __init__(self) -> None:
        self._cursor: Turn = ()
        self._began: tuple[int, int] = (-1, -1)
        self._seen: tuple[int, int] = (-1, -1)
        self._head = 0
        self._left = HEAD
        self._passed: Turn = ()
        """No gang up to this place in the queue is open, but for those that were touched: under these circumstances."""
        self._under: Hashable = None
        self.rounds = PassRounds()

    def next(
        self, pending: PendingQueue, room: int, under: Hashable, first_open: FirstOpen
    ) -> GangRecord | None:
        """The next open gang; None at the end of a pass in which nothing changed. The next call begins the next pass,
        with those that were set aside: None twice means that all have been asked about.

        under: what decides, beside the gang itself, whether it is open.
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
                self._began = now  # none was passed yet: what changed until now is seen by this very pass
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
        """Ask from the head once more, whatever changed."""
        self._began = (-1, -1)

    def doubt(self) -> None:
        """Look at all again."""
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
            known = self._cursor <= self._passed  # who is looked at now comes right after those
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
        """The first open gang of those who were looked at before, and touched since."""
        if self._cursor >= self._passed:
            return None
        between = (r for r in pending.touched.values() if self._cursor < r.order <= self._passed)
        again = sorted(between, key=_ORDER)
        found = first_open(again)
        for record in takewhile(lambda record: record is not found, again):
            del pending.touched[id(record)]
        return found


SORTED_AT_ONCE: Final = 500
"""Gangs of a queue that is sorted again whenever shares move; a longer one takes milliseconds, and is sorted every few
seconds."""


class QueueOrder:
    """Turns by policy and share."""

    def __init__(self, cache: Cache, snapshot: Callable[[], Snapshot]) -> None:
        self._cache = cache
        self._snapshot = snapshot
        self._usage = -1
        self._dominants: dict[str, float] = {}
        self._dominants_at = (-1, -1)
        self._ranked: dict[str, float] = {}
        """The dominant share by which each namespace's gangs have their turns. All gangs of a namespace use the same
        value; else they would go on overtaking each other as one after the other is seated."""

    def at_once(self, queued: int) -> bool:
        """With the order `fair` a gang got or gave back room, and the queue is short enough to be sorted at once."""
        usage, before = self._cache.share_usage, self._usage
        self._usage = usage.version
        fair = self._cache.policy.order is Order.FAIR
        return fair and before != usage.version and queued <= SORTED_AT_ONCE

    def ages_at(self, waiting: Waiting) -> float:
        """When it moves forward by age alone; infinity: never."""
        return order.ages_at(waiting, self._cache.policy)

    def shifted(self, turn: order.Turn, by: float) -> order.Turn:
        """The turn by another share of its namespace."""
        return order.shifted(turn, by)

    def turn(self, waiting: Waiting, now: float) -> order.Turn:
        policy, namespace = self._cache.policy, waiting.gang.key.namespace
        if policy.order is not Order.FAIR:
            return order.turn(waiting, policy, now, 0.0)
        if namespace not in self._ranked:
            self._ranked[namespace] = self._dominant(namespace)
        return order.turn(waiting, policy, now, self._ranked[namespace])

    def moved(self, queue: Sequence[GangRecord]) -> dict[str, float]:
        """Namespaces whose dominant share is another one than when this was asked last, where turns go by that, with
        it.
        """
        if self._cache.policy.order is not Order.FAIR:
            return {}
        before = self._ranked
        if len(before) > len(queue):  # of some no gang waits any more
            present = {record.key.namespace for record in queue}
            before = {name: share for name, share in before.items() if name in present}
        self._ranked = {name: self._dominant(name) for name in before}
        return {name: now for name, now in self._ranked.items() if before[name] != now}

    def _dominant(self, namespace: str) -> float:
        """The weighted dominant share of a namespace, worked out once for as long as no use changes."""
        usage, nodes = self._cache.share_usage, self._cache.nodes
        if self._dominants_at != (usage.version, nodes.version):
            self._dominants, self._dominants_at = {}, (usage.version, nodes.version)
        if namespace not in self._dominants:
            picture = self._snapshot()
            total = dict(zip(picture.axis.names, picture.capacity.sum(axis=0).tolist(), strict=True))
            self._dominants[namespace] = order.dominant_share(usage.of(namespace), total)
        return self._dominants[namespace]
