"""What is measured from beats: throughput by size, the pause of a resize, compute times, epochs.

Lives here: arithmetic on beats. Never here: what is done about a slow worker (`stragglers`) or with a throughput (the
policies).
"""

from scheduler.elastic.membership import roll
from scheduler.elastic.membership.events import Beat
from scheduler.elastic.membership.state import Mark, State
from scheduler.elastic.membership.worker import Worker

WINDOW = 0.9
"""Seconds of one measurement at least: about a beat."""
LEAST = 0.001
"""Seconds that the steps of one measurement take together at least; who says less is mistaken."""
IDLE = "idle_s"
"""A value with this name is the member's own measure of its last pause, finer than beats can tell."""
VALUES = 64
"""Values of a script that are kept."""


def taken(s: State, worker: Worker, beat: Beat, now: float) -> None:
    """One beat of a member that trains in the present round."""
    if beat.round != s.record.number or not s.published:
        return
    if beat.phase != "Training" or not s.record.ring:
        return
    if beat.compute_s:
        worker.compute = _averaged(s, worker.compute, beat.compute_s)
        worker.compute_samples += 1
    if beat.step_s:
        worker.pace = _averaged(s, worker.pace, beat.step_s)
    if s.resumed_at is None and beat.step > s.record.step:
        s.resumed_at = now
    if worker.uid != s.record.ring[0].uid:
        return
    _rate(s, beat, now)
    _epoch(s, beat, now)
    if beat.uses is not None and beat.step > s.record.step:
        s.uses = frozenset(beat.uses)
    for name, value in list(beat.values.items())[:VALUES]:
        if name in s.values or len(s.values) < VALUES:
            s.values[name] = value


def _averaged(s: State, old: float | None, seconds: float) -> float:
    return seconds if old is None else old + s.limits.straggler_weight * (seconds - old)


def _rate(s: State, beat: Beat, now: float) -> None:
    """Samples per second; of a script that tells of none, batches: each worker takes one in a step, and keeps its
    size.
    """
    mark = s.mark
    if mark is None or mark.round != beat.round or beat.samples < mark.samples:
        s.mark = Mark(beat.round, now, beat.samples, beat.step, beat.step)
        return
    s.mark = mark = _heard(mark, beat)
    if now - mark.at < WINDOW or beat.step <= mark.step:
        return
    size = len(s.record.ring)
    told = mark.seconds or 0.0
    seconds = told if told >= LEAST else now - mark.at
    s.rate = (beat.samples - mark.samples) / seconds if beat.samples else None
    pace = (beat.step - mark.step) * size / seconds
    s.history = s.history.noted(beat.round, size, pace if s.rate is None else s.rate, now)
    s.mark = Mark(beat.round, now, beat.samples, beat.step, beat.step)


def _heard(mark: Mark, beat: Beat) -> Mark:
    """The time of the steps since the last beat is added, as the worker took it.

    Beats come once a second: by their times alone a step of 1.5 s would take one second or two.
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


def idle(s: State) -> float | None:
    """Seconds without a step in the last change of the round; None when nobody trained before.

    Rank 0 has made its first step of the round: until then it says what the change before cost.
    """
    if s.paused_at is None or s.resumed_at is None:
        return None
    said = [w.beat.values[IDLE] for w in roll.ring(s)[:1] if w.beat and IDLE in w.beat.values]
    return max(0.0, said[0] if said else s.resumed_at - s.paused_at)
