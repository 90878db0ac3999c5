"""What happens to the jobs, as metrics.

Lives here: what counts as what, and the bounds on values that scripts report. Never here: names, labels and buckets (`telemetry.elastic_metrics`).
Gauges are sums over the jobs' last known status. What a round changed is read off the round, so a status that is written
twice counts once. Every name of every job that a script reports is a series of its own, so names and jobs are bounded.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from scheduler.elastic.job.status import OVER, Phase, Round, Status, WorkerPhase
from scheduler.elastic.reconciler.job_effects import Resized, Tell
from scheduler.kube.watch import Reflector
from scheduler.settings import Reported
from scheduler.telemetry.elastic_metrics import ElasticMetrics

STRAGGLER = "Straggler"
"""Reason of the event that tells of one."""


class Moved(NamedTuple):
    """Workers that a round has and the one before had not, and the other way round."""

    joined: int
    left: int
    lost: int


def moved(before: Round, after: Round) -> Moved:
    """What the later round changed; whoever is not in it, and was not told to leave, was lost."""
    old, new = ({seat.uid for seat in own.ring} for own in (before, after))
    told = {seat.uid for seat in (*after.leaving, *after.holding)}
    gone = old - new
    return Moved(len(new - old), len(gone & told), len(gone - told))


class JobMetrics:
    """Keeps the metrics of all jobs. reported: what a job is called beside the values that its script reports."""

    def __init__(self, metrics: ElasticMetrics, reported: Reported = Reported.UID) -> None:
        self._metrics = metrics
        self._reported = reported
        self._uids: dict[str, str] = {}
        self._states: dict[str, Status] = {}
        self._rounds: dict[str, Round] = {}
        """The newest that began."""
        self._decided: dict[str, Round] = {}
        self._restarts: dict[str, int] = {}
        self._watches: Counter[tuple[str, str]] = Counter()

    def decided(self, job: str, status: Status) -> None:
        """A status that must stand before its round begins."""
        self.seen(job, status)
        after = status.assignment
        if after is not None and after.number > self._decided.get(job, Round()).number:
            self._decided[job] = after
            self._metrics.rounds_total.labels(after.cause).inc()

    def began(self, job: str, number: int) -> None:
        """Its members are told of this round; those that were overtaken before that changed nothing."""
        after, before = self._decided.get(job, Round()), self._rounds.get(job, Round())
        if after.number != number or number <= before.number:
            return
        self._rounds[job] = after
        change = moved(before, after)
        self._metrics.joins_total.inc(change.joined)
        self._metrics.leaves_total.inc(change.left)
        self._metrics.losses_total.inc(change.lost)

    def known(self, job: str, status: Status | None, uid: str = "") -> None:
        """What stood before we came is not counted again, nor is what we counted ourselves. uid: the ElasticJob's."""
        if uid:
            self._uids[job] = uid
        if status is not None:
            stands = status.assignment or Round(number=status.round)
            for kept in (self._rounds, self._decided):
                kept[job] = max(kept.get(job, stands), stands, key=lambda own: own.number)
            self._restarts[job] = max(self._restarts.get(job, 0), status.restarts)

    def seen(self, job: str, status: Status) -> None:
        self._states[job] = status
        before = self._restarts.get(job, 0)
        self._restarts[job] = max(before, status.restarts)
        self._metrics.restarts_total.inc(self._restarts[job] - before)

    def resized(self, effect: Resized) -> None:
        if effect.idle_s is not None:
            self._metrics.idle_seconds.labels(effect.cause).observe(effect.idle_s)

    def told(self, effect: Tell) -> None:
        self._metrics.told_total.labels(effect.reason).inc()
        self._metrics.stragglers_total.inc(effect.reason == STRAGGLER)

    def refused(self) -> None:
        self._metrics.specs_refused_total.inc()

    def broken(self) -> None:
        self._metrics.broken_total.inc()

    def wrote(self, what: str, result: str) -> None:
        self._metrics.writes_total.labels(what, result).inc()

    def unreadable(self, resource: str) -> None:
        self._metrics.unreadable_objects_total.labels(resource).inc()

    def gone(self, job: str) -> None:
        for kept in (self._states, self._rounds, self._decided, self._restarts, self._uids):
            kept.pop(job, None)

    def refresh(self, now: float, reflectors: Mapping[str, Reflector[Any]], *, leading: bool) -> None:
        """Bring the gauges up to date. now: seconds since the epoch."""
        metrics, states = self._metrics, self._states.values()
        phases = Counter(status.phase for status in states)
        for phase in Phase:
            metrics.jobs.labels(phase.value).set(phases[phase])
        # Of a job that is over the pods stay, for their logs.
        at_work = [status for status in states if status.phase not in OVER]
        workers = Counter(member.phase for status in at_work for member in status.members)
        for kind in WorkerPhase:
            metrics.workers.labels(kind.value).set(workers[kind])
        metrics.members.set(sum(status.workers for status in states))
        metrics.wanted.set(sum(status.wanted for status in states))
        metrics.samples_per_second.set(math.fsum(status.samples_per_second or 0.0 for status in states))
        metrics.reported.clear()  # a job that is gone, and a name that is no more, leave nothing
        for job, name, value in series(self._states, self._uids, self._reported):
            metrics.reported.labels(job, name).set(value)
        metrics.leading.set(leading)
        for name, reflector in reflectors.items():
            self._watch(name, reflector, now)

    def _watch(self, name: str, reflector: Reflector[Any], now: float) -> None:
        metrics = self._metrics
        age = reflector.last_event_age(now)
        if math.isfinite(age):
            metrics.cache_age_seconds.labels(name).set(max(0.0, age))
        metrics.cache_objects.labels(name).set(reflector.count)
        for cause, total in reflector.restarts.items():
            grown = total - self._watches[name, cause]
            self._watches[name, cause] = total
            metrics.watch_restarts_total.labels(name, cause).inc(grown)


NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,63}")
"""A name that becomes a label's value."""

VALUES: Final = 16
"""Values of one job, those that it reported first: accuracy, loss, time of an epoch, and some more."""

MOST_JOBS: Final = 500
"""Jobs, those that are known longest: with `VALUES` some thousands of series, of which a Prometheus holds millions."""

OWN: Final = frozenset({"idle_s", "idle_without_step_s", "checkpoint_step"})
"""Values by which our own part of the worker tells the master something; they have metrics and fields of their own."""


def series(
    states: Mapping[str, Status], uids: Mapping[str, str], by: Reported
) -> Iterator[tuple[str, str, float]]:
    """Job, name and value of each. states, uids: by `namespace/name`; by: what a job is called."""
    if by is Reported.NONE:
        return
    told = (job for job, status in states.items() if status.values and (by is Reported.NAME or job in uids))
    for _, job in zip(range(MOST_JOBS), told, strict=False):
        called = job if by is Reported.NAME else uids[job]
        fit = (name for name in states[job].values if name not in OWN and NAME.fullmatch(name))
        for _, name in zip(range(VALUES), fit, strict=False):
            yield called, name, states[job].values[name]
