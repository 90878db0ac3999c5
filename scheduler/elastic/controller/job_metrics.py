"""Metrics of the jobs.

Lives here: what counts as what, and the bounds on values that scripts report. Never here: names, labels and buckets
(`telemetry.elastic_metrics`). Gauges are sums over the jobs' last known status. Changes of a round are derived from
the round, so a status that is written twice counts once. Every value name of every job is a time series of its own, so
names and jobs are bounded.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from scheduler.elastic.job.status import OVER, Phase, Round, Status, WorkerPhase
from scheduler.elastic.reconciler.job_effects import Resized, Tell
from scheduler.kube.watch import Reflector
from scheduler.settings import Reported
from scheduler.telemetry.elastic_metrics import ElasticMetrics

STRAGGLER = "Straggler"
"""Reason of the event for a straggler."""


def moved(before: Round, after: Round) -> tuple[int, int, int]:
    """How many workers joined the later round, how many were told to leave it or wait, and how many were lost."""
    old, new = ({seat.uid for seat in own.ring} for own in (before, after))
    told = {seat.uid for seat in (*after.leaving, *after.holding)}
    gone = old - new
    return len(new - old), len(gone & told), len(gone - told)


@dataclass(slots=True)
class Counted:
    """What was counted of one job, and the source of its gauges."""

    uid: str = ""
    status: Status | None = None
    """The last known status."""
    decided: Round = Round()
    began: Round = Round()
    """The newest begun round."""
    restarts: int = 0


class JobMetrics:
    """Maintains the metrics of all jobs. reported: how a job is identified in the values that its script reports."""

    def __init__(self, metrics: ElasticMetrics, reported: Reported = Reported.UID) -> None:
        self.metrics = metrics
        self._reported = reported
        self._jobs: defaultdict[str, Counted] = defaultdict(Counted)
        self._watches: Counter[tuple[str, str]] = Counter()

    def decided(self, job: str, status: Status) -> None:
        """A status that must be stored before its round begins."""
        self.seen(job, status)
        own, after = self._jobs[job], status.assignment
        if after is not None and after.number > own.decided.number:
            own.decided = after
            self.metrics.rounds_total.labels(after.cause).inc()

    def began(self, job: str, number: int) -> None:
        """The round is sent to its members. Rounds replaced before that changed nothing."""
        own = self._jobs[job]
        if not own.began.number < number == own.decided.number:
            return
        joined, left, lost = moved(own.began, own.decided)
        own.began = own.decided
        self.metrics.joins_total.inc(joined)
        self.metrics.leaves_total.inc(left)
        self.metrics.losses_total.inc(lost)

    def known(self, job: str, uid: str, status: Status | None) -> None:
        """Do not count again what is stored already, or was counted before. uid: the ElasticJob's."""
        own = self._jobs[job]
        own.uid = uid
        if status is not None:
            stands = status.assignment or Round(number=status.round)
            own.decided, own.began = (
                max(kept, stands, key=lambda one: one.number) for kept in (own.decided, own.began)
            )
            own.restarts = max(own.restarts, status.restarts)

    def seen(self, job: str, status: Status) -> None:
        own = self._jobs[job]
        own.status = status
        self.metrics.restarts_total.inc(max(0, status.restarts - own.restarts))
        own.restarts = max(own.restarts, status.restarts)

    def resized(self, effect: Resized) -> None:
        if effect.idle_s is not None:
            self.metrics.idle_seconds.labels(effect.cause).observe(effect.idle_s)

    def told(self, effect: Tell) -> None:
        self.metrics.told_total.labels(effect.reason).inc()
        self.metrics.stragglers_total.inc(effect.reason == STRAGGLER)

    def gone(self, job: str) -> None:
        self._jobs.pop(job, None)

    def refresh(self, now: float, reflectors: Mapping[str, Reflector[Any]], *, leading: bool) -> None:
        """Update the gauges. now: seconds since the epoch."""
        metrics = self.metrics
        states = [own.status for own in self._jobs.values() if own.status is not None]
        phases = Counter(status.phase for status in states)
        for phase in Phase:
            metrics.jobs.labels(phase.value).set(phases[phase])
        # The pods of a finished job stay for their logs.
        at_work = [status for status in states if status.phase not in OVER]
        workers = Counter(member.phase for status in at_work for member in status.members)
        for kind in WorkerPhase:
            metrics.workers.labels(kind.value).set(workers[kind])
        metrics.members.set(sum(status.workers for status in states))
        metrics.wanted.set(sum(status.wanted for status in states))
        metrics.samples_per_second.set(math.fsum(status.samples_per_second or 0.0 for status in states))
        metrics.reported.clear()  # jobs and names that no longer exist leave nothing
        for job, name, value in series(self._jobs, self._reported):
            metrics.reported.labels(job, name).set(value)
        metrics.leading.set(leading)
        for watch, reflector in reflectors.items():
            age = reflector.last_event_age(now)
            if math.isfinite(age):
                metrics.cache_age_seconds.labels(watch).set(max(0.0, age))
            metrics.cache_objects.labels(watch).set(reflector.count)
            for cause, total in reflector.restarts.items():
                metrics.watch_restarts_total.labels(watch, cause).inc(total - self._watches[watch, cause])
                self._watches[watch, cause] = total


NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,63}")
"""A valid label value."""

VALUES: Final = 16
"""Maximum values of one job, in order of the first report: accuracy, loss, time of an epoch, and some more."""

MOST_JOBS: Final = 500
"""Maximum jobs, longest known first: with `VALUES` some thousands of series, of which Prometheus holds millions."""

OWN: Final = frozenset({"idle_s", "idle_without_step_s", "checkpoint_step"})
"""Values that the worker's own library reports to the master; they have metrics and fields of their own."""


def series(jobs: Mapping[str, Counted], by: Reported) -> Iterator[tuple[str, str, float]]:
    """Job, name and value of each series. jobs: by `namespace/name`; by: how a job is identified."""
    if by is Reported.NONE:
        return
    told = (
        (job if by is Reported.NAME else own.uid, own.status.values)
        for job, own in jobs.items()
        if own.status is not None and own.status.values
    )
    for called, values in islice(told, MOST_JOBS):
        fit = (name for name in values if name not in OWN and NAME.fullmatch(name))
        for name in islice(fit, VALUES):
            yield called, name, values[name]
