"""The cheapest victims whose leaving seats a whole gang, proven by the planner before anybody is touched.

Lives here: which way of choosing belongs to which gang, and the proof.
Never here: who may be taken at all (lower priority, lent room …): the caller gives only those.  Nor the surplus of the
gang itself: nobody has to leave for it.

    victims           units as arrays, and what a set of them costs
    victims_seats     gangs of one demand come down to a number of seats, which is counted
    victims_patterns  on one node: who would have to leave for how many seats
    victims_market    over the nodes: where seats are cheapest
    victims_cover     gangs that stand on several nodes, and how good an answer is at best
    victims_improve   exchanges
    victims_counted   priorities and domains
    victims_exact     a few units: every set, but for those that need not be asked about
    victims_terms     no more than was borrowed, and by a claim only for what is claimed
    preempt_mixed     gangs whose seats cannot be counted
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

import numpy as np

from scheduler.model.cluster import Mask, Snapshot
from scheduler.model.decision import Decision, Place, Reason, Refuse
from scheduler.model.policy import Policy
from scheduler.model.preemption_units import FREELY, By, Kind, Preempt, Terms, Unit
from scheduler.model.workload import Gang, Uid
from scheduler.placement import planner
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.preempt_mixed import Case, mixed, needed_by
from scheduler.placement.victims import stand
from scheduler.placement.victims_counted import counted
from scheduler.placement.victims_exact import FEW, Even, cheapest_first, even_of
from scheduler.placement.victims_seats import Ask, asks_of, countable
from scheduler.placement.victims_terms import able, claimed_alone, held, offers

_OFFERS: Final = 12
"""Choices of units that are tried when what is cheapest of all breaks the terms."""

_ROUNDS: Final = 3
"""How often those are left out of one offer who would leave for nothing that is claimed."""

_IN_VAIN: Final = frozenset({Reason.NEVER_FITS, Reason.NO_NODE_MATCHES})
"""Nobody's leaving helps."""


def choose(
    snapshot: Snapshot,
    gang: Gang,
    units: Sequence[Unit],
    policy: Policy,
    allowed: Mapping[Uid, Mask] | None = None,
    masks: FeasibilityCache | None = None,
    terms: Terms = FREELY,
) -> Preempt | None:
    """The cheapest set of units found whose leaving seats the quorum, with the seats; None when none does.

    A gang takes all surplus of its key among the units with it; surplus may leave alone.  A set is cheaper than
    another if it is at the highest priority at which they differ: by work lost there, then by gangs, single pods,
    surplus, and members.  So the highest priority that is touched is as low as can be, unless the terms do not let
    it.  Nobody could be left out; the proof counts nothing but the room of those who leave and what is free.
    allowed, masks: as for `planner.decide`.  The order of the units does not matter.
    """
    masks = masks or FeasibilityCache()
    core = replace(gang, roles=tuple(replace(role, surplus=()) for role in gang.roles))
    planning = _Planning(snapshot, policy, allowed, masks, terms)
    now = planning.decide(snapshot, core)
    if isinstance(now, Place):
        return Preempt(now.seats, ())
    if isinstance(now, Refuse) or now.reason in _IN_VAIN:
        return None
    units = able(units, terms)
    if any(unit.by is By.CLAIM for unit in units):
        claimed = planning.decide(snapshot, claimed_alone(core, terms.claimed))
        if isinstance(claimed, Place):  # what is short is not claimed
            units = [unit for unit in units if unit.by is not By.CLAIM]
    asks = asks_of(snapshot, core, allowed, masks) if units else ()
    return _chosen(planning, core, units, asks) if asks else None


@dataclass(frozen=True, slots=True)
class _Planning:
    """All that the planner is asked with."""

    snapshot: Snapshot
    policy: Policy
    allowed: Mapping[Uid, Mask] | None
    masks: FeasibilityCache
    terms: Terms

    def decide(self, snapshot: Snapshot, gang: Gang) -> Decision:
        return planner.decide(snapshot, gang, self.policy, self.allowed, self.masks)

    def case(self, gang: Gang, units: Sequence[Unit], asks: tuple[Ask, ...]) -> Case:
        """The gang, and these who may leave."""
        snapshot = self.snapshot
        standing = stand(snapshot, units, gang.priority)

        def prove(taken: Mask) -> Place | None:
            freed = replace(snapshot, free=standing.gained(snapshot.free, taken))
            found = self.decide(freed, gang)
            return found if isinstance(found, Place) else None

        return Case(snapshot, gang, standing, asks, prove, held(standing, self.terms, snapshot.axis))

    def even(self, gang: Gang, units: Sequence[Unit]) -> Even | None:
        """What an even gang asks of the nodes; None, where it need not lie evenly or these are not a few."""
        over = planner.even_over(self.snapshot, gang, self.allowed, self.masks) if len(units) <= FEW else None
        return None if over is None else even_of(*over)


@dataclass(frozen=True, slots=True)
class _Found:
    """The first set that keeps its terms; and what was learned of those that do not.

    helps: some set seats the gang.  needless: who would leave in vain.
    """

    preempt: Preempt | None
    helps: bool = False
    needless: frozenset[tuple[Uid, ...]] = frozenset()


def _chosen(planning: _Planning, gang: Gang, units: Sequence[Unit], asks: tuple[Ask, ...]) -> Preempt | None:
    """Among all; and where what is cheapest breaks its terms, among others, until they are kept."""
    found = _found(planning, gang, units, asks)
    if found.preempt is not None or not found.helps or len(units) <= FEW:
        return found.preempt
    everybody = planning.case(gang, units, asks)
    own = {unit.uids: unit for unit in units}
    further = islice(offers(everybody.standing, everybody.terms, asks), _OFFERS)
    for offer in chain([_without(units, found.needless)] if found.needless else [], further):
        left = offer
        for _ in range(_ROUNDS):
            found = _found(planning, gang, left, asks)
            if found.preempt is not None:
                victims = tuple(own[unit.uids] for unit in found.preempt.victims)
                return replace(found.preempt, victims=victims)
            if not found.needless:
                break
            left = _without(left, found.needless)
    return None


def _without(units: Sequence[Unit], needless: frozenset[tuple[Uid, ...]]) -> tuple[Unit, ...]:
    """These units without those, and without the gangs that would take one of those along."""
    torn = {unit.gang for unit in units if unit.uids in needless and unit.kind is Kind.SURPLUS}
    return tuple(
        unit
        for unit in units
        if unit.uids not in needless and (unit.kind is not Kind.GANG or unit.gang not in torn)
    )


def _found(planning: _Planning, gang: Gang, units: Sequence[Unit], asks: tuple[Ask, ...]) -> _Found:
    case, even = planning.case(gang, units, asks), planning.even(gang, units)
    seating: list[Mask] = []
    needless = np.zeros(len(case.standing.units), dtype=bool)
    for taken in _answers(case, even):
        if taken is None or any(taken[other].all() for other in seating):
            continue  # of more than suffices somebody could be left out
        place = case.prove(taken)
        if place is None:
            continue
        left = case.standing.gained(case.snapshot.free, taken) - needed_by(case, place)
        vain = case.terms.needless(case.standing, taken, left)
        victims = tuple(case.standing.units[unit] for unit in np.flatnonzero(taken).tolist())
        if case.terms.keeps(taken) and not vain.any():
            return _Found(Preempt(place.seats, victims))
        seating.append(taken)
        needless |= vain
    uids = (case.standing.units[unit].uids for unit in np.flatnonzero(needless).tolist())
    return _Found(None, bool(seating), frozenset(uids))


def _answers(case: Case, even: Even | None) -> Iterator[Mask | None]:
    """Sets to be proven, the best first; of a few units every set that could suffice."""
    if len(case.standing.units) <= FEW:
        yield from filter(case.terms.keeps, cheapest_first(case.standing, case.asks, even))
        return
    if countable(case.gang, case.asks):
        yield counted(case.standing, case.asks[0])
    yield mixed(case)
