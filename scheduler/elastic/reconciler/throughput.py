"""What is measured from beats: throughput by size, the pause of a resize, compute times, epochs.

Lives here: arithmetic on beats. Never here: what is done about a slow worker (`stragglers`) or with a throughput (the
policies).
"""

from scheduler.elastic.job.status import Resize, Round, Status, WorkerPhase
from scheduler.elastic.reconciler import script_api_usage, selectors
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
DISTURBED = {"lost", "failure", "quorum"}
"""Causes of a change whose pause says nothing of what one costs that is decided: it lasts until a silent peer is given
up, or until there is room again for the quorum."""
VALUES = 64
"""Values of a script that are kept."""


def restored(s: State, status: Status) -> None:
    """What the script reported."""
    s.measured.values = dict(status.values)


def warmed(s: State, seconds: float) -> None:
    """A newcomer took so long from its seat until READY."""
    s.measured.warm = seconds


def taken(s: State, worker: Worker, beat: Beat, now: float) -> None:
    """One beat of a member that trains in the present round."""
    if beat.round != s.rounds.record.number or not s.rounds.published:
        return
    if beat.phase != WorkerPhase.TRAINING or not s.rounds.record.ring:
        return
    if beat.step > s.rounds.record.step:
        _times(s, worker, beat)
    if s.measured.resumed_at is None and beat.step > s.rounds.record.step:
        s.measured.resumed_at = now
    if worker.uid != s.rounds.record.ring[0].uid:
        return
    _rate(s, beat, now)
    _epoch(s, beat, now)
    if beat.uses is not None and beat.step > s.rounds.record.step:
        script_api_usage.heard(s, beat.uses)
    for name, value in list(beat.values.items())[:VALUES]:
        if name in s.measured.values or len(s.measured.values) < VALUES:
            s.measured.values[name] = value


def _times(s: State, worker: Worker, beat: Beat) -> None:
    """Of steps of this round; before its first one a beat tells of the last ones before."""
    if beat.compute_s:
        worker.compute = _averaged(s, worker.compute, beat.compute_s)
        worker.compute_samples += 1
    if beat.step_s:
        worker.pace = _averaged(s, worker.pace, beat.step_s)


def begun(s: State, former: Round) -> None:
    """In a round that deals out a step otherwise, averages begin anew: those of members would still hold what they took
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
    s.measured.mark = mark = _heard(mark, beat)
    if now - mark.at < WINDOW or beat.step <= mark.step:
        return
    size = len(s.rounds.record.ring)
    told = mark.seconds or 0.0
    seconds = told if told >= LEAST else now - mark.at
    s.measured.rate = (beat.samples - mark.samples) / seconds if beat.samples else None
    pace = (beat.step - mark.step) * size / seconds
    s.measured.history = s.measured.history.noted(
        beat.round, size, pace if s.measured.rate is None else s.measured.rate, now
    )
    s.measured.mark = Mark(beat.round, now, beat.samples, beat.step, beat.step)


def _heard(mark: Mark, beat: Beat) -> Mark:
    """The time of the steps since the last beat is added, as the worker took it.

    Beats come every second or so: by their times alone a step of 1.5 s would take one second or two.
    """
    steps = beat.step - mark.last
    if steps <= 0:
        return mark
    if beat.step_s is None or mark.seconds is None:
        return mark._replace(last=beat.step, seconds=None)
    return mark._replace(last=beat.step, seconds=mark.seconds + steps * beat.step_s)


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
