"""The cheapest victims for so many seats, where counting seats is enough.

Lives here: a decomposition by nodes.  A gang that stands on several nodes has its cost shared out over them; then
every node by itself says what each number of seats costs there, and the cheapest mix of nodes is found by one price
for a seat.  What the mix costs so is never more than the optimum (a Lagrangian bound).  Shares then move to
where the gang was wanted, and the mix is found again; each mix, less whoever is not needed, is an answer, and the
cheapest answer is kept.
Never here: whether the planner agrees (victim_selection).
"""

from typing import Final

import numpy as np

from scheduler.model.cluster import Mask
from scheduler.model.resources import Vector
from scheduler.placement.victims_improve import improve
from scheduler.placement.victims_market import Market, exact_mix, market, mix
from scheduler.placement.victims_patterns import Places, Ways
from scheduler.placement.victims_search import Answer, Search

_ROUNDS: Final = 30
"""How often shares are moved. More rounds hardly better the answer."""

_FEWER: Final = 6
"""The same, where it is only about victims of lower priority than others who leave anyway."""

_STEPS: Final = 8
"""In one step an eighth of the seats that are still missing is bought."""

_ENOUGH: Final = 1.002
"""An answer so near the bound, as a factor, is not searched on."""


def solve(search: Search, found: Ways, inside: Mask, *, briefly: bool = False) -> Answer | None:
    """The cheapest set found for the domain bool[n]; None when nobody's leaving suffices there.

    briefly: a fair answer will do.
    """
    free = search.standing.room(search.fixed)[:, search.ask.columns]
    missing = search.ask.need - int(np.where(inside, search.ask.seats(free), 0.0).sum())
    if missing <= 0:
        return Answer(search.standing.price(search.fixed), search.fixed)
    trade = market(found, inside, missing)
    return None if trade is None else _Rounds(search, trade, inside).run(briefly=briefly)


class _Rounds:
    """Shares on the move, and the best answer so far."""

    def __init__(self, search: Search, trade: Market, inside: Mask) -> None:
        self._search: Final = search
        self._trade: Final = trade
        self._inside: Final = inside
        self._owner: Final = search.whole.owner
        used = np.zeros(len(self._owner), dtype=bool)
        used[trade.ways.entry] = True
        self._count: Final = np.maximum(np.bincount(self._owner[used], minlength=len(search.cost)), 1)
        self._shares = np.where(used, search.cost[self._owner] / self._count[self._owner], 0.0)
        self._several: Final = used & (self._count[self._owner] > 1)
        self._seen: Final[set[bytes]] = set()
        self._best: Answer | None = None
        self._below = 0.0

    def run(self, *, briefly: bool) -> Answer | None:
        wanted = self._round(exactly=True)
        for _ in range(_FEWER if briefly else _ROUNDS):
            if self._near() or not self._several.any():
                break
            self._move(wanted)
            wanted = self._round(exactly=False)
        if self._best is None or self._near() or briefly:
            return self._best
        for power in (1.0, 0.5, 0.0):
            self._grow(power)
        return improve(self._search, self._trade, self._inside, self._shares, self._best)

    def _round(self, *, exactly: bool) -> Mask:
        """bool[e]: who leaves in the mix of these shares. exactly: the cheapest mix is an answer as well."""
        price, way = self._trade.offers(self._trade.ways.costs(self._shares))
        bought, bound = mix(price, self._trade.missing)
        self._below = max(self._below, bound)
        best = exact_mix(price, self._trade.missing) if exactly else None
        if best is not None:
            self._note(self._trade.entries(way, best, len(self._owner)))
        wanted = self._trade.entries(way, bought, len(self._owner))
        self._note(wanted)
        return wanted

    def _note(self, wanted: Mask) -> None:
        taken = self._search.fixed.copy()
        taken[self._owner[wanted]] = True
        taken = self._search.standing.closed(taken)
        if (text := taken.tobytes()) in self._seen:
            return
        self._seen.add(text)
        answer = self._search.trimmed(self._inside, taken)
        if answer is not None and (self._best is None or answer.price < self._best.price):
            self._best = answer

    def _grow(self, power: float) -> None:
        """An answer made node by node: who is taken once is free everywhere else.

        power: how far the cost of who stands on several nodes is divided by their number; 0 is not at all.
        """
        cost, owner = self._search.cost, self._owner
        each = cost[owner] / self._count[owner] ** power
        taken = np.zeros(len(cost), dtype=bool)
        while len(bought := self._next(np.where(taken[owner], 0.0, each))):
            for way in bought:
                taken[owner[self._trade.ways.entries(way)]] = True
        self._note(taken[owner])

    def _next(self, prices: Vector) -> list[int]:
        """The ways that are cheapest for a seat, a part of those that are still missing; none when none is."""
        price, way = self._trade.offers(self._trade.ways.costs(prices))
        seats = np.arange(price.shape[1])
        have = np.where(price <= 0, seats, 0).max(axis=1)
        short = self._trade.missing - int(have.sum())
        if short <= 0:
            return []
        more = np.maximum(seats - have[:, None], 0)
        ratio = np.where(more > 0, price / np.clip(more, 1, short), np.inf)
        best = ratio.argmin(axis=1)
        line = np.argsort(ratio.min(axis=1), kind="stable")
        gained = np.cumsum(more[line, best[line]])
        upto = int(np.searchsorted(gained, -(-short // _STEPS))) + 1
        chosen: list[int] = way[line, best[line]][:upto].tolist()
        return chosen

    def _top(self) -> float:
        return np.inf if self._best is None else self._search.spent(self._best.taken)

    def _near(self) -> bool:
        return self._top() <= self._below * _ENOUGH

    def _move(self, wanted: Mask) -> None:
        """A step along the subgradient: more for the nodes where a unit was wanted, less where it was not."""
        cost, owner, several = self._search.cost, self._owner, self._several
        mean = np.bincount(owner[several], wanted[several], len(cost)) / self._count
        slope = np.where(several, wanted - mean[owner], 0.0)
        size = float((slope * slope).sum())  # a threaded dot product is slower at this length
        if not size or not np.isfinite(self._top()):
            return
        step = max(self._top() - self._below, 0.0) / size
        self._shares = _shared(
            np.maximum(self._shares + step * slope, 0.0), self._shares, cost, owner, several
        )


def _shared(moved: Vector, before: Vector, cost: Vector, owner: Places, several: Mask) -> Vector:
    """float64[e]: in these proportions, each unit's shares adding up to its cost again."""
    sums = np.bincount(owner[several], moved[several], len(cost))[owner]
    scale = np.divide(cost[owner], sums, out=np.ones_like(moved), where=several & (sums > 0))
    return np.where(several & (sums > 0), moved * scale, before)
