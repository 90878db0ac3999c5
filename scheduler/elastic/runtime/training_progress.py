"""The progress of this worker, its step times, and the thread that reports them to the agent.

The main thread only counts and records times. Another thread posts them periodically, so that the agent cannot slow
down a step. A report is no sign of life of the main thread: if training hangs, the counters stop. `collective` shows
whether it hangs inside a collective (a peer is missing) or before one (this worker is the culprit).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from .agent_client import BRIEF, Shim
from .step_timer import Stamp

INTERVAL = 1.0
"""Seconds between two reports in a new round, as between the agent's beats to the master: sizes are compared by the
first steps of a round.
"""

SETTLED = 2.0
"""Seconds between two later reports: beats show that the worker lives, and a report may come a second later. A report
takes 1.5 ms of a core from the training, here and at the agent together (measured), because the data of seldom used
code is no longer in any cache.
"""

NEW = 10
"""Number of reports until a round is no longer new: a size is left after two measurements at the earliest, and the
first steps of a round, in which frameworks trace, may take some seconds of that time."""

EPOCH, TOTAL = "epoch", "total_samples"
"""Names of the script's reports about its whole training. The second is a value of the report, and the master knows it
by this name.
"""


STILL = 5
"""Consecutive reports of the same step after which the timer is checked for steps. That costs an operation of
TensorFlow.
"""


@dataclass
class Progress:
    """Counters of one worker. `step` counts commits and checks since the job's start, `samples` the samples of all
    ranks.
    """

    phase: str = "WarmingUp"
    setup: bool = True
    """The script has not reached its training function yet."""
    stale: str = ""
    """File and line where the script read a rank or size that is outdated."""
    round: int = 0
    step: int = 0
    committed: int = 0
    samples: int = 0
    committed_samples: int = 0
    epoch_length: int = 0
    ours: dict[str, float] = field(default_factory=dict)
    """Values of the loop itself. They precede the script's `values`, because excess values are cut from the end."""
    values: dict[str, float] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)
    """The script's reports about its whole training (`EPOCH`, `TOTAL`). They do not belong to a step, so a warm-up
    leaves them unchanged.
    """
    uses: set[str] = field(default_factory=set)
    """What the script read of the round: `batch`, `rate`."""
    in_check: bool = False
    stamp: Stamp = field(default_factory=Stamp)
    """Records the collectives of steps."""
    _still: int = 0
    _reported: tuple[Any, ...] = ()
    _mark: float = 0.0
    _steps: list[float] = field(default_factory=list)
    _computes: list[float] = field(default_factory=list)

    def stepped(self, seconds: float | None, compute: float | None) -> None:
        """Counts a step; times are None if they are not meaningful (the first step after a change)."""
        self.step += 1
        if seconds is not None:
            self._steps.append(seconds)
        if compute is not None:
            self._computes.append(compute)

    def saved(self) -> None:
        """The current state is committed: a failure goes back to it."""
        self.committed, self.committed_samples = self.step, self.samples

    def rolled_back(self) -> None:
        """A failure: uncommitted steps are discarded."""
        self.step, self.samples = self.committed, self.committed_samples

    def moved(self, step: int, samples: int) -> None:
        """The state was replaced (by rank 0's, or a checkpoint's) and is committed."""
        self.step, self.samples = step, samples
        self.saved()

    def body(self) -> dict[str, Any]:
        """The report; resets the times since the last one."""
        steps, self._steps = self._steps, []
        computes, self._computes = self._computes, []
        return {
            "phase": self.phase,
            "setup": self.setup,
            "stale": self.stale,
            "step": self.step,
            "committed": self.committed,
            "samples": float(self.samples),
            "epoch": self._epoch() or 0.0,
            "mark": self._marked(),
            "step_s": sum(steps) / len(steps) if steps else None,
            "compute_s": sum(computes) / len(computes) if computes else None,
            "collective": self.in_check or self.stamp.marked(),
            "values": {**self.ours, **self._whole(), **self.values},
            "uses": sorted(self.uses if self._epoch() is None else {*self.uses, EPOCH}),
        }

    def _marked(self) -> float:
        """A number that changes with every step of a script that commits seldom, and so proves its progress."""
        here = (self.phase, self.step, self.samples, self.told.get(EPOCH))
        self._still = self._still + 1 if here == self._reported else 0
        self._reported = here
        if self._still >= STILL:
            self._mark = self.stamp.last()
        return self._mark

    def _epoch(self) -> float | None:
        """Completed epochs: as the script reports, else by its position; None if neither is known."""
        counted = self.samples / self.epoch_length if self.epoch_length else None
        return self.told.get(EPOCH, counted)

    def _whole(self) -> dict[str, float]:
        return {TOTAL: self.told[TOTAL]} if TOTAL in self.told else {}


class Reporter(threading.Thread):
    """Posts the progress until it is stopped."""

    def __init__(self, shim: Shim, progress: Progress) -> None:
        super().__init__(name="gangwright-progress", daemon=True)
        self._shim, self._progress = shim, progress
        self._over = threading.Event()
        self._one = threading.Lock()
        self._round, self._of_round = progress.round, 0

    def run(self) -> None:
        while not self._over.wait(self.pause()):
            self.report()

    def pause(self) -> float:
        """Seconds until the next report; counts it in the round."""
        if self._progress.phase != "Training":
            return INTERVAL
        if self._round != self._progress.round:
            self._round, self._of_round = self._progress.round, 0
        self._of_round += 1
        return INTERVAL if self._of_round <= NEW else SETTLED

    def report(self) -> None:
        """Sends the progress before it returns, under a lock, so that the last report is the newest."""
        with self._one:
            self._shim.tell("/progress", self._progress.body())

    def stop(self) -> None:
        """Sends a last report, after the thread's end: it must not be inside a framework when the interpreter ends."""
        self._over.set()
        if self.is_alive():
            self.join(2 * BRIEF)  # the maximum duration of a report
        self.report()


def say(line: str) -> None:
    """Logs one line to stderr, with the worker's name."""
    sys.stderr.write(f"gangwright: {os.environ.get('GANGWRIGHT_POD', 'worker')}: {line}\n")
    sys.stderr.flush()


class Idle:
    """Times between the ends of steps; across a change of round that time is the idle time.

    The idle time is from the end of the last step before the change to the end of the first step after it, on a worker
    that was in both rounds. It includes that first step, so the time without it is reported as well.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self._resumed: float | None = None
        self.told: dict[str, float] = {}
        """The last change's idle time, as values of the report."""

    def resumed(self) -> None:
        """A round is entered; the next step is its first."""
        self._resumed = time.monotonic()

    def stepped(self) -> float | None:
        """The seconds of the completed step; None for the first one of a round, which is not representative."""
        now, last = time.monotonic(), self._last
        self._last = now
        if self._resumed is None:
            return None if last is None else now - last
        if last is not None:
            self.told = {"idle_s": now - last, "idle_without_step_s": self._resumed - last}
            say(f"idle for {now - last:.3f} s, {self._resumed - last:.3f} s of it without the first step")
        self._resumed = None
        return None
