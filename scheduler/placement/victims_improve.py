"""A set of victims that suffices, made cheaper by exchanging a few for others.

Lives here: three kinds of exchange, repeated until none helps or enough were tried: a knapsack of all units, each worth
the seats that it adds to the set or takes from it; one victim let go, its seats bought again with everybody else's
room for nothing; one more node opened, and then whoever is not needed any more let go.
Never here: where the first set comes from (victims_cover).
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Mask
from scheduler.model.resources import Vector
from scheduler.placement.distribution import Counts
from scheduler.placement.victims_market import Market, mix
from scheduler.placement.victims_patterns import Places
from scheduler.placement.victims_search import Answer, Search
from scheduler.placement.victims_seats import Trimming

_TRIES: Final = (6, 6_000, 100)
"""Sets that are tried: so many divided by the entries of the crowd, but never fewer or more than these."""

_AT_ONCE: Final = 24
"""Victims, or nodes, tried in one pass."""

_MARGINS: Final = (0, 1, 2)
"""Seats beyond those needed: two exchanges on one node may be worth less together than each is alone."""

_KNAPSACK: Final = 4_000_000
"""Numbers that a knapsack may take."""


def improve(search: Search, trade: Market, inside: Mask, shares: Vector, start: Answer) -> Answer:
    """The same set, or a cheaper one. shares: float64[e], what each entry costs."""
    return _Exchange(search, trade, inside, shares, start).run()


class _Exchange:
    """The best set so far, and how many tries are left."""

    def __init__(self, search: Search, trade: Market, inside: Mask, shares: Vector, start: Answer) -> None:
        self._search: Final = search
        self._trade: Final = trade
        self._inside: Final = inside
        self._shares: Final = shares
        self._owner: Final = search.whole.owner
        self._best = start
        least, work, most = _TRIES
        self._left = min(max(work // max(len(self._owner), 1), least), most)

    def run(self) -> Answer:
        passes: tuple[Callable[[], None], ...] = (self._exchanged, self._repaired, self._opened)
        before = None
        while before != self._best.price and self._left > 0:
            before = self._best.price
            for one in passes:
                one()
        return self._best

    def _try(self, taken: Mask) -> bool:
        """This set, closed and trimmed, is the best so far."""
        self._left -= 1
        found = self._search.trimmed(self._inside, self._search.standing.closed(taken), twice=True)
        if found is None or found.price >= self._best.price:
            return False
        self._best = found
        return True

    def _exchanged(self) -> None:
        """The cheapest set, were everybody worth as many seats as he is next to the best one."""
        search, best = self._search, self._best.taken
        gains = _gains(search, self._inside, best)
        items = np.flatnonzero((gains > 0) & search.usable & ~search.fixed)
        excess = Trimming(search.standing, search.ask, self._inside, best).excess
        missing = int(gains[items][best[items]].sum() - excess)
        for margin in _MARGINS:
            chosen = knapsack(search.cost[items], gains[items].astype(np.int64), missing + margin)
            if chosen is None:
                return
            taken = best.copy()
            taken[items] = chosen
            if self._try(taken):
                return

    def _repaired(self) -> None:
        search = self._search
        own = np.flatnonzero(self._best.taken & ~search.fixed & ~search.standing.forced(self._best.taken))
        for unit in own[np.argsort(-search.cost[own], kind="stable")][:_AT_ONCE].tolist():
            if self._best.taken[unit] and self._left > 0:
                self._without(unit)

    def _without(self, unit: int) -> None:
        """The best set with others in the place of this one."""
        rest = self._best.taken.copy()
        rest[unit] = False
        prices = np.where(rest[self._owner], 0.0, self._shares)
        prices[self._owner == unit] = np.inf
        price, way = self._trade.offers(self._trade.ways.costs(prices))
        seats = np.where(np.isfinite(price), np.arange(price.shape[1]), 0)
        if seats.max(axis=1).sum() < self._trade.missing:
            return
        chosen, _ = mix(price, self._trade.missing)
        rest[self._owner[self._trade.entries(way, chosen, len(self._owner))]] = True
        self._try(rest)

    def _opened(self) -> None:
        """The best set and one more way, the cheapest for a seat first."""
        free = self._best.taken[self._owner]
        price, way = self._trade.offers(self._trade.ways.costs(np.where(free, 0.0, self._shares)))
        price[price <= 0] = np.inf
        each = (price / np.arange(price.shape[1]).clip(1)).ravel()
        line = np.argsort(each, kind="stable")[:_AT_ONCE]
        for chosen in way.ravel()[line[np.isfinite(each[line])]].tolist():
            if self._left <= 0:
                return
            taken = self._best.taken.copy()
            taken[self._owner[self._trade.ways.entries(chosen)]] = True
            self._try(taken)


def _gains(search: Search, inside: Mask, taken: Mask) -> Counts:
    """Counts[u]: seats that each of the set is worth to it, and that each other would add."""
    entries, ask = search.whole, search.ask
    room = search.standing.room(taken)[:, ask.columns]
    kept = inside[entries.row]
    owner, row = entries.owner[kept], entries.row[kept]
    sign = np.where(taken[owner], -1.0, 1.0)[:, None]
    change = np.abs(ask.seats(room[row] + sign * entries.use[kept][:, ask.columns]) - ask.seats(room)[row])
    return np.bincount(owner, change, len(taken)).astype(np.float64, copy=False)


def knapsack(cost: Vector, seats: Places, missing: int) -> NDArray[np.bool_] | None:
    """bool[i]: the cheapest items with so many seats together; None when there are none, or too many to try."""
    if missing <= 0 or seats.sum() < missing or len(cost) * missing > _KNAPSACK:
        return None
    cheapest = np.full(missing + 1, np.inf)
    cheapest[0] = 0.0
    used = np.zeros((len(cost), missing + 1), dtype=bool)
    for item in range(len(cost)):
        give = min(int(seats[item]), missing)
        trial = np.concatenate((np.full(give, cheapest[0]), cheapest[: missing + 1 - give])) + cost[item]
        trial[0] = np.inf
        used[item] = trial < cheapest
        cheapest = np.minimum(trial, cheapest)
    return _packed(used, seats, missing)


def _packed(used: NDArray[np.bool_], seats: Places, missing: int) -> NDArray[np.bool_]:
    out, left = np.zeros(len(seats), dtype=bool), missing
    for item in reversed(range(len(seats))):
        if left > 0 and used[item, left]:
            out[item], left = True, max(left - int(seats[item]), 0)
    return out
