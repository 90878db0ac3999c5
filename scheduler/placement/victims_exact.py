"""The cheapest victims among a few: every set is priced, and they are told apart in that order.

Lives here: the order of all sets, less those that cannot suffice.
Never here: whether a set suffices; the caller says so.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Mask
from scheduler.model.resources import Vector
from scheduler.placement.victims import Standing
from scheduler.placement.victims_bounds import Change, Even, evenly, together
from scheduler.placement.victims_seats import Ask

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
    """int64[q], the nodes on which somebody stands, and float64[s, q, r], their room once each set has left."""
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
