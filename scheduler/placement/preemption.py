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
    victims_exact     a few units: every set
    victims_bounds    which of these sets need not be asked about
    preempt_mixed     gangs whose seats cannot be counted
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from scheduler.model.cluster import Mask, Snapshot
from scheduler.model.decision import Place, Reason, Refuse
from scheduler.model.policy import Policy
from scheduler.model.victims import Preempt, Unit
from scheduler.model.workload import Gang, Uid
from scheduler.placement import planner
from scheduler.placement.masks import Masks
from scheduler.placement.preempt_mixed import Case, mixed
from scheduler.placement.victims import stand
from scheduler.placement.victims_bounds import Even, even_of
from scheduler.placement.victims_counted import counted
from scheduler.placement.victims_exact import FEW, cheapest_first
from scheduler.placement.victims_seats import asks_of, countable

_IN_VAIN: Final = frozenset({Reason.NEVER_FITS, Reason.NO_NODE_MATCHES})
"""Nobody's leaving helps."""


def choose(
    snapshot: Snapshot,
    gang: Gang,
    units: Sequence[Unit],
    policy: Policy,
    allowed: Mapping[Uid, Mask] | None = None,
    masks: Masks | None = None,
) -> Preempt | None:
    """The cheapest set of units found whose leaving seats the quorum, with the seats; None when none does.

    A gang takes all surplus of its key among the units with it; surplus may leave alone.  A set is cheaper than
    another if it is at the highest priority at which they differ: by work lost there, then by gangs, single pods,
    surplus, and members.  So the highest priority that is touched is as low as can be.  Nobody could be left
    out; the proof counts nothing but the room of those who leave and what is free.
    allowed, masks: as for `planner.decide`.  The order of the units does not matter.
    """
    masks = masks or Masks()
    core = replace(gang, roles=tuple(replace(role, surplus=()) for role in gang.roles))
    now = planner.decide(snapshot, core, policy, allowed, masks)
    if isinstance(now, Place):
        return Preempt(now.seats, ())
    if isinstance(now, Refuse) or now.reason in _IN_VAIN or not units:
        return None
    standing = stand(snapshot, units, gang.priority)

    def prove(taken: Mask) -> Place | None:
        freed = replace(snapshot, free=standing.gained(snapshot.free, taken))
        found = planner.decide(freed, core, policy, allowed, masks)
        return found if isinstance(found, Place) else None

    case = Case(snapshot, core, standing, asks_of(snapshot, core, allowed, masks), prove)
    over = planner.even_over(snapshot, core, allowed, masks) if len(units) <= FEW else None
    for taken in _answers(case, None if over is None else even_of(*over)):
        if taken is not None and (place := prove(taken)) is not None:
            return Preempt(
                place.seats, tuple(standing.units[unit] for unit in np.flatnonzero(taken).tolist())
            )
    return None


def _answers(case: Case, even: Even | None) -> Iterator[Mask | None]:
    """Sets to be proven, the best first; of a few units every set that could suffice."""
    if not case.asks:
        return
    if len(case.standing.units) <= FEW:
        yield from cheapest_first(case.standing, case.asks, even)
        return
    if countable(case.gang, case.asks):
        yield counted(case.standing, case.asks[0])
    yield mixed(case)
