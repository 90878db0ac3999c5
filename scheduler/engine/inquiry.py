"""What a person asks about a gang that waits, beyond the reason that it was told: how near it is, and whom room would
cost.

Lives here: the question, asked of the picture that the planner would get, and its answer. Never here: a right; whoever
is named would be asked to leave if the gang might ask (`rights` says whether it may).
"""

from dataclasses import dataclass

from scheduler.engine.asking import Asking
from scheduler.engine.question import Question
from scheduler.ledger import Ledger, freeing
from scheduler.ledger.records import GangRecord
from scheduler.model.decision import Shortfall
from scheduler.model.policy import Policy
from scheduler.model.victims import By, Unit
from scheduler.model.workload import GangKey, Pod
from scheduler.placement import planner, preemption, reservation
from scheduler.placement.masks import Masks


@dataclass(frozen=True, slots=True)
class Found:
    """nearest: see `planner.nearest`.  victims: the cheapest of lower priority whose leaving would seat the quorum."""

    nearest: tuple[Shortfall, ...] = ()
    victims: tuple[Unit, ...] = ()


@dataclass(frozen=True, slots=True)
class Inquiry:
    """The gang's own question, and everybody of lower priority."""

    seat: Question
    lower: tuple[Unit, ...]

    def answer(self, policy: Policy) -> Found:
        """Any thread may ask."""
        snapshot, masks = self.seat.snapshot, Masks()
        gang = reservation.quorum_alone(self.seat.gang)
        nearest = planner.nearest(snapshot, gang, policy, self.seat.allowed, masks)
        if not self.lower or self.seat.told is not None:
            return Found(nearest)
        freed = preemption.choose(snapshot, gang, self.lower, policy, self.seat.allowed, masks)
        return Found(nearest, freed.victims if freed is not None else ())


def inquire(ledger: Ledger, asking: Asking, key: GangKey, now: float) -> Inquiry | None:
    """None: the gang asks for nothing now, so there is nothing to be near to."""
    record = ledger.roll.gangs.get(key)
    gang = record.wanted if record is not None else None
    if record is None or gang is None or not gang.quorum or not ledger.ready:
        return None
    seat = asking.about(record, gang, now)

    def lower(other: GangRecord | None, pod: Pod) -> By | None:
        asked = other is not record and pod.priority < gang.priority and freeing.may_be_asked(pod)
        return By.ORDER if asked else None

    units = asking.running.units(seat.snapshot, lower, now) if ledger.lowest < gang.priority else ()
    return Inquiry(seat, tuple(units))
