"""The content of a round, and each worker's assignment.

Lives here: from workers to a `Round`, and from a `Round` to assignments. Both are pure functions, so a restarted master
sends the same assignments as its predecessor. Never here: which workers (`rank_assignment`), when (`round_transition`).

Each rank's share of a step. `per-worker`: every worker takes its m samples. `capped`: the same up to a limit G, then
G // k each, one more for the first G % k (autoscaling code of MLSys'20). `fixed`: always G samples, in passes of m:
W = G / m passes are distributed to k workers, as in ElasticDL; with more workers than passes, samples are distributed.
The learning rate's scale is G / G₀, or its root, where G₀ is what the quorum takes (Goyal et al. 2017).
"""

import math
from collections.abc import Mapping

from scheduler.elastic.job import spec as specs
from scheduler.elastic.job.status import Round
from scheduler.elastic.reconciler import selectors
from scheduler.elastic.reconciler.job_effects import Assignment, Batch
from scheduler.elastic.reconciler.job_events import Uid
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.rank_assignment import Choice, Order
from scheduler.elastic.reconciler.worker import Worker


def decided(s: State, number: int, cause: str, choice: Choice, *, save: bool) -> Round:
    """The round of these workers. `save`: one of those that leave saves to disk first."""
    spec = s.spec
    if spec is None:
        raise AssertionError("a round needs a spec")
    people = (*choice.ring, *choice.leaving, *choice.holding)
    best = max(people, key=lambda w: (selectors.newness(w), -w.since), default=None)
    step = selectors.position(best) if best else -1
    setup = any(w.arrival.setup for w in choice.ring if w.arrival)
    restore = _restore(s, choice.ring, people)
    fresh = step < 0 and not restore and bool(choice.ring)
    epoch = 0.0 if fresh else max([selectors.began_in(s), *(w.beat.epoch for w in people if w.beat)])
    place = spec.stage(epoch)
    stage = spec.schedule[place] if place >= 0 else None
    per_worker = spec.per_worker(place)
    size, base = len(choice.ring), spec.min_workers
    return Round(
        number=number,
        cause=cause,
        ring=tuple(w.seat for w in choice.ring),
        leaving=tuple(w.seat for w in choice.leaving),
        holding=tuple(w.seat for w in choice.holding),
        saver=_saver(s, choice) if save else None,
        sync=restore is not None or _sync(choice.ring),
        setup=setup,
        restore=None if setup else restore,
        samples=0 if fresh else _samples(s, best),
        step=step if step >= 0 else 0 if choice.ring else s.rounds.record.step,
        epoch=epoch,
        env=dict(stage.env) if stage else {},
        batch_mode=spec.batch.mode.value,
        global_batch=step_samples(spec.batch, per_worker, size, base),
        per_worker=per_worker,
        ramp_steps=spec.batch.ramp_steps,
        lr_scale=rate_scale(spec.batch, per_worker, size, base),
        stage=place,
    )


def _saver(s: State, choice: Choice) -> str | None:
    """Of those that leave, the one with the newest state, rank 0 first; None if one that stays has a newer state."""
    best = min(choice.leaving, key=Order(s).seniority, default=None)
    newer = [w for w in choice.holding if best and selectors.newness(w) > selectors.newness(best)]
    return best.uid if best and not newer and selectors.position(best) >= 0 else None


def _sync(ring: tuple[Worker, ...]) -> bool:
    """All ranks take over rank 0's state if any has none or a different one, or begins another training. Decided here
    for all, because a rank that waits in `sync` for one that does not come waits forever.
    """
    fresh = any(selectors.position(w) < 0 or selectors.began_another(w) for w in ring)
    return fresh or len({selectors.position(w) for w in ring}) > 1


def _restore(s: State, ring: tuple[Worker, ...], people: tuple[Worker, ...]) -> str | None:
    """The checkpoint to load, if no worker has a state of a training that had made progress.

    If nothing was ever committed, there cannot be one. If that is unknown, a rank that finds an empty directory begins
    from the start. Only rank 0 looks, and all take over what it has.
    """
    path = s.spec.checkpoint.path if s.spec else ""
    come_further = s.rounds.reached > 0 or s.saving.checkpoint is not None
    lost = all(selectors.position(w) < 0 for w in people)
    return path if path and ring and come_further and lost else None


def _samples(s: State, best: Worker | None) -> int:
    """The position in the data that belongs to the newest state."""
    if best is None or selectors.position(best) < 0:
        return s.rounds.record.samples
    if best.arrival and best.arrival.samples is not None:
        return int(best.arrival.samples)
    return max(s.rounds.record.samples, int(best.beat.samples) if best.beat else 0)


def told(s: State) -> Mapping[Uid, Assignment]:
    """The assignments of the current round."""
    if s.told is None or s.told[0] is not s.rounds.record:
        s.told = (s.rounds.record, assignments(s.rounds.record))
    return s.told[1]


def batch(record: Round, rank: int) -> Batch | None:
    """This rank's share; None: the script keeps its own batch."""
    if record.global_batch is None or record.per_worker is None:
        return None
    return rank_batch(record.batch_mode, record.global_batch, record.per_worker, len(record.ring), rank)


def assignments(record: Round) -> Mapping[Uid, Assignment]:
    """The assignment of each worker of the round; those that hold their state get none yet."""
    members = tuple(seat.name for seat in record.ring)
    size = len(members)
    staying = {
        seat.uid: Assignment(
            round=record.number,
            rank=rank,
            size=size,
            members=members,
            sync=record.sync,
            restore=record.restore,
            batch=batch(record, rank),
            lr_scale=record.lr_scale,
            ramp_steps=record.ramp_steps,
            env=record.env,
        )
        for rank, seat in enumerate(record.ring)
    }
    going = {
        seat.uid: Assignment(
            round=record.number,
            rank=-1,
            size=size,
            members=members,
            sync=record.sync,
            removed=True,
            checkpoint=seat.uid == record.saver,
        )
        for seat in record.leaving
    }
    return {**staying, **going}


def share(total: int, size: int, rank: int) -> int:
    """The part of this rank when a total is distributed."""
    return total // size + (rank < total % size)


def most_samples(batch: specs.Batch, per_worker: int | None, base: int) -> int | None:
    """Upper bound of the samples of one step, for any number of workers; `base` is the quorum. None: no bound."""
    if per_worker is None:
        return None
    match batch.mode:
        case specs.BatchMode.PER_WORKER:
            return None
        case specs.BatchMode.CAPPED:
            return batch.limit or None
        case specs.BatchMode.FIXED:
            return batch.limit or per_worker * base


def step_samples(batch: specs.Batch, per_worker: int | None, size: int, base: int) -> int | None:
    """Samples of one step of `size` workers; `base` is the quorum. None: the script keeps its own batch."""
    if per_worker is None or size < 1:
        return None
    whole, limit = per_worker * size, most_samples(batch, per_worker, base)
    if limit is None:
        return whole
    return limit if batch.mode is specs.BatchMode.FIXED else min(whole, limit)


def rate_scale(batch: specs.Batch, per_worker: int | None, size: int, base: int) -> float:
    """The factor on the learning rate that the user chose for the quorum."""
    if size < 1 or batch.learning_rate is specs.LearningRate.NONE:
        return 1.0
    whole = step_samples(batch, per_worker, size, base)
    at_base = step_samples(batch, batch.per_worker, base, base)
    ratio = whole / at_base if whole and at_base else size / base
    return math.sqrt(ratio) if batch.learning_rate is specs.LearningRate.SQRT else ratio


def rank_batch(mode: str, whole: int, per_worker: int, size: int, rank: int) -> Batch:
    """The share of this rank."""
    if mode != specs.BatchMode.FIXED:
        return Batch(mode, share(whole, size, rank), whole, 1)
    passes = whole // per_worker
    if size > passes or whole % per_worker:
        local = share(whole, size, rank)
        return Batch(mode, local, whole, max(1, math.ceil(local / per_worker)))
    own = share(passes, size, rank)
    return Batch(mode, own * per_worker, whole, own)
