"""The cheapest victims among a few: every set is priced, and they are told apart in that order.

Lives here: the order of all sets, and conditions that every seating fulfils, counted for many sets at once: seats of each
demand, kinds of members that share nodes, and a spread that has to be even. A set that fails one of them is not asked about.
Never here: whether a set suffices (the planner), or what each kind needs alone (victims_seats).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Mask, Matrix
from scheduler.model.resources import Vector
from scheduler.placement.distribution import Counts
from scheduler.placement.node_candidates import SeatingProblem, total
from scheduler.placement.victims import Standing
from scheduler.placement.victims_seats import Ask

_DIRECTIONS: Final = np.linspace(0.0, 1.0, 17)[1:-1]
"""How much a member of one kind counts next to one of the other, as shares of what each kind needs."""

_SIDE_BY_SIDE: Final = 64
"""Members of one kind on one node; where more have room, a pair of kinds is not looked at."""

_SLACK: Final = 1e-9
"""Sums of shares are rounded."""

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Even:
    """Domains over which all members must lie evenly.

    codes: int64[n], the domain of each node.  have: Counts[d], who sits already.
    eligible: bool[d], the domains that count.  members: how many are to be seated.
    """

    codes: Codes
    have: Counts
    eligible: Mask
    members: int

    def possible(self, room: Counts) -> Mask:
        """bool[s]: Counts[s, d] is room for so many that no domain need have more than one above the emptiest."""
        if not self.eligible.any():
            enough: Mask = room.sum(axis=1) >= self.members
            return enough
        ceiling = (self.have + room)[:, self.eligible].min(axis=1) + 1
        below = np.clip(ceiling[:, None] - self.have, 0, room).sum(axis=1)
        out: Mask = below >= self.members
        return out


def even_of(task: SeatingProblem, codes: Codes) -> Even:
    """The domains of this task, which asks for an even spread; codes: int64[n]."""
    return Even(codes, task.have, task.eligible, sum(task.needs))


@dataclass(frozen=True, slots=True)
class Change:
    """The room of sets, where they change it.

    free: float64[n, r], the room while all stay.  rows: int64[q], the nodes on which a pod stands.
    room: float64[s, q, r], theirs once each set has left.
    """

    free: Matrix
    rows: NDArray[np.int64]
    room: NDArray[np.float64]


def evenly(change: Change, asks: tuple[Ask, ...], even: Even) -> Mask:
    """bool[s]: an even spread is not out of the question."""
    before, after = _heads(asks, change.free, None), _heads(asks, change.room, change.rows)
    domains = len(even.have)
    base = total(even.codes, before, domains)
    member = even.codes[change.rows][:, None] == np.arange(domains)
    return even.possible(base + (after - before[change.rows]) @ member)


def _heads(asks: tuple[Ask, ...], room: NDArray[np.float64], rows: NDArray[np.int64] | None) -> Counts:
    """Counts[..., n]: members of any kind on each node, were each kind alone there."""
    heads = np.zeros(room.shape[:-1])
    for ask in asks:
        domain = ask.domain if rows is None else ask.domain[rows]
        heads += np.where(domain < 0, 0.0, np.minimum(ask.seats(room[..., ask.columns]), ask.need))
    return heads


def together(change: Change, asks: tuple[Ask, ...]) -> Mask:
    """bool[s, d]: each two kinds of members have room side by side in the domain, were seats divisible among nodes."""
    able = np.ones((len(change.room), asks[0].domains), dtype=bool)
    for one, other in combinations(asks, 2):
        for found in _pair(change, one, other):
            np.logical_and(able, found, out=able)
    return able


def _pair(change: Change, one: Ask, other: Ask) -> Iterator[Mask]:
    """bool[s, d] in each direction: so much of what both need is found, each node giving the most that it can."""
    before = _most(one, other, change.free, one.domain, other.domain)
    rows = change.rows
    after = _most(one, other, change.room, one.domain[rows], other.domain[rows])
    if before is None or after is None:
        return
    domain = np.maximum(one.domain, other.domain)
    member = domain[rows][:, None] == np.arange(one.domains)
    for old, new in zip(before, after, strict=True):
        base = total(domain, old, one.domains)
        yield base + (new - old[rows]) @ member >= 1.0 - _SLACK


def _most(
    one: Ask, other: Ask, room: NDArray[np.float64], here: Codes, there: Codes
) -> list[NDArray[np.float64]] | None:
    """float64[..., n] for each direction: the most of both that a node gives, as a share of what both need.

    here, there: the domains of the nodes for each kind, -1 where it may not go. None: too many have room on one node.
    """
    alone = np.where(here < 0, 0.0, np.minimum(one.seats(room[..., one.columns]), one.need))
    most = int(alone.max(initial=0.0))
    if most > _SIDE_BY_SIDE:
        return None
    best = [np.zeros(alone.shape) for _ in _DIRECTIONS]
    left = room.copy()
    for count in range(most + 1):
        beside = np.where(there < 0, 0.0, np.minimum(other.seats(left[..., other.columns]), other.need))
        for share, so_far in zip(_DIRECTIONS, best, strict=True):
            both = share * count / one.need + (1.0 - share) * beside / other.need
            np.maximum(so_far, np.where(alone >= count, both, 0.0), out=so_far)
        left[..., one.columns] -= one.wants
    return best


FEW: Final = 12
"""Units of which every set is looked at: at most 4,096."""

_BLOCK: Final = 1_000_000
"""Numbers in one array; more are done in several steps."""


def cheapest_first(standing: Standing, asks: tuple[Ask, ...], even: Even | None = None) -> Iterator[Mask]:
    """Every set bool[u] that counting does not rule out; the cheapest first. No set that suffices is left out.

    A gang's surplus is in every set that the gang is in.  even: where all members must lie evenly.
    """
    count = len(standing.units)
    sets = (np.arange(2**count)[:, None] >> np.arange(count) & 1).astype(bool)
    led = np.flatnonzero(standing.leader >= 0)
    sets = sets[(sets[:, led] | ~sets[:, standing.leader[led]]).all(axis=1)]
    sets = sets[np.lexsort(_prices(standing, sets))]
    rows = np.unique(standing.entries.row)
    step = max(1, _BLOCK // max(1, len(rows) * standing.free.shape[1]))
    for begin in range(0, len(sets), step):
        block = sets[begin : begin + step]
        yield from block[_suffice(standing, asks, even, block)]


def _prices(standing: Standing, sets: Mask) -> list[Vector]:
    """As `Standing.price`, for every set; the last decides first, as lexsort has it."""
    weights = (*reversed(standing.kinds), standing.lost)
    keys = [
        sets.astype(float) @ np.where(standing.level == level, own, 0.0)
        for level in range(standing.levels)
        for own in weights
    ]
    return keys or [np.zeros(len(sets))]


def _rooms(standing: Standing, sets: Mask) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """int64[q], the nodes on which a pod stands, and float64[s, q, r], their room once each set has left."""
    rows, place = np.unique(standing.entries.row, return_inverse=True)
    give = np.zeros((sets.shape[1], len(rows), standing.free.shape[1]))
    np.add.at(give, (standing.entries.owner, place), standing.entries.use)
    freed = np.tensordot(sets.astype(float), give, axes=1)
    return rows, standing.free[rows] + freed


def _suffice(standing: Standing, asks: tuple[Ask, ...], even: Even | None, sets: Mask) -> Mask:
    """bool[s]: in some domain every ask, were it alone, has its seats, and so have each two of them together."""
    rows, room = _rooms(standing, sets)
    able: NDArray[np.bool_] = np.ones((len(sets), asks[0].domains), dtype=bool)
    for ask in asks:
        before = ask.seats(standing.free[rows][:, ask.columns])
        more = ask.seats(room[:, :, ask.columns]) - before
        member = ask.domain[rows][:, None] == np.arange(ask.domains)
        np.logical_and(able, ask.found(standing.free) + more @ member >= ask.need, out=able)
    found: NDArray[np.bool_] = np.logical_or.reduce(able, axis=1)
    hope = np.flatnonzero(found)
    change = Change(standing.free, rows, room[hope])
    found[hope] = (able[hope] & together(change, asks)).any(axis=1)
    if even is not None:
        found[hope] &= evenly(change, asks, even)
    return found
