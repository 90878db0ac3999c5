"""The questions to the planner about one snapshot, and the answers. All of it is pure, so any thread may answer.

There are two kinds of questions. A seat: where does this gang go now? Room, for a gang that fits nowhere now: which
pods must be preempted so that it fits? If none may be, when will enough pods have ended by themselves?
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
from scheduler.placement.reservation import Running

Answer: TypeAlias = Decision | Preempt | Reservation
"""As the answer to a question about room, Wait means that neither preemption nor time helps."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The planner failed on a question. Only this one gang is affected."""

    error: Exception


DEARER = 16
"""A question about room takes at least this many times as long as one about a seat."""


@dataclass(frozen=True, slots=True, eq=False)
class WaitingForPreemption:
    """The facts about running pods that are needed to free capacity for a gang.

    units: the pods that may be preempted.  terms: the limits on all of them together.  leaving: pods that are already
    terminating or evicted.  stays: when running gangs end; None: nothing is reserved for this gang.
    """

    units: tuple[Unit, ...]
    leaving: tuple[Stay, ...]
    stays: Running | None
    now: float
    terms: Terms = FREELY


@dataclass(frozen=True, slots=True)
class Question:
    """A question to the planner about one gang and one snapshot."""

    gang: Gang
    snapshot: Snapshot
    allowed: Mapping[Uid, Mask]
    shape: int | None
    """Gangs with the same number get the same answer. None: this gang is unlike all others."""
    room: int
    """The ledger's room counter at the time of the question. The answer holds for this value, however late it comes."""
    fence: int = 0
    """The number of the reservation that is subtracted from the snapshot. 0: none."""
    short: bool = False
    """The gang ends before the reservation begins, so nothing is subtracted from the snapshot."""
    kept: Matrix | None = None
    """float64[n, r]: the free capacity including the reserved part, if the snapshot excludes that part."""
    held_for: GangKey | None = None
    """The gang that the reservation is for."""
    usage: Usage | None = None
    """What the namespace of the gang uses and may use. None: nothing limits it."""
    told: Wait | None = None
    """The answer, if it does not depend on free capacity."""
    making: WaitingForPreemption | None = None
    """Set if the question is about room instead of a seat."""

    @property
    def size(self) -> int:
        """The cost of the answer, in members × nodes."""
        members = sum(len(r.quorum) + len(r.surplus) for r in self.gang.roles)
        dearer = DEARER + len(self.making.units) if self.making is not None else 1
        return members * max(1, len(self.snapshot.names)) * dearer


def attempt(question: Question, policy: Policy, masks: FeasibilityCache | None = None) -> Answer | Fault:
    """The planner's answer, or the error that it raised; see `decide`."""
    try:
        return decide(question, policy, masks)
    except Exception as error:  # noqa: BLE001 - any error affects only this question
        return Fault(error)


def decide(question: Question, policy: Policy, masks: FeasibilityCache | None = None) -> Answer:
    """The planner's answer. Without `masks`, another thread may compute it."""
    if question.told is not None:
        return question.told
    if question.making is not None:
        return _make_room(question, question.making, policy, masks)
    decision = planner.decide(question.snapshot, question.gang, policy, question.allowed, masks)
    lack = {Reason.INSUFFICIENT_RESOURCES, Reason.TOPOLOGY_UNSATISFIED}
    if isinstance(decision, Wait) and decision.reason in lack and question.kept is not None:
        masks = masks or FeasibilityCache()
        # A gang that would fit if nothing were reserved gets that reason.
        if reservation.could_hold(question.snapshot, question.kept, question.gang, masks):
            return Wait(Reason.CAPACITY_RESERVED, decision.shortfall, held_for=question.held_for)
    return below_ceiling(question.usage, question.gang, decision)


def without_neighbors(reserved: Reservation, snapshot: Snapshot) -> Reservation:
    """The reservation over resources alone: other gangs have other columns of neighbors, or none."""
    if snapshot.neighbors is None:
        return reserved
    first = snapshot.neighbors.first
    return replace(reserved, left=reserved.left[:, :first], seats=reserved.seats[:, :first])


def below_ceiling(usage: Usage | None, gang: Gang, decision: Decision) -> Decision:
    """Remove surplus seats above the namespace's ceiling. The quorum was checked before the question."""
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
    """Try capacity that is already being freed first, then preemption, then time."""
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
        running = making.stays.behind(making.leaving)
        reserved = reservation.reserve(
            question.snapshot, gang, running, policy, making.now, question.allowed, masks
        )
        if reserved is not None:
            return without_neighbors(reserved, question.snapshot)
    return Wait(Reason.INSUFFICIENT_RESOURCES)
