"""How long a step takes, how long a change kept this worker idle, and the lines said about it."""

from __future__ import annotations

import os
import sys
import time


def say(line: str) -> None:
    """One line on stderr, with the worker's name."""
    sys.stderr.write(f"gangwright: {os.environ.get('GANGWRIGHT_POD', 'worker')}: {line}\n")
    sys.stderr.flush()


class Idle:
    """Times between the ends of steps; across a change of round that time is the idle time.

    Idle is from the end of the last step before the change to the end of the first step after it, on a worker that was
    in both rounds: it includes that first step, so the time without it is told beside it.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self._resumed: float | None = None
        self._told: dict[str, float] = {}

    def resumed(self) -> None:
        """A round is entered; the next step is its first."""
        self._resumed = time.monotonic()

    def stepped(self) -> float | None:
        """The seconds of the step that is over; None for the first one of a round, which says nothing about steps."""
        now, last = time.monotonic(), self._last
        self._last = now
        if self._resumed is None:
            return None if last is None else now - last
        if last is not None:
            self._told = {"idle_s": now - last, "idle_without_step_s": self._resumed - last}
            say(f"idle for {now - last:.3f} s, {self._resumed - last:.3f} s of it without the first step")
        self._resumed = None
        return None

    def told(self) -> dict[str, float]:
        """The last change's idle time, as values of the report."""
        return self._told
