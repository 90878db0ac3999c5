"""Distributes a number of members over bins, for all groups of bins at once.

A bin is a node or a domain, and a group is the domain that contains it. All functions are exact, deterministic, and
free of Python loops over bins, so a trial in every domain of a level costs one sort.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Counts: TypeAlias = NDArray[np.float64]
"""Whole numbers of members, as float64 to avoid conversions in arithmetic with amounts of resources."""

Codes: TypeAlias = NDArray[np.int64]
"""The group of each bin, or -1 for no group."""

MOST: Final = 2.0**20 - 1
"""A cap on the members in one bin, far above the largest gang."""

_TWO_BYTES: Final = 2**16

_SMALL: Final = 2.0**15
"""Numbers with a smaller absolute value fit in two bytes."""

TIERS: Final = 16
"""The number of tiers that rank nodes by how many members they hold, fewest first. The last tier has no upper bound."""


def fill(units: Counts, group: Codes, quota: Counts, tier: Codes) -> Counts:
    """Counts[b]: how many members each bin takes, so that each group g takes quota[g] in the fewest bins.

    units: Counts[b], how many fit in a bin.  group: Codes[b].  quota: Counts[g].
    tier: Codes[b], 0 or more. Bins of a lower tier are filled before any of a higher one.
    Within a tier the roomiest bins are filled first, and the rest goes to the tightest bin that holds it. Ties go to
    the earlier bin. A group without enough room takes as many as fit.
    """
    take = np.zeros(len(units))
    wanting = np.append(quota > 0, False)  # the last entry is for bins of no group, -1
    live = np.flatnonzero((units > 0) & wanting[group])
    if len(live):
        line = _lined_up(np.minimum(units[live], MOST), group[live], tier[live])
        places, seats = _dealt(line, quota)
        take[live[places]] = seats
    return take


@dataclass(frozen=True, slots=True)
class _Line:
    """Bins sorted by group, tier, room (most first) and place.

    order: int64[b], the bin at each position.  group: Codes[b].  upto: Counts[b], the room up to and including each bin.
    key: int64[b], ascending: group, tier and `most` minus the bin's size, as one number.  width: how many numbers
    each tier has.
    """

    order: NDArray[np.int64]
    group: Codes
    upto: Counts
    key: NDArray[np.int64]
    most: int
    width: int


def _lined_up(size: Counts, group: Codes, tier: Codes) -> _Line:
    """size: Counts[b], above 0.  numpy sorts two-byte numbers with a radix sort, in a third of the time."""
    low, high, most = int(tier.min()), int(tier.max()), int(size.max())
    width, tiers = most + 1, high - low + 1
    key = (group * tiers + (tier - low)) * width + (most - size).astype(np.int64)
    if (int(group.max()) + 1) * tiers * width <= _TWO_BYTES:
        order = np.argsort(key.astype(np.uint16), kind="stable")
    else:
        order = np.argsort(key * len(size) + np.arange(len(size)))
    return _Line(order, group[order], np.cumsum(size[order]), key[order], most, width)


def _dealt(line: _Line, quota: Counts) -> tuple[NDArray[np.int64], Counts]:
    """The numbers of the used bins, and how many members each of them takes.

    Each group fills its bins from the front, up to the first that holds more than the rest.
    """
    start = np.flatnonzero(np.concatenate(([True], line.group[1:] != line.group[:-1])))
    end = np.append(start[1:], len(line.group))
    before = np.append(line.upto, 0.0)  # read one to the left; 0.0 is before the first
    base, wanted = before[start - 1], quota[line.group[start]]
    stop = np.minimum(np.searchsorted(line.upto, base + wanted, side="right"), end)
    rest = wanted - (before[stop - 1] - base)
    open_ = (stop < end) & (rest > 0)
    last = _tightest(line, stop[open_], rest[open_])
    length = stop - start
    full = np.arange(length.sum()) + np.repeat(start - (np.cumsum(length) - length), length)
    sizes = line.most - line.key[full] % line.width
    return line.order[np.concatenate((full, last))], np.concatenate((sizes, rest[open_]))


def _tightest(line: _Line, head: NDArray[np.int64], rest: Counts) -> NDArray[np.int64]:
    """The tightest bin that holds the rest, from each head on within its group and tier. Ties go to the first.

    The heads themselves hold it, so every answer is in their tier.
    """
    tier = line.key[head] // line.width * line.width
    snug = np.searchsorted(line.key, tier + (line.most - rest).astype(np.int64), side="right") - 1
    return np.maximum(np.searchsorted(line.key, line.key[snug]), head)


def ascending(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The stable ascending order of these values. Small whole numbers get a radix sort, in a quarter of the time."""
    if np.abs(values).max(initial=0.0) < _SMALL:
        short = values.astype(np.int16)
        if (short == values).all():
            return np.argsort(short, kind="stable")
    return np.argsort(values, kind="stable")


def share(have: Counts, room: Counts, members: int) -> Counts:
    """Counts[d]: how many of the members each domain gets, so that have + given is as even as room allows.

    Like water, the lowest domains rise together. The last, incomplete layer goes to the domains with the most room
    left, and ties to the earlier one. Fewer than `members` are given only if all room is used.
    """
    if not len(have) or room.sum() <= members:
        return room.copy()
    low, high = int(have.min()), int(have.max()) + members
    while low < high:
        middle = (low + high + 1) // 2
        if _within(middle - have, room).sum() <= members:
            low = middle
        else:
            high = middle - 1
    given = _within(low - have, room)
    rising = np.flatnonzero((given < room) & (have + given == low))
    chosen = rising[ascending((given - room)[rising])]
    given[chosen[: int(members - given.sum())]] += 1
    return given


def _within(wanted: Counts, room: Counts) -> Counts:
    """The wanted amount, at least 0 and at most the room."""
    out: Counts = np.minimum(np.maximum(wanted, 0), room)
    return out
