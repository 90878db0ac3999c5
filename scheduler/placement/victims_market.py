"""What seats cost on every node, and the cheapest mix of nodes for so many seats.

Lives here: the mix by one price for a seat, with a bound below every mix, and the exact mix where it is quick.
Never here: who leaves for it, or that a gang who stands on several nodes leaves only once (victims_cover).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.model.cluster import Mask, Matrix
from scheduler.model.resources import Vector
from scheduler.placement.victims_patterns import Places, Ways

_TANGENTS: Final = 64
"""Prices of a seat that are asked for at the most; five to ten find the last one."""

_NOTHING: Final = 1e-12
"""What two sums of prices may differ by, as a part of the larger, and be the same."""

_EXACT: Final = 3_000_000
"""Numbers that the exact mix of nodes may take; beyond, the price of a seat decides."""


@dataclass(frozen=True, slots=True)
class Market:
    """What every node asks for seats: ways of one domain, and the seats that are missing there.

    place: int64[w], the number of the way's node among those that have ways.
    begin: int64[...], where the ways of another node, or of another number of seats, begin.
    """

    ways: Ways
    place: Places
    begin: Places
    nodes: int
    most: int
    missing: int

    def offers(self, costs: Vector) -> tuple[Matrix, Places]:
        """float64[q, k+1] and int64[q, k+1]: what k more seats cost on each node, and by which way."""
        cheapest = np.minimum.reduceat(costs, self.begin)
        group = np.repeat(np.arange(len(self.begin)), np.diff(np.append(self.begin, len(costs))))
        equal = np.flatnonzero(costs == cheapest[group])[::-1]
        first = np.empty(len(self.begin), dtype=np.int64)
        first[group[equal]] = equal  # the last one written is the first of its group
        price = np.full((self.nodes, self.most + 1), np.inf)
        way = np.full(price.shape, -1, dtype=np.int64)
        price[:, 0] = 0.0
        cell = (self.place[self.begin], self.ways.gain[self.begin])
        price[cell], way[cell] = cheapest, first
        return price, way

    def entries(self, way: Places, bought: Places, entries: int) -> Mask:
        """bool[e]: who leaves when so many seats are bought on each node, by these ways."""
        out = np.zeros(entries, dtype=bool)
        chosen = way[np.arange(self.nodes), bought]
        taken = np.zeros(len(self.ways), dtype=bool)
        taken[chosen[chosen >= 0]] = True
        out[self.ways.entry[taken[self.ways.owner]]] = True
        return out


def market(found: Ways, inside: Mask, missing: int) -> Market | None:
    """The market of the nodes bool[n]; None when it cannot give as many seats as are missing."""
    kept = np.flatnonzero(inside[found.row])
    if not len(kept):
        return None
    sizes = np.diff(np.append(found.first, len(found.entry)))[kept]
    first = np.cumsum(sizes) - sizes
    spans = np.arange(sizes.sum()) - np.repeat(first, sizes)
    own = Ways(
        found.row[kept], found.gain[kept], first, found.entry[np.repeat(found.first[kept], sizes) + spans]
    )
    rows, place = np.unique(own.row, return_inverse=True)
    most = np.zeros(len(rows), dtype=np.int64)
    np.maximum.at(most, place, own.gain)
    if most.sum() < missing:
        return None
    new = (np.diff(place) != 0) | (np.diff(own.gain) != 0)
    begin = np.flatnonzero(np.concatenate(([True], new)))
    return Market(own, place, begin, len(rows), int(most.max()), missing)


def mix(price: Matrix, missing: int) -> tuple[Places, float]:
    """int64[q]: seats to buy on each node, together at least as many as are missing, and a bound below the cheapest.

    price: float64[q, k+1], column 0 is zero.  At one price for a seat every node by itself says how many it sells.
    Of two mixes, one with too few seats and one with enough, the next price to ask is that of the seats between
    them; it is the last when no mix is cheaper there than those two (Kelley's cutting planes, in one dimension).
    """
    seats = np.arange(price.shape[1])
    line = np.arange(len(price))
    few, spent, sold = np.zeros(len(price), dtype=np.int64), 0.0, 0
    enough: Places = np.where(np.isfinite(price), seats, 0).max(axis=1)
    paid, gone = float(price[line, enough].sum()), int(enough.sum())
    below = 0.0
    for _ in range(_TANGENTS):
        if gone == missing:
            return enough, paid
        each = (paid - spent) / (gone - sold)
        asked = (price - each * seats).argmin(axis=1)
        cost, count = float(price[line, asked].sum()), int(asked.sum())
        below = max(below, cost + each * (missing - count))
        if cost - each * count >= spent - each * sold - _NOTHING * paid:
            break
        if count < missing:
            few, spent, sold = asked, cost, count
        else:
            enough, paid, gone = asked, cost, count
    return _topped(price, few, enough, missing), below


def _topped(price: Matrix, under: Places, over: Places, missing: int) -> Places:
    """From the mix that falls short towards the one that suffices, the cheapest seats first."""
    line = np.arange(len(price))
    more = over - under
    rising = np.flatnonzero(more > 0)
    step = (price[line, over] - price[line, under])[rising] / more[rising]
    rising = rising[np.argsort(step, kind="stable")]
    short = missing - int(under.sum())
    before = np.cumsum(more[rising]) - more[rising]
    out: Places = under.copy()
    needed = rising[before < short]
    out[needed] = over[needed]
    return out


def exact_mix(price: Matrix, missing: int) -> Places | None:
    """The cheapest mix, node by node; None where that would take too long."""
    nodes, width = price.shape
    if nodes * width * missing > _EXACT:
        return None
    cheapest = np.full(missing + 1, np.inf)
    cheapest[0] = 0.0
    short = np.arange(missing + 1)
    before = np.maximum(
        short - np.arange(width)[:, None], 0
    )  # what was short of, when so many came from this node
    taken = np.zeros((nodes, missing + 1), dtype=np.int64)
    for node in range(nodes):
        trial = cheapest[before] + price[node][:, None]
        taken[node] = trial.argmin(axis=0)  # of equally cheap ones the fewest seats
        cheapest = trial[taken[node], short]
    return _traced(taken, missing)


def _traced(taken: Places, missing: int) -> Places:
    out = np.zeros(len(taken), dtype=np.int64)
    left = missing
    for node in reversed(range(len(taken))):
        out[node] = taken[node, left]
        left = max(left - int(out[node]), 0)
    return out
