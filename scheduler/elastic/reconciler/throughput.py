"""What is measured from beats: throughput by size, the pause of a resize, compute times, epochs.

Lives here: arithmetic on beats. Never here: what is done about a slow worker (`stragglers`) or with a throughput (the
policies).
"""

from scheduler.elastic.job.status import Resize, Round, WorkerPhase
from scheduler.elastic.reconciler import selectors
from scheduler.elastic.reconciler.job_events import Arrived, Beat
from scheduler.elastic.reconciler.job_state import Mark, State
from scheduler.elastic.reconciler.worker import Worker

WINDOW = 0.9
"""Seconds of one measurement at least: most beats of a round that is new."""
LEAST = 0.001
"""Seconds that the steps of one measurement take together at least; who says less is mistaken."""
IDLE = "idle_s"
"""A value with this name is the member's own measure of its last pause, up to the end of the first step after it; finer
than beats can tell."""
IDLE_BEFORE = "idle_without_step_s"
"""The same up to the beginning of that step."""
DISTURBED = {"lost", "failure", "quorum"}
"""Causes of a change whose pause says nothing of what one costs that is decided: it lasts until a silent peer is given
up, or until there is room again for the quorum."""
VALUES = 64
"""Values of a script that are kept."""


def taken(s: State, worker: Worker, beat: Beat, now: float) -> None:
    """One beat of a member that trains in the present round."""
    if beat.round != s.record.number or not s.published:
        return
    if beat.phase != WorkerPhase.TRAINING or not s.record.ring:
        return
    if beat.step > s.record.step:
        _times(s, worker, beat)
    if s.resumed_at is None and beat.step > s.record.step:
        s.resumed_at = now
    if worker.uid != s.record.ring[0].uid:
        return
    _rate(s, beat, now, WINDOW)
    _epoch(s, beat, now)
    if beat.uses is not None and beat.step > s.record.step:
        s.uses = frozenset(beat.uses)
    for name, value in list(beat.values.items())[:VALUES]:
        if name in s.values or len(s.values) < VALUES:
            s.values[name] = value


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
    if _dealt(former) == _dealt(s.record):
        return
    for worker in selectors.ring(s):
        worker.compute = worker.pace = None
        worker.compute_samples = 0


def _dealt(record: Round) -> tuple[object, ...]:
    """By what a step is dealt out among the members."""
    return len(record.ring), record.batch_mode, record.global_batch, record.per_worker


def arrived(s: State, worker: Worker, event: Arrived, now: float) -> None:
    """A member comes to the barrier, and says how long its last steps took: a size may be left after two of them."""
    if event.round != s.record.number or not s.published or event.why != "announced":
        return
    if event.step_s is None or not s.record.ring or worker.uid != s.record.ring[0].uid:
        return
    beat = Beat(
        event.uid,
        WorkerPhase.TRAINING,
        event.round,
        event.step,
        samples=event.samples or 0.0,
        step_s=event.step_s,
    )
    _rate(s, beat, now, WINDOW if len(s.record.ring) in s.history.records else 0.0)


def _averaged(s: State, old: float | None, seconds: float) -> float:
    return seconds if old is None else old + s.limits.straggler_weight * (seconds - old)


def _rate(s: State, beat: Beat, now: float, window: float) -> None:
    """Samples per second; of a script that tells of none, batches: each worker takes one in a step, and keeps its
    size. window: seconds since the measurement before, at least.
    """
    mark = s.mark
    if mark is None or mark.round != beat.round or beat.samples < mark.samples:
        s.mark = Mark(beat.round, now, beat.samples, beat.step, beat.step)
        return
    s.mark = mark = _heard(mark, beat)
    if now - mark.at < window or beat.step <= mark.step:
        return
    size = len(s.record.ring)
    seconds = _seconds(s, mark, beat, now)
    s.rate = (beat.samples - mark.samples) / seconds if beat.samples else None
    pace = (beat.step - mark.step) * size / seconds
    s.history = s.history.noted(beat.round, size, pace if s.rate is None else s.rate, now)
    s.mark = Mark(beat.round, now, beat.samples, beat.step, beat.step)


def _seconds(s: State, mark: Mark, beat: Beat, now: float) -> float:
    """Over which the samples since the mark were taken, above 0.

    The first measurement of a round must not be too high: where the member does not say how long its steps took, it is
    all the time since the round was published.
    """
    first = s.history.round != mark.round
    told = _first_steps(s, mark, beat) if first else mark.seconds
    if told is not None and told >= LEAST:
        return told
    return max(LEAST, now - (s.published_at if first else mark.at))


def _first_steps(s: State, mark: Mark, beat: Beat) -> float | None:
    """Seconds of all steps of this round, of a member that was in the one before too."""
    if mark.step != s.record.step or not {IDLE, IDLE_BEFORE} <= beat.values.keys():
        return None
    others = beat.step - mark.step - 1
    if others and beat.step_s is None:
        return None
    return beat.values[IDLE] - beat.values[IDLE_BEFORE] + others * (beat.step_s or 0.0)


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
    if s.epoch_mark is None or beat.epoch < s.epoch_mark[1]:
        s.epoch_mark = (now, beat.epoch)
    since, epoch = s.epoch_mark
    if now - since >= WINDOW and beat.epoch > epoch:
        s.epoch_s = (now - since) / (beat.epoch - epoch)
        s.epoch_mark = (now, beat.epoch)


def price(change: Resize | None, former: float | None) -> float | None:
    """Seconds without a step that a change of the round costs: as this one did, unless it says nothing of others."""
    if change is None or change.idle_seconds is None or change.cause in DISTURBED:
        return former
    return change.idle_seconds


def cost(s: State) -> float | None:
    """Seconds of training that a change of the round costs: its pause lasts up to the end of a step, and such a step
    would have been made all the same. None: none was measured.
    """
    return None if s.price is None else max(0.0, s.price - selectors.step_s(s))


def idle(s: State) -> float | None:
    """Seconds without a step in the last change of the round; None when nobody trained before, and where the master
    came in the middle of it and rank 0 does not say.

    Rank 0 has made its first step of the round: until then it says what the change before cost.
    """
    said = [w.beat.values[IDLE] for w in selectors.ring(s)[:1] if w.beat and IDLE in w.beat.values]
    if said:
        return max(0.0, said[0])
    if s.paused_at is None or s.resumed_at is None:
        return None
    return max(0.0, s.resumed_at - s.paused_at)
