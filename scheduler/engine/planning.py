"""What the planner is asked, from one picture of the cluster, and its answer; pure, so any thread may answer.

Two kinds of question. A seat: where does this gang go now? Room, for a gang that goes nowhere now: who would have
to leave so that it does, and if none may be asked to, when will enough have left by themselves?
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from scheduler.ledger.namespace_usage import beyond_ceiling
from scheduler.model.cluster import Mask, Matrix, Snapshot
from scheduler.model.decision import Ceiling, Decision, Place, Reason, Wait
from scheduler.model.policy import Policy
from scheduler.model.preemption_units import FREELY, Preempt, Terms, Unit
from scheduler.model.queueing import Reservation, Stay, Usage
from scheduler.model.workload import Gang, GangKey, Uid
from scheduler.placement import planner, reservation, victim_selection
from scheduler.placement.feasibility import FeasibilityCache

Answer: TypeAlias = Decision | Preempt | Reservation
"""Of a question about room, Wait means: neither victims nor time make any."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The planner failed on a question: the fault of one gang, which stops no other."""

    error: Exception


DEARER = 16
"""How many times as long as a seat a question about room takes, at the least."""


@dataclass(frozen=True, slots=True, eq=False)
class WaitingForPreemption:
    """What is to be known of the pods that run now, to make room for a gang.

    units: who may be asked to leave, and `terms`, what holds of all together who do.  leaving: those who leave already,
    or were asked to.  stays: who leaves when; None: no room is to be kept in time for this gang.
    """

    units: tuple[Unit, ...]
    leaving: tuple[Stay, ...]
    stays: tuple[Stay, ...] | None
    now: float
    terms: Terms = FREELY


@dataclass(frozen=True, slots=True)
class Question:
    """What the planner is asked about one gang, from one picture of the cluster."""

    gang: Gang
    snapshot: Snapshot
    allowed: Mapping[Uid, Mask]
    shape: int | None
    """Gangs of one number get one answer; None: this one is like no other."""
    room: int
    """The room counter when it was asked: an answer counts for so much room, however late it comes."""
    fence: int = 0
    """The number of the reservation that the picture leaves out; 0: none."""
    short: bool = False
    """It leaves before the reservation begins, so the picture leaves nothing out."""
    kept: Matrix | None = None
    """float64[n, r]: the free room with what is reserved, where the picture leaves that out."""
    held_for: GangKey | None = None
    """And for which gang that is."""
    usage: Usage | None = None
    """What the gang's namespace uses, and may; None: nothing limits it."""
    told: Wait | None = None
    """The answer, where it does not depend on room."""
    making: WaitingForPreemption | None = None
    """Not a seat is asked for, but room."""

    @property
    def size(self) -> int:
        """Members × nodes: what the answer costs."""
        members = sum(len(r.quorum) + len(r.surplus) for r in self.gang.roles)
        dearer = DEARER + len(self.making.units) if self.making is not None else 1
        return members * max(1, len(self.snapshot.names)) * dearer


def attempt(question: Question, policy: Policy, masks: FeasibilityCache | None = None) -> Answer | Fault:
    """The planner's answer, or what it failed on; see `decide`."""
    try:
        return decide(question, policy, masks)
    except Exception as error:  # noqa: BLE001 - whatever it was, it is the fault of this one question
        return Fault(error)


def decide(question: Question, policy: Policy, masks: FeasibilityCache | None = None) -> Answer:
    """The planner's answer; without `masks` it may be worked out on another thread."""
    if question.told is not None:
        return question.told
    if question.making is not None:
        return _make_room(question, question.making, policy, masks)
    decision = planner.decide(question.snapshot, question.gang, policy, question.allowed, masks)
    lack = {Reason.INSUFFICIENT_RESOURCES, Reason.TOPOLOGY_UNSATISFIED}
    if isinstance(decision, Wait) and decision.reason in lack and question.kept is not None:
        masks = masks or FeasibilityCache()
        # A gang that would have room, were none of it reserved, is told so.
        if reservation.could_hold(question.snapshot, question.kept, question.gang, masks):
            return Wait(Reason.CAPACITY_RESERVED, decision.shortfall, held_for=question.held_for)
    return below_ceiling(question.usage, question.gang, decision)


def below_ceiling(usage: Usage | None, gang: Gang, decision: Decision) -> Decision:
    """Surplus gets only seats that its namespace may use; the quorum was looked at before it was asked about."""
    if usage is None or not isinstance(decision, Place):
        return decision
    beyond = beyond_ceiling(usage, gang, decision.seats)
    seats = {uid: node for uid, node in decision.seats.items() if uid not in beyond}
    if beyond and not seats:
        return Wait(Reason.QUOTA_EXCEEDED, ceiling=Ceiling(*next(iter(beyond.values()))))
    return replace(decision, seats=seats, unseated=(*decision.unseated, *beyond)) if beyond else decision


def _make_room(
    question: Question, making: WaitingForPreemption, policy: Policy, masks: FeasibilityCache | None
) -> Answer:
    """Room that is being made already first, then victims, then time."""
    gang = reservation.quorum_alone(question.gang)
    snapshot = question.snapshot
    if making.leaving:
        snapshot = snapshot.freed(*((stay.rows, stay.uses) for stay in making.leaving))
        decision = planner.decide(snapshot, gang, policy, question.allowed, masks)
        if isinstance(decision, Place):
            return Preempt(decision.seats, ())
    if making.units:
        chosen = victim_selection.choose(
            snapshot, gang, making.units, policy, question.allowed, masks, making.terms
        )
        if chosen is not None:
            return chosen
    if making.stays is not None:
        stays = (*making.leaving, *making.stays)
        reserved = reservation.reserve(
            question.snapshot, gang, stays, policy, making.now, question.allowed, masks
        )
        if reserved is not None:
            return reserved
    return Wait(Reason.INSUFFICIENT_RESOURCES)
