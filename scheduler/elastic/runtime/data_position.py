"""Where the job is in its data, counted in samples: which indices each step takes, on every rank the same way. Pure.

An epoch is one order of all indices, the same on every rank. The position advances by the samples of all workers, is
committed and rolled back with the state, and travels with it to newcomers; so a resize loses and repeats nothing, and a
crash repeats what came after the last commit, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

from . import batch_share
from .batch_share import Batch


@dataclass(frozen=True)
class Pass:
    """One forward and backward pass: `indices`, and the `weight` of its mean gradient before the average over ranks."""

    indices: Any
    weight: float


@dataclass(frozen=True)
class Share:
    """This rank's part of one step. `total` is what all ranks take together: advance by it, then commit.

    `width` is the largest number of samples a pass can have in this round: pad to it and nothing is traced anew.
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

    `least`, one worker's own batch, keeps the width the same at every size.
    """
    offset, count, total = batch_share.span(batch, size, rank, len(order) - at)
    longest = batch_share.longest(batch, size, rank)
    start, end = at + offset, at + offset + count
    passes = [order[cut : min(cut + longest, end)] for cut in range(start, end, longest)] or [order[:0]]
    weighed = tuple(Pass(part, batch_share.weight(len(part), total, size)) for part in passes)
    # What fits in the worker's own batch is padded to that: with a rank that takes two passes, a split of all samples
    # is wider.
    own = -(-batch.local // batch.accumulate)
    return Share(weighed, total, least if own <= least else max(least, longest), at)


def epochs(samples: int, length: int) -> tuple[int, int]:
    """(epoch, samples into it) at a position, for epochs of `length` samples."""
    return divmod(samples, length) if length else (0, 0)
