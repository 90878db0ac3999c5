"""Which gang is planned next, in which snapshot, and how the answer is applied. Never here: the answer (planning).

A pass goes from the head of the queue to its end. When the queue or free capacity changes during a pass, the head is
planned again before the pass continues, so no younger gang overtakes a gang that now fits. This happens at most
`scheduling_queue.HEAD` times a step, so gangs at the head that never fit cannot block the rest. A pass is bounded even
for many distinct shapes (`equivalence`, `scheduling_queue.PassRounds`).
"""

from collections.abc import Hashable
from dataclasses import replace
from itertools import islice
from typing import Final

from scheduler.engine import preemption_candidates
from scheduler.engine.equivalence import Amounts, Candidacy, Refused, Shapes, shrunk
from scheduler.engine.head import RESERVE_EVERY, QueueHead, waits
from scheduler.engine.planning import Answer, Fault, Question, WaitingForPreemption, attempt, below_ceiling
from scheduler.engine.preemption_candidates import BLOCKED
from scheduler.engine.preemption_policy import PreemptionPolicy
from scheduler.engine.scheduling_queue import Pass
from scheduler.engine.standing import Standing
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
from scheduler.placement.feasibility import FeasibilityCache

INLINE_LIMIT: Final = 400_000
"""Members × nodes up to which an extender call answers a question itself: about 5 ms. Larger ones are left to the
planning pass, which may run outside the event loop."""


class PlanningCycle:
    """Plans the queue gang by gang, in cycles of four steps.

    1. `ask`: the next gang of the queue whose answer could differ from its last one.
    2. `about`, `about_room`: the question, about one snapshot without what is reserved for the head of the queue.
    3. `answer`: seats, victims, a reservation, or why the gang waits. Any thread may compute it.
    4. `settle`: the ledger takes the answer, it is cached for gangs of the same shape, and effects go out.
    """

    def __init__(self, ledger: Ledger, masks: FeasibilityCache) -> None:
        self.away: Question | None = None
        """A question that another thread is answering. No gang is asked about until it is settled."""
        self.head = QueueHead(ledger)
        self.candidates = preemption_candidates.PreemptionCandidates(ledger)
        self.preemption = PreemptionPolicy(ledger)
        self._ledger = ledger
        self._masks = masks
        self._shapes = Shapes()
        self._pass = Pass()
        self._snapshot: Snapshot | None = None
        self.standing = Standing(ledger, self._shapes, self.head, self.snapshot, masks)
        self._due = float("inf")
        self._only_time = False
        self._needy: GangRecord | None = None
        """It just got the answer to wait. The next question is how to free capacity for it."""

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._ledger.policy

    def snapshot(self) -> Snapshot:
        if self._snapshot is None or self._snapshot.generation != self._ledger.nodes.generation:
            self._snapshot = self._ledger.snapshot()
        return self._snapshot

    # ── the next gang ───────────────────────────────────────────────────────────────────────────────────

    def ask(self, now: float) -> Question | None:
        """The question about the next gang of the queue. None: the pass is over, or no answer can be taken now."""
        while self.away is None and self._ledger.ready and (record := self._next(now)) is not None:
            # A gang that raises an error here leaves the queue.
            with fault_isolation.Guard(self._ledger, record.key, now):
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
        # 1. Apply changes of order that time alone causes. If the queue is empty, the next pass begins at the head.
        pending.reorder(now)
        if not pending:
            self._pass, self._due = Pass(), float("inf")
            self._needy, self._only_time = None, False
            return self.head.first()  # None, which also drops the reservation
        # 2. The gang that just got the answer to wait: how could capacity be freed for it?
        needy = self._needy
        if needy is not None and waits(needy) and pending.has(needy):
            return needy
        self._needy, self._only_time = None, False
        # 3. The first gang that waits, at any position of the pass.
        first = self.head.first()
        candidacy = self._candidacy(first, now)
        if first is not None and any(candidacy.open((first,))):
            return first
        # 4. The next open gang of the pass. `room_version` decreases only in the step that increased it, so an equal
        # sum means that neither counter has changed.
        changes = self._ledger.nodes.room_version + self._ledger.victims_version
        if self._due <= now:
            self._pass.doubt()  # time alone may have made a gang open
        record = self._pass.next(pending, changes, candidacy.under, candidacy.first_open)
        # 5. At the end of the pass: when time alone next makes a gang open.
        if record is None and self._due <= now:
            later = (other.verdict.until for other in pending.queue())
            self._due = min((time for time in later if time > now), default=float("inf"))
        return record

    def next_deadline(self) -> float:
        """When to ask again, at the latest, because time alone may change an answer."""
        return self._due

    def again(self) -> None:
        """Start once more at the head, even if nothing changed."""
        self._pass.again()

    def _may_try(self, record: GangRecord, now: float) -> bool:
        """This gang may preempt a pod that was not considered yet. If not, that is recorded and not checked again."""
        if waits(record) and self._may_still_take(record, now):
            return True
        record.verdict.tried(self._ledger.victims_version)
        return False

    def _candidacy(self, first: GangRecord | None, now: float) -> Candidacy:
        """The values that are the same for all gangs in this step of the pass."""
        ledger, head = self._ledger, self.head
        fence, order = head.fence()
        told, _ = self.standing.told(0)
        told_behind, told_short = self.standing.told(fence) if fence else (told, told)
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
            is_over=ledger.share_usage.is_over_ceiling if ledger.share_usage.shares else None,
        )

    def may_make_room(self, record: GangRecord, gang: Gang, now: float) -> bool:
        """If this gang got the answer to wait for capacity, the next question would be how to free some for it."""
        keeps = self.policy.backfill is Backfill.RESERVE and self.head.comes_first(record)
        return gang.quorum > 0 and (keeps or self.preemption.may_take(record, gang, now) is not None)

    def is_held_up(self, record: GangRecord, now: float) -> bool:
        """It is not asked about, because the order is strict and another gang ranks ahead of it."""
        first = self.head.strictly_first(now)
        return first is not None and first.order < record.order

    # ── the question ────────────────────────────────────────────────────────────────────────────────────

    def about(self, record: GangRecord, gang: Gang, now: float) -> Question:
        """Where does this gang go now?"""
        ledger = self._ledger
        # A gang that waits for capacity is still asked about: its reservation is kept while nothing fits.
        told, fence = self._over_ceiling(gang), self.head.fence_before(record)
        told = told or (None if waits(record) else self._behind(record))
        if told is not None:
            return Question(gang, self.snapshot(), {}, None, ledger.nodes.room_version, fence, told=told)
        allowed = {
            uid: member.allowed
            for uid, member in record.members.items()
            if member.allowed is not None and member.allowed_version == ledger.nodes.version
        }
        alone = ledger.has_nomination(record.members)
        snapshot = ledger.snapshot(but=record.members) if alone else self.snapshot()
        shape = None if allowed or alone else self._shapes.number(gang, len(ledger.pending))
        short, kept, held_for = False, None, None
        if fence and self.head.reserved is not None:
            held_for = self.head.reserved.key
            short = self.head.is_short(record, now)
            if not short:
                kept, snapshot = snapshot.free, self.standing.beside(snapshot, self.head.reserved)
        usage = ledger.share_usage.below(gang.key.namespace)
        snapshot = ledger.neighbors.picture(snapshot, (gang,))
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
        """How could capacity be freed for this gang?

        front: it is the first gang that waits.  Victims are tried first, then time alone (`only_time`) if none exist.
        whole: both at once.
        """
        asked = self.about(record, gang, now)
        snapshot, wide = asked.snapshot, self.candidates.widened
        may_take = None if only_time else self.preemption.may_take(record, gang, now)
        units: tuple[Unit, ...] = ()
        terms = FREELY
        if may_take is not None:
            units, terms = self.preemption.terms(self.candidates.units(may_take, now), gang)
        if units and asked.kept is not None and self.head.reserved is not None:
            units = self.candidates.staying(units, self.head.reserved.start, now)
        in_time = front and self.policy.backfill is Backfill.RESERVE and (whole or not units)
        making = WaitingForPreemption(
            units=wide(snapshot, units),
            leaving=wide(snapshot, self.candidates.leaving(now)) if front else (),
            stays=self.candidates.running(snapshot, now) if in_time else None,
            now=now,
            terms=terms,
        )
        return replace(asked, making=making)

    def _over_ceiling(self, gang: Gang) -> Wait | None:
        """The answer if the quorum would take the namespace above its ceiling. None: it stays below."""
        over = self._ledger.share_usage.over_ceiling(gang)
        return None if over is None else Wait(Reason.QUOTA_EXCEEDED, ceiling=Ceiling(*over))

    def _behind(self, record: GangRecord) -> Wait | None:
        """The answer if the gang waits for another one to go first. None: it does not."""
        first = self._ledger.pending.serial.before(record)
        return None if first is None else Wait(Reason.QUEUED, behind=first)

    # ── the answer ──────────────────────────────────────────────────────────────────────────────────────

    def is_quick(self, question: Question) -> bool:
        """The event loop may answer it."""
        return question.size <= INLINE_LIMIT or self.standing.known(question) is not None

    def answer(self, question: Question) -> Answer | Fault:
        """The planner's answer, or its cached answer to an equal question about equal free capacity."""
        return self.standing.known(question) or attempt(question, self.policy, self._masks)

    def settle(self, question: Question, answer: Answer | Fault, now: float) -> list[Effect]:
        """Apply the planner's answer. It may come from another thread and be stale.

        `_needy` is reset only here, because the caller may find the question too large to answer and drop it.
        """
        self.away, self._needy, self._only_time = None, None, False
        try:
            if not isinstance(answer, Fault):
                return self._taken(question, answer, now)
            error = answer.error
        except Exception as caught:  # noqa: BLE001 - any error affects only this gang
            error = caught
        fault_isolation.broke(self._ledger, question.gang.key, error, now)
        return []

    def _taken(self, question: Question, answer: Answer, now: float) -> list[Effect]:
        if isinstance(answer, Place | Preempt):
            if self._ledger.neighbors.is_stale(question.snapshot):  # its seats may break a rule by now
                self._ledger.pending.ask_again()
                return []
            # It may have lost its claim: its ceiling may be lower now, or another gang goes first.
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
        decision = below_ceiling(usage, question.gang, decision)  # the namespace may use more by now
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
            # When time alone may help: the gang may preempt then, or its reservation is due again.
            turn, due_again = self.preemption.next_turn(record, now), self.head.due_again(record, now)
            self._ask_by(record, min(turn, due_again))
        return effects

    def _learn(self, question: Question, decision: Decision, *, fresh: bool) -> None:
        """Cache what this answer means for other gangs, and count it against the turns of the gang's namespace."""
        record, shape = self._ledger.registry.gangs.get(question.gang.key), question.shape
        told = self.standing.told(question.fence)[question.short]
        known = shape is not None and told.alike.get(shape) is decision
        if record is None or isinstance(decision, Place) or question.told is not None or known:
            return
        self._pass.rounds.refused(record)
        of_all = isinstance(decision, Wait) and decision.ceiling is None and decision.behind is None
        if shape is None or not fresh or not isinstance(decision, Wait) or not of_all:
            return
        told.alike[shape] = decision
        if decision.reason not in BLOCKED:
            return
        self.standing.learn(question, shape, decision)
        size = self._shapes.sizes.get(shape)
        if size is not None:
            told.refused.add(size, decision)
            self._ask_for_the_least(question, record, size.kind, told.refused)

    def _ask_for_the_least(self, question: Question, record: GangRecord, kind: int, refused: Refused) -> None:
        """If even the least that the gangs behind need is rejected, none of them has to be asked about."""
        pending, sizes = self._ledger.pending, self._shapes.sizes
        reach = min(refused.reach(kind), len(pending))
        shapes = {other.verdict.shape for other in islice(pending.behind(record), reach)}
        near = (sizes.get(shape) for shape in shapes if shape is not None)
        refused.ask_for_the_least(kind, reach, near, lambda least: self._refusal(question, least))

    def _refusal(self, question: Question, least: Amounts) -> Wait | None:
        """The answer, if it is that nothing fits. None: it differs, or takes too long to compute."""
        asked = replace(question, gang=shrunk(question.gang, least))
        answer = attempt(asked, self.policy, self._masks) if asked.size <= INLINE_LIMIT else None
        return answer if isinstance(answer, Wait) and answer.reason in BLOCKED else None

    def _sat_down(self, question: Question, decision: Decision, record: GangRecord | None) -> None:
        """A gang that is seated beside the reservation and outlasts its start uses some of the capacity left then."""
        if question.short or not question.fence or not isinstance(decision, Place):
            return
        if record is not None and record.plan is not None and record.plan.seats == decision.seats:
            self.head.narrow(question.gang, decision, self.snapshot())

    def _may_still_take(self, record: GangRecord, now: float) -> bool:
        """It may preempt, and that did not fail before for a gang of the same kind."""
        kind = self._kind(record, now)
        return (kind is None or kind not in self._hopeless()) and self._may_take(record, now)

    def _hopeless(self) -> set[Hashable]:
        nodes = self._ledger.nodes
        return self._shapes.no_room((nodes.room_version, nodes.version, self._ledger.victims_version))

    def _kind(self, record: GangRecord, now: float) -> Hashable:
        """Gangs of one kind may preempt the same pods and fit the same places. None: this gang is unlike all others."""
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
