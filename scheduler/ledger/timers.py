"""Pending wake-up times, one per gang."""

import heapq
from collections.abc import Iterator
from typing import Final

from scheduler.model.workload import GangKey

SPARE: Final = 64
"""Stale heap entries beyond the number of valid ones that are tolerated before a cleanup."""


class Timers:
    """When each gang is due. Finding the next one is cheap, however many there are."""

    def __init__(self) -> None:
        self._at: dict[GangKey, float] = {}
        self._heap: list[tuple[float, GangKey]] = []

    def __len__(self) -> int:
        """Gangs that have a time."""
        return len(self._at)

    def at(self, key: GangKey) -> float:
        """When this gang is due; infinity: never."""
        return self._at.get(key, float("inf"))

    def set(self, key: GangKey, at: float) -> None:
        """Set the only time of this gang; infinity: never."""
        if at == float("inf"):
            self.forget(key)
        elif self._at.get(key) != at:
            self._at[key] = at
            heapq.heappush(self._heap, (at, key))
            self._tidy()

    def forget(self, key: GangKey) -> None:
        """Remove this gang's time."""
        self._at.pop(key, None)

    def next(self) -> float:
        """When the next gang is due; infinity if none is."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else float("inf")

    def due(self, now: float) -> Iterator[GangKey]:
        """The gangs that are due, each once."""
        while self.next() <= now:
            _, key = heapq.heappop(self._heap)
            del self._at[key]
            yield key

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._at) + SPARE:
            self._heap = [(at, key) for key, at in self._at.items()]
            heapq.heapify(self._heap)
