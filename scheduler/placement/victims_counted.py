"""Victims for a gang whose seats can be counted: level by level, domain by domain.

Lives here: which priorities must be touched at all, the highest first, and in which domain it is cheapest.
Never here: one level of one domain (victims_cover).
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from scheduler.model.cluster import Mask
from scheduler.placement.distribution import Counts
from scheduler.placement.node_candidates import total
from scheduler.placement.victims import Standing
from scheduler.placement.victims_cover import solve
from scheduler.placement.victims_patterns import Ways
from scheduler.placement.victims_search import Answer, Search, search_of
from scheduler.placement.victims_seats import Ask, Trimming

_DOMAINS: Final = 12
"""Domains that are looked at closely: those where a bound says that it could be cheapest."""


def counted(standing: Standing, ask: Ask) -> Mask | None:
    """bool[u]: the cheapest set found; None when nobody's leaving makes room.  The highest level in it is minimal."""
    nobody = np.zeros(len(standing.units), dtype=bool)
    level = _lowest(standing, ask, nobody, range(-1, standing.levels))
    if level is None:
        return None
    if level < 0:
        return nobody
    able = np.flatnonzero(ask.found(standing.room(_upto(standing, nobody, level))) >= ask.need)
    search = search_of(standing, ask, level, nobody)
    found = search.ways()
    best: Answer | None = None
    bounds = _bounds(search, found)
    for domain in able[np.argsort(bounds[able], kind="stable")][:_DOMAINS].tolist():
        if best is not None and bounds[domain] > search.spent(best.taken):
            break
        answer = _in_domain(search, found, ask.domain == domain, level)
        if answer is not None and (best is None or answer.price < best.price):
            best = answer
    return None if best is None else best.taken


def _upto(standing: Standing, fixed: Mask, level: int) -> Mask:
    return standing.closed(fixed | (standing.reach <= level))


def _lowest(standing: Standing, ask: Ask, fixed: Mask, levels: Iterable[int]) -> int | None:
    """The first of these levels up to which everybody's leaving suffices."""
    return next(
        (
            level
            for level in levels
            if ask.found(standing.room(_upto(standing, fixed, level))).max(initial=0) >= ask.need
        ),
        None,
    )


def _bounds(search: Search, found: Ways) -> Counts:
    """float64[d]: no set is cheaper in this domain; every node sells seats at its cheapest price for one."""
    ask, out = search.ask, np.zeros(search.ask.domains)
    if ask.domains < 2 or not len(found):
        return out
    seats = np.where(ask.domain >= 0, ask.seats(search.standing.free[:, ask.columns]), 0.0)
    missing = ask.need - total(ask.domain, seats, ask.domains)
    each = np.full(len(ask.domain), np.inf)
    most = np.zeros(len(ask.domain))
    np.minimum.at(each, found.row, found.costs(search.shares()) / found.gain)
    np.maximum.at(most, found.row, found.gain)
    rows = np.flatnonzero(most)
    rows = rows[np.lexsort((each[rows], ask.domain[rows]))]
    own, upto = ask.domain[rows], np.cumsum(most[rows])
    first = np.concatenate(([True], np.diff(own) != 0))
    before = upto - most[rows]
    before -= before[first][np.cumsum(first) - 1]
    taken = np.clip(missing[own] - before, 0.0, most[rows])
    return total(own, taken * each[rows], ask.domains)


def _in_domain(search: Search, found: Ways, inside: Mask, level: int) -> Answer | None:
    """Level by level downwards: whom the higher levels must give is settled before the lower are asked."""
    answer = solve(search, found, inside)
    if answer is None or level == 0:
        return answer
    standing = search.standing
    ask = search.ask.within(inside)
    fixed = _settled(standing, answer.taken, level)
    while (lower := _lowest(standing, ask, fixed, range(-1, level))) is not None and lower >= 0:
        level = lower
        search = search_of(standing, ask, level, fixed)
        deeper = solve(search, search.ways(), inside, briefly=True)
        if deeper is not None and deeper.price < answer.price:
            answer = deeper
        fixed = _settled(standing, answer.taken, level)
    trimming = Trimming(standing, ask, inside, answer.taken)
    order = np.lexsort((standing.lost, standing.level))
    rank = np.empty(len(order))
    rank[order] = np.arange(len(order))
    left = trimming.run(rank, per_seat=False, kept=np.zeros_like(answer.taken))
    return Answer(standing.price(left), left)


def _settled(standing: Standing, taken: Mask, level: int) -> Mask:
    """Those of the set who are of this level or higher, and whom they take with them."""
    return standing.closed(taken & (standing.level >= level))
