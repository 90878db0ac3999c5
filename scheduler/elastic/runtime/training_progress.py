"""What this worker has done, what its steps take, and the thread that tells the agent.

The main thread only counts and notes times; a thread beside it posts them once in a while, so nothing that the agent does
can slow a step down. The thread does not speak for the main thread: when training hangs the counters stand still, and
`collective` says whether it hangs inside a collective (a peer is missing) or before one (it is the culprit).
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
"""Seconds between two reports when a round is new, as between the agent's beats to the master: by its first steps sizes
are compared.
"""

SETTLED = 2.0
"""Seconds between two reports later on: beats show that the worker lives, and what a report says may come a second later.
Each is taken from the training: here and at the agent 1.5 ms of a core together, measured, for what is needed once in a
while is in no cache any more.
"""

NEW = 10
"""Reports of a training until its round is not new any more: a size is left after two measurements at the earliest, and
the first steps of a round, in which frameworks trace, may take some seconds of these."""

EPOCH, TOTAL = "epoch", "total_samples"
"""What a script tells of its whole training, by name; the second is a value of the report, and the master knows it
by this name.
"""


STILL = 5
"""Reports in a row of the same step, from which on it is looked up whether steps are taken all the same: that costs an
operation of TensorFlow's.
"""


@dataclass
class Progress:
    """Counters of one worker. `step` counts commits and checks since the job's beginning, `samples` what all ranks
    took.
    """

    phase: str = "WarmingUp"
    setup: bool = True
    """The script has not come to its training function yet."""
    stale: str = ""
    """File and line where the script asked for a rank or size that is not true any more."""
    round: int = 0
    step: int = 0
    committed: int = 0
    samples: int = 0
    committed_samples: int = 0
    epoch_length: int = 0
    ours: dict[str, float] = field(default_factory=dict)
    """What the loop itself says. It comes before the script's `values`, for what is too many is cut from the end."""
    values: dict[str, float] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)
    """What the script says of its whole training (`EPOCH`, `TOTAL`). It is no figure of a step: a warm-up leaves it
    as it is.
    """
    uses: set[str] = field(default_factory=set)
    """What the script was given of the round because it asked: `batch`, `rate`."""
    in_check: bool = False
    stamp: Stamp = field(default_factory=Stamp)
    """Notes the collectives of steps."""
    _still: int = 0
    _reported: tuple[Any, ...] = ()
    _mark: float = 0.0
    _steps: list[float] = field(default_factory=list)
    _computes: list[float] = field(default_factory=list)

    def stepped(self, seconds: float | None, compute: float | None) -> None:
        """One more step; times are None where they say nothing (the first step after a change)."""
        self.step += 1
        if seconds is not None:
            self._steps.append(seconds)
        if compute is not None:
            self._computes.append(compute)

    def saved(self) -> None:
        """The state as it is now is what a failure goes back to."""
        self.committed, self.committed_samples = self.step, self.samples

    def rolled_back(self) -> None:
        """A failure: what was not committed did not happen."""
        self.step, self.samples = self.committed, self.committed_samples

    def moved(self, step: int, samples: int) -> None:
        """The state is now another one's (rank 0's, a checkpoint's), and is committed."""
        self.step, self.samples = step, samples
        self.saved()

    def body(self) -> dict[str, Any]:
        """The report, and the times since the last one forgotten."""
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
        """What changes with every step of a script that commits seldom, and so shows that it goes on."""
        here = (self.phase, self.step, self.samples, self.told.get(EPOCH))
        self._still = self._still + 1 if here == self._reported else 0
        self._reported = here
        if self._still >= STILL:
            self._mark = self.stamp.last()
        return self._mark

    def _epoch(self) -> float | None:
        """Epochs done: as the script says, else by its position; None where neither is known."""
        counted = self.samples / self.epoch_length if self.epoch_length else None
        return self.told.get(EPOCH, counted)

    def _whole(self) -> dict[str, float]:
        return {TOTAL: self.told[TOTAL]} if TOTAL in self.told else {}


class Reporter(threading.Thread):
    """Posts the progress until told to stop."""

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
        """Seconds until the next report, of which this is one more in the round."""
        if self._progress.phase != "Training":
            return INTERVAL
        if self._round != self._progress.round:
            self._round, self._of_round = self._progress.round, 0
        self._of_round += 1
        return INTERVAL if self._of_round <= NEW else SETTLED

    def report(self) -> None:
        """Sends what there is, and has sent it when this returns: what was told last is the newest."""
        with self._one:
            self._shim.tell("/progress", self._progress.body())

    def stop(self) -> None:
        """One last report; no thread of ours is inside a framework when the interpreter ends."""
        self._over.set()
        if self.is_alive():
            self.join(2 * BRIEF)  # as long as it may take to tell one
        self.report()


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
        self.told: dict[str, float] = {}
        """The last change's idle time, as values of the report."""

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
            self.told = {"idle_s": now - last, "idle_without_step_s": self._resumed - last}
            say(f"idle for {now - last:.3f} s, {self._resumed - last:.3f} s of it without the first step")
        self._resumed = None
        return None
