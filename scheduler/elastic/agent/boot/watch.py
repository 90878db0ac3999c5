"""Waits for the announcement of a newer round, in a thread of its own, and keeps the highest one heard.

A level, not an edge: the loop compares the round it is in with the round that is wanted, so nothing is lost when an
announcement comes while a round is being entered, twice, or while Horovod's `on_reset` empties its own queue of
messages.
"""

from __future__ import annotations

import threading

from .shim import Shim


class Watch(threading.Thread):
    """`target` is the newest round announced; `entered(n)` says which round we are in."""

    def __init__(self, shim: Shim, target: int = 0) -> None:
        super().__init__(name="gangwright-watch", daemon=True)
        self.target = target
        self._shim, self._over = shim, threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            self.target = max(self.target, self._shim.announced(self.target))

    def entered(self, round_: int) -> None:
        """From now on only what is above `round_` is news."""
        self.target = max(self.target, round_)

    def stop(self) -> None:
        """Ends with the poll that is under way; nobody waits for it."""
        self._over.set()
