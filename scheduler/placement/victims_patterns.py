"""Ways to make seats on one node: which of those who stand there would leave, and how many seats that gives.

Lives here: the ways of every node, none of them wasteful (whoever is left out, seats are lost).
Never here: which way is taken (victims_cover).
Why apart: once the ways are known, what each would cost is a sum, for other shares of a gang's cost as well.
Nodes on which few stand are enumerated; on others those who give most for their cost come first, by several measures.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Mask, Matrix
from scheduler.model.resources import Vector
from scheduler.placement.distribution import Counts
from scheduler.placement.victims import Entries
from scheduler.placement.victims_seats import Ask

Places: TypeAlias = NDArray[np.int64]
"""int64: positions in some other array."""

FEW: Final = 10
"""Of so many on one node every subset is looked at: at most 1,024."""

_BLOCK: Final = 2_000_000
"""Numbers in one array of an enumeration; more are done in several steps."""

_APART: Final = 50
"""Units on one node that are told apart by bits of a float64; among more, some sets are taken for the same."""

_NOTHING: Final = 1e-9
"""Less than any part of a seat that somebody could give."""

_KEPT: Final = 48
"""Ways kept of one node and number of seats: the cheapest."""


@dataclass(frozen=True, slots=True)
class Ways:
    """All ways, sorted by node and seats.

    row: int64[w].  gain: int64[w], seats beside those that are there anyway, at least 1.
    first: int64[w], where the way's entries begin in `entry`; entry: int64[...], positions in the entries.
    """

    row: Places
    gain: Places
    first: Places
    entry: Places

    def __len__(self) -> int:
        return len(self.row)

    @property
    def owner(self) -> Places:
        """For each of `entry`, the way that it belongs to."""
        return np.repeat(np.arange(len(self.row)), np.diff(np.append(self.first, len(self.entry))))

    def entries(self, way: int) -> Places:
        """Positions of the entries of one way."""
        end = self.first[way + 1] if way + 1 < len(self.first) else len(self.entry)
        return self.entry[self.first[way] : end]

    def costs(self, shares: Vector) -> Vector:
        """float64[w]: the sum of the shares of its entries. shares: float64[e]."""
        if not len(self.row):
            return np.zeros(0)
        return np.add.reduceat(shares[self.entry], self.first)


@dataclass(frozen=True, slots=True)
class _Crowd:
    """Nodes with equally many entries.

    rows: int64[q].  base: float64[q], seats that are there.  top: float64[q], more are of no use.
    entry: int64[q, m].  free: float64[q, c].  use: float64[q, m, c].  clash: bool[q, m, m], never both.
    """

    rows: Places
    base: Counts
    top: Counts
    entry: Places
    free: Matrix
    use: NDArray[np.float64]
    clash: NDArray[np.bool_]


def ways(free: Matrix, entries: Entries, leader: Places, ask: Ask, shares: Vector, alone: Mask) -> Ways:
    """Every way worth looking at.

    free: float64[n, r].  leader: int64[u], in whose entry of the same node one is counted already, or -1.
    shares: float64[e], what each entry costs.  alone: bool[e], its unit stands on no other node.
    """
    parts = [part for crowd in _crowds(free, entries, leader, ask) for part in _of(crowd, ask, shares)]
    found = [part for part in parts if len(part.row)]
    if not found:
        none = np.zeros(0, dtype=np.int64)
        return Ways(none, none, none, none)
    return _cheapest(found, shares, alone, entries.row)


def _crowds(free: Matrix, entries: Entries, leader: Places, ask: Ask) -> Iterator[_Crowd]:
    room = free[:, ask.columns]
    base = np.minimum(ask.seats(room), ask.need)
    full = room.copy()
    use = entries.use[:, ask.columns]
    once = ~_counted_already(entries, leader)
    np.add.at(full, entries.row[once], use[once])
    top = np.minimum(ask.seats(full), ask.need + base)
    lack = np.maximum(top[:, None] * ask.wants - room, 0.0)
    useful = (ask.domain >= 0) & (top > base)
    kept = np.flatnonzero(useful[entries.row] & (np.minimum(use, lack[entries.row]) > 0).any(axis=1))
    kept = kept[np.argsort(entries.row[kept], kind="stable")]
    rows, begin, sizes = np.unique(entries.row[kept], return_index=True, return_counts=True)
    for size in np.unique(sizes).tolist():
        here = np.flatnonzero(sizes == size)
        step = max(1, _BLOCK // (2 ** min(size, FEW) * max(len(ask.columns), 1)))
        for part in np.array_split(here, -(-len(here) // step)):
            entry = kept[begin[part][:, None] + np.arange(size)]
            owner = entries.owner[entry]
            clash = leader[owner][:, :, None] == owner[:, None, :]
            yield _Crowd(
                rows[part], base[rows[part]], top[rows[part]], entry, room[rows[part]], use[entry], clash
            )


def _counted_already(entries: Entries, leader: Places) -> Mask:
    """bool[e]: surplus whose gang stands here as well and takes it along."""
    there = np.zeros(len(leader) + 1, dtype=bool)
    there[entries.owner] = True
    counted: Mask = there[leader[entries.owner]]
    return counted


@dataclass(frozen=True, slots=True)
class _Part:
    """Ways found: row[w], gain[w], and whose entries, chosen[w, m] of entry[w, m]."""

    row: Places
    gain: Places
    entry: Places
    chosen: NDArray[np.bool_]


def _of(crowd: _Crowd, ask: Ask, shares: Vector) -> Iterator[_Part]:
    size = crowd.entry.shape[1]
    if size <= FEW:
        yield _enumerated(crowd, ask)
        return
    value = (crowd.use / ask.wants).clip(0, crowd.top[:, None, None]).sum(axis=2)
    cost = shares[crowd.entry]
    each = cost / np.maximum(value, _NOTHING)
    led = np.where(crowd.clash.any(axis=2), np.inf, 0.0)
    for rank in (each, cost, -value):
        # Once with surplus as it comes, and once after everybody else: its gang on the same node counts for it.
        for last in (0.0, led)[: 1 + bool(led.any())]:
            yield from _in_turn(crowd, ask, np.argsort(rank + last, axis=1, kind="stable"), cost)
    best = np.sort(np.argsort(each, axis=1, kind="stable")[:, :FEW], axis=1)
    yield _enumerated(_chosen(crowd, best), ask)


def _chosen(crowd: _Crowd, places: Places) -> _Crowd:
    """Only these of each node: places int64[q, k]."""
    at = np.arange(len(places))[:, None]
    clash = crowd.clash[at[:, :, None], places[:, :, None], places[:, None, :]]
    return _Crowd(
        crowd.rows, crowd.base, crowd.top, crowd.entry[at, places], crowd.free, crowd.use[at, places], clash
    )


def _subsets(size: int) -> NDArray[np.bool_]:
    """bool[2**size, size]."""
    return (np.arange(2**size)[:, None] >> np.arange(size) & 1).astype(bool)


def _enumerated(crowd: _Crowd, ask: Ask) -> _Part:
    size = crowd.entry.shape[1]
    chosen = _subsets(size)
    room = crowd.free[:, None, :] + chosen.astype(float) @ crowd.use
    seats = np.minimum(ask.seats(room), crowd.top[:, None])
    keen = seats > crowd.base[:, None]
    for place in range(size):
        halves = (len(seats), -1, 2, 1 << place)  # without this entry, and with it
        without, with_it = np.moveaxis(seats.reshape(halves), 2, 0)
        keen.reshape(halves)[:, :, 1] &= with_it > without
    for node, one, other in zip(*np.nonzero(crowd.clash), strict=True):
        keen[node] &= ~(chosen[:, one] & chosen[:, other])
    at, subset = np.nonzero(keen)
    gain = (seats - crowd.base[:, None])[at, subset].astype(np.int64)
    return _Part(crowd.rows[at], gain, crowd.entry[at], chosen[subset])


def _in_turn(crowd: _Crowd, ask: Ask, order: Places, cost: Matrix) -> Iterator[_Part]:
    """For every number of seats the first of this order that make it, less whoever of them is not needed."""
    at = np.arange(len(order))[:, None]
    use = crowd.use[at, order]
    seats = ask.seats(crowd.free[:, None, :] + np.cumsum(use, axis=1))
    most = int((crowd.top - crowd.base).max())
    for gain in range(1, most + 1):
        wanted = crowd.base + gain
        able = np.flatnonzero((wanted <= crowd.top) & (seats[:, -1] >= wanted))
        upto = (seats[able] >= wanted[able, None]).argmax(axis=1)
        chosen = np.zeros(crowd.entry.shape, dtype=bool)[able]
        np.put_along_axis(chosen, order[able], np.arange(order.shape[1]) <= upto[:, None], axis=1)
        _spare(crowd, ask, able, wanted[able], chosen, cost)
        fine = ~(chosen[:, :, None] & chosen[:, None, :] & crowd.clash[able]).any(axis=(1, 2))
        kept = able[fine]
        yield _Part(crowd.rows[kept], np.full(len(kept), gain), crowd.entry[kept], chosen[fine])


def _spare(
    crowd: _Crowd, ask: Ask, able: Places, wanted: Counts, chosen: NDArray[np.bool_], cost: Matrix
) -> None:
    """Take back from bool[q, m], the dearest first, whoever is not needed for so many seats."""
    use, lines = crowd.use[able], np.arange(len(able))
    room = crowd.free[able] + (use * chosen[:, :, None]).sum(axis=1)
    for place in np.argsort(-cost[able], axis=1, kind="stable").T:
        less = room - use[lines, place]
        spared = chosen[lines, place] & (ask.seats(less) >= wanted)
        chosen[lines[spared], place[spared]] = False
        room[spared] = less[spared]


def _cheapest(found: list[_Part], shares: Vector, alone: Mask, entry_rows: Places) -> Ways:
    """One way of those that differ only in units that stand on one node; of the rest the cheapest few."""
    row = np.concatenate([part.row for part in found])
    gain = np.concatenate([part.gain for part in found])
    sizes = np.concatenate([part.chosen.sum(axis=1) for part in found])
    entry = np.concatenate([part.entry[part.chosen] for part in found])
    whole = _ways(row, gain, sizes, entry)
    owner = whole.owner
    cost = whole.costs(shares)
    mark = np.bincount(owner, _marks(entry_rows, alone)[entry], len(row))
    order = np.lexsort((cost, mark, gain, row))
    again = (np.diff(row[order]) == 0) & (np.diff(gain[order]) == 0) & (np.diff(mark[order]) == 0)
    order = order[~np.concatenate(([False], again))]
    order = order[np.lexsort((cost[order], gain[order], row[order]))]
    new = np.concatenate(([True], (np.diff(row[order]) != 0) | (np.diff(gain[order]) != 0)))
    rank = np.arange(len(order)) - np.flatnonzero(new)[np.cumsum(new) - 1]
    order = order[rank < _KEPT]
    spans = np.arange(sizes[order].sum()) - np.repeat(np.cumsum(sizes[order]) - sizes[order], sizes[order])
    return _ways(
        row[order], gain[order], sizes[order], entry[np.repeat(whole.first[order], sizes[order]) + spans]
    )


def _marks(rows: Places, alone: Mask) -> Vector:
    """float64[e]: 0 for who stands on one node only, else a power of two: its sums tell sets of a node apart."""
    order = np.argsort(rows, kind="stable")
    shared = ~alone[order]
    count = np.cumsum(shared)
    begin = np.searchsorted(rows[order], rows[order])
    before: Places = (count - shared)[begin]
    marks = np.zeros(len(rows))
    marks[order] = np.where(shared, 2.0 ** ((count - before) % _APART), 0.0)
    return marks


def _ways(row: Places, gain: Places, sizes: Places, entry: Places) -> Ways:
    return Ways(row, gain, np.cumsum(sizes) - sizes, entry)
