"""The cheapest victims for a number of seats: chosen greedily by cost per seat, reduced, then improved by exchanges.

Lives here: which priorities must be preempted at all, the highest first; in which domain it is cheapest; the choice.
Never here: whether the planner agrees, and gangs with seats that cannot be counted (victim_selection).

    1. Each node sells seats: its units by cost per seat, as many of them as make the next seats cheapest.
    2. An eighth of the missing seats is bought where they cost least, until none is missing. A gang costs once on all
       its nodes together. Its cost is divided over its nodes in three ways, and the cheapest result is kept.
    3. The units with the highest cost per seat are put back first, while enough seats remain (Kueue: fill back).
    4. One unit is added that makes others unnecessary, as long as that is cheaper.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

import numpy as np

from scheduler.model.cluster import NOWHERE, Mask, Matrix
from scheduler.model.resources import Vector
from scheduler.placement.distribution import Counts
from scheduler.placement.node_candidates import total
from scheduler.placement.victim_seats import Ask, filled_back
from scheduler.placement.victims import Entries, Limits, Rows, Standing

_POWERS: Final = (1.0, 0.5, 0.0)
"""How far the cost of a unit is divided by the number of its nodes; 0 is not at all. On nine shapes of full clusters, with
40 tries each, the work lost was 1.013 times the optimum with all three, and 1.015 to 1.023 with two.
"""

_STEPS: Final = 8
"""One step buys an eighth of the missing seats. Buying all at once lost a tenth more work, and finer steps did not lose
less.
"""

_FASTER: Final = 1.25
"""If only the planner can tell whether a set is enough, each step buys this factor more than the last one. This keeps
the number of steps low if the gang needs much more than the estimate.
"""

DOMAINS: Final = 4
"""The number of domains from which the cheapest set is taken: those that look cheapest among the domains with a set.
With three of four racks examined, 0.2% more work was lost.
"""

_TRIED: Final = 64
"""Domains to search at most if limits rule out a set in others: a fraction of a second."""

_TRIES: Final = 12
"""Units to try to add, the cheapest per seat first. Without any, 1.3% more work was lost; with a hundred, 0.2% less."""

_NOTHING: Final = 1e-9
"""Less than any part of a seat that a unit could give."""


@dataclass(frozen=True, slots=True)
class Offers:
    """The cost of the next seats on each node that can sell some, the cheapest first.

    row: int64[q].  each: float64[q], the cost of a seat.  seats: Counts[q].
    begin, end: int64[q], the range of `unit` that would be preempted.
    """

    row: Rows
    each: Vector
    seats: Counts
    begin: Rows
    end: Rows
    unit: Rows


@dataclass(frozen=True)
class Search:
    """The missing seats, and the units that may be preempted for them.

    asks: the needs of each kind of members. For one kind, seats are counted; for several, the fraction of each need.
    cost: float64[u], including a gang's surplus.  usable: bool[u].
    """

    standing: Standing
    asks: tuple[Ask, ...]
    limits: Limits
    cost: Vector
    usable: Mask

    @property
    def need(self) -> float:
        """Seats, or kinds of members."""
        return float(self.asks[0].need if len(self.asks) == 1 else len(self.asks))

    @cached_property
    def entries(self) -> Entries:
        """The entries of all usable units on the nodes that count. A gang's include those of its surplus."""
        whole = self.standing.whole
        inside = np.max([ask.domain for ask in self.asks], axis=0) != NOWHERE
        return whole.of(self.usable[whole.owner] & inside[whole.row])

    @cached_property
    def sizes(self) -> Vector:
        """float64[e]: how much of a seat each entry gives. All requested resources count alike.

        Weights for resources that are scarce on the node brought no improvement on the shapes of _POWERS.
        """
        parts = [(self.entries.use[:, ask.columns] / ask.wants).sum(axis=1) for ask in self.asks]
        given: Vector = np.sum(parts, axis=0)
        return np.maximum(given, _NOTHING)

    def worth(self, room: Matrix, rows: Rows | slice = slice(None)) -> Counts:
        """Counts[...]: seats in room float64[..., r] on these nodes. For several kinds, the fraction of each need."""
        worth = np.zeros(len(room))
        for ask in self.asks:
            seats = ask.seats(room[:, ask.columns])
            seats = seats if len(self.asks) == 1 else np.minimum(seats, ask.need) / ask.need
            worth += np.where(ask.domain[rows] == NOWHERE, 0.0, seats)
        return worth

    def shares(self, power: float) -> Vector:
        """float64[e]: the cost of each entry."""
        owner = self.entries.owner
        return self.cost[owner] / np.bincount(owner, minlength=len(self.cost))[owner] ** power

    def lined_up(self, shares: Vector) -> Rows:
        """int64[e]: the entries node by node, the cheapest per seat first."""
        return np.lexsort((shares / self.sizes, self.entries.row))

    def offers(self, room: Matrix, line: Rows, shares: Vector, missing: float) -> Offers:
        """The offers of these lined-up entries in this room.  Seats beyond the missing ones have no value."""
        entries = self.entries
        row, use, shares = entries.row[line], entries.use[line], shares[line]
        begins = np.diff(row, prepend=-1) != 0
        first, group = np.flatnonzero(begins), np.cumsum(begins) - 1
        gone, spent = np.cumsum(use, axis=0), np.cumsum(shares)
        gone -= (gone[first] - use[first])[group]
        spent = np.maximum(spent - (spent[first] - shares[first])[group], 0.0)
        seats = self.worth(room[row] + gone, row) - self.worth(room)[row]
        each = np.full(len(row), np.inf)
        np.divide(spent, np.minimum(seats, missing), out=each, where=seats > _NOTHING)
        best = np.minimum.reduceat(each, first) if len(first) else each
        hits = np.flatnonzero(each == best[group])[::-1]
        last = np.zeros(len(first), dtype=np.int64)
        last[group[hits]] = hits  # the last write is the first entry of its node
        order = np.argsort(best, kind="stable")
        order = order[np.isfinite(best[order])]
        last = last[order]
        return Offers(row[last], each[last], seats[last], first[order], last + 1, entries.owner[line])

    def grown(self, start: Mask, shares: Vector, *, on: bool = False) -> Iterator[Mask]:
        """Ever larger sets within the limits, until no seat is missing.  on: until no more units are left."""
        taken, room, steps = start, self.standing.room(start), float(_STEPS)
        line, owner = self.lined_up(shares), self.entries.owner
        while True:
            missing = self.need if on else self.need - float(self.worth(room).sum())
            line = line[~taken[owner[line]]]
            if missing <= 0 or not len(line):
                return
            more = self._bought(taken, self.offers(room, line, shares, missing), missing / steps)
            if not (more & ~taken).any():
                return
            room = self.standing.gained(room, more & ~taken)
            taken, steps = more, steps / _FASTER if on else steps
            yield taken

    def _bought(self, taken: Mask, offers: Offers, seats: float) -> Mask:
        """The set with the units of the cheapest offers for this many seats, without offers that break a limit."""
        for place, sold in enumerate(offers.seats.tolist()):
            more = taken.copy()
            more[offers.unit[offers.begin[place] : offers.end[place]]] = True
            more = self.standing.closed(more)
            if self.limits.keeps(more):
                taken, seats = more, seats - sold
            if seats <= 0:
                break
        return taken

    def cheapest(self, fixed: Mask) -> Mask | None:
        """The cheapest set found for one kind of members, in addition to `fixed`. None: no set is enough."""
        frugal = self.standing.with_surplus(self.limits.part(len(fixed)))[self.entries.owner]
        found = []
        for shares in (*map(self.shares, _POWERS), *([frugal] if frugal.any() else [])):
            taken = fixed
            for taken in self.grown(fixed, shares):  # noqa: B007 - only the last one is used
                pass
            if (answer := self._filled_back(taken, fixed)) is not None:
                found.append(answer)
        return self._exchanged(min(found, key=self.standing.price), fixed) if found else None

    def _filled_back(self, taken: Mask, fixed: Mask) -> Mask | None:
        return filled_back(self.standing, self.asks[0], taken, self.cost, kept=fixed, per_seat=True)

    def _exchanged(self, best: Mask, fixed: Mask) -> Mask:
        """Add one unit, the cheapest per seat first, and remove what it makes unnecessary, as long as that is cheaper."""
        price, tries = self.standing.price(best), _TRIES
        size = np.bincount(self.entries.owner, self.sizes, len(self.cost))
        line = np.argsort(self.cost / np.maximum(size, _NOTHING), kind="stable")
        again = True
        while again and tries > 0:
            again = False
            for unit in line[(self.usable & ~best & (size > 0))[line]][:tries].tolist():
                tries -= 1
                more = best | (np.arange(len(best)) == unit)
                trial = self._filled_back(self.standing.closed(more), fixed)
                if trial is not None and self.standing.price(trial) < price and self.limits.keeps(trial):
                    best, price, again = trial, self.standing.price(trial), True
                    break
        return best


def counted(standing: Standing, ask: Ask, limits: Limits) -> Mask | None:
    """bool[u]: the cheapest set found. None: no set frees enough capacity.

    The highest level in it is the lowest level at which a set within the limits is found.
    """
    for level in range(-1, standing.levels):
        able = ask.found(standing.room(standing.upto(level))) >= ask.need
        if level < 0 and able.any():
            return np.zeros(len(standing.units), dtype=bool)
        domains = promising(standing, (ask,), limits, level, able)
        answers = (_in_domain(standing, ask.within(inside), limits, level) for inside in domains)
        found = list(islice((taken for taken in answers if taken is not None), DOMAINS))
        if found:
            return min(found, key=standing.price)
    return None


def promising(
    standing: Standing, asks: tuple[Ask, ...], limits: Limits, level: int, able: Mask
) -> Iterator[Mask]:
    """bool[n]: the nodes of each of the domains bool[d], the cheapest by their first offers first; at most _TRIED."""
    domain = np.max([ask.domain for ask in asks], axis=0)
    domains = np.flatnonzero(able)
    if len(domains) > 1:
        search = Search(standing, asks, limits, standing.cost(level), standing.upto(level))
        shares = search.shares(1.0)
        offers = search.offers(standing.free, search.lined_up(shares), shares, search.need)
        missing = search.need - total(domain, search.worth(standing.free), asks[0].domains)
        line = np.argsort(domain[offers.row], kind="stable")  # in each domain the cheapest first
        own, seats = domain[offers.row[line]], offers.seats[line]
        before = np.cumsum(seats) - seats
        before -= before[np.searchsorted(own, own)]
        bought = np.clip(missing[own] - before, 0.0, seats)
        looks = total(own, bought * offers.each[line], asks[0].domains)
        domains = domains[np.argsort(looks[domains], kind="stable")][:_TRIED]
    return (domain == one for one in domains.tolist())


def _in_domain(standing: Standing, ask: Ask, limits: Limits, level: int) -> Mask | None:
    """Go down level by level: decide what the higher levels must give before the lower ones."""
    fixed = np.zeros(len(standing.units), dtype=bool)
    answer: Mask | None = None
    lower: int | None = level
    while lower is not None and lower >= 0:
        cost = standing.cost(lower)
        cost[fixed] = 0.0
        search = Search(standing, (ask,), limits, cost, standing.upto(lower) & ~fixed)
        found = search.cheapest(fixed)
        if found is None:
            break
        answer, fixed = found, standing.closed(found & (standing.level >= lower))
        levels = ((one, standing.closed(fixed | standing.upto(one))) for one in range(-1, lower))
        lower = next((one for one, most in levels if ask.found(standing.room(most))[0] >= ask.need), None)
    if answer is None:
        return None
    return filled_back(standing, ask, answer, standing.by_price(), kept=np.zeros_like(answer), per_seat=False)
