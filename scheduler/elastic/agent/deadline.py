"""One time for all the steps of a call.

A limit for each step makes no limit: two addresses, TLS, and an answer that comes byte by byte have it again and again.
"""

from __future__ import annotations

import socket
import time
from typing import Callable

Clock = Callable[[], float]


class Deadline:
    """So many seconds from now on."""

    def __init__(self, seconds: float, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def left(self) -> float:
        """Seconds, above 0. Raises socket.timeout when they are over."""
        left = self._end - self._clock()
        if left <= 0:
            raise socket.timeout("timed out")
        return left
