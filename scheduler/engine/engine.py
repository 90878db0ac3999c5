"""The entry point of the engine: facts, plans and kube-scheduler's extender calls, each one synchronous step.

This package contains no await, so on one event loop every step is atomic and no locks are needed. The service, the
tests and the simulator drive the same object. Only their clocks differ.

A filter call runs in numbered steps: is the pod managed by Gangwright, is its seat known, and only then a decision.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from scheduler.engine import defragmentation, explanation
from scheduler.engine.cycle import PlanningCycle
from scheduler.engine.defragmentation import MoveSearch
from scheduler.engine.drain import NodeDrain
from scheduler.engine.dry_run import Sketch, Trial, sketch, trial
from scheduler.engine.head import waits
from scheduler.engine.planning import Answer as Made
from scheduler.engine.planning import Fault, Question
from scheduler.engine.preempt_verb import PreemptVerb
from scheduler.engine.queue_order import QueueOrder
from scheduler.ledger import Ledger, conditions, fault_isolation, gang_spec
from scheduler.ledger.gang import GangRecord, Member, Spec, Step
from scheduler.model.cluster import PRODUCTS, Mask, Snapshot
from scheduler.model.decision import Reason, Wait
from scheduler.model.demand import Demand
from scheduler.model.departures import Defrag, Drain
from scheduler.model.effects import Effect
from scheduler.model.events import Asked, Event, MoveFound, Scored
from scheduler.model.policy import Policy
from scheduler.model.verbs import (
    MAX_SCORE,
    Allowed,
    Answer,
    Failed,
    FilterCall,
    PreemptCall,
    PrioritizeCall,
    Refused,
    Victims,
)
from scheduler.model.workload import GangKey, Pod, Uid
from scheduler.placement import planner
from scheduler.placement.feasibility import FeasibilityCache, free_for

INLINE_QUESTIONS: Final = 8
"""Questions that one extender call answers at most. Pods behind more questions wait for the planning pass."""

INLINE_PODS: Final = 1_000
"""Managed pods up to which an extender call finds those that a gang may preempt, in 10 milliseconds. With more, the planning
pass does, in portions."""

SCORES_KEPT: Final = 256
"""The number of pods with scores cached between Filter and Prioritize, which follow each other immediately."""

DEMANDS_SHOWN: Final = 32
"""The number of distinct demands that the fragmentation metric covers."""


class Engine:
    """Takes events and extender calls, and returns effects and answers."""

    def __init__(self, policy: Policy) -> None:
        self.ledger = Ledger(policy, lambda cache: QueueOrder(cache, self.snapshot))
        self._masks = FeasibilityCache()
        self._scores: OrderedDict[Uid, Mapping[str, int]] = OrderedDict()
        self.cycle = PlanningCycle(self.ledger, self._masks)
        self.forecasts = explanation.Forecasts()
        self._version = -1
        """The version of the nodes in the last snapshot that was prepared."""

    @cached_property
    def _draining(self) -> NodeDrain:
        return NodeDrain(self.ledger, self._masks)

    @cached_property
    def _preempting(self) -> PreemptVerb:
        return PreemptVerb(self.ledger, self._masks)

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.ledger.policy

    @property
    def away(self) -> Question | None:
        """A question that another thread is answering. No gang is asked about until it is settled."""
        return self.cycle.away

    @away.setter
    def away(self, question: Question | None) -> None:
        self.cycle.away = question

    # ── facts ───────────────────────────────────────────────────────────────────────────────────────────

    def observe(self, events: Iterable[Event], now: float) -> list[Effect]:
        """Process these events, and return the effects to carry out."""
        return self.ledger.handle(events, now)

    def review(self, now: float, most: float) -> list[Effect]:
        """Reconcile affected gangs with so many members, as `Ledger.settle` does, and note when they end."""
        effects = self.ledger.settle(now, most)
        if self.ledger.ready:
            with fault_isolation.Guard(self.ledger, None, now):  # the effects count whatever happens here
                self.cycle.candidates.follow()
        return effects

    def snapshot(self) -> Snapshot:
        """A snapshot of the cluster now. It is the same object until something changes."""
        return self.cycle.snapshot()

    def demands_seen(self) -> list[Demand]:
        """The distinct demands of the known gangs, at most DEMANDS_SHOWN, those with the most members first."""
        return [demand for demand, _ in self.ledger.demands().most_common(DEMANDS_SHOWN)]

    def next_deadline(self) -> float:
        """When time alone calls for a Tick, or may change an answer. Infinity: never."""
        return min(self.ledger.next_deadline(), self.cycle.next_deadline())

    # ── plans ───────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self, now: float) -> Iterator[None]:
        """What the next question needs, in portions of some milliseconds. What changes meanwhile is left to `ask`."""
        # 1. After a change of nodes, the columns.
        if self._version != self.ledger.nodes.version:
            snapshot = self.snapshot()
            self._version = snapshot.nodes_version
            for label in PRODUCTS:
                yield
                snapshot.labels.get(label)  # reads it from every node, if nothing did before
            yield
        # 2. After a change of free capacity, the answers that are known.
        yield from self.cycle.standing.prepare()
        # 3. For a gang that may preempt, the running pods.
        yield from self.cycle.candidates.release()
        record = None if self.cycle.only_time else self.cycle.needy
        if record is not None and record.wanted is not None and waits(record):
            with fault_isolation.Guard(self.ledger, record.key, now):
                may_take = self.cycle.preemption.may_take(record, record.wanted, now)
                if may_take is not None:
                    yield from self.cycle.candidates.gather(may_take, now, record.wanted)

    def ask(self, now: float) -> Question | None:
        """The next question with a useful answer. None: the pass is over. The next call then begins the next pass, with
        the gangs that this one set aside. None twice in a row: all gangs have been asked about.
        """
        return self.cycle.ask(now)

    def questions(self, now: float) -> Iterator[Question]:
        """The questions of pass after pass, until none is left. Settle each one before you take the next."""
        while (question := self.ask(now) or self.ask(now)) is not None:
            yield question

    def is_quick(self, question: Question) -> bool:
        """The event loop may answer it: it is small, or its answer is known. Otherwise a thread should."""
        return self.cycle.is_quick(question)

    def answer(self, question: Question) -> Made | Fault:
        """The planner's answer, or its cached answer to an equal question about equal free capacity."""
        return self.cycle.answer(question)

    def settle(self, question: Question, answer: Made | Fault, now: float) -> list[Effect]:
        """Apply the planner's answer. It may come from another thread and be stale."""
        effects = self.cycle.settle(question, answer, now)
        if isinstance(answer, Wait) and answer.reason is Reason.TOPOLOGY_UNSATISFIED:
            effects += self._draining.mend(question.gang.key, now)
        return effects

    def plan(self, now: float) -> list[Effect]:
        """Plan all waiting gangs."""
        effects: list[Effect] = []
        for question in self.questions(now):
            effects += self.settle(question, self.answer(question), now)
        return effects

    def outlook(self, now: float, longest: int = explanation.LONGEST) -> explanation.ForecastRequest:
        """The input for a forecast of the first gangs of the queue. Any thread may run `explanation.foresee` on it."""
        return explanation.outlook(self.ledger, self.cycle.candidates, self.snapshot(), now, longest)

    def still_to_start(self) -> set[GangKey]:
        """Gangs whose first start is not complete, or not counted yet. A gang that starts while a forecast is computed
        may get a start time, which must not be compared with a later start.
        """
        ledger = self.ledger
        waiting = {key for key, record in ledger.registry.gangs.items() if record.waiting_since is not None}
        return waiting | {key for key, _ in ledger.counters.starts}

    def sketch(self, pods: Sequence[Pod]) -> Sketch:
        """A sketch of the gang that these pods would form. `Sketch.form` creates the gang, on any thread."""
        return sketch(self.ledger, pods)

    def trial(self, sketched: Sketch, now: float) -> Trial:
        """The questions to ask if these pods were created now. `planning.decide` answers them."""
        return trial(self.ledger, self.cycle, sketched, now)

    def prepare_inquiry(self, key: GangKey, now: float) -> Iterator[None]:
        """What `inquire` needs, in portions."""
        return explanation.prepare(self.ledger, self.cycle, key, now)

    def inquire(self, key: GangKey, now: float) -> explanation.Explanation | None:
        """The question how near a waiting gang is to a fit, and which pods that would cost. None: it waits for nothing."""
        return explanation.inquire(self.ledger, self.cycle, key, now)

    # ── moves ───────────────────────────────────────────────────────────────────────────────────────────

    def drain(self, node: str, now: float) -> tuple[Drain, list[Effect]]:
        """Begin to move all gangs away from a node, onto seats that are found and held first. Cordon the node before.

        Repeat the call until no managed pod is left on the node. The answer lists the moves in progress, and the pods
        that stay with the reason.
        """
        return self._draining.drain(node, now)

    def defrag(self, key: GangKey) -> Defrag:
        """Moves of smaller gangs and single pods that would free capacity for this gang. Nothing is moved."""
        found = self.move_search(key)
        return found if isinstance(found, Defrag) else found.answer(self.policy, self._masks)

    def move_search(self, key: GangKey) -> MoveSearch | Defrag:
        """The same as a question that any thread may answer, or the reason why no question can be asked."""
        return defragmentation.search(self.ledger, key)

    def first_waiting(self) -> GangKey | None:
        """The first gang of the queue that waits for capacity."""
        return next((record.key for record in self.ledger.pending.queue() if waits(record)), None)

    def make_moves(self, found: Defrag, now: float) -> tuple[bool, list[Effect]]:
        """Begin the found moves if they are still valid. False: they are not, and nothing is moved.

        The seats of the waiting gang are held like those of the moving gangs, so no other gang gets them meanwhile.
        """
        # Process pending events first: they may change which pods belong to which gang.
        effects = self.ledger.handle([], now)
        if not (self.ledger.ready and found.seats and defragmentation.still_holds(self.ledger, found)):
            return False, effects
        room = MoveFound(found.gang, found.seats, leaving=(), whole=False)
        return True, effects + self.ledger.handle([room, *found.moves], now)

    # ── filter ──────────────────────────────────────────────────────────────────────────────────────────

    def filter(self, call: FilterCall, now: float) -> tuple[Answer, list[Effect]]:
        """The candidates that the pod may go to, and the effects of the call."""
        # 1. Not managed by Gangwright: allow all candidates.
        if call.native_group or call.scheduler not in self.policy.scheduler_names:
            return Allowed(
                call.candidates, Reason.NATIVE_GROUP if call.native_group else Reason.OTHER_SCHEDULER
            ), []
        # 2. The cache does not have enough data for an answer.
        if not self.ledger.ready:
            return Failed(Reason.CACHE_NOT_SYNCED), []
        member = self.ledger.registry.member(call.uid)
        if member is None:
            return Failed(Reason.POD_NOT_CACHED), []
        # 3. The answer is already known: repeat it.
        if member.bound:
            return _only(member.pod.node, call, Reason.BOUND), []
        if not member.stays:
            return Refused(Reason.PIN_BROKEN if member.evicting else Reason.POD_DELETED), []
        if member.aside is not None:
            return Refused(member.aside.reason), []
        if self._is_freeing(call.uid):
            return Refused(Reason.WAITING_FOR_PREEMPTION), []
        if member.hold is not None and member.hold.until is None and member.hold.node in call.candidates:
            return Allowed((member.hold.node,), Reason.SEATED), []
        if self.ledger.reviewing:
            return Failed(Reason.CACHE_NOT_SYNCED), []
        if member.tied is not None:
            return self._tied(member, member.tied, call, now)
        if member.pod.gated:  # kube-scheduler sees it ungated, so the cache is stale and will soon catch up
            return Refused(Reason.GATED), []
        # 4. kube-scheduler tries the nominated node alone first: this list does not show all nodes that it allows.
        if (
            len(call.candidates) == 1
            and call.candidates[0] == member.pod.nominated
            and member.hold is not None
            and member.hold.until is None
        ):
            return Refused(Reason.NODE_EXCLUDED), []
        # 5. The side road: queue the pod, and decide immediately if that is fast.
        return self._beside(member, call, now)

    def _is_freeing(self, uid: Uid) -> bool:
        """Other pods have to terminate before all seats of its gang are free. Some may be free already."""
        plan = self.ledger.registry.gangs[self.ledger.registry.gang_of[uid]].plan
        return plan is not None and plan.step is Step.FREE and uid in plan.seats

    def _tied(self, member: Member, node: str, call: FilterCall, now: float) -> tuple[Answer, list[Effect]]:
        """A pinned pod without a held seat goes to its node only if no other pod got the capacity there."""
        if node not in call.candidates:
            return Refused(Reason.NODE_EXCLUDED), []
        again = member.hold is not None and member.hold.node == node
        if not again and not self.ledger.nodes.has_room(node, member.pod.demand):
            return Refused(Reason.NODE_RESERVED), []
        return Allowed((node,), Reason.SEATED), self.observe([Scored(call.uid, node)], now)

    def _beside(self, member: Member, call: FilterCall, now: float) -> tuple[Answer, list[Effect]]:
        effects = self.observe([], now)  # process pending events first: they may change the pod's gang
        before = member.hold.node if member.hold is not None and member.hold.until is not None else None
        allowed = self.snapshot().named(call.candidates)
        possible = self._possible(member, allowed)
        effects += self.observe([Asked(call.uid, possible, self.ledger.nodes.version)], now)
        record = self.ledger.registry.gangs[self.ledger.registry.gang_of[call.uid]]
        if before is not None and record.wanted is not None:
            again = self._score(
                self.cycle.about(record, record.wanted, now), call, allowed, now, effects, before
            )
            if again is not None:
                return again, effects
        alone = isinstance(record.spec, Spec) and gang_spec.is_gang_of_one(record.key)
        for _ in range(INLINE_QUESTIONS):
            if self.cycle.needy is not None and len(self.ledger.registry.gang_of) > INLINE_PODS:
                break
            if (question := self.ask(now)) is None or not self.is_quick(question):
                break
            if alone and question.making is None and question.gang.key == record.key:
                answer = self._score(question, call, allowed, now, effects)
                if answer is not None:
                    return answer, effects
            effects += self.settle(question, self.answer(question), now)
            if member.hold is not None:
                break
        self.cycle.again()
        if self._is_freeing(call.uid):
            return Refused(Reason.WAITING_FOR_PREEMPTION), effects
        if member.hold is not None and member.hold.node in call.candidates:
            return Allowed((member.hold.node,), Reason.SEATED), effects
        return Refused(member.aside.reason if member.aside is not None else _why(record)), effects

    def _score(
        self,
        question: Question,
        call: FilterCall,
        allowed: Mask,
        now: float,
        effects: list[Effect],
        before: str | None = None,
    ) -> Answer | None:
        """For an ungated gang of one: every candidate that fits. The best of them is held for a moment.

        In a repeated call the pod keeps the node held `before`, because it may be bound there already.
        """
        if question.told is not None:
            return None
        fits, scores = planner.rank(question.snapshot, question.gang, self.policy, allowed, self._masks)
        rows = np.flatnonzero(fits)
        if not len(rows):
            return None
        names = [question.snapshot.names[row] for row in rows]
        self._scores.pop(call.uid, None)  # evict the least recently asked first
        points = (round(MAX_SCORE * float(scores[row])) for row in rows)
        self._scores[call.uid] = dict(zip(names, points, strict=True))
        if len(self._scores) > SCORES_KEPT:
            self._scores.popitem(last=False)
        best = before if before in names else names[int(np.argmax(scores[rows]))]
        effects += self.observe([Scored(call.uid, best)], now)
        return Allowed(tuple(names), Reason.SCORED)

    def _possible(self, member: Member, offered: Mask) -> Mask:
        """bool[n]: the nodes offered, and the nodes that only lack free capacity, which may be freed later.

        kube-scheduler excludes the other nodes for reasons that Gangwright does not know. Freed capacity does not help.
        """
        picture = self.snapshot()
        needs = self.ledger.nodes.vector(member.pod.demand)
        free = free_for(picture, member.pod.priority)
        full = np.any((free < needs) & (needs > 0), axis=1)
        own = picture.index.get(member.hold.node) if member.hold is not None else None
        if own is not None:
            full[own] = False
        return np.logical_or(offered, full)

    # ── prioritize, preempt ─────────────────────────────────────────────────────────────────────────────

    def prioritize(self, call: PrioritizeCall) -> list[int]:
        """A score of 0 … 10 for every candidate, in order. 0 if no score is known."""
        scores = self._scores.get(call.uid, {})
        return [scores.get(name, 0) for name in call.candidates]

    def preempt(self, call: PreemptCall) -> Mapping[str, Victims]:
        """The candidates that remain, with their victims; see `preempt_verb`."""
        return self._preempting.answer(call)


def _only(node: str | None, call: FilterCall, reason: Reason) -> Answer:
    if node is not None and node in call.candidates:
        return Allowed((node,), reason)
    return Refused(Reason.NODE_EXCLUDED)


def _why(record: GangRecord) -> Reason:
    """The constant reason of a rejection: the gang's, or the last answer's if the gang has all its seats."""
    why = conditions.reason(record)
    if why not in {Reason.SEATED, Reason.BOUND}:
        return why
    return record.verdict.decision.reason if record.verdict.decision is not None else Reason.QUEUED
