"""The view of a job for sizing policies.

Lives here: how it is built. Never here: a policy, or the use of its decision.
"""

import math
from collections.abc import Iterator

from scheduler.elastic.job.spec import Spec
from scheduler.elastic.job.status import Phase
from scheduler.elastic.reconciler import round_plan, selectors, status_report, throughput
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.sizing.job_view import JobView, Stage

TOTAL = "total_samples"
"""Name of the value with the total number of samples of the training, reported by `gangwright.total(samples)`."""


def view(s: State, now: float) -> JobView | None:
    """The job as policies see it; None if they do not decide its size."""
    spec = s.spec
    if spec is None or spec.suspend or spec.workers is not None:
        return None
    if s.completion.over or s.exits.finishing_at is not None:
        return None
    per_worker, limit = _batch(s, spec, spec.stage(selectors.epoch(s)))
    moving = s.rounds.transition is not None or not s.rounds.settled
    placed = [w for w in (*selectors.entitled(s), *selectors.newcomers(s)) if w.seated and not w.going]
    return JobView(
        name=s.key,
        min=spec.min_workers,
        max=spec.max_workers,
        size=len(s.rounds.record.ring),
        held=len(placed),
        want=s.sizing.sized.want if s.sizing.sized else 0,
        parameters=spec.parameters,
        in_flight=moving or status_report.phase(s) is not Phase.RUNNING,
        since_change=math.inf if s.rounds.changed_at is None else max(0.0, now - s.rounds.changed_at),
        measured=s.measured.history.measured(now),
        unit="batches" if s.measured.rate is None else "samples",
        remaining=_remaining(s),
        elapsed=0.0 if s.rounds.started_at is None else max(0.0, now - s.rounds.started_at),
        attained=selectors.attained(s, s.rounds.record, now),
        idle=throughput.cost(s),
        warm=s.measured.warm,
        per_worker=per_worker,
        batch_limit=limit,
        epoch=_epoch(s),
        epoch_s=s.measured.epoch_s,
        schedule=tuple(_stages(s, spec)),
    )


def _batch(s: State, spec: Spec, place: int) -> tuple[int | None, int | None]:
    """One worker's samples of a step in this phase, and the maximum of all together; None if the script keeps its own
    batch.
    """
    if throughput.keeps_its_batch(s):
        return None, None
    per_worker = spec.per_worker(place)
    return per_worker, round_plan.most_samples(spec.batch, per_worker, spec.min_workers)


def _epoch(s: State) -> float | None:
    """Before a job's first round, and before the first after a pause, the last known epoch."""
    known = selectors.epoch(s)
    return known if known > 0 or (s.rounds.record.ring and not throughput.tells_no_epoch(s)) else None


def _stages(s: State, spec: Spec) -> Iterator[Stage]:
    """Entries of the schedule that set a size, each with the batch of its own rounds."""
    for place, one in enumerate(spec.schedule):
        if one.workers is not None:
            yield Stage(one.epoch, one.workers, *_batch(s, spec, place))


def _remaining(s: State) -> float | None:
    """Remaining samples. None: the total is not reported, or steps are made but their samples are not reported."""
    total = s.measured.values.get(TOTAL)
    if total is None or not math.isfinite(total):
        return None
    now = s.measured.mark or s.rounds.record
    return max(0.0, total - now.samples) if now.samples or not now.step else None
