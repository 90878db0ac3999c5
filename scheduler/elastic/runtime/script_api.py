"""What a training script may ask and say: `import gangwright`, where the agent runs it.

An unmodified elastic-Horovod script needs none of this; it keeps its own batch and learning rate. A script that uses it
gets batch modes, the learning rate's factor, a position in the data that survives resizes, and its own numbers in the
job's status and metrics. Everything may be called before training begins and during the warm-up; it then answers as for
a worker alone.

What the job needs to be told: `schedule` (the field and the policy) goes by the epoch, which `shard` counts and any
other script says with `epoch`; the policy `utility` goes by what is left to do, that is `total` less what `advance` has
counted.
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
"""As many as the master takes."""


def batch(per_worker: int = 32) -> Batch:
    """Samples of a step: of all workers, of this one, and in how many passes. `per_worker` holds where the job is
    silent.
    """
    mine = worker_context.current()
    if mine is None or mine.warming or not mine.assignment.round:
        return Batch("per-worker", per_worker, per_worker)
    mine.progress.uses.add("batch")
    size = mine.assignment.size
    return mine.assignment.batch or Batch("per-worker", per_worker * size, per_worker)


def lr_scale() -> float:
    """The factor of the learning rate at this step, ramped up after growth; ask for it at every step."""
    mine = worker_context.current()
    if mine is None or mine.warming or not mine.assignment.round:
        return 1.0
    mine.progress.uses.add("rate")
    return mine.lr_scale()


def samples() -> int:
    """The job's position in its data: samples that all workers together have taken."""
    mine = worker_context.current()
    return 0 if mine is None else mine.progress.samples


def advance(count: int) -> None:
    """A step of `count` samples (of all workers) is done. Call it before the commit of that step, on every rank."""
    if count < 0:
        raise ValueError(f"count is {count}: a number of samples would be right")
    mine = worker_context.current()
    if mine is not None:
        mine.progress.samples += int(count)


def shard(indices: Sequence[Any], per_worker: int = 32) -> Iterator[Share]:
    """This rank's shares of the steps that are left of the present epoch.

    `indices` is the order of this epoch, the same on every rank (shuffle with the epoch, `samples() // len(indices)`,
    as seed). Each share says its `indices`, its `passes` with their weights, and the `total` to `advance` by.
    """
    mine, length, at = worker_context.current(), len(indices), samples()
    if not length:
        raise ValueError("indices is empty: an epoch has at least one sample")
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
            raise RuntimeError("a share was taken and gangwright.advance(share.total) was not called")
        else:
            at = samples()


def epoch(done: float) -> None:
    """Epochs that are done, parts of one included, where the script does not take its samples from `shard`.

    The job's schedule goes by it. Call it on every rank, as often as it should be known: after every epoch, or every
    step.
    """
    if not 0 <= done <= MOST_EPOCHS:
        raise ValueError(f"done is {done}: a number of epochs from 0 to {MOST_EPOCHS:g} would be right")
    _tell(training_progress.EPOCH, done)


def total(samples: float) -> None:
    """Samples of the whole training, all epochs and all workers; what is left is that less what `advance` has counted.

    The policy `utility` needs both. Once is enough, on every rank, also before training begins.
    """
    if not 0 <= samples <= MOST_SAMPLES:
        raise ValueError(
            f"samples is {samples}: a number of samples from 0 to {MOST_SAMPLES:g} would be right"
        )
    _tell(training_progress.TOTAL, samples)


def _tell(name: str, value: float) -> None:
    mine = worker_context.current()
    if mine is None:
        worker_context.early[name] = float(value)
    elif not mine.warming:
        mine.progress.told[name] = float(value)


def report(**values: float) -> None:
    """Numbers for the job's status and metrics: accuracy, loss, seconds of an epoch. The last ones said count."""
    mine = worker_context.current()
    if mine is not None and not mine.warming:
        mine.progress.values.update({name: float(value) for name, value in values.items()})


def warming_up() -> bool:
    """Whether this is the rehearsal, which is undone: leave out effects outside the process."""
    return FLAG in os.environ


def checkpoint(state: Any) -> None:
    """Writes the last commit of `state` to the job's folder, on rank 0; elsewhere and in the warm-up it does
    nothing.
    """
    mine = worker_context.current()
    if mine is not None and not mine.warming and mine.assignment.rank == 0 and mine.assignment.round:
        checkpointing.Disk(frameworks.of(state), mine.progress).write()


def restore(state: Any) -> bool:
    """Loads the newest checkpoint of the job's folder into `state`; False when there is none.

    The master does this by itself when it restarts a job. Raises CheckpointError when the file cannot be read.
    """
    folder = os.environ.get("GANGWRIGHT_CHECKPOINT", "")
    # a worker that exports after its training does not begin another one
    mine = worker_context.current() or worker_context.begin()
    return bool(folder) and checkpointing.Disk(frameworks.of(state), mine.progress).read(folder)
