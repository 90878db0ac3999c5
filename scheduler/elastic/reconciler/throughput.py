"""What is measured from beats: throughput by size, the pause of a resize, compute times, epochs; and what scripts call.

Lives here: arithmetic on beats. Never here: what is done about a slow worker (`stragglers`) or with a throughput (the
policies). Our small API itself is `runtime.script_api`: an unmodified script calls nothing of it, so it leaves aside what the
spec says of batch and rate. Before a step was made nothing is claimed of that, nor of a job whose agents do not say.
"""

from scheduler.elastic.job.status import Resize, Round, Status, WorkerPhase
from scheduler.elastic.reconciler import selectors
from scheduler.elastic.reconciler.job_effects import Tell
from scheduler.elastic.reconciler.job_events import Beat
from scheduler.elastic.reconciler.job_state import Mark, State
from scheduler.elastic.reconciler.worker import Worker

WINDOW = 0.9
"""Seconds of one measurement at least: most beats of a round that is new."""
LEAST = 0.001
"""Seconds that the steps of one measurement take together at least; who says less is mistaken."""
IDLE = "idle_s"
"""A value with this name is the member's own measure of its last pause, up to the end of the first step after it; finer
than beats can tell."""
DISTURBED = {"WorkerLost", "CollectiveFailed", "QuorumReached"}
"""Causes of a change whose pause says nothing of what one costs that is decided: it lasts until a silent peer is given
up, or until there is room again for the quorum."""
VALUES = 64
"""Values of a script that are kept."""
BATCH = "batch"
"""The script asked for its batch: `gangwright.batch()` or `gangwright.shard()`."""
RATE = "rate"
"""It asked for the factor of its learning rate: `gangwright.lr_scale()`."""
EPOCH = "epoch"
"""It tells the epoch: `gangwright.epoch(done)`, or its position within what it gave to `gangwright.shard()`."""


def restored(s: State, status: Status) -> None:
    """What the script reported, and what it was seen to call."""
    s.measured.values = dict(status.values)
    s.measured.uses = None if status.uses is None else frozenset(status.uses)


def taken_over(s: State, record: Round) -> tuple[int | None, float | None]:
    """The global batch and the rate's factor of this round, each where the script takes it over."""
    uses = s.measured.uses or frozenset()
    return record.global_batch if BATCH in uses else None, record.lr_scale if RATE in uses else None


def keeps_its_batch(s: State) -> bool:
    """Steps were made, and no batch was asked for with them."""
    return s.measured.uses is not None and BATCH not in s.measured.uses


def tells_no_epoch(s: State) -> bool:
    """Steps were made, and no epoch was told with them."""
    uses = s.measured.uses
    return uses is not None and EPOCH not in uses and selectors.epoch(s) <= 0


def warmed(s: State, seconds: float) -> None:
    """A newcomer took so long from its seat until READY."""
    s.measured.warm = seconds


def taken(s: State, worker: Worker, beat: Beat, now: float) -> None:
    """One beat of a member that trains in the present round."""
    if beat.round != s.rounds.record.number or not s.rounds.published:
        return
    if beat.phase != WorkerPhase.TRAINING or not s.rounds.record.ring:
        return
    stepped = beat.step > s.rounds.record.step  # before its first step a beat tells of the last ones before
    if stepped and s.measured.resumed_at is None:
        s.measured.resumed_at = now
    if stepped and beat.compute_s:
        worker.compute = _averaged(s, worker.compute, beat.compute_s)
        worker.compute_samples += 1
    if stepped and beat.step_s:
        worker.pace = _averaged(s, worker.pace, beat.step_s)
    if worker.uid != s.rounds.record.ring[0].uid:
        return
    _rate(s, beat, now)
    _epoch(s, beat, now)
    if beat.uses is not None and stepped:
        _uses(s, frozenset(beat.uses))
    for name, value in list(beat.values.items())[:VALUES]:
        if name in s.measured.values or len(s.measured.values) < VALUES:
            s.measured.values[name] = value


def _uses(s: State, uses: frozenset[str]) -> None:
    """What its script was seen to call by now. What it leaves aside is told once, after the first step."""
    first, s.measured.uses = s.measured.uses is None, uses
    aside = {"gangwright.batch() or gangwright.shard()": BATCH, "gangwright.lr_scale()": RATE}
    missing = [calls for calls, word in aside.items() if word not in uses]
    if first and missing and s.rounds.record.per_worker is not None:
        said = f"the script does not call {' nor '.join(missing)}: it keeps its own, and spec.batch is not applied to that"
        s.do(Tell("Normal", "BatchNotApplied", said))


def begun(s: State, former: Round) -> None:
    """In a round that deals out a step otherwise, averages begin again: those of members would still hold what they took
    for their former part, and those of newcomers would not.
    """
    s.measured.resumed_at = None
    if _dealt(former) == _dealt(s.rounds.record):
        return
    for worker in selectors.ring(s):
        worker.compute = worker.pace = None
        worker.compute_samples = 0


def _dealt(record: Round) -> tuple[object, ...]:
    """By what a step is dealt out among the members."""
    return len(record.ring), record.batch_mode, record.global_batch, record.per_worker


def _averaged(s: State, old: float | None, seconds: float) -> float:
    return seconds if old is None else old + s.limits.straggler_weight * (seconds - old)


def _rate(s: State, beat: Beat, now: float) -> None:
    """Samples per second; of a script that tells of none, batches: each worker takes one in a step, and keeps its
    size.
    """
    mark = s.measured.mark
    if mark is None or mark.round != beat.round or beat.samples < mark.samples:
        s.measured.mark = Mark(beat.round, now, beat.samples, beat.step, beat.step)
        return
    # The steps since the last beat count with the time that the worker took. Beats come every second or so: by their
    # times alone a step of 1.5 s would take one second or two.
    steps = beat.step - mark.last
    if steps > 0:
        known = beat.step_s is not None and mark.seconds is not None
        seconds = (mark.seconds or 0.0) + steps * (beat.step_s or 0.0) if known else None
        s.measured.mark = mark = mark._replace(last=beat.step, seconds=seconds)
    if now - mark.at < WINDOW or beat.step <= mark.step:
        return
    size = len(s.rounds.record.ring)
    told = mark.seconds or 0.0
    took = told if told >= LEAST else now - mark.at
    s.measured.rate = rate = (beat.samples - mark.samples) / took if beat.samples else None
    pace = (beat.step - mark.step) * size / took if rate is None else rate
    s.measured.history = s.measured.history.noted(beat.round, size, pace, now)
    s.measured.mark = Mark(beat.round, now, beat.samples, beat.step, beat.step)


def _epoch(s: State, beat: Beat, now: float) -> None:
    if s.measured.epoch_mark is None or beat.epoch < s.measured.epoch_mark[1]:
        s.measured.epoch_mark = (now, beat.epoch)
    since, epoch = s.measured.epoch_mark
    if now - since >= WINDOW and beat.epoch > epoch:
        s.measured.epoch_s = (now - since) / (beat.epoch - epoch)
        s.measured.epoch_mark = (now, beat.epoch)


def price(change: Resize | None, former: float | None) -> float | None:
    """Seconds without a step that a change of the round costs: as this one did, unless it says nothing of others."""
    if change is None or change.idle_seconds is None or change.cause in DISTURBED:
        return former
    return change.idle_seconds


def cost(s: State) -> float | None:
    """Seconds of training that a change of the round costs: its pause lasts up to the end of a step, and such a step
    would have been made all the same. None: none was measured.
    """
    return None if s.rounds.price is None else max(0.0, s.rounds.price - selectors.step_s(s))


def idle(s: State) -> float | None:
    """Seconds without a step in the last change of the round; None when nobody trained before, and where the master
    came in the middle of it and rank 0 does not say.

    Rank 0 has made its first step of the round: until then it says what the change before cost.
    """
    said = [w.beat.values[IDLE] for w in selectors.ring(s)[:1] if w.beat and IDLE in w.beat.values]
    if said:
        return max(0.0, said[0])
    if s.rounds.paused_at is None or s.measured.resumed_at is None:
        return None
    return max(0.0, s.measured.resumed_at - s.rounds.paused_at)
