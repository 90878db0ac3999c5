"""What each rank takes of a step, and how the learning rate follows: arithmetic, no state.

`per-worker`: every worker its m samples. `capped`: the same up to a limit G, then G // k each, one more for the first G
% k (the autoscaling code of MLSys'20). `fixed`: always G samples, in passes of m: W = G / m passes dealt to k workers,
as ElasticDL does; with more workers than passes the samples are dealt. The learning rate's scale is G / G₀, or its
root, where G₀ is what the quorum takes (Goyal et al. 2017).
"""

import math

from scheduler.elastic.job import spec as specs
from scheduler.elastic.reconciler.job_effects import Batch


def share(total: int, size: int, rank: int) -> int:
    """The part of this rank when a total is dealt out."""
    return total // size + (rank < total % size)


def most(batch: specs.Batch, per_worker: int | None, base: int) -> int | None:
    """Samples of one step that no number of workers goes beyond; `base` is the quorum. None: there is no such limit."""
    if per_worker is None:
        return None
    match batch.mode:
        case specs.BatchMode.PER_WORKER:
            return None
        case specs.BatchMode.CAPPED:
            return batch.limit or None
        case specs.BatchMode.FIXED:
            return batch.limit or per_worker * base


def total(batch: specs.Batch, per_worker: int | None, size: int, base: int) -> int | None:
    """Samples of one step of `size` workers; `base` is the quorum. None: the script keeps its own."""
    if per_worker is None or size < 1:
        return None
    whole, limit = per_worker * size, most(batch, per_worker, base)
    if limit is None:
        return whole
    return limit if batch.mode is specs.BatchMode.FIXED else min(whole, limit)


def scale(batch: specs.Batch, per_worker: int | None, size: int, base: int) -> float:
    """The learning rate's factor, against the rate that the user chose for the quorum."""
    if size < 1 or batch.learning_rate is specs.LearningRate.NONE:
        return 1.0
    whole, at_base = total(batch, per_worker, size, base), total(batch, batch.per_worker, base, base)
    ratio = whole / at_base if whole and at_base else size / base
    return math.sqrt(ratio) if batch.learning_rate is specs.LearningRate.SQRT else ratio


def of_rank(mode: str, whole: int, per_worker: int, size: int, rank: int) -> Batch:
    """What this rank takes."""
    if mode != specs.BatchMode.FIXED:
        return Batch(mode, share(whole, size, rank), whole, 1)
    passes = whole // per_worker
    if size > passes or whole % per_worker:
        local = share(whole, size, rank)
        return Batch(mode, local, whole, max(1, math.ceil(local / per_worker)))
    own = share(passes, size, rank)
    return Batch(mode, own * per_worker, whole, own)
