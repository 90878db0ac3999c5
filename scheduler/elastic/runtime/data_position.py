"""The job's position in its data, this worker's samples of a step, and the weight of its gradient. Pure.

An epoch is one order of all indices, the same on every rank. The position counts samples of all workers. It is
committed and rolled back with the state, and newcomers receive it with the state. So a resize loses and repeats
nothing, and a crash repeats only the samples after the last commit, once.

The master decides the number of samples of a step, in total and per worker. `total` is the number of samples of all
workers in one step, `local` this worker's part of it, `accumulate` the number of passes that make up `local`.

A gradient averaged over k workers is the mean of means. It equals the mean over all `total` samples only if every
worker had the same number. `weight` corrects that: k * n / total times the mean gradient of n samples, averaged over k
workers, is the sum of all gradients / total, for every split. The ramp of the learning rate is that of Goyal et al.
2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

MODES = ("per-worker", "capped", "fixed")
"""`per-worker`: every worker takes its batch. `capped`: the same up to a limit for all. `fixed`: a constant total."""


@dataclass(frozen=True)
class Batch:
    """Samples of one step: of all workers (`total`), of this one (`local`), and in how many passes (`accumulate`)."""

    mode: str
    total: int
    local: int
    accumulate: int = 1


def share(total: int, size: int, rank: int) -> tuple[int, int]:
    """(offset, count) of rank's part if `total` items are distributed to `size` ranks; the first ranks get the
    remainder.
    """
    each, more = divmod(total, size)
    return rank * each + min(rank, more), each + (rank < more)


def grain(batch: Batch, size: int, rank: int) -> int:
    """The unit in which the total is distributed, in samples: a whole pass if passes are distributed, else 1.

    Every rank derives it from its own numbers: passes were distributed if its part differs from a split of samples. If
    the two agree for one rank, they agree for all ranks before it or for all after it, and so does its offset.
    """
    dealt_singly = batch.local == share(batch.total, size, rank)[1]
    return 1 if dealt_singly else max(1, batch.local // batch.accumulate)


def longest(batch: Batch, size: int, rank: int) -> int:
    """Samples of the largest pass of this rank: its part divided by its passes. With one pass all ranks agree."""
    if batch.accumulate > 1 or grain(batch, size, rank) > 1:
        return -(-batch.local // batch.accumulate)
    return -(-batch.total // size)


def span(batch: Batch, size: int, rank: int, room: int) -> tuple[int, int, int]:
    """(offset, count, total) of rank's samples in the next step if `room` samples are left in the epoch.

    A step cut short by the epoch's end is distributed sample by sample, so that no worker idles while there is work.
    """
    total = min(batch.total, room)
    unit = grain(batch, size, rank) if total == batch.total else 1
    offset, count = share(total // unit, size, rank)
    return offset * unit, count * unit, total


def weight(count: int, total: int, size: int) -> float:
    """Factor of a mean gradient of `count` samples before the average over `size` ranks; see the module docstring."""
    return size * count / total if total else 0.0


def ramp(before: float, after: float, steps: int, length: int) -> float:
    """The factor `steps` steps after a change: it increases linearly over `length` steps, and decreases immediately."""
    if after <= before or steps >= length:
        return after
    return before + (after - before) * max(0, steps) / length


@dataclass(frozen=True)
class Pass:
    """One forward and backward pass: `indices`, and the `weight` of its mean gradient before the average over ranks."""

    indices: Any
    weight: float


@dataclass(frozen=True)
class Share:
    """This rank's part of one step. `total` is the number of samples of all ranks: advance by it, then commit.

    `width` is the largest number of samples that a pass can have in this round: pad to it to avoid retracing.
    """

    passes: tuple[Pass, ...]
    total: int
    width: int
    start: int

    @property
    def indices(self) -> list[Any]:
        """All indices of this rank in this step."""
        return [index for one in self.passes for index in one.indices]


def step(order: Sequence[Any], at: int, batch: Batch, size: int, rank: int, least: int = 1) -> Share:
    """The share of rank `rank` of `size` in the step that begins `at` samples into the epoch `order`.

    `least`, the batch of one worker, keeps the width the same at every size.
    """
    offset, count, total = span(batch, size, rank, len(order) - at)
    largest = longest(batch, size, rank)
    start, end = at + offset, at + offset + count
    passes = [order[cut : min(cut + largest, end)] for cut in range(start, end, largest)] or [order[:0]]
    weighed = tuple(Pass(part, weight(len(part), total, size)) for part in passes)
    # A pass that fits in the worker's own batch is padded to that: if a rank takes two passes, a split of all samples
    # is wider.
    own = -(-batch.local // batch.accumulate)
    return Share(weighed, total, least if own <= least else max(least, largest), at)
