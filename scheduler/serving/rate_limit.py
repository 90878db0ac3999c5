"""Rate limits: one bucket of permits per source, refilled at a steady rate.

Lives here: the buckets. Never here: the meaning of a source.
"""

from collections import OrderedDict
from typing import Final

SOURCES: Final = 1024
"""Sources tracked at a time. The one that was quiet longest is dropped, and its bucket is full again."""


class Buckets:
    """A bucket for each source. burst: permits in a full bucket. rate: permits per second."""

    def __init__(self, burst: float, rate: float) -> None:
        self._burst = burst
        self._rate = rate
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, source: str, now: float, permits: float = 1) -> float:
        """Take permits, at most `burst`. Returns 0 if they were taken, otherwise the seconds until they exist."""
        left, at = self._left.pop(source, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        taken = left >= permits
        self._left[source] = (left - permits * taken, now)
        if len(self._left) > SOURCES:
            self._left.popitem(last=False)
        return 0.0 if taken else (permits - left) / self._rate
