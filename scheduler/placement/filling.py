"""How a number of members is shared out over bins, for all groups of bins at once.

A bin is a node or a domain; a group is the domain that holds it.  Both functions are exact, deterministic
and free of Python loops over bins: a trial in every domain of a level costs one sort.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Counts: TypeAlias = NDArray[np.float64]
"""Whole numbers of members; float64, so that no conversion is needed beside amounts of resources."""

Codes: TypeAlias = NDArray[np.int64]
"""The group of each bin, or -1 for none."""

MOST: Final = 2.0**20 - 1
"""More members than this in one bin is as good as this; far above the largest gang."""

TIERS: Final = 16
"""Tiers are distances in a tree of levels; more levels than this nobody configures."""


def fill(units: Counts, group: Codes, quota: Counts, tier: Codes) -> Counts:
    """Counts[b]: how many members each bin takes, so that each group g takes quota[g] in the fewest bins.

    units: Counts[b], how many a bin has room for.  group: Codes[b].  quota: Counts[g].
    tier: Codes[b], 0 … 15; a bin of a lower tier is used up before any of a higher one.
    Within a tier the roomiest bins are filled first, and the rest goes to the tightest bin that holds it;
    ties go to the earlier bin.  A group without enough room takes what it can.
    """
    take = np.zeros(len(units))
    if not len(quota):
        return take
    live = np.flatnonzero((units > 0) & (group >= 0) & (quota[group] > 0))
    if not len(live):
        return take
    order = live[np.argsort(_key(units, group, tier, live))]
    size, own, rank = np.minimum(units[order], MOST), group[order], tier[order]
    first = np.concatenate(([True], own[1:] != own[:-1]))
    number = np.cumsum(first) - 1
    upto = np.cumsum(size)
    before = upto - size - (upto - size)[first][number]
    rest = quota[own] - before
    full = size <= rest
    out = np.where(full, size, 0.0)
    head = np.flatnonzero(~full & (rest > 0) & (first | np.concatenate(([True], full[:-1]))))
    if len(head):
        _place_rest(out, size, rank, number, full, head, rest[head])
    take[order] = out
    return take


def _key(units: Counts, group: Codes, tier: Codes, live: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number a bin that sorts by group, tier, room (most first) and place; all distinct."""
    spare = (MOST - np.minimum(units[live], MOST)).astype(np.int64)
    return ((group[live] * TIERS + tier[live]) * int(MOST + 1) + spare) * len(units) + live


def _place_rest(
    out: Counts,
    size: Counts,
    rank: Codes,
    number: Codes,
    full: NDArray[np.bool_],
    head: NDArray[np.int64],
    rest: Counts,
) -> None:
    """Give the rest of each group to the tightest bin that holds it, among those of the head's tier.

    Bins are sorted: those of a group and tier that hold the rest follow its head without a gap, roomiest first.
    """
    groups = int(number[-1]) + 1
    wanted, level = np.full(groups, np.inf), np.full(groups, -1, dtype=np.int64)
    wanted[number[head]], level[number[head]] = rest, rank[head]
    holds = ~full & (size >= wanted[number]) & (rank == level[number])
    last = head + np.bincount(number[holds], minlength=groups)[number[head]] - 1
    tightest = np.full(groups, np.inf)
    tightest[number[head]] = size[last]
    equals = holds & (size == tightest[number])
    out[last - np.bincount(number[equals], minlength=groups)[number[head]] + 1] = rest


def share(have: Counts, room: Counts, members: int) -> Counts:
    """Counts[d]: how many of the members each domain gets, so that have + given is as level as room allows.

    Like water: the lowest domains rise together.  Those of the last, unfinished layer are the ones with most
    room left, ties to the earlier.  Less than `members` is given only when all room is used.
    """
    if not len(have) or room.sum() <= members:
        return room.copy()
    low, high = int(have.min()), int(have.max()) + members
    while low < high:
        middle = (low + high + 1) // 2
        if np.clip(middle - have, 0, room).sum() <= members:
            low = middle
        else:
            high = middle - 1
    given = np.clip(low - have, 0, room)
    rising = np.flatnonzero((given < room) & (have + given == low))
    chosen = rising[np.argsort(-(room - given)[rising], kind="stable")]
    given[chosen[: int(members - given.sum())]] += 1
    return given
