"""A round as it is decided, and what each worker is told of it.

Lives here: from people to a `Round`, and from a `Round` to assignments; both functions of what they are given, so that
a restarted master tells everybody what the one before it did. Never here: who the people are (`rank_assignment`), when
(`round_transition`).
"""

from collections.abc import Mapping

from scheduler.elastic.job.status import Round
from scheduler.elastic.reconciler import batch_scaling, selectors
from scheduler.elastic.reconciler.job_effects import Assignment, Batch
from scheduler.elastic.reconciler.job_events import Uid
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.rank_assignment import Choice, Order
from scheduler.elastic.reconciler.worker import Worker


def decided(s: State, number: int, cause: str, choice: Choice, *, save: bool) -> Round:
    """The round of these people. `save`: one of those that leave saves to disk first."""
    spec = s.spec
    if spec is None:
        raise AssertionError("a round needs a spec")
    people = (*choice.ring, *choice.leaving, *choice.holding)
    best = max(people, key=lambda w: (selectors.newness(w), -w.since), default=None)
    step = selectors.position(best) if best else -1
    setup = any(w.arrival.setup for w in choice.ring if w.arrival)
    restore = _restore(s, choice.ring, people)
    anew = step < 0 and not restore and bool(choice.ring)
    epoch = 0.0 if anew else max([selectors.began_in(s), *(w.beat.epoch for w in people if w.beat)])
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
        samples=0 if anew else _samples(s, best),
        step=step if step >= 0 else 0 if choice.ring else s.rounds.record.step,
        epoch=epoch,
        env=dict(stage.env) if stage else {},
        batch_mode=spec.batch.mode.value,
        global_batch=batch_scaling.total(spec.batch, per_worker, size, base),
        per_worker=per_worker,
        ramp_steps=spec.batch.ramp_steps,
        lr_scale=batch_scaling.scale(spec.batch, per_worker, size, base),
        stage=place,
    )


def _saver(s: State, choice: Choice) -> str | None:
    """Of those that leave, the one with the newest state, rank 0 before others; nobody, when those that stay have a
    newer one.
    """
    best = min(choice.leaving, key=Order(s).seniority, default=None)
    newer = [w for w in choice.holding if best and selectors.newness(w) > selectors.newness(best)]
    return best.uid if best and not newer and selectors.position(best) >= 0 else None


def _sync(ring: tuple[Worker, ...]) -> bool:
    """All take over rank 0's state if anybody has none, or another, or begins another training. Decided here for all:
    who waits in `sync` for one who does not come waits for ever.
    """
    fresh = any(selectors.position(w) < 0 or selectors.began_another(w) for w in ring)
    return fresh or len({selectors.position(w) for w in ring}) > 1


def _restore(s: State, ring: tuple[Worker, ...], people: tuple[Worker, ...]) -> str | None:
    """The checkpoint, when nobody has a state of a training that had come further.

    Where nothing was ever committed none can be. Where that is not known, who finds nothing in the folder begins from
    the start; rank 0 alone looks, and all take over what it has.
    """
    path = s.spec.checkpoint.path if s.spec else ""
    come_further = s.rounds.reached > 0 or s.saving.checkpoint is not None
    anew = all(selectors.position(w) < 0 for w in people)
    return path if path and ring and come_further and anew else None


def _samples(s: State, best: Worker | None) -> int:
    """The position in the data that belongs to the newest state."""
    if best is None or selectors.position(best) < 0:
        return s.rounds.record.samples
    if best.arrival and best.arrival.samples is not None:
        return int(best.arrival.samples)
    return max(s.rounds.record.samples, int(best.beat.samples) if best.beat else 0)


def told(s: State) -> Mapping[Uid, Assignment]:
    """The assignments of the round that stands."""
    if s.told is None or s.told[0] is not s.rounds.record:
        s.told = (s.rounds.record, assignments(s.rounds.record))
    return s.told[1]


def batch(record: Round, rank: int) -> Batch | None:
    """What this rank takes; None: the script keeps its own."""
    if record.global_batch is None or record.per_worker is None:
        return None
    return batch_scaling.of_rank(
        record.batch_mode, record.global_batch, record.per_worker, len(record.ring), rank
    )


def assignments(record: Round) -> Mapping[Uid, Assignment]:
    """What each of the round's people is told; those that hold on are told nothing yet."""
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
