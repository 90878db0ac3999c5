"""What a person asks about a gang that waits, beyond the reason that it was told: how near it is, and which pods room would
cost.

Lives here: the question, asked of the picture that the planner would get, and its answer. Never here: a right. A pod
that is named would be asked to leave if the gang might ask (`preemption_policy` says whether it may). So no pod is named
for what its namespace uses within its guarantee.
"""

from dataclasses import dataclass

from scheduler.engine.cycle import PlanningCycle
from scheduler.engine.planning import Question
from scheduler.ledger import Ledger
from scheduler.model.decision import Shortfall
from scheduler.model.policy import Policy
from scheduler.model.preemption_units import FREELY, Terms, Unit
from scheduler.model.workload import GangKey
from scheduler.placement import planner, victim_selection
from scheduler.placement.feasibility import FeasibilityCache


@dataclass(frozen=True, slots=True)
class Found:
    """nearest: see `planner.nearest`.  victims: the cheapest of lower priority whose leaving would seat the quorum."""

    nearest: tuple[Shortfall, ...] = ()
    victims: tuple[Unit, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """The gang's own question, all pods of lower priority, and what all of them together may give."""

    seat: Question
    lower: tuple[Unit, ...]
    terms: Terms = FREELY

    def answer(self, policy: Policy) -> Found:
        """Any thread may ask."""
        snapshot, masks = self.seat.snapshot, FeasibilityCache()
        gang, allowed = self.seat.gang, self.seat.allowed
        nearest = planner.nearest(snapshot, gang, policy, allowed, masks)
        if not self.lower or self.seat.told is not None:
            return Found(nearest)
        freed = victim_selection.choose(snapshot, gang, self.lower, policy, allowed, masks, self.terms)
        return Found(nearest, freed.victims if freed is not None else ())


def inquire(ledger: Ledger, asking: PlanningCycle, key: GangKey, now: float) -> Explanation | None:
    """None: the gang asks for nothing now, so there is nothing to be near to."""
    record = ledger.registry.gangs.get(key)
    gang = record.wanted if record is not None else None
    if record is None or gang is None or not gang.quorum or not ledger.ready:
        return None
    seat = asking.about(record, gang, now)
    behind = asking.preemption.behind(record, gang)
    if behind is None:
        return Explanation(seat, ())
    units = asking.candidates.units(seat.snapshot, behind, now)
    return Explanation(seat, *asking.preemption.terms(units, gang))
