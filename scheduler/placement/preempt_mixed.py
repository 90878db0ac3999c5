"""Victims for a gang whose members differ, or that must lie evenly: only the planner can say whether it fits.

Lives here: a way with few questions.  Nodes are cleared in the order of what clearing costs for each seat, until the
planner seats the gang; only those leave who are in the way of these very seats; and last, one after the other is
let go without whom the planner seats the gang as well.
Never here: gangs whose seats can be counted (victims_counted).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import NOWHERE, Mask, Matrix, Snapshot
from scheduler.model.decision import Place
from scheduler.model.resources import Vector
from scheduler.model.workload import Gang
from scheduler.placement.distribution import Counts
from scheduler.placement.victims import Standing
from scheduler.placement.victims_cover import solve
from scheduler.placement.victims_search import search_of
from scheduler.placement.victims_seats import Ask
from scheduler.placement.victims_terms import Held

Prove: TypeAlias = Callable[[Mask], Place | None]
"""Where the planner seats the gang once the set bool[u] has left."""

_DOMAINS: Final = 4
"""Domains that are tried, where the gang must lie in one: the cheapest to clear."""


_SPARED: Final = 2
"""Sets of which every member is asked about: the cheapest. It costs a question a victim."""


@dataclass(frozen=True, slots=True)
class Case:
    """The gang, and those who may leave, on which terms."""

    snapshot: Snapshot
    gang: Gang
    standing: Standing
    asks: tuple[Ask, ...]
    prove: Prove
    terms: Held


def mixed(case: Case) -> Mask | None:
    """bool[u]: a cheap set without which the planner would not seat the gang; None when it never does."""
    standing = case.standing
    level = next(
        (level for level in range(-1, standing.levels) if _seated(case, _upto(standing, level))), None
    )
    if level is None:
        return None
    cheapest = sorted(_trials(case, level), key=standing.price)[:_SPARED]
    return min((_spared(case, taken) for taken in cheapest), key=standing.price)


def _upto(standing: Standing, level: int) -> Mask:
    return standing.closed(standing.reach <= level)


def _seated(case: Case, taken: Mask) -> Place | None:
    """The planner's seats; it is not asked when counting says no already."""
    return case.prove(taken) if hopeful(case, taken) else None


def hopeful(case: Case, taken: Mask) -> bool:
    """Counting does not say no yet."""
    return bool(_able(case, taken).any())


def _able(case: Case, taken: Mask) -> Mask:
    """bool[d]: domains in which each kind of members, were it alone, has its seats."""
    room = case.standing.room(taken)
    able: Mask = np.logical_and.reduce([ask.found(room) >= ask.need for ask in case.asks])
    return able


def _trials(case: Case, level: int) -> Iterator[Mask]:
    """Sets that suffice, all of them up to this level."""
    everybody = _upto(case.standing, level)
    yield _in_the_way(case, everybody, level)
    for line in _lines(case, level):
        cleared = _cleared(case, line, everybody)
        if cleared is not None:
            yield _in_the_way(case, cleared, level)


def _lines(case: Case, level: int) -> list[NDArray[np.int64]]:
    """Nodes in the order in which to clear them: one line, or one for each domain that is cheap to clear."""
    standing = case.standing
    search = search_of(standing, case.asks[0], level, np.zeros(len(standing.units), dtype=bool))
    cost = np.bincount(search.whole.owner, minlength=len(standing.units)).clip(1)
    shares = search.cost[search.whole.owner] / cost[search.whole.owner]
    clearing = np.bincount(search.whole.row, shares, len(standing.free))
    each = clearing / np.maximum(_worth(case, level), 1e-9)
    domain = np.max([ask.domain for ask in case.asks], axis=0)
    domain = np.where(_able(case, _upto(standing, level))[domain], domain, NOWHERE)
    rows = np.flatnonzero((domain != NOWHERE) & (clearing > 0))
    rows = rows[np.argsort(each[rows], kind="stable")]
    groups = [rows[domain[rows] == own] for own in np.unique(domain[rows]).tolist()]
    return sorted(groups, key=lambda group: float(clearing[group].sum()))[:_DOMAINS]


def _worth(case: Case, level: int) -> Counts:
    """float64[n]: the part of the gang that each node could hold, were it cleared."""
    room = case.standing.room(_upto(case.standing, level))
    worth = np.zeros(len(room))
    for ask in case.asks:
        worth += np.where(
            ask.domain == NOWHERE, 0.0, np.minimum(ask.seats(room[:, ask.columns]), ask.need) / ask.need
        )
    return worth


def _cleared(case: Case, line: NDArray[np.int64], everybody: Mask) -> Mask | None:
    """Whoever stands on the first nodes of the line, on as few as suffice."""
    entries = case.standing.entries
    place = np.full(len(case.standing.free), len(line))
    place[line] = np.arange(len(line))

    def upto(count: int) -> Mask:
        taken = np.zeros(len(everybody), dtype=bool)
        taken[entries.owner[place[entries.row] < count]] = True
        return case.standing.closed(taken & everybody)

    low, high = 0, len(line)
    if _seated(case, upto(high)) is None:
        return None
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _seated(case, upto(middle)) else (middle, high)
    return upto(high)


def _in_the_way(case: Case, taken: Mask, level: int) -> Mask:
    """Only those of the set without whose leaving these very seats would not be free."""
    place = _seated(case, taken)
    if place is None:
        return taken
    standing, needed = case.standing, needed_by(case, place)
    used = np.flatnonzero(needed.any(axis=1))
    # One "seat" a node: what is free there less what is needed, plus one, so that none is left wanting
    # exactly where every column is at least one.
    missing = np.where(needed > 0, standing.free - needed + 1.0, 1.0)
    seats = Standing(standing.units, missing, standing.entries, standing.leader, standing.level)
    domain = np.full(len(missing), NOWHERE, dtype=np.int64)
    domain[used] = 0
    width = missing.shape[1]
    ask = Ask(len(used), np.arange(width), np.ones(width), 1.0, domain, 1)
    search = search_of(seats, ask, level, np.zeros(len(taken), dtype=bool))
    answer = solve(search, search.ways(), domain >= 0)
    return taken if answer is None or not _seated(case, answer.taken) else answer.taken


def needed_by(case: Case, place: Place) -> Matrix:
    """float64[n, r]: what the gang's members use on each node."""
    needed = np.zeros_like(case.standing.free)
    axis = case.snapshot.axis
    wants: dict[str, Vector] = {}
    for role in case.gang.roles:
        wants |= dict.fromkeys(role.quorum, axis.vector(role.demand.requests))
    for uid, node in place.seats.items():
        needed[case.snapshot.index[node]] += wants[uid]
    return needed


def _spared(case: Case, taken: Mask) -> Mask:
    """The set without whoever is not needed: the highest level first, and in it the dearest.

    Round and round until nobody of a whole round could stay: a gang that stays frees its surplus to stay, too, and
    the planner may seat the gang in less room where it did not in more.
    """
    standing = case.standing
    line = np.lexsort((standing.lost, standing.level))[::-1].tolist()
    turn, vain = 0, 0
    while vain < len(line):
        unit = line[turn % len(line)]
        turn, vain = turn + 1, vain + 1
        if taken[unit] and not standing.forced(taken)[unit]:
            rest = taken.copy()
            rest[unit] = False
            if _seated(case, rest) is not None:
                taken, vain = rest, 0
    return taken
