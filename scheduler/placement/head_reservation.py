"""Room kept for the head of the queue in one scenario, and what others may use beside it.

Lives here: what is left at the head's start, and the room that those find who stay beyond it.
Never here: when the head starts, who the others are (simulation).
"""

from typing import Final

import numpy as np

from scheduler.model.cluster import Matrix
from scheduler.placement.forecast_capacity import ForecastCapacity, Rows


class HeadReservation:
    """Room kept for the head from `start` on.

    left: float64[n, r], what is left then when the head has sat down.
    full: shapes that found no seats beside the head since room last came.
    """

    def __init__(self, head: int, start: float, left: Matrix) -> None:
        self.head: Final = head
        self.start: Final = start
        self.left: Final = left
        self.full: Final[set[int]] = set()
        self._beside: ForecastCapacity | None = None
        self._stale: Final[set[int]] = set()

    def changed(self, rows: Rows) -> None:
        """What is free or left on these rows is not what it was."""
        if self._beside is not None:
            self._stale.update(rows.tolist())

    def beside(self, capacity: ForecastCapacity) -> ForecastCapacity:
        """What those may use who stay beyond the start; `capacity` is what is free now.

        Counted when it is asked for, as more often than not somebody else has begun or left before anybody asks.
        """
        if self._beside is None:
            self._beside = ForecastCapacity(capacity.demands, np.minimum(capacity.free, self.left))
        elif self._stale:
            rows = np.array(sorted(self._stale))
            self._beside.put(rows, np.minimum(capacity.free[rows], self.left[rows]))
            self._stale.clear()
        return self._beside
