"""The queue by shape: who of one shape still waits, in the order of the queue, and who of them is next.

Lives here: the next of all, and the next who is expected to be gone by a certain time.
Never here: room (forecast_capacity), whose turn it is between shapes (simulation).
Why by shape: thousands who wait are of a few shapes, and what is answered to one gang holds for all of its shape. Asked
by shape, a pass over the queue costs by who begins and not by who waits.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import numpy as np

from scheduler.model.resources import Vector


class ShapeQueue:
    """Those of one shape.

    places: of each, its place in the queue; ascending.  spans: float64[k], the seconds each is expected to run.
    """

    def __init__(self, places: Sequence[int], spans: Vector) -> None:
        self._places: Final = places
        self._spans: Final = spans.copy()
        self._gone: Final[set[int]] = set()
        self._first = 0

    def first(self) -> int | None:
        """The place of the first who waits."""
        while self._first < len(self._places) and self._places[self._first] in self._gone:
            self._first += 1
        return self._places[self._first] if self._first < len(self._places) else None

    def first_short(self, after: int, now: float, end: float) -> int | None:
        """The place of the first behind `after` who, begun now, is expected to leave by this end."""
        behind = bisect_left(self._places, after + 1)
        short = now + self._spans[behind:] <= end
        found = int(short.argmax()) if len(short) else 0
        return self._places[behind + found] if len(short) and short[found] else None

    def leave(self, place: int) -> None:
        """This one waits no more."""
        self._gone.add(place)
        self._spans[bisect_left(self._places, place)] = np.nan  # by no end
