"""From the steps that workers printed to the times in which they stood still. Pure.

Idle is from the end of the last step before a change of size to the end of the first step after it, on a worker that
was there before and after; of several such workers the longest. So it includes that first step.

What the change itself takes is told of the worker that ended its last step last. Where more workers train than there
are cores, one has a step done while another still works at it (up to 0.4 s at three workers on two cores, with 25
million weights), and waits for it as it does after every other step, in the next step's first collective.
"""

import itertools
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Line = Mapping[str, Any]

ENTERED = re.compile(
    r"round (?P<round>\d+): rank .*\(doorstep \d+ ms, init \d+ ms, (?P<sync>no sync|sync) (?P<ms>\d+) ms\)"
)
"""What the loop inside the training process says of a round that it entered."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Seconds of one change, on one worker."""

    before: int
    after: int
    """Workers."""
    seconds: float
    first_step: float
    transfer: float
    """Of it, what saving and synchronising the state took; more with more weights."""
    ended: float
    """When the last step before it was done, in seconds since the epoch."""

    @property
    def without_step(self) -> float:
        return self.seconds - self.first_step

    @property
    def bare(self) -> float:
        """Without first step and transfer: what changing the size itself takes, whatever is trained."""
        return self.without_step - self.transfer


@dataclass(frozen=True, slots=True)
class Change:
    """One change, on the worker that stood still longest, and on the one that ended its last step last."""

    longest: Idle
    last: Idle

    @property
    def seconds(self) -> float:
        return self.longest.seconds

    @property
    def without_step(self) -> float:
        return self.longest.without_step

    @property
    def bare(self) -> float:
        return self.last.bare


def idles(lines: Iterable[Line]) -> list[Idle]:
    """Of one worker's lines, every change of size."""
    found, last, transfer = [], None, 0.0
    for line in lines:
        if "step" not in line:
            transfer += sync_said(line)
            continue
        if last is not None and line["size"] != last["size"]:
            spent = transfer + _transfer(line, counted=transfer > 0)
            took, first = line["at"] - last["at"], line["at"] - line["began"]
            found.append(Idle(last["size"], line["size"], took, first, spent, last["at"]))
        last, transfer = line, 0.0
    return found


def sync_said(line: Line) -> float:
    """Seconds that our own loop said of its synchronisation; 0 of any other line."""
    said = ENTERED.search(str(line.get("said", "")))
    return int(said["ms"]) / 1000 if said and said["sync"] == "sync" else 0.0


def _transfer(line: Line, *, counted: bool) -> float:
    """What the script itself saw. Our loop's own figure holds the save after its synchronisation already."""
    saves = line["saves"][:1] if counted else line["saves"]
    return float(sum(saves) + sum([] if counted else line["syncs"]))


def change(workers: Mapping[str, Sequence[Line]], before: int, after: int) -> Change:
    """The change from one size to the other. Raises LookupError when nobody saw it."""
    seen = [
        idle
        for lines in workers.values()
        for idle in idles(lines)
        if (idle.before, idle.after) == (before, after)
    ]
    if not seen:
        raise LookupError(f"no worker changed from {before} to {after}")
    return Change(max(seen, key=lambda idle: idle.seconds), max(seen, key=lambda idle: idle.ended))


def by_worker(lines: Iterable[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(line["worker"], []).append(line)
    return found


def step_time(lines: Iterable[Line], size: int) -> float:
    """Median seconds of a step alone, at this size; of a job's first worker. NaN of none."""
    own = [line["at"] - line["began"] for line in lines if line.get("size") == size and line.get("rank") == 0]
    return statistics.median(own[1:]) if len(own) > 1 else float("nan")


def pace(lines: Iterable[Line], size: int) -> float:
    """Median seconds from the end of a step to the end of the next, at this size; of rank 0."""
    own = [line for line in lines if line.get("rank") == 0 and "step" in line]
    gaps = [
        later["at"] - earlier["at"]
        for earlier, later in itertools.pairwise(own)
        if earlier["size"] == later["size"] == size
    ]
    return statistics.median(gaps) if gaps else float("nan")
