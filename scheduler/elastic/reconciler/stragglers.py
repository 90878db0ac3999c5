"""Members that slow the others down: each step takes as long as its slowest worker.

Compute time without the collective is compared, since with it all ranks take equally long. Rule and figures: the
autoscaling code of "Elastic distributed training with fast resource changes" (MLSys'20), which uses the fraction of the
median throughput. Lives here: detection, one straggler at a time. Never here: the swap. A straggler does not count as
wanted (`scaling`), and is the first to be replaced when a warm worker can take its place (`rank_assignment`).
"""

import statistics

from scheduler.elastic.reconciler import round_plan, selectors, throughput
from scheduler.elastic.reconciler.job_effects import Tell
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.worker import Worker

LEAST = 10
"""Samples before an average is usable: 1 / weight."""


def look(s: State, now: float) -> None:
    """Mark the slowest straggler; unmark one that is gone, has caught up, or for which there was no replacement."""
    fractions = _fractions(s)
    if s.straggler.uid is not None:
        _look_again(s, fractions, now)
    if s.straggler.uid is not None or s.rounds.transition or now < s.straggler.not_before or not fractions:
        return
    worker, fraction = min(fractions.items(), key=lambda one: (one[1], one[0]))
    if fraction < s.limits.straggler:
        s.straggler.uid, s.straggler.since = worker, now
        name = s.workers[worker].name
        s.do(Tell("Warning", "Straggler", f"{name} computes at {fraction:.0%} of the median; it is replaced"))


def _look_again(s: State, fractions: dict[str, float], now: float) -> None:
    present = any(w.uid == s.straggler.uid for w in selectors.entitled(s))
    caught_up = s.straggler.uid in fractions and fractions[s.straggler.uid] >= s.limits.straggler
    seated = any(w.seated for w in selectors.newcomers(s))
    no_room = now - s.straggler.since > s.limits.straggler_seat and not seated
    if not present or caught_up or no_room:
        s.straggler.uid = None
        s.straggler.not_before = now + s.limits.straggler_pause


def _fractions(s: State) -> dict[str, float]:
    """Throughput of each measured member as a fraction of the median; 1 for members that cost the others no time."""
    if not any(w.compute_samples >= LEAST for w in selectors.ring(s)):
        return {}
    parts = _parts(s)
    busy = [w for w in selectors.ring(s) if parts[w.uid]]
    measured = {w: w.compute for w in busy if w.compute and w.compute_samples >= LEAST}
    if len(measured) < max(2, len(busy) - 1):
        return {}
    speeds = {w: parts[w.uid] / seconds for w, seconds in measured.items()}
    median = statistics.median(speeds.values())
    found = {w: speed / median for w, speed in speeds.items()}
    for w in [w for w, fraction in found.items() if fraction < s.limits.straggler]:
        others = statistics.median(seconds for other, seconds in measured.items() if other is not w)
        if not _delays(s, w, max(parts[w.uid] / median, others)):
            found[w] = 1.0
    return {w.uid: fraction for w, fraction in found.items()}


def _parts(s: State) -> dict[str, int]:
    """Each member's share of a step: unequal shares do not mean different speeds, and a member without a share has no
    speed. All are equal if the script distributes the samples.
    """
    record, ours = s.rounds.record, throughput.BATCH in (s.measured.uses or ())
    dealt = [round_plan.batch(record, rank) if ours else None for rank in range(len(record.ring))]
    return {seat.uid: own.local if own else 1 for seat, own in zip(record.ring, dealt, strict=True)}


def _delays(s: State, worker: Worker, usual: float) -> bool:
    """The others wait for it, for a significant part of the step. usual: seconds that its share takes at the median
    speed, or what the others take if that is longer, because a small share has its constant part as well.
    """
    behind = (worker.compute or 0.0) - usual
    return worker.pace is None or behind >= s.limits.straggler_delay * worker.pace
