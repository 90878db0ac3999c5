"""How often somebody may ask: a bucket of permits a source, filled at a steady rate.

Lives here: the buckets. Never here: who a source is.
"""

from collections import OrderedDict
from typing import Final

SOURCES: Final = 1024
"""Sources remembered at a time; the one that was quiet for longest is forgotten, and its bucket is full again."""


class Buckets:
    """A bucket for each source. burst: permits in a full one. rate: permits a second."""

    def __init__(self, burst: float, rate: float) -> None:
        self._burst = burst
        self._rate = rate
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, source: str, now: float, permits: float = 1) -> float:
        """Take so many permits, at most `burst`; the seconds until there are, 0 when they were taken."""
        left, at = self._left.pop(source, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        taken = left >= permits
        self._left[source] = (left - permits * taken, now)
        if len(self._left) > SOURCES:
            self._left.popitem(last=False)
        return 0.0 if taken else (permits - left) / self._rate
