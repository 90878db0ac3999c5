"""A dry run: the answer for pods that do not exist, as if they were created now.

The same code forms their gang and ranks it in the queue, and the same questions go to the same snapshot. Nothing of it
enters the ledger. Pods that name an existing gang join it. Never here: an answer (see `planning`).

Why a sketch comes first: forming a gang of 4,096 pods takes 10 milliseconds and would delay the extender endpoints. A
sketch has copies of all its input, so any thread may form the gang.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from scheduler.engine.cycle import PlanningCycle
from scheduler.engine.planning import Question, decide
from scheduler.engine.preemption_candidates import BLOCKED
from scheduler.ledger import Ledger, gang_spec, migration, quorum
from scheduler.ledger.gang import GangRecord, Member, Spec
from scheduler.ledger.reconcile import as_waiting
from scheduler.model.decision import Place, Reason, Refuse, Wait
from scheduler.model.policy import Policy
from scheduler.model.preemption_units import Preempt
from scheduler.model.queueing import Reservation
from scheduler.model.workload import Gang, GangKey, Group, Pod

LAST = 2**31
"""Gangs are numbered in the order in which they are first seen. This one comes after all of them."""

Seat: TypeAlias = Place | Wait | Refuse
Room: TypeAlias = Preempt | Reservation


@dataclass(frozen=True, slots=True)
class Trial:
    """The questions to ask: a seat, and if none is free, room for one.

    told: the answer, if no question is needed.  gang: the gang of these pods.  unmodeled: fields that limit the pods'
    nodes and that the planner does not model, so no seat is certain.
    """

    gang: Gang | None
    told: Wait | Refuse | None = None
    seat: Question | None = None
    room: Question | None = None
    unmodeled: tuple[str, ...] = ()

    def answer(self, policy: Policy) -> tuple[Seat, Room | None]:
        """The decision of the engine: seats or a reason, and how capacity could be freed. Any thread may call it."""
        if self.seat is None:
            return self.told or Wait(Reason.MISSING_MEMBERS), None
        seat = decide(self.seat, policy)
        if isinstance(seat, Preempt | Reservation):
            raise TypeError("a question about seats was answered with room")
        if self.room is None or not isinstance(seat, Wait) or seat.reason not in BLOCKED:
            return seat, None
        room = decide(self.room, policy)
        return seat, room if isinstance(room, Preempt | Reservation) else None


Stamp: TypeAlias = tuple[GangRecord | None, int, Policy, Mapping[tuple[str, GangKey], Group]]


@dataclass(slots=True, eq=False)
class Sketch:
    """The gang that these pods would form, from a copy of what the ledger knows about it.

    stamp: the state of the ledger; if it differs now, the sketch is stale.  other: a second gang that the pods name.
    """

    pods: Sequence[Pod]
    record: GangRecord
    stamp: Stamp
    other: GangKey | None = None
    wanted: Gang | None = None
    unmodeled: tuple[str, ...] = ()
    keys: frozenset[str] | None = None
    """The labels that selectors read, see `NeighborTable.keys`."""
    _formed: bool = field(default=False, init=False)

    def form(self) -> None:
        """Form the gang, unless that is done. Any thread may call it."""
        if self._formed:
            return
        self._formed = True
        record, (_, _, policy, groups) = self.record, self.stamp
        record.spec = self._spec(policy, groups)
        if isinstance(record.spec, Spec):
            self.wanted = quorum.request(record, record.spec, policy, self.keys)
        fields = (name for member in record.members.values() for name in member.pod.unmodeled)
        self.unmodeled = tuple(dict.fromkeys(fields))

    def _spec(self, policy: Policy, groups: Mapping[tuple[str, GangKey], Group]) -> Spec | Refuse | Reason:
        record = self.record
        if self.other is not None:
            names = f"{record.key.name} and {self.other.name}"
            return Refuse(Reason.CONFLICT, "the gang's name", names, "use one gang name")
        there = record.live()
        record.members |= {pod.uid: Member(pod) for pod in self.pods}
        spec = gang_spec.spec(record, groups, policy)
        size = spec.size if isinstance(spec, Spec) else None
        if not isinstance(spec, Spec) or size is None or len(there) < size:
            return spec
        surplus = all(pod.membership is not None and pod.membership.surplus for pod in self.pods)
        if surplus or quorum.QuorumCount(spec, there, of_all=True).left:
            return spec
        remedy = "the gang is complete: use another gang name, or label these pods gangwright.io/surplus=true"
        return Refuse(Reason.CONFLICT, "gangwright.io/members", str(size), remedy)


def sketch(ledger: Ledger, pods: Sequence[Pod]) -> Sketch:
    """The gang that these pods would form, not formed yet: a new gang, or the existing one with these pods added."""
    first, *others = sorted({gang_spec.gang_key(pod) for pod in pods})
    known = ledger.registry.gangs.get(first)
    # A copy of a gang that exists and has not ended. Its spec is derived again from its members.
    record = known.copy() if known is not None and known.live() else GangRecord(first, number=LAST)
    record.spec = None
    keys = ledger.neighbors.keys(first.namespace)
    own = [selector.keys for pod in pods for selector in pod.neighbors.selectors]
    return Sketch(
        pods,
        record,
        _stamp(ledger, record, pods),
        others[0] if others else None,
        keys=(keys or frozenset()).union(*own) if own else keys,
    )


def trial(ledger: Ledger, asking: PlanningCycle, sketched: Sketch, now: float) -> Trial:
    """The questions about these pods. All pods must belong to one gang, or be a single pod."""
    if not ledger.ready:
        return Trial(None, Wait(Reason.CACHE_NOT_SYNCED))
    # 1. A stale or unformed sketch is formed now, so everything is of one moment.
    if _stamp(ledger, sketched.record, sketched.pods) != sketched.stamp:
        sketched = sketch(ledger, sketched.pods)
    sketched.form()
    record = sketched.record
    if isinstance(record.spec, Refuse):
        return Trial(None, record.spec)
    # 2. The request that the ledger would make for it.
    gang = sketched.wanted if ledger.is_idle(record, now) else None
    if gang is None or migration.match(ledger, record, gang) is not None:
        if isinstance(record.spec, Reason):
            return Trial(None, Wait(record.spec))
        backs_off = record.backoff.not_before > now
        return Trial(None, Wait(Reason.BACKING_OFF if backs_off else Reason.MISSING_MEMBERS))
    # 3. Its place in the queue, and its questions.
    record.wanted = gang
    record.order = ledger.pending.turns.turn(as_waiting(ledger, record, gang), now)
    if asking.is_held_up(record, now):
        return Trial(gang, Wait(Reason.QUEUED))
    seat, room = asking.about(record, gang, now), None
    if asking.may_make_room(record, gang, now):
        room = asking.about_room(record, gang, now, front=asking.head.comes_first(record), whole=True)
    return Trial(gang, seat.told, seat, room, sketched.unmodeled)


def _stamp(ledger: Ledger, record: GangRecord, pods: Sequence[Pod]) -> Stamp:
    """The ledger's state of the gang. A record is unchanged if its pulse is, because each look increases it."""
    key, members = record.key, record.members.values()
    said = (pod.membership for pod in (*pods, *(member.pod for member in members)))
    names = {(own.format, key) for own in said if own is not None}
    known = ledger.registry.gangs.get(key)
    groups = {name: ledger.groups[name] for name in names if name in ledger.groups}
    return known, known.pulse if known is not None else 0, ledger.policy, groups
