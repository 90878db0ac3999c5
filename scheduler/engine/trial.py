"""A dry run: what would be answered to pods that are not there, were they to come now.

They are made a gang of by the very code that makes gangs, are given their place in the queue, and the same questions
are asked of the same picture; but nothing of it enters the ledger. Pods that name a gang that is there join it. Never
here: an answer (`question` has it).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from scheduler.engine.asking import Asking
from scheduler.engine.question import Question, decide
from scheduler.engine.running import BLOCKED
from scheduler.ledger import Ledger, roster
from scheduler.ledger.applying import as_waiting
from scheduler.ledger.records import GangRecord, Member, Spec
from scheduler.model.decision import Place, Reason, Refuse, Wait
from scheduler.model.policy import Policy
from scheduler.model.queueing import Reservation
from scheduler.model.victims import Preempt
from scheduler.model.workload import Gang, Pod

LAST = 2**31
"""Gangs are numbered as they are met; this one comes after all of them."""

Seat: TypeAlias = Place | Wait | Refuse
Room: TypeAlias = Preempt | Reservation


@dataclass(frozen=True, slots=True)
class Trial:
    """What is to be asked: a seat, and if there is no room for one, room.

    told: the answer, where nothing needs to be asked.  gang: what the pods are.  unmodelled: fields that decide about
    the pods' nodes and that the planner does not model, so that no seat is certain.
    """

    gang: Gang | None
    told: Wait | Refuse | None = None
    seat: Question | None = None
    room: Question | None = None
    unmodelled: tuple[str, ...] = ()

    def answer(self, policy: Policy) -> tuple[Seat, Room | None]:
        """What the engine would do: seats or a reason, and how a gang without room would have some. Any thread may
        ask.
        """
        if self.seat is None:
            return self.told or Wait(Reason.MISSING_MEMBERS), None
        seat = decide(self.seat, policy)
        if isinstance(seat, Preempt | Reservation):
            raise TypeError("a question about seats was answered with room")
        if self.room is None or not isinstance(seat, Wait) or seat.reason not in BLOCKED:
            return seat, None
        room = decide(self.room, policy)
        return seat, room if isinstance(room, Preempt | Reservation) else None


def trial(ledger: Ledger, asking: Asking, pods: Sequence[Pod], now: float) -> Trial:
    """The questions that these pods would raise. All must be of one gang, or one pod alone."""
    if not ledger.ready:
        return Trial(None, Wait(Reason.NOT_SYNCED))
    record = _record(ledger, pods)
    if isinstance(record.spec, Refuse):
        return Trial(None, record.spec)
    gang = ledger.request(record, now)
    if gang is None:
        return Trial(None, Wait(_why_not(record, now)))
    record.wanted = gang
    record.order = ledger.wanting.turn(as_waiting(ledger, record, gang), now)
    if asking.is_held_up(record, now):
        return Trial(gang, Wait(Reason.QUEUED))
    seat, room = asking.about(record, gang, now), None
    if asking.may_make_room(record, gang, now):
        room = asking.about_room(record, gang, now, front=asking.front.comes_first(record), whole=True)
    fields = (field for member in record.members.values() for field in member.pod.unmodelled)
    return Trial(gang, seat.told, seat, room, tuple(dict.fromkeys(fields)))


def _why_not(record: GangRecord, now: float) -> Reason:
    if isinstance(record.spec, Reason):
        return record.spec
    return Reason.BACKING_OFF if record.not_before > now else Reason.MISSING_MEMBERS


def _record(ledger: Ledger, pods: Sequence[Pod]) -> GangRecord:
    """The gang as it would be: one that nobody has met, or the one of this name with these pods beside its own."""
    keys = sorted({roster.gang_key(pod) for pod in pods})
    record = _begun(ledger.roll.gangs.get(keys[0])) or GangRecord(keys[0], number=LAST)
    if len(keys) > 1:
        record.spec = Refuse(
            Reason.CONFLICT, "the gang's name", f"{keys[0].name} and {keys[1].name}", "one gang"
        )
        return record
    record.members |= {pod.uid: Member(pod) for pod in pods}
    record.spec = roster.spec(record, ledger.groups, ledger.policy)
    beyond = set(roster.beyond_size(record, record.spec)) if isinstance(record.spec, Spec) else set()
    if isinstance(record.spec, Spec) and any(pod.uid in beyond for pod in pods):
        size = str(record.spec.size)
        record.spec = Refuse(
            Reason.CONFLICT, "gangwright.io/members", size, "the gang is there, and complete"
        )
        return record
    for uid in beyond:
        del record.members[uid]  # these pods are needed in their place
    return record


def _begun(known: GangRecord | None) -> GangRecord | None:
    """A copy of a gang that is there and has not ended."""
    if known is None or not known.live():
        return None
    return replace(known, members=dict(known.members), spec=None)
