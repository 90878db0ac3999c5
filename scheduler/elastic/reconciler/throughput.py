"""Measurements from beats: throughput by size, pause of a resize, compute times, epochs, and the script's API calls.

Lives here: arithmetic on beats. Never here: the reaction to a slow worker (`stragglers`) or to a throughput (the
policies). The API itself is `runtime.script_api`. An unmodified script calls none of it, so it ignores what the spec
says about batch and rate. Nothing is assumed about that before the first step, or if agents do not report it.
"""

from scheduler.elastic.job.status import Resize, Round, Status, WorkerPhase
from scheduler.elastic.reconciler import selectors
from scheduler.elastic.reconciler.job_effects import Tell
from scheduler.elastic.reconciler.job_events import Beat
from scheduler.elastic.reconciler.job_state import Mark, State
from scheduler.elastic.reconciler.worker import Worker

WINDOW = 0.9
"""Minimum seconds of one measurement: most beats of a new round."""
LEAST = 0.001
"""Minimum seconds that the steps of one measurement take together; smaller reports are wrong."""
IDLE = "idle_s"
"""Name of the value with a member's own measurement of its last pause, up to the end of the first step after it. It is
more precise than beats."""
DISTURBED = {"WorkerLost", "CollectiveFailed", "QuorumReached"}
"""Causes of a change whose pause does not predict the cost of a planned one: it lasts until a silent peer is declared
lost, or until there is free capacity for the quorum."""
VALUES = 64
"""Number of script values to keep."""
BATCH = "batch"
"""The script asked for its batch: `gangwright.batch()` or `gangwright.shard()`."""
RATE = "rate"
"""The script asked for the factor of its learning rate: `gangwright.lr_scale()`."""
EPOCH = "epoch"
"""The script reports the epoch: `gangwright.epoch(done)`, or its position in `gangwright.shard()`."""


def restored(s: State, status: Status) -> None:
    """Restore what the script reported, and which calls it made."""
    s.measured.values = dict(status.values)
    s.measured.uses = None if status.uses is None else frozenset(status.uses)


def taken_over(s: State, record: Round) -> tuple[int | None, float | None]:
    """The global batch and the rate's factor of this round, each if the script uses it."""
    uses = s.measured.uses or frozenset()
    return record.global_batch if BATCH in uses else None, record.lr_scale if RATE in uses else None


def keeps_its_batch(s: State) -> bool:
    """Steps were made without asking for a batch."""
    return s.measured.uses is not None and BATCH not in s.measured.uses


def tells_no_epoch(s: State) -> bool:
    """Steps were made without reporting an epoch."""
    uses = s.measured.uses
    return uses is not None and EPOCH not in uses and selectors.epoch(s) <= 0


def warmed(s: State, seconds: float) -> None:
    """A newcomer took this long from its assignment to a node until READY."""
    s.measured.warm = seconds


def taken(s: State, worker: Worker, beat: Beat, now: float) -> None:
    """Record a beat of a member that trains in the current round."""
    if beat.round != s.rounds.record.number or not s.rounds.published:
        return
    if beat.phase != WorkerPhase.TRAINING or not s.rounds.record.ring:
        return
    stepped = beat.step > s.rounds.record.step  # until then a beat reports the steps before the round
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
    """Record the calls made so far. What the script does not call is reported once, after the first step."""
    first, s.measured.uses = s.measured.uses is None, uses
    aside = {"gangwright.batch() or gangwright.shard()": BATCH, "gangwright.lr_scale()": RATE}
    missing = [calls for calls, word in aside.items() if word not in uses]
    if first and missing and s.rounds.record.per_worker is not None:
        said = f"The script does not call {' nor '.join(missing)}, so it keeps its own and spec.batch is not applied"
        s.do(Tell("Normal", "BatchNotApplied", said))


def begun(s: State, former: Round) -> None:
    """Reset the averages if the round distributes a step differently. Those of members would still include their former
    share, and those of newcomers would not.
    """
    s.measured.resumed_at = None
    if _dealt(former) == _dealt(s.rounds.record):
        return
    for worker in selectors.ring(s):
        worker.compute = worker.pace = None
        worker.compute_samples = 0


def _dealt(record: Round) -> tuple[object, ...]:
    """What determines the members' shares of a step."""
    return len(record.ring), record.batch_mode, record.global_batch, record.per_worker


def _averaged(s: State, old: float | None, seconds: float) -> float:
    return seconds if old is None else old + s.limits.straggler_weight * (seconds - old)


def _rate(s: State, beat: Beat, now: float) -> None:
    """Samples per second. If a script reports none, batches: each worker takes one per step, and keeps its size."""
    mark = s.measured.mark
    if mark is None or mark.round != beat.round or beat.samples < mark.samples:
        s.measured.mark = Mark(beat.round, now, beat.samples, beat.step, beat.step)
        return
    # Steps since the last beat count with the time reported by the worker. Beats come about every second: by their
    # times alone, a step of 1.5 s would take one second or two.
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
    """Seconds without a step that a change of the round costs: as long as this one, if it is representative."""
    if change is None or change.idle_seconds is None or change.cause in DISTURBED:
        return former
    return change.idle_seconds


def cost(s: State) -> float | None:
    """Seconds of training that a change of the round costs. Its pause includes one step, which would have been made
    anyway. None: not measured.
    """
    return None if s.rounds.price is None else max(0.0, s.rounds.price - selectors.step_s(s))


def idle(s: State) -> float | None:
    """Seconds without a step in the last change of the round. None: there was no training before, or the master started
    in the middle of the change and rank 0 does not report it.

    Rank 0 has made its first step of the round; until then it reports the cost of the previous change.
    """
    said = [w.beat.values[IDLE] for w in selectors.ring(s)[:1] if w.beat and IDLE in w.beat.values]
    if said:
        return max(0.0, said[0])
    if s.rounds.paused_at is None or s.measured.resumed_at is None:
        return None
    return max(0.0, s.measured.resumed_at - s.rounds.paused_at)
