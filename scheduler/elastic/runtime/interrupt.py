"""Makes all ranks leave a round at the same step when a newer one is announced.

A thread waits for the announcement and keeps the highest announced round. It is a level, not an edge: an announcement
that comes twice, or while a round is entered, is not lost.

The check costs a collective: one broadcast of two numbers from rank 0, the target round and the number of steps until
the next check. Stock Horovod broadcasts two pickles at every commit (2 to 7 ms). Here rank 0 chooses the number of
steps from its own measurement, so that checks cost less than 1% of the training. The broadcast contains that number, so
all ranks count alike.
"""

from __future__ import annotations

import math
import threading
from collections import deque

from .agent_client import Shim

COST = 0.01
"""Maximum fraction of the training time for checks."""

LATEST = 1.0
"""Maximum seconds until an announcement takes effect, regardless of the cost of a check."""

KEPT = 8
"""Number of measurements. The smallest counts: the others include waits for a peer, which no interval saves."""


def interval(check_s: float, step_s: float) -> int:
    """Steps from one check to the next: the fewest that keep its cost below `COST`, within `LATEST` seconds."""
    if step_s <= 0:
        return 1
    wanted = math.ceil(check_s / (COST * step_s) - 1e-9)
    return max(1, min(wanted, int(LATEST / step_s)))


class Pace:
    """Counts the steps to the next check, and measures step and check times."""

    def __init__(self) -> None:
        self._left = 0
        self._checks: deque[float] = deque(maxlen=KEPT)
        self._steps: deque[float] = deque(maxlen=KEPT)

    def due(self) -> bool:
        """Whether to check at this step; the same on all ranks."""
        self._left -= 1
        return self._left <= 0

    def begin(self) -> None:
        """A new round: all ranks check at its first step."""
        self._left = 0

    def wish(self) -> int:
        """Rank 0's proposal for the next interval."""
        if not self._checks or not self._steps:
            return 1
        return interval(min(self._checks), sorted(self._steps)[len(self._steps) // 2])

    def agreed(self, steps: int, took: float) -> None:
        """The interval that all ranks received, and the seconds that the check took."""
        self._left = max(1, steps)
        self._checks.append(took)

    def stepped(self, seconds: float) -> None:
        """One step of that many seconds, including a check."""
        self._steps.append(seconds)


class Watch(threading.Thread):
    """`target` is the newest announced round; `entered(n)` sets the round of this worker."""

    def __init__(self, shim: Shim, target: int = 0) -> None:
        super().__init__(name="gangwright-watch", daemon=True)
        self.target = target
        self._shim, self._over = shim, threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            self.target = max(self.target, self._shim.announced(self.target))

    def entered(self, round_: int) -> None:
        """From now on only rounds greater than `round_` are news."""
        self.target = max(self.target, round_)

    def stop(self) -> None:
        """Ends after the current poll, without waiting for it."""
        self._over.set()
