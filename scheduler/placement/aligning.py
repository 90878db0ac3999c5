"""Members seated one by one, each on the node that is best aligned with its demand at that moment.

Why a heap: a seat changes the score of its own node only, so the next best is found without looking at all
nodes again, and a thousand members stay quick.
"""

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.placement import scoring
from scheduler.placement.filling import Codes, Counts
from scheduler.placement.pool import Scratch, total
from scheduler.placement.task import Task

_Entry = tuple[int, float, float, int]
"""Tier, score (lower is better), free devices, place: the smallest is next."""


class _Places:
    """The places of one batch: scores of all, and how one of them changes by a seat."""

    def __init__(self, task: Task, scratch: Scratch, batch: int, tier: Codes) -> None:
        pool = task.pool
        self.pool: Final = pool
        self.tier: Final = tier
        self.alignment: Final = scoring.ALIGNMENTS[task.strategy]
        self.wanted: Final = scoring.shape(pool.snapshot.axis, pool.scale, pool.batches[batch].demand)
        self.free: Final = scoring.shapes(pool, scratch)
        self.score: Final = -self.alignment(self.free, self.wanted)
        self.need: Final = pool.needed_devices(batch)

    def entry(self, place: int, seats: int) -> _Entry:
        """The entry of a place on which so many of this batch sat down already."""
        devices = float(self.pool.devices[place]) - seats * self.need
        if not seats:
            return (int(self.tier[place]), float(self.score[place]), devices, place)
        free = [
            max(float(have[place]) - seats * want, 0.0)
            for have, want in zip(self.free, self.wanted, strict=True)
        ]
        return (int(self.tier[place]), -float(self.alignment(free, self.wanted)), devices, place)

    def ranked(self, live: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places, best first, as long as nobody sat down."""
        return live[np.lexsort([live, self.score[live], self.tier[live]])]


def _seat(places: _Places, units: Counts, members: int) -> Counts:
    """Counts[m]: `members` seats, each the best at its turn; fewer when the room ends."""
    take = np.zeros(len(units))
    fresh = iter(places.ranked(np.flatnonzero(units > 0)).tolist())
    following = next(fresh, None)
    heap: list[_Entry] = []
    for _ in range(members):
        if following is not None and (not heap or places.entry(following, 0) < heap[0]):
            heappush(heap, places.entry(following, 0))
            following = next(fresh, None)
        if not heap:
            break
        place = heappop(heap)[3]
        take[place] += 1
        if take[place] < units[place]:
            heappush(heap, places.entry(place, int(take[place])))
    return take


def align(task: Task, scratch: Scratch, batch: int, units: Counts, members: int, tier: Codes) -> Counts:
    """Counts[m]: seats for as many members of the batch as there is room for, lower tiers first."""
    return _seat(_Places(task, scratch, batch, tier), units, members)


def realign(task: Task, takes: Mapping[int, Counts], fine: Codes, fines: int) -> Scratch | None:
    """The same number of each batch in each fine domain, on the best aligned nodes there.

    None when a later batch then no longer finds its room; the seating that `takes` is, still stands.
    """
    scratch = task.scratch()
    level = np.zeros(len(fine), dtype=np.int64)
    for batch, taken in takes.items():
        units = scratch.units(batch)
        quota, room = total(fine, taken, fines), total(fine, units, fines)
        if (quota > room).any():
            return None
        take = np.where((quota == room)[fine] & (fine >= 0), units, 0.0)
        places = _Places(task, scratch, batch, level)
        for domain in np.flatnonzero((quota > 0) & (quota < room)).tolist():
            take += _seat(places, np.where(fine == domain, units, 0.0), int(quota[domain]))
        scratch.put(batch, take)
    return scratch
