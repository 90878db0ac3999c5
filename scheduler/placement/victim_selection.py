"""A cheap set of victims that frees enough for a whole gang, proven by the planner before any pod is evicted.

Lives here: the way of choosing for each gang, and the proof.
Never here: which pods may be preempted at all (lower priority, borrowed capacity …): the caller passes only those. Nor
the surplus of the gang itself, because no pod is preempted for it.

    victims        units as arrays, the cost of a set of them, and the limits on it
    victim_seats   gangs of one demand need only a number of seats, which is counted
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
"""How often to choose again without the units that a claim would take without need."""

_IN_VAIN: Final = frozenset({Reason.EXCEEDS_CLUSTER, Reason.NO_MATCHING_NODES})
"""Reasons that preemption cannot change."""


def choose(
    snapshot: Snapshot,
    gang: Gang,
    units: Sequence[Unit],
    policy: Policy,
    allowed: Mapping[Uid, Mask] | None = None,
    masks: FeasibilityCache | None = None,
    terms: Terms = FREELY,
) -> Preempt | None:
    """A cheap set of units that frees enough for the quorum, with the seats. None: no set is found.

    A gang takes all surplus of its key among the units with it, and surplus may be preempted alone. Two sets compare at
    the highest priority at which they differ: by work lost there, then by gangs, single pods, surplus, and members. So
    the highest priority in the set is the lowest at which a set is found. Tight terms may hide a possible set. No single
    unit can be left out. The proof counts only the free capacity and what the set frees.
    allowed, masks: as for `planner.decide`.  The order of the units does not matter.
    """
    masks = masks or FeasibilityCache()
    core = quorum_alone(gang)

    def decide(picture: Snapshot, who: Gang) -> Decision:
        return planner.decide(picture, who, policy, allowed, masks)

    # 1. Without victims: the gang fits now, or preemption cannot help.
    now = decide(snapshot, core)
    if isinstance(now, Place):
        return Preempt(now.seats, ())
    if isinstance(now, Refuse) or now.reason in _IN_VAIN:
        return None
    # 2. A claim takes nothing if the missing resources are not claimed.
    by_order = [unit for unit in units if unit.by is By.ORDER]
    if len(by_order) < len(units):
        claimed = decide(snapshot, _claimed_alone(core, terms.claimed))
        units = by_order if isinstance(claimed, Place) else units
    # 3. A set that the planner confirms. It is chosen again without units that a claim takes without need.
    asks = asks_of(_without(snapshot, units), core, allowed, masks) if units else ()
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
        units = _others(standing, vain)
    return None


def _claimed_alone(gang: Gang, claimed: frozenset[str]) -> Gang:
    """The gang as if it requested only the claimed resources."""

    def alone(demand: Demand) -> Demand:
        return replace(demand, requests=tuple(own for own in demand.requests if own[0] in claimed))

    return replace(gang, roles=tuple(replace(role, demand=alone(role.demand)) for role in gang.roles))


def _without(snapshot: Snapshot, units: Sequence[Unit]) -> Snapshot:
    """The snapshot in which no unit keeps a member away. Counting seats must not leave out what the victims free."""
    return snapshot if snapshot.neighbors is None else snapshot.freed(*((u.rows, u.uses) for u in units))


def _others(standing: Standing, vain: Mask) -> list[Unit]:
    """The units without these, and without the gangs that would take one of them along."""
    torn = vain.copy()
    torn[standing.leader[vain & (standing.leader >= 0)]] = True
    return list(compress(standing.units, ~torn))


@dataclass(frozen=True, slots=True)
class _Case:
    """The gang, and the units that may be preempted within the limits."""

    snapshot: Snapshot
    gang: Gang
    standing: Standing
    asks: tuple[Ask, ...]
    limits: Limits
    decide: Callable[[Snapshot, Gang], Decision]

    def cheapest(self) -> tuple[Mask | None, Place | None]:
        """bool[u]: a set that the planner confirms, with the seats."""
        if countable(self.gang, self.asks):
            taken = counted(self.standing, self.asks[0], self.limits)
            place = None if taken is None else self.seated(taken)
            if place is not None:
                return taken, place
        taken = self._mixed()
        return taken, None if taken is None else self.seated(taken)

    def seated(self, taken: Mask) -> Place | None:
        """The planner's seats after this set is preempted. The planner is not asked if counting already rules them out."""
        if not self._able(taken).any():
            return None
        freed = replace(self.snapshot, free=self.standing.gained(self.snapshot.free, taken))
        found = self.decide(freed, self.gang)
        return found if isinstance(found, Place) else None

    def _able(self, taken: Mask) -> Mask:
        """bool[d]: domains in which each kind of members fits on its own."""
        room = self.standing.room(taken)
        able: Mask = np.logical_and.reduce([ask.found(room) >= ask.need for ask in self.asks])
        return able

    def _mixed(self) -> Mask | None:
        """bool[u], for members that differ or must be spread evenly. Only the planner can tell whether a set is enough.

        Nodes sell parts of what the gang needs until the planner seats it. Of these units, only those in the way of its
        seats are preempted. Last, each unit that the planner can seat the gang without is put back.
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
        """Ever larger sets of the units `most`, bool[u], for seats on the nodes `inside`, bool[n]."""
        asks = tuple(ask.within(inside & (ask.domain != NOWHERE)) for ask in self.asks)
        search = Search(self.standing, asks, self.limits, self.standing.cost(level), most)
        return search.grown(np.zeros_like(most), search.shares(1.0), on=True)

    def _in_the_way(self, taken: Mask) -> Mask:
        """The set without the units that are not in the way of the found seats. Each node counts as one "seat", which is
        free if each column holds what is needed.
        """
        place = self.seated(taken)
        if place is None:
            return taken
        known = self.snapshot.neighbors
        needed = seats_of(self.snapshot, self.gang, place)
        if known is not None:
            needed[:, known.first :] = 0.0  # counts of pods are no amounts; the planner checks them
        room = np.where(needed > 0, self.standing.free - needed + 1.0, 1.0)
        ones, domain = np.ones(room.shape[1]), np.where(needed.any(axis=1), 0, NOWHERE)
        ask = Ask(int((domain == 0).sum()), np.arange(len(ones)), ones, 1.0, domain, 1)
        rank, none = self.standing.by_price(), np.zeros_like(taken)
        left = filled_back(replace(self.standing, free=room), ask, taken, rank, kept=none, per_seat=False)
        return taken if left is None or self.seated(left) is None else left

    def _filled_back(self, taken: Mask) -> Mask:
        """The set without units that are not needed: the highest level first, and in it the most expensive.

        It repeats until a whole round puts back no unit. A gang that is put back allows its surplus to be put back too,
        and the planner may seat the gang in less capacity although it did not in more.
        """
        standing, again = self.standing, True
        while again:
            again = False
            for unit in np.argsort(-standing.by_price()).tolist():
                rest = taken & (np.arange(len(taken)) != unit)
                if taken[unit] and not standing.forced(taken)[unit] and self.seated(rest) is not None:
                    taken, again = rest, True
        return taken
