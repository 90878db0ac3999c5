"""Who of those who wait is worth a question.

Where something that concerns all has changed everybody who waits is looked at, thousands of them while a verb waits its
turn; nearly all are to be told again what a gang like them was told. Lives here: that look, first as a glance and then
closely. Never
here: what becomes of whoever is asked about (`asking`), or how the answer is worked out (`question`).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.engine.dominance import Refused, Size
from scheduler.engine.preemption_candidates import BLOCKED
from scheduler.engine.shapes import Told
from scheduler.ledger.gang import GangRecord
from scheduler.model.decision import LASTING, Reason, Wait
from scheduler.model.workload import GangKey


@dataclass(frozen=True, slots=True)
class Sieve:
    """One step of a pass: what is the same for everybody who waits, looked up once."""

    now: float
    only: GangRecord | None
    """With the strict order nobody else is open."""
    first: GangRecord | None
    """It waits for room, and is always asked about itself."""
    fence: int
    """The number of the reservation that everybody behind `order` leaves alone; 0: there is none."""
    order: tuple[Any, ...]
    spare: float
    """Seconds until the reservation begins; who leaves before that is short."""
    above: float
    """Somebody might have to give way to a gang of a priority above this."""
    room: int
    version: int
    standing: int
    """The counters of now, of room, of nodes and of those who could be asked to leave."""
    told: Told
    """What was answered since there is so much room, where no reservation stands in the way."""
    told_behind: Told
    told_short: Told
    """The same for those behind the reservation, and for the short ones of them."""
    sizes: Mapping[int, Size]
    """By shape, how much it asks for, where that compares with others."""
    highest: int
    """No gang has a priority above this."""
    longest: Callable[[GangRecord], float]
    """Seconds that a gang runs at the longest."""
    may_try: Callable[[GangRecord, float], bool]
    """Somebody may give way to this gang who was not asked about yet."""
    mark: Callable[[GangKey], None]
    """Another reason is to be told of this gang than before."""
    has_turn: Callable[[GangRecord], bool]
    """Its namespace may ask once more in this pass."""
    before: Callable[[GangRecord], GangKey | None]
    """The gang that this one lets pass; None: none."""

    @property
    def under(self) -> Hashable:
        """Whoever is not open, and of whom nothing is new, stays so for as long as this does and no time of his own
        has come.
        """
        apart = [None if record is None else record.number for record in (self.only, self.first)]
        place = (self.fence, self.order, self.above, self.highest)
        return (*apart, *place, self.room, self.version, self.standing)

    def first_open(self, records: Iterable[GangRecord]) -> GangRecord | None:
        """The first of these, which are in the order of the queue, about which an answer would tell something new, and
        whose turn it is.
        """
        doubtful = records if self.only is not None else self._doubtful(records)
        return next(filter(self._is_next, filter(self.is_open, doubtful)), None)

    def _is_next(self, record: GangRecord) -> bool:
        """Strict order goes before turns, and so does the first that waits: others depend on their answers."""
        return record is self.only or record is self.first or self.has_turn(record)

    def is_open(self, record: GangRecord) -> bool:
        """An answer about this gang would tell something new, and is not known from a gang like it."""
        wanted = record.wanted
        if wanted is None or record.not_before > self.now:
            return False
        if self.only is not None and record is not self.only:
            return False
        if self.only is None and isinstance(record.verdict, Wait) and record.verdict.behind is not None:
            return not self._lets_pass(record, record.verdict)
        if record.verdict_for is not wanted:
            return True
        fence = self.fence if self.fence and record.order > self.order else 0
        takes = wanted.priority > self.above
        if record.verdict_fence == fence:
            verdict = record.verdict
            if verdict is not None and verdict.reason in LASTING:
                return record.verdict_version != self.version
            if record.verdict_room == self.room and record.verdict_until > self.now:
                return takes and record.verdict_standing != self.standing and self.may_try(record, self.now)
        return (takes and self.may_try(record, self.now)) or not self._is_known(record, fence)

    def _lets_pass(self, record: GangRecord, told: Wait) -> bool:
        """A gang goes before this one still, or another one does by now: it is told so without being asked."""
        first = self.before(record)
        if first is None:
            return False
        if told.behind != first:
            record.verdict = Wait(Reason.QUEUED, behind=first)
            self.mark(record.key)
        record.verdict_for, record.verdict_room = record.wanted, self.room
        return True

    def _is_known(self, record: GangRecord, fence: int) -> bool:
        """A gang of this shape was told to wait since there was so much room: so is this one, without being asked."""
        if record.verdict_shape is None or record.verdict_until <= self.now or record is self.first:
            return False
        return self._tell(record, fence, short=fence > 0 and self.longest(record) <= self.spare)

    def _tell(self, record: GangRecord, fence: int, *, short: bool) -> bool:
        """Gives this gang the answer that is known of its shape or of less, if one is."""
        told = self.told_short if short else self.told_behind if fence else self.told
        shape = record.verdict_shape
        known = None if shape is None else told.alike.get(shape) or self._no_less(record, shape, told.refused)
        if known is None:
            return False
        before = record.verdict
        if before is not known and (before is None or before.reason is not known.reason):
            self.mark(record.key)
        record.verdict, record.verdict_room = known, self.room
        record.verdict_fence, record.verdict_short = fence, short
        return True

    def _no_less(self, record: GangRecord, shape: int, refused: Refused) -> Wait | None:
        """The answer to a gang that needs no less than one that was refused: its own last one, with another reason
        where that is known. So its figures are its own, as they were when it was last asked about itself.

        Only to one that was told to wait for room on the nodes as they are: of another it is not known whether it
        fits the empty cluster.
        """
        own, size = record.verdict, self.sizes.get(shape)
        if size is None or record.verdict_version != self.version:
            return None
        if not isinstance(own, Wait) or own.reason not in BLOCKED:
            return None
        less = refused.why(size)
        if less is None:
            return None
        unsure = less.reason is Reason.RESERVED and own.reason is not Reason.RESERVED
        if unsure or (less.reason is own.reason and less.held_for == own.held_for):
            return own
        return Wait(less.reason, own.shortfall, held_for=less.held_for)

    def _doubtful(self, records: Iterable[GangRecord]) -> Iterator[GangRecord]:
        """Those of them whose case is not plain. A case is plain where a gang, behind the reservation if one stands,
        cannot make anybody give way, and was told since there is so much room or is told now what is known of its
        shape or of less.

        All in one piece, `_tell` too, and what it looks up at hand, since thousands pass through it while a verb waits.
        """
        now, first, room, fence, spare = self.now, self.first, self.room, self.fence, self.spare
        above, some_take, longest, mark = self.above, self.highest > self.above, self.longest, self.mark
        answers = (self.told_behind, self.told_short) if fence else (self.told, self.told)
        alike, refused = [told.alike for told in answers], [told.refused for told in answers]
        behind = not fence
        for record in records:
            behind = behind or record.order > self.order
            wanted, verdict = record.wanted, record.verdict
            if (
                not behind
                or wanted is None
                or verdict is None
                or record.verdict_for is not wanted
                or record is first
                or record.not_before > now
                or record.verdict_until <= now
                or (some_take and wanted.priority > above)
                or verdict.reason is Reason.QUEUED
            ):
                yield record
                continue
            if record.verdict_fence == fence:
                if verdict.reason in LASTING:
                    yield record
                    continue
                if record.verdict_room == room:
                    continue
            short = False
            if fence:
                seconds = record.reach.high
                short = (longest(record) if seconds is None else seconds) <= spare
            shape = record.verdict_shape
            known = None
            if shape is not None:
                known = alike[short].get(shape) or self._no_less(record, shape, refused[short])
            if known is None:
                yield record
                continue
            if verdict is not known and verdict.reason is not known.reason:
                mark(record.key)
            record.verdict, record.verdict_room = known, room
            record.verdict_fence, record.verdict_short = fence, short
