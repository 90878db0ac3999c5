"""The newest round that was announced: heard from the master by whoever asks, told to whoever waits for it."""

from __future__ import annotations

import threading


class Announcements:
    """A number that only grows, and a way to wait until it has."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._newest = 0
        self._closed = False

    @property
    def newest(self) -> int:
        with self._condition:
            return self._newest

    def saw(self, number: int) -> None:
        """A round is announced; what is older than the newest is late news."""
        with self._condition:
            if number > self._newest:
                self._newest = number
                self._condition.notify_all()

    def wait(self, after: int, seconds: float) -> int:
        """The newest round, as soon as it is above `after`, or after `seconds`, or when this is closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or self._newest > after, seconds)
            return self._newest

    def close(self) -> None:
        """Nobody needs to wait any more."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
