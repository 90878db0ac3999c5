"""Which gang is asked about next, in which snapshot, and what becomes of the answer. Never here: the answer (planning).

A pass goes from the head of the queue to its end. When queue or room change meanwhile, the head is asked about again
before the pass goes on, so nothing younger overtakes a gang that could be seated; but at most `scheduling_queue.HEAD` times a
step, so that gangs at the head that never fit cannot keep the rest from being asked. A pass is bounded, however many
gangs of a namespace are unlike all others (`equivalence`, `scheduling_queue.PassRounds`).
"""

from collections.abc import Hashable
from dataclasses import replace
from itertools import islice
from typing import Final

from scheduler.engine import preemption_candidates
from scheduler.engine.equivalence import Amounts, Candidacy, KnownAnswers, Refused, Shapes, shrunk
from scheduler.engine.head import RESERVE_EVERY, QueueHead, waits
from scheduler.engine.planning import Answer, Fault, Question, WaitingForPreemption, attempt, below_ceiling
from scheduler.engine.preemption_candidates import BLOCKED
from scheduler.engine.preemption_policy import PreemptionPolicy
from scheduler.engine.scheduling_queue import Pass
from scheduler.ledger import Ledger, fault_isolation
from scheduler.ledger.gang import GangRecord
from scheduler.model.cluster import Snapshot
from scheduler.model.decision import Ceiling, Decision, Place, Reason, Wait
from scheduler.model.effects import Effect
from scheduler.model.events import Decided, VictimsChosen
from scheduler.model.policy import Policy
from scheduler.model.preemption_units import FREELY, Preempt, Unit
from scheduler.model.queueing import Backfill, Reservation
from scheduler.model.workload import Gang
from scheduler.placement import reservation
from scheduler.placement.feasibility import FeasibilityCache

INLINE_LIMIT: Final = 400_000
"""Members × nodes up to which a question is answered within a verb: about 5 ms. Larger ones are left to the
planning pass, which may work outside the event loop."""


class PlanningCycle:
    """The queue, asked about gang by gang, in cycles of four steps.

    1. `ask`: the next gang of the queue whose answer could be another than its last one.
    2. `about`, `about_room`: the question, of one snapshot, less what is reserved for the head of the queue.
    3. `answer`: seats, victims, a reservation, or why it waits. Any thread may work it out.
    4. `settle`: the ledger takes the answer; it is remembered for gangs of the same shape; effects go out.
    """

    def __init__(self, ledger: Ledger, masks: FeasibilityCache) -> None:
        self.away: Question | None = None
        """A question that is being worked out elsewhere: no gang is asked about until it is settled."""
        self.head = QueueHead(ledger)
        self.candidates = preemption_candidates.PreemptionCandidates(ledger)
        self.preemption = PreemptionPolicy(ledger)
        self._ledger = ledger
        self._masks = masks
        self._shapes = Shapes()
        self._pass = Pass()
        self._snapshot: Snapshot | None = None
        self._due = float("inf")
        self._only_time = False
        self._needy: GangRecord | None = None
        """Was just told to wait: next it is asked how room could be made for it."""

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._ledger.policy

    def snapshot(self) -> Snapshot:
        if self._snapshot is None or self._snapshot.generation != self._ledger.nodes.generation:
            self._snapshot = self._ledger.snapshot()
        return self._snapshot

    # ── who is next ─────────────────────────────────────────────────────────────────────────────────────

    def ask(self, now: float) -> Question | None:
        """The next gang of the queue to decide about; None: the pass is over, or no answer would be taken now."""
        while self.away is None and self._ledger.ready and (record := self._next(now)) is not None:
            # One that cannot be asked about leaves the queue.
            with fault_isolation.guard(self._ledger, record.key, now):
                if record.wanted is None:
                    return None
                if record is not self._needy:
                    return self.about(record, record.wanted, now)
                first, only_time = self.head.is_first(record), self._only_time
                return self.about_room(record, record.wanted, now, front=first, only_time=only_time)
        return None

    def _next(self, now: float) -> GangRecord | None:
        """The next gang that is worth a question."""
        pending = self._ledger.pending
        # 1. Places in the queue that change by themselves. Where nothing waits, the next pass begins at the head.
        pending.reorder(now)
        if not pending:
            self._pass, self._due = Pass(), float("inf")
            self._needy, self._only_time = None, False
            return self.head.first()  # none, and so no room is reserved any more
        # 2. The gang that was just told to wait: how could it have room?
        needy = self._needy
        if needy is not None and waits(needy) and pending.has(needy):
            return needy
        self._needy, self._only_time = None, False
        # 3. The first that waits, whatever the pass has come to.
        first = self.head.first()
        candidacy = self._candidacy(first, now)
        if first is not None and any(candidacy.open((first,))):
            return first
        # 4. The next open gang of the pass. `room_version` is set back only in the step that raised it, so while the sum
        # is the same neither counter has changed.
        changes = self._ledger.nodes.room_version + self._ledger.victims_version
        if self._due <= now:
            self._pass.doubt()  # time alone may have opened a gang
        record = self._pass.next(pending, changes, candidacy.under, candidacy.first_open)
        # 5. At its end: when time alone will open a gang.
        if record is None and self._due <= now:
            later = (other.verdict.until for other in pending.queue())
            self._due = min((time for time in later if time > now), default=float("inf"))
        return record

    def next_deadline(self) -> float:
        """When time alone makes an answer worth asking for again, at the latest."""
        return self._due

    def again(self) -> None:
        """Ask from the head once more, whatever changed."""
        self._pass.again()

    def _may_try(self, record: GangRecord, now: float) -> bool:
        """A pod that was not asked about yet may give way to this gang. Where not, it is not looked at again."""
        if waits(record) and self._may_still_take(record, now):
            return True
        record.verdict.tried(self._ledger.victims_version)
        return False

    def _candidacy(self, first: GangRecord | None, now: float) -> Candidacy:
        """What holds for all gangs in this step of the pass."""
        ledger, head = self._ledger, self.head
        fence, order = head.fence()
        told, _ = self._answers(0)
        told_behind, told_short = self._answers(fence) if fence else (told, told)
        return Candidacy(
            now=now,
            only=head.strictly_first(now),
            first=first,
            fence=fence,
            order=order,
            spare=head.spare(now),
            above=self.preemption.above,
            room=ledger.nodes.room_version,
            version=ledger.nodes.version,
            victims_version=ledger.victims_version,
            told=told,
            told_behind=told_behind,
            told_short=told_short,
            sizes=self._shapes.sizes,
            highest=ledger.highest,
            longest=head.longest,
            may_try=self._may_try,
            mark=ledger.mark_told,
            has_turn=self._pass.rounds.has_turn,
            before=ledger.pending.serial.before,
        )

    def may_make_room(self, record: GangRecord, gang: Gang, now: float) -> bool:
        """Were this gang told to wait for room, it would be asked how it could have some."""
        keeps = self.policy.backfill is Backfill.RESERVE and self.head.comes_first(record)
        return gang.quorum > 0 and (keeps or self.preemption.may_take(record, gang, now) is not None)

    def is_held_up(self, record: GangRecord, now: float) -> bool:
        """It is not asked about, because the order is strict and a gang is before it."""
        first = self.head.strictly_first(now)
        return first is not None and first.order < record.order

    # ── the question ────────────────────────────────────────────────────────────────────────────────────

    def about(self, record: GangRecord, gang: Gang, now: float) -> Question:
        """Where does this gang go now?"""
        ledger = self._ledger
        # A gang that waits for room is asked about even so: its reservation stands as long as there is none.
        told = self._over_ceiling(gang) or (None if waits(record) else self._behind(record))
        if told is not None:
            fence = self.head.fence_before(record)
            return Question(gang, self.snapshot(), {}, None, ledger.nodes.room_version, fence, told=told)
        version = ledger.nodes.version
        allowed = {
            uid: member.allowed
            for uid, member in record.members.items()
            if member.allowed is not None and member.allowed_version == version
        }
        alone = ledger.has_nomination(record.members)
        snapshot = ledger.snapshot(but=record.members) if alone else self.snapshot()
        shape = None if allowed or alone else self._shapes.number(gang, len(ledger.pending))
        fence, short, kept, held_for = self.head.fence_before(record), False, None, None
        if fence and self.head.reserved is not None:
            held_for = self.head.reserved.key
            short = self.head.is_short(record, now)
            if not short:
                kept, snapshot = snapshot.free, reservation.beside(snapshot, self.head.reserved, None)
        usage = ledger.share_usage.below(gang.key.namespace)
        return Question(
            gang, snapshot, allowed, shape, ledger.nodes.room_version, fence, short, kept, held_for, usage
        )

    def about_room(
        self,
        record: GangRecord,
        gang: Gang,
        now: float,
        *,
        front: bool,
        only_time: bool = False,
        whole: bool = False,
    ) -> Question:
        """How could this gang have room?

        front: it is the first that waits.  Victims are asked for first, and time (`only_time`) when there are none;
        `whole`: both at once.
        """
        asked = self.about(record, gang, now)
        snapshot = asked.snapshot
        may_take = None if only_time else self.preemption.may_take(record, gang, now)
        units: tuple[Unit, ...] = ()
        terms = FREELY
        if may_take is not None:
            units, terms = self.preemption.terms(self.candidates.units(snapshot, may_take, now), gang)
        if units and asked.kept is not None and self.head.reserved is not None:
            units = self.candidates.staying(units, snapshot, self.head.reserved.start, now)
        in_time = front and self.policy.backfill is Backfill.RESERVE and (whole or not units)
        making = WaitingForPreemption(
            units=units,
            leaving=self.candidates.leaving(snapshot, now) if front else (),
            stays=self.candidates.stays(snapshot, now) if in_time else None,
            now=now,
            terms=terms,
        )
        return replace(asked, making=making)

    def _over_ceiling(self, gang: Gang) -> Wait | None:
        """The answer to a gang whose quorum would take its namespace above its ceiling; None: it stays below."""
        over = self._ledger.share_usage.over_ceiling(gang) if self._ledger.share_usage.shares else None
        return None if over is None else Wait(Reason.QUOTA_EXCEEDED, ceiling=Ceiling(*over))

    def _behind(self, record: GangRecord) -> Wait | None:
        """The answer to a gang that lets another one pass; None: it lets none."""
        first = self._ledger.pending.serial.before(record)
        return None if first is None else Wait(Reason.QUEUED, behind=first)

    # ── the answer ──────────────────────────────────────────────────────────────────────────────────────

    def answer(self, question: Question) -> Answer | Fault:
        """The planner's answer, or the one it gave to an equal question about equal room."""
        known = None
        if question.shape is not None and question.making is None:
            known = self._answers(question.fence)[question.short].alike.get(question.shape)
        return known or attempt(question, self.policy, self._masks)

    def _answers(self, fence: int) -> tuple[KnownAnswers, KnownAnswers]:
        """What was answered, for as long as there is no more room than there was: not short of the fence, and short."""
        nodes = self._ledger.nodes
        return self._shapes.answers((nodes.room_version, nodes.version), fence)

    def settle(self, question: Question, answer: Answer | Fault, now: float) -> list[Effect]:
        """Take the planner's answer, which may have been made elsewhere and be stale by now.

        Only now it is forgotten which gang needs room: the caller may find the question too large to answer, and drop it.
        """
        self.away, self._needy, self._only_time = None, None, False
        key = question.gang.key
        if isinstance(answer, Fault):
            fault_isolation.broke(self._ledger, key, answer.error, now)
            return []
        try:
            return self._taken(question, answer, now)
        except Exception as error:  # noqa: BLE001 - whatever it was, the others are asked about
            fault_isolation.broke(self._ledger, key, error, now)
            return []

    def _taken(self, question: Question, answer: Answer, now: float) -> list[Effect]:
        if isinstance(answer, Place | Preempt):
            # It may not have the place any more: its ceiling may be lower by now, or another gang goes first.
            record = self._ledger.registry.gangs.get(question.gang.key)
            over = self._over_ceiling(question.gang)
            not_now = over or (None if record is None else self._behind(record))
            if not_now is not None:
                return self._settle_seat(question, not_now, now)
        if question.making is not None:
            return self._settle_room(question, answer, now)
        return [] if isinstance(answer, Preempt | Reservation) else self._settle_seat(question, answer, now)

    def _settle_seat(self, question: Question, decision: Decision, now: float) -> list[Effect]:
        ledger = self._ledger
        fresh = question.snapshot.generation == ledger.nodes.generation
        usage = ledger.share_usage.below(question.gang.key.namespace)
        decision = below_ceiling(usage, question.gang, decision)  # it may use more by now
        self._learn(question, decision, fresh=fresh)
        event = Decided(
            question.gang,
            decision,
            question.snapshot.generation,
            question.room,
            question.fence,
            question.shape,
            question.short,
        )
        effects = ledger.handle([event], now)
        record = ledger.registry.gangs.get(question.gang.key)
        if record is None or not waits(record):
            self._sat_down(question, decision, record)
        elif fresh or record.verdict.room == ledger.nodes.room_version:
            self.head.told_to_wait(record)
            if self.head.is_due(record, now) or self._may_still_take(record, now):
                self._needy = record
            # When time alone may bring it room: it may ask others to leave then, or its reservation is due again.
            turn, due_again = self.preemption.next_turn(record, now), self.head.due_again(record, now)
            self._ask_by(record, min(turn, due_again))
        return effects

    def _learn(self, question: Question, decision: Decision, *, fresh: bool) -> None:
        """Remember what this answer says of other gangs, and that the gang's namespace has had one of its turns."""
        record, shape = self._ledger.registry.gangs.get(question.gang.key), question.shape
        told = self._answers(question.fence)[question.short]
        known = shape is not None and told.alike.get(shape) is decision
        if record is None or isinstance(decision, Place) or question.told is not None or known:
            return
        self._pass.rounds.refused(record)
        of_all = isinstance(decision, Wait) and decision.ceiling is None and decision.behind is None
        if shape is None or not fresh or not isinstance(decision, Wait) or not of_all:
            return
        told.alike[shape] = decision
        size = self._shapes.sizes.get(shape)
        if size is not None and decision.reason in BLOCKED:
            told.refused.add(size, decision)
            self._ask_for_the_least(question, record, size.kind, told.refused)

    def _ask_for_the_least(self, question: Question, record: GangRecord, kind: int, refused: Refused) -> None:
        """Where even the least that any of those behind needs is refused, none of them need be asked about."""
        pending, sizes = self._ledger.pending, self._shapes.sizes
        reach = min(refused.reach(kind), len(pending))
        shapes = {other.verdict.shape for other in islice(pending.behind(record), reach)}
        near = (sizes.get(shape) for shape in shapes if shape is not None)
        refused.ask_for_the_least(kind, reach, near, lambda least: self._refusal(question, least))

    def _refusal(self, question: Question, least: Amounts) -> Wait | None:
        """The answer, where it is that there is no room; None: it is another, or takes too long to find out."""
        asked = replace(question, gang=shrunk(question.gang, least))
        answer = attempt(asked, self.policy, self._masks) if asked.size <= INLINE_LIMIT else None
        return answer if isinstance(answer, Wait) and answer.reason in BLOCKED else None

    def _sat_down(self, question: Question, decision: Decision, record: GangRecord | None) -> None:
        """A gang that is seated beside the reservation and outlasts its start takes some of the room that is left."""
        if question.short or not question.fence or not isinstance(decision, Place):
            return
        if record is not None and record.plan is not None and record.plan.seats == decision.seats:
            self.head.narrow(question.gang, decision, self.snapshot())

    def _may_still_take(self, record: GangRecord, now: float) -> bool:
        """It may ask others to leave, and that was not in vain for a gang that is like it and may do what it may."""
        kind = self._kind(record, now)
        return (kind is None or kind not in self._hopeless()) and self._may_take(record, now)

    def _hopeless(self) -> set[Hashable]:
        nodes = self._ledger.nodes
        return self._shapes.no_room((nodes.room_version, nodes.version, self._ledger.victims_version))

    def _kind(self, record: GangRecord, now: float) -> Hashable:
        """Gangs of one kind may ask the same others to leave, and fit in the same places; None: this one is like no
        other.
        """
        if record.verdict.shape is None or record.preemption.spared:
            return None
        answered = (record.verdict.shape, record.verdict.fence, record.verdict.short)
        return *answered, record.key.namespace, self.preemption.by_time(record, now)

    def _may_take(self, record: GangRecord, now: float) -> bool:
        return record.wanted is not None and self.preemption.may_take(record, record.wanted, now) is not None

    def _ask_by(self, record: GangRecord, time: float) -> None:
        record.verdict.ask_by(time)
        self._ledger.pending.touch(record)
        self._due = min(self._due, time)

    def _settle_room(self, question: Question, answer: Answer, now: float) -> list[Effect]:
        record = self._ledger.registry.gangs.get(question.gang.key)
        if isinstance(answer, Preempt):
            chosen = VictimsChosen(question.gang, answer, question.snapshot.generation)
            effects = self._ledger.handle([chosen], now)
            self._sat_down(question, Place(answer.seats), record)
            return effects
        if isinstance(answer, Reservation):
            self.head.reserve(answer, question.snapshot.nodes_version, now)
            if record is not None:
                self._ask_by(record, min(record.verdict.until, max(answer.start, now + RESERVE_EVERY)))
        elif record is not None and question.making is not None and question.making.stays is None:
            self._pass.rounds.refused(record)
            kind = self._kind(record, now)
            if kind is not None and record.verdict.shape == question.shape and self._may_take(record, now):
                self._hopeless().add(kind)
            self._needy, self._only_time = (record, True) if self.head.is_due(record, now) else (None, False)
        return []
