"""Who comes of age when: gangs that move forward in the queue by their waiting alone."""

import heapq
from collections.abc import Iterator
from typing import Final

from scheduler.model.workload import GangKey

SPARE: Final = 64
"""Entries that nothing is true of any more, beyond as many as those that still are, up to which they are left lying."""


class Aging:
    """Times to come, one a gang. The next is at hand however many there are."""

    def __init__(self) -> None:
        self._at: dict[GangKey, float] = {}
        self._heap: list[tuple[float, GangKey]] = []

    def __len__(self) -> int:
        """Gangs that are to come of age."""
        return len(self._at)

    def note(self, key: GangKey, at: float, now: float) -> None:
        """This gang comes of age then; a time that is over, or never comes, is no time."""
        if not now < at < float("inf"):
            self.forget(key)
        elif self._at.get(key) != at:
            self._at[key] = at
            heapq.heappush(self._heap, (at, key))
            self._tidy()

    def forget(self, key: GangKey) -> None:
        """It waits no longer."""
        self._at.pop(key, None)

    def due(self, now: float) -> bool:
        """Somebody may have come of age."""
        return bool(self._heap) and self._heap[0][0] <= now

    def come(self, now: float) -> Iterator[GangKey]:
        """Who has come of age, each once."""
        while self.due(now):
            at, key = heapq.heappop(self._heap)
            if self._at.get(key) == at:
                del self._at[key]
                yield key

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._at) + SPARE:
            self._heap = [(at, key) for key, at in self._at.items()]
            heapq.heapify(self._heap)
