"""The API of a training script under the agent: `import gangwright`.

An unmodified elastic Horovod script does not need it; it keeps its own batch and learning rate. A script that uses it
gets batch modes, the factor of the learning rate, a position in the data that survives resizes, and its own numbers in
the job's status and metrics. You may call everything before training begins and during the warm-up; it then answers as
for a worker alone.

Some features need reports of the script. `schedule` (the field and the policy) uses the epoch: `shard` counts it, any
other script reports it with `epoch`. The policy `utility` uses the remaining work: `total` minus the sum of `advance`.
"""

from __future__ import annotations

import os
from typing import Any, Iterator, Sequence

from . import checkpointing, data_position, frameworks, training_progress, worker_context
from .data_position import Batch, Pass, Share
from .round_assignment import ALONE
from .warmup import FLAG

__all__ = [
    "Batch", "Pass", "Share", "advance", "batch", "checkpoint", "epoch", "lr_scale", "report", "restore", "samples",
    "shard", "total", "warming_up",
]  # fmt: skip

MOST_EPOCHS, MOST_SAMPLES = 1e9, 1e15
"""Upper bounds that the master accepts."""


def batch(per_worker: int = 32) -> Batch:
    """Samples of a step: of all workers, of this one, and the number of passes. `per_worker` is the default if the job
    sets no batch.
    """
    mine = worker_context.current()
    if mine is None or mine.warming or not mine.assignment.round:
        return Batch("per-worker", per_worker, per_worker)
    mine.progress.uses.add("batch")
    size = mine.assignment.size
    return mine.assignment.batch or Batch("per-worker", per_worker * size, per_worker)


def lr_scale() -> float:
    """The factor of the learning rate at this step, ramped up after growth. Call it at every step."""
    mine = worker_context.current()
    if mine is None or mine.warming or not mine.assignment.round:
        return 1.0
    mine.progress.uses.add("rate")
    return mine.lr_scale()


def samples() -> int:
    """The job's position in its data: samples that all workers together have processed."""
    mine = worker_context.current()
    return 0 if mine is None else mine.progress.samples


def advance(count: int) -> None:
    """Reports a completed step of `count` samples of all workers. Call it on every rank, before the step's commit."""
    if count < 0:
        raise ValueError(f"count is {count}: must be 0 or more")
    mine = worker_context.current()
    if mine is not None:
        mine.progress.samples += int(count)


def shard(indices: Sequence[Any], per_worker: int = 32) -> Iterator[Share]:
    """This rank's shares of the remaining steps of the current epoch.

    `indices` is the order of this epoch, the same on every rank (shuffle with the epoch, `samples() // len(indices)`,
    as seed). Each share has its `indices`, its `passes` with their weights, and the `total` to `advance` by.
    """
    mine, length, at = worker_context.current(), len(indices), samples()
    if not length:
        raise ValueError("indices is empty: must have at least one sample")
    begun = at // length
    if mine is not None:
        mine.progress.epoch_length = length
    while at // length == begun:
        place = ALONE if mine is None or mine.warming else mine.assignment
        share = data_position.step(
            indices, at % length, batch(per_worker), place.size, place.rank, per_worker
        )
        yield share
        if mine is None:  # before training begins nothing is counted
            at += share.total
        elif samples() == at:
            raise RuntimeError(
                "the position did not advance. Call gangwright.advance(share.total) for every share"
            )
        else:
            at = samples()


def epoch(done: float) -> None:
    """Reports the completed epochs, including a fraction, if the script does not take its samples from `shard`.

    The job's schedule uses it. Call it on every rank, after every epoch or every step.
    """
    if not 0 <= done <= MOST_EPOCHS:
        raise ValueError(f"done is {done}: must be from 0 to {MOST_EPOCHS:g}")
    _tell(training_progress.EPOCH, done)


def total(samples: float) -> None:
    """Reports the samples of the whole training, of all epochs and workers. The remaining work is that minus the sum of
    `advance`.

    The policy `utility` needs both. Call it once on every rank; it may be before training begins.
    """
    if not 0 <= samples <= MOST_SAMPLES:
        raise ValueError(f"samples is {samples}: must be from 0 to {MOST_SAMPLES:g}")
    _tell(training_progress.TOTAL, samples)


def _tell(name: str, value: float) -> None:
    mine = worker_context.current()
    if mine is None:
        worker_context.early[name] = float(value)
    elif not mine.warming:
        mine.progress.told[name] = float(value)


def report(**values: float) -> None:
    """Reports numbers for the job's status and metrics: accuracy, loss, seconds of an epoch. The last values count."""
    mine = worker_context.current()
    if mine is not None and not mine.warming:
        mine.progress.values.update({name: float(value) for name, value in values.items()})


def warming_up() -> bool:
    """Whether this is the rehearsal, which is undone: skip effects outside the process."""
    return FLAG in os.environ


def checkpoint(state: Any) -> None:
    """Writes the last commit of `state` to the job's folder. Only rank 0 does so, and not in the warm-up."""
    mine = worker_context.current()
    if mine is not None and not mine.warming and mine.assignment.rank == 0 and mine.assignment.round:
        checkpointing.Disk(frameworks.of(state), mine.progress).write()


def restore(state: Any) -> bool:
    """Loads the newest checkpoint of the job's folder into `state`; False if there is none.

    After a restart of the job this happens automatically. Raises CheckpointError if the file cannot be read.
    """
    folder = os.environ.get("GANGWRIGHT_CHECKPOINT", "")
    # a worker that exports its model after its training does not begin another training
    mine = worker_context.current() or worker_context.begin()
    return bool(folder) and checkpointing.Disk(frameworks.of(state), mine.progress).read(folder)
