"""The first gang that waits for capacity, and the reservation for it.

Lives here: which gang is first, the one reservation, and its fence. The fence is the reservation's number: it shows
whether the answer to a gang behind was given under it. Never here: computing a reservation (placement.reservation).
"""

from typing import Final

from scheduler.engine.preemption_candidates import BLOCKED
from scheduler.ledger import Ledger, observed_runs
from scheduler.ledger.gang import GangRecord
from scheduler.model.cluster import Snapshot
from scheduler.model.decision import LASTING, Place, Reason, Wait
from scheduler.model.queueing import Backfill, Reservation
from scheduler.model.workload import Gang
from scheduler.placement import reservation

RESERVE_EVERY: Final = 1.0
"""Seconds between two reservations for one gang. On a large cluster capacity is freed a hundred times a second. Until
the next reservation the old one stays in force, and it keeps no less for the gang."""


class QueueHead:
    """The first waiting gang, and what is reserved for it."""

    def __init__(self, ledger: Ledger) -> None:
        self.reserved: Reservation | None = None
        self._ledger = ledger
        self._first: GangRecord | None = None
        self._shuffles = 0
        """The queue's `shuffles` when `_first` was determined."""
        self._fence = 0
        self._at = float("-inf")
        self._version = -1
        """The version of the nodes that the reservation's rows refer to."""

    @property
    def _keeps(self) -> bool:
        return self._ledger.policy.backfill is Backfill.RESERVE

    def first(self) -> GangRecord | None:
        """The first gang of the queue whose last answer is to wait for capacity."""
        if self.reserved is not None and self._version != self._ledger.nodes.version:
            self.reserved, self._at = None, float("-inf")
        first, pending = self._first, self._ledger.pending
        kept = self._shuffles == pending.shuffles
        if kept and first is not None and waits(first) and pending.has(first):
            return first
        self._shuffles = pending.shuffles
        self._first = next((r for r in pending.queue() if waits(r)), None) if first else None
        if self._first is None or (self.reserved and self.reserved.key != self._first.key):
            self.reserved = None
        return self._first

    def strictly_first(self, now: float) -> GangRecord | None:
        """With a strict order, the first gang that can still be seated and is not backing off."""
        if self._ledger.policy.backfill is not Backfill.NONE:
            return None
        version, room = self._ledger.nodes.version, self._ledger.nodes.room_version
        return next(
            (
                record
                for record in self._ledger.pending.queue()
                if record.backoff.not_before <= now and not _in_vain(record, version, room)
            ),
            None,
        )

    def is_first(self, record: GangRecord) -> bool:
        return record is self.first()

    def comes_first(self, record: GangRecord) -> bool:
        """If this gang got the answer to wait for capacity, it would be the first such gang."""
        first = self.first()
        return first is None or record.order < first.order

    def told_to_wait(self, record: GangRecord) -> None:
        """Record that the gang waits for capacity. Gangs come in the order of the queue, except for newcomers."""
        if self.comes_first(record):
            self._first, self.reserved = record, None

    def fence(self) -> tuple[int, tuple[object, ...]]:
        """The number of the reservation (0: none), and the place in the queue behind which it applies."""
        first = self.first()
        stands = self._keeps and first is not None and self.reserved is not None
        if first is None or not stands or self.reserved is None or self.reserved.key != first.key:
            return 0, ()
        return self._fence, first.order

    def fence_before(self, record: GangRecord) -> int:
        """The number of the reservation that this gang must not touch. 0: none."""
        fence, order = self.fence()
        return fence if fence and not self.is_first(record) and record.order > order else 0

    def spare(self, now: float) -> float:
        """The seconds until the reservation begins. Minus infinity without one, so no gang counts as short."""
        return float("-inf") if self.reserved is None else self.reserved.start - now

    def longest(self, record: GangRecord) -> float:
        """How many seconds it runs at most, as far as is known. Cached, because a pass needs it for all gangs."""
        if (known := record.observed.reach.high) is not None:
            return known
        reach = observed_runs.reach(self._ledger, record)
        return float("inf") if reach.high is None else reach.high

    def is_short(self, record: GangRecord, now: float) -> bool:
        """If it started now, it would end before the reservation begins."""
        return self.longest(record) <= self.spare(now)

    # ── the reservation ─────────────────────────────────────────────────────────────────────────────────

    def is_due(self, record: GangRecord, now: float) -> bool:
        """Capacity has to be reserved for this gang, and the last reservation is not recent."""
        return self.reserves_for(record) and not self._just_made(record, now)

    def _just_made(self, record: GangRecord, now: float) -> bool:
        """Its own reservation exists and is recent. A reservation for another gang keeps nothing for it."""
        own = self.reserved is not None and self.reserved.key == record.key
        return own and now < self._at + RESERVE_EVERY

    def reserves_for(self, record: GangRecord) -> bool:
        return self._keeps and self.is_first(record)

    def due_again(self, record: GangRecord, now: float) -> float:
        """When its postponed reservation is due again. Infinity: time alone does not call for it."""
        put_off = self.reserves_for(record) and self._just_made(record, now)
        return self._at + RESERVE_EVERY if put_off else float("inf")

    def reserve(self, reserved: Reservation, version: int, now: float) -> None:
        """Store this reservation for the first gang; its rows are nodes of this version."""
        self.reserved, self._at, self._version = reserved, now, version
        self._fence += 1

    def narrow(self, gang: Gang, place: Place, snapshot: Snapshot) -> None:
        """Subtract a newly seated gang that outlasts the start of the reservation from the capacity left then."""
        self.first()  # drops a reservation that is no longer valid
        if self.reserved is not None:
            self.reserved = reservation.narrowed(self.reserved, *reservation.uses_of(snapshot, gang, place))


def waits(record: GangRecord) -> bool:
    """Its last answer is to wait for capacity, and its request is unchanged. Surplus alone blocks no gang."""
    return (
        record.wanted is not None
        and record.wanted.quorum > 0
        and record.verdict.request is record.wanted
        and isinstance(record.verdict.decision, Wait)
        and record.verdict.decision.reason in BLOCKED
    )


def _in_vain(record: GangRecord, version: int, room: int) -> bool:
    """No freed capacity would help it, or none was freed since. Surplus alone blocks no gang."""
    verdict = record.verdict.decision if record.verdict.request is record.wanted else None
    if isinstance(verdict, Wait) and verdict.behind is not None:
        return True  # it gets another answer as soon as that gang no longer blocks it
    lasting = verdict is not None and verdict.reason in LASTING and record.verdict.version == version
    if verdict is None or lasting or record.verdict.room != room:
        return lasting
    own = verdict.reason is Reason.QUOTA_EXCEEDED or verdict.reason is Reason.QUEUED
    return own or (record.wanted is not None and not record.wanted.quorum)
