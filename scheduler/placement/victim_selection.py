"""A cheap set of victims whose leaving seats a whole gang, proven by the planner before any pod is touched.

Lives here: which way of choosing belongs to which gang, and the proof.
Never here: which pods may be taken at all (lower priority, lent room …): the caller gives only those.  Nor the surplus of
the gang itself: no pod has to leave for it.

    victims        units as arrays, what a set of them costs, and the limits that it keeps
    victim_seats   gangs of one demand come down to a number of seats, which is counted
    victim_search  the choice
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, islice
from typing import Final

import numpy as np

from scheduler.model.cluster import NOWHERE, Mask, Snapshot
from scheduler.model.decision import Decision, Place, Reason, Refuse
from scheduler.model.demand import Demand
from scheduler.model.policy import Policy
from scheduler.model.preemption_units import FREELY, By, Preempt, Terms, Unit
from scheduler.model.workload import Gang, Uid
from scheduler.placement import planner
from scheduler.placement.feasibility import FeasibilityCache, free_for
from scheduler.placement.reservation import quorum_alone, seats_of
from scheduler.placement.victim_search import DOMAINS, Search, counted, promising
from scheduler.placement.victim_seats import Ask, asks_of, countable, filled_back
from scheduler.placement.victims import Limits, Standing, limits_of, needless, standing_of

_ROUNDS: Final = 4
"""How often the choice is made again without the units that leave by a claim for nothing that is claimed."""

_IN_VAIN: Final = frozenset({Reason.EXCEEDS_CLUSTER, Reason.NO_MATCHING_NODES})
"""No pod's leaving helps."""


def choose(
    snapshot: Snapshot,
    gang: Gang,
    units: Sequence[Unit],
    policy: Policy,
    allowed: Mapping[Uid, Mask] | None = None,
    masks: FeasibilityCache | None = None,
    terms: Terms = FREELY,
) -> Preempt | None:
    """A cheap set of units whose leaving seats the quorum, with the seats; None when none is found.

    A gang takes all surplus of its key among the units with it; surplus may leave alone.  A set is cheaper than
    another if it is at the highest priority at which they differ: by work lost there, then by gangs, single pods,
    surplus, and members.  So the highest priority that is touched is the lowest at which a set is found.  Within tight
    terms a set may be missed.  No unit could be left out; the proof counts nothing but the room of those that leave
    and what is free.
    allowed, masks: as for `planner.decide`.  The order of the units does not matter.
    """
    masks = masks or FeasibilityCache()
    core = quorum_alone(gang)

    def decide(picture: Snapshot, who: Gang) -> Decision:
        return planner.decide(picture, who, policy, allowed, masks)

    # 1. Without victims: the gang has room, or no pod's leaving gives it any.
    now = decide(snapshot, core)
    if isinstance(now, Place):
        return Preempt(now.seats, ())
    if isinstance(now, Refuse) or now.reason in _IN_VAIN:
        return None
    # 2. A claim takes nothing where what is short is not claimed.
    by_order = [unit for unit in units if unit.by is By.ORDER]
    if len(by_order) < len(units):
        claimed = decide(snapshot, _claimed_alone(core, terms.claimed))
        units = by_order if isinstance(claimed, Place) else units
    # 3. A set that the planner confirms; chosen again without those that leave for nothing that is claimed.
    asks = asks_of(snapshot, core, allowed, masks) if units else ()
    for _ in range(_ROUNDS if asks else 0):
        standing = standing_of(units, free_for(snapshot, core.priority))
        case = _Case(snapshot, core, standing, asks, limits_of(standing, terms), decide)
        taken, place = case.cheapest()
        if taken is None or place is None:
            return None
        left = standing.room(taken) - seats_of(snapshot, core, place)
        vain = needless(standing, taken, left, terms, snapshot.axis)
        if not vain.any():
            return Preempt(place.seats, tuple(compress(standing.units, taken)))
        units = _without(standing, vain)
    return None


def _claimed_alone(gang: Gang, claimed: frozenset[str]) -> Gang:
    """The gang as if it asked for nothing but what is claimed."""

    def alone(demand: Demand) -> Demand:
        return replace(demand, requests=tuple(own for own in demand.requests if own[0] in claimed))

    return replace(gang, roles=tuple(replace(role, demand=alone(role.demand)) for role in gang.roles))


def _without(standing: Standing, vain: Mask) -> list[Unit]:
    """The units without these, and without the gangs that would take one of these along."""
    torn = vain.copy()
    torn[standing.leader[vain & (standing.leader >= 0)]] = True
    return list(compress(standing.units, ~torn))


@dataclass(frozen=True, slots=True)
class _Case:
    """The gang, and the units that may leave within the limits."""

    snapshot: Snapshot
    gang: Gang
    standing: Standing
    asks: tuple[Ask, ...]
    limits: Limits
    decide: Callable[[Snapshot, Gang], Decision]

    def cheapest(self) -> tuple[Mask | None, Place | None]:
        """bool[u], a set that the planner confirms, with the seats."""
        if countable(self.gang, self.asks):
            taken = counted(self.standing, self.asks[0], self.limits)
            place = None if taken is None else self.seated(taken)
            if place is not None:
                return taken, place
        taken = self._mixed()
        return taken, None if taken is None else self.seated(taken)

    def seated(self, taken: Mask) -> Place | None:
        """Where the planner seats the gang once these have left; it is not asked when counting says no already."""
        if not self._able(taken).any():
            return None
        freed = replace(self.snapshot, free=self.standing.gained(self.snapshot.free, taken))
        found = self.decide(freed, self.gang)
        return found if isinstance(found, Place) else None

    def _able(self, taken: Mask) -> Mask:
        """bool[d]: domains in which each kind of members, were it alone, has its seats."""
        room = self.standing.room(taken)
        able: Mask = np.logical_and.reduce([ask.found(room) >= ask.need for ask in self.asks])
        return able

    def _mixed(self) -> Mask | None:
        """bool[u], where members differ or must lie evenly, so that only the planner can say whether a set suffices.

        Nodes sell parts of what the gang needs until the planner seats it; of these units only those leave that are in
        the way of its seats; and last, one after the other is put back without which the planner seats it as well.
        """
        standing = self.standing
        for level in range(standing.levels):
            most = standing.upto(level)
            if self.seated(most) is None:
                continue
            domains = promising(standing, self.asks, self.limits, level, self._able(most))
            grown = (next(filter(self.seated, self._grown(level, most, inside)), None) for inside in domains)
            able = list(islice((taken for taken in grown if taken is not None), DOMAINS))
            able += [most] if self.limits.keeps(most) else []
            if able:
                return self._filled_back(min(map(self._in_the_way, able), key=standing.price))
        return None

    def _grown(self, level: int, most: Mask, inside: Mask) -> Iterator[Mask]:
        """Ever larger sets of the units bool[u], for seats on the nodes bool[n]."""
        asks = tuple(ask.within(inside & (ask.domain != NOWHERE)) for ask in self.asks)
        search = Search(self.standing, asks, self.limits, self.standing.cost(level), most)
        return search.grown(np.zeros_like(most), search.shares(1.0), on=True)

    def _in_the_way(self, taken: Mask) -> Mask:
        """The set without the units that are not in the way of the very seats that it gives: one "seat" a node, which
        is there where each column holds what is needed.
        """
        place = self.seated(taken)
        if place is None:
            return taken
        needed = seats_of(self.snapshot, self.gang, place)
        room = np.where(needed > 0, self.standing.free - needed + 1.0, 1.0)
        ones, domain = np.ones(room.shape[1]), np.where(needed.any(axis=1), 0, NOWHERE)
        ask = Ask(int((domain == 0).sum()), np.arange(len(ones)), ones, 1.0, domain, 1)
        rank, none = self.standing.by_price(), np.zeros_like(taken)
        left = filled_back(replace(self.standing, free=room), ask, taken, rank, kept=none, per_seat=False)
        return taken if left is None or self.seated(left) is None else left

    def _filled_back(self, taken: Mask) -> Mask:
        """The set without what is not needed: the highest level first, and in it the dearest.

        Round and round until none of a whole round could stay: a gang that stays frees its surplus to stay, too, and the
        planner may seat the gang in less room where it did not in more.
        """
        standing, again = self.standing, True
        while again:
            again = False
            for unit in np.argsort(-standing.by_price()).tolist():
                rest = taken & (np.arange(len(taken)) != unit)
                if taken[unit] and not standing.forced(taken)[unit] and self.seated(rest) is not None:
                    taken, again = rest, True
        return taken
