"""How all ranks leave a round at the same step when a newer one is announced.

A thread waits for the announcement and keeps the highest round that it heard. It is a level, not an edge: an announcement
that comes twice, or while a round is entered, loses nothing.

Asking all ranks costs a collective: one broadcast of two numbers from rank 0, the wanted round and the number of steps
until the next question. Stock Horovod broadcasts two pickles at every commit (2 to 7 ms). Here rank 0 chooses the steps in
between from its own measurement, so that asking costs less than 1 % of the training. The number travels with the answer,
so all ranks count alike.
"""

from __future__ import annotations

import math
import threading
from collections import deque

from .agent_client import Shim

COST = 0.01
"""The part of the training time that asking may take."""

LATEST = 1.0
"""Seconds after which an announcement is heard at the latest, whatever asking costs."""

KEPT = 8
"""Measurements of which the smallest counts: the others contain waiting for a peer, which no interval would save."""


def interval(check_s: float, step_s: float) -> int:
    """Steps from one question to the next: the fewest that keep its cost below `COST`, within `LATEST` seconds."""
    if step_s <= 0:
        return 1
    wanted = math.ceil(check_s / (COST * step_s) - 1e-9)
    return max(1, min(wanted, int(LATEST / step_s)))


class Pace:
    """Counts the steps to the next question, and measures."""

    def __init__(self) -> None:
        self._left = 0
        self._checks: deque[float] = deque(maxlen=KEPT)
        self._steps: deque[float] = deque(maxlen=KEPT)

    def due(self) -> bool:
        """Whether to ask at this step; the same on all ranks."""
        self._left -= 1
        return self._left <= 0

    def begin(self) -> None:
        """A new round: everybody asks at its first step."""
        self._left = 0

    def wish(self) -> int:
        """What rank 0 proposes for the next interval."""
        if not self._checks or not self._steps:
            return 1
        return interval(min(self._checks), sorted(self._steps)[len(self._steps) // 2])

    def agreed(self, steps: int, took: float) -> None:
        """The interval that all ranks heard, and the seconds that hearing it took."""
        self._left = max(1, steps)
        self._checks.append(took)

    def stepped(self, seconds: float) -> None:
        """One step of that many seconds, asking included."""
        self._steps.append(seconds)


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
