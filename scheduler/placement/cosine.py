"""Seats members one by one, each on the node that is best aligned with its demand at that moment.

Why a heap: a seat changes only the score of its own node. So the next best node is found without checking all nodes
again, and a thousand members stay fast.
"""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.placement.distribution import Codes, Counts
from scheduler.placement.node_candidates import Scratch, SeatingProblem, total
from scheduler.placement.scoring import Alignment

_Entry = tuple[int, float, float, int]
"""Tier, score (lower is better), free devices, place. The smallest entry is next."""


class _Places:
    """Some places of one batch, renumbered in their order: their scores, and how a seat changes one of them.

    tier: Codes[p], lower ones are filled first.  units: Counts[p], how many members each holds.
    """

    def __init__(
        self,
        task: SeatingProblem,
        scratch: Scratch,
        batch: int,
        places: NDArray[np.int64],
        units: Counts,
        tier: Codes,
    ) -> None:
        pool = task.pool
        self.tier: Final = tier
        self.units: Final = units
        self.devices: Final = pool.devices[places]
        self._alignment: Final = Alignment(pool, scratch, dict(pool.requests[batch]), places)
        self.need: Final = pool.needed_devices(batch)

    def entry(self, place: int, seats: int) -> _Entry:
        """The entry of a place that already has this many seats of the batch."""
        devices = self.devices.item(place) - seats * self.need
        if not seats:
            return (self.tier.item(place), -self._alignment.steps.item(place), devices, place)
        return (self.tier.item(place), -self._alignment.after(place, seats), devices, place)

    def ranked(self, among: NDArray[np.int64]) -> Iterator[_Entry]:
        """The places that fit, best first, before any seat is taken.  among: ascending."""
        live = among[self.units[among] > 0]
        best: list[int] = live[np.lexsort([-self._alignment.steps[live], self.tier[live]])].tolist()
        return (self.entry(place, 0) for place in best)


def _seat(places: _Places, among: NDArray[np.int64], members: int) -> Counts:
    """Counts[p]: `members` seats on some of the places, each the best at its turn. Fewer if they do not all fit."""
    seats: dict[int, int] = {}
    fresh = places.ranked(among)
    following = next(fresh, None)
    heap: list[_Entry] = []
    for _ in range(members):
        if following is not None and (not heap or following < heap[0]):
            heappush(heap, following)
            following = next(fresh, None)
        if not heap:
            break
        place = heappop(heap)[3]
        seats[place] = taken = seats.get(place, 0) + 1
        if taken < places.units.item(place):
            heappush(heap, places.entry(place, taken))
    take = np.zeros(len(places.units))
    take[list(seats)] = list(seats.values())
    return take


def align(
    task: SeatingProblem, scratch: Scratch, batch: int, units: Counts, members: int, tier: Codes
) -> Counts:
    """Counts[m]: seats for as many members of the batch as fit, lower tiers first."""
    live = np.flatnonzero(units > 0)
    take = np.zeros(len(units))
    take[live] = _seat(
        _Places(task, scratch, batch, live, units[live], tier[live]), np.arange(len(live)), members
    )
    return take


def realign(task: SeatingProblem, takes: Mapping[int, Counts], fine: Codes, fines: int) -> Scratch | None:
    """The same number of each batch in each fine domain, on the best aligned nodes there.

    None: a later batch would no longer fit, so the seating in `takes` stays valid.
    """
    scratch = task.scratch()
    for batch, taken in takes.items():
        units = scratch.units(batch)
        quota, room = total(fine, taken, fines), total(fine, units, fines)
        if (quota > room).any():
            return None
        take = np.where((quota == room)[fine] & (fine >= 0), units, 0.0)
        partly = (quota > 0) & (quota < room)
        if partly.any():
            some = np.flatnonzero(partly[fine] & (fine >= 0))
            places = _Places(task, scratch, batch, some, units[some], np.zeros(len(some), dtype=np.int64))
            for domain in np.unique(fine[some]).tolist():
                take[some] += _seat(places, np.flatnonzero(fine[some] == domain), int(quota[domain]))
        scratch.put(batch, take)
    return scratch
