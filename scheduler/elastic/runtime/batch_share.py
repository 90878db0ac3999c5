"""Which samples of a step are this worker's, and what its gradient weighs: pure arithmetic, no state.

How many they are the master decides, for the whole step and for each worker; here is what follows from its numbers.

Three words: `total` is the number of samples of all workers in one step, `local` this worker's part of it, `accumulate`
the number of passes that make up `local`.

A gradient averaged over k workers is the mean of means. It equals the mean over all `total` samples only when every
worker had the same number; `weight` mends that: k * n / total times the mean gradient of n samples, averaged over k
workers, is the sum of all gradients / total, whatever the split. The ramp of the learning rate is that of Goyal et al.
2017.
"""

from __future__ import annotations

from dataclasses import dataclass

MODES = ("per-worker", "capped", "fixed")
"""`per-worker`: every worker takes its batch. `capped`: the same up to a limit for all. `fixed`: always the same
total.
"""


@dataclass(frozen=True)
class Batch:
    """Samples of one step: of all workers (`total`), of this one (`local`), and in how many passes (`accumulate`)."""

    mode: str
    total: int
    local: int
    accumulate: int = 1


def share(total: int, size: int, rank: int) -> tuple[int, int]:
    """(offset, count) of rank's part when `total` things are dealt to `size` ranks, the first ones getting the
    remainder.
    """
    each, more = divmod(total, size)
    return rank * each + min(rank, more), each + (rank < more)


def grain(batch: Batch, size: int, rank: int) -> int:
    """The number of samples in which the total is dealt out: a whole pass where passes are dealt, else a single sample.

    Every rank finds it from its own numbers: it was dealt passes when its part is another than a split of samples would
    give. Where the two agree for one rank, so do they for all before it or for all behind it, and with them its offset.
    """
    dealt_singly = batch.local == share(batch.total, size, rank)[1]
    return 1 if dealt_singly else max(1, batch.local // batch.accumulate)


def longest(batch: Batch, size: int, rank: int) -> int:
    """Samples of the largest pass of this rank: its part in so many passes; alike on all ranks where there is one
    pass.
    """
    if batch.accumulate > 1 or grain(batch, size, rank) > 1:
        return -(-batch.local // batch.accumulate)
    return -(-batch.total // size)


def span(batch: Batch, size: int, rank: int, room: int) -> tuple[int, int, int]:
    """(offset, count, total) of rank's samples in the next step when `room` samples are left in the epoch.

    A step cut short by the epoch's end is dealt sample by sample, so that nobody idles while there is work.
    """
    total = min(batch.total, room)
    unit = grain(batch, size, rank) if total == batch.total else 1
    offset, count = share(total // unit, size, rank)
    return offset * unit, count * unit, total


def weight(count: int, total: int, size: int) -> float:
    """What a mean gradient of `count` samples is multiplied by before an average over `size` ranks; see the top."""
    return size * count / total if total else 0.0


def ramp(before: float, after: float, steps: int, length: int) -> float:
    """The factor `steps` steps after a change: up along a line of `length` steps, down at once."""
    if after <= before or steps >= length:
        return after
    return before + (after - before) * max(0, steps) / length
