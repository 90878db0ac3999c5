"""What a job's throughput would be at a size that was not tried.

Lives here: the straight lines between what was measured. Never here: a decision.
Why lines: between two sizes a line is never far off; outside them a job scales perfectly until it was seen not to (the
prior of Pollux, OSDI'21, §4.3), and beyond two sizes as it did between the last two.
"""

import itertools
from collections.abc import Mapping

from scheduler.elastic.sizing.view import Measured


def rate(measured: Mapping[int, Measured], size: int) -> float:
    """Expected samples per second of `size` workers, above 0; in units of one worker's while nothing was measured."""
    if size in measured:
        return measured[size].mean
    known = sorted(measured)
    if not known:
        return float(size)
    if size < known[0]:
        return measured[known[0]].mean * size / known[0]
    for low, high in itertools.pairwise(known):
        if size < high:
            return _line(measured, low, high, size)
    return _beyond(measured, known, size)


def _line(measured: Mapping[int, Measured], low: int, high: int, size: int) -> float:
    """As a mean by weight: what a slope takes off a large rate may leave nothing of a small one."""
    part = (size - low) / (high - low)
    return measured[low].mean * (1.0 - part) + measured[high].mean * part


def _beyond(measured: Mapping[int, Measured], known: list[int], size: int) -> float:
    last = known[-1]
    perfect = measured[last].mean / last
    if len(known) == 1:
        return perfect * size
    slope = (measured[last].mean - measured[known[-2]].mean) / (last - known[-2])
    return measured[last].mean + min(max(slope, 0.0), perfect) * (size - last)
