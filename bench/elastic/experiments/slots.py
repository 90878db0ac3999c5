"""From who used a slot when to the share of slots used, dips and regrowth. Pure.

A slot counts as used from a worker's first step to its last one, and by a serving pod while its process runs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Timeline = Mapping[float, int]
"""Slots in use from each of these times on, in order of time."""

Use = tuple[float, float]
"""From when to when."""


def by_worker(steps: Iterable[Mapping[str, Any]]) -> list[Use]:
    """From the first to the last step of every worker."""
    found: dict[str, Use] = {}
    for step in steps:
        first, last = found.get(step["worker"], (step["at"], step["at"]))
        found[step["worker"]] = min(first, step["at"]), max(last, step["at"])
    return sorted(found.values())


def timeline(uses: Iterable[Use], begin: float, end: float) -> dict[float, int]:
    """Between the two times, which become 0 and their distance."""
    moves = Counter({begin: 0, end: 0})
    for start, stop in uses:
        moves[min(max(start, begin), end)] += 1
        moves[min(max(stop, begin), end)] -= 1
    found, count = {}, 0
    for time in sorted(moves):
        count += moves[time]
        found[time - begin] = count
    return found


def mean_use(line: Timeline, slots: int) -> float:
    """The share of all slot-seconds that was used, from the first time to the last."""
    times = list(line)
    used = sum(line[start] * (stop - start) for start, stop in pairwise(times))
    return used / (slots * (times[-1] - times[0]))


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch in which slots were free."""

    begin: float
    end: float
    after: int
    """By how many pods the serving side had changed last: a dip after more of them, regrowth after fewer."""

    @property
    def seconds(self) -> float:
        return self.end - self.begin


def gaps(line: Timeline, slots: int, orders: Sequence[tuple[float, int]]) -> list[Gap]:
    """orders: when so many serving pods more, or fewer, were asked for. A gap before all of them is nobody's."""
    found = []
    for begin, end in _below(line, slots):
        before = [by for time, by in orders if time <= begin]
        if before:
            found.append(Gap(begin, end, before[-1]))
    return found


def _below(line: Timeline, slots: int) -> Iterator[Use]:
    begin = None
    for time, count in line.items():
        if count < slots and begin is None:
            begin = time
        elif count >= slots and begin is not None:
            yield begin, time
            begin = None
    last = max(line)
    if begin is not None and begin < last:
        yield begin, last


def longest(found: Sequence[Gap], *, dips: bool) -> float:
    """Seconds of the longest dip, or of the longest regrowth; 0 of none."""
    return max((gap.seconds for gap in found if (gap.after > 0) == dips), default=0.0)


def longest_pause(steps: Iterable[Mapping[str, Any]]) -> float:
    """Seconds from one step of a job to its next, whoever made it, at most."""
    times = sorted(step["at"] for step in steps)
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)
