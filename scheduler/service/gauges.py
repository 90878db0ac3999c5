"""The ledger's counts and the engine's state → metrics, every few seconds."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from prometheus_client import Counter as CounterMetric
from prometheus_client import Gauge

from scheduler.engine import Engine
from scheduler.extender.verb_handlers import VERBS, Result
from scheduler.kube.retry_backoff import CAUSES
from scheduler.kube.watch import Reflector
from scheduler.ledger import pins, share_amounts
from scheduler.ledger.share_amounts import NOTHING, ShareAmount
from scheduler.model.decision import Reason
from scheduler.model.effects import Effect
from scheduler.model.events import FailureKind
from scheduler.model.preemption_units import Kind
from scheduler.model.resources import CPU, is_shown
from scheduler.placement import scoring
from scheduler.service.informers import KINDS
from scheduler.service.share_guarantees import ShareGuarantees
from scheduler.serving import listener
from scheduler.telemetry.metrics import Metrics, begin


class Gauges:
    """Transfers counts to the registry: counters by their growth, gauges by their state."""

    def __init__(self, engine: Engine, metrics: Metrics, reflectors: dict[str, Reflector[Any]]) -> None:
        self._engine = engine
        self._metrics = metrics
        self._reflectors = reflectors
        self._told: Counter[CounterMetric] = Counter()
        self._lost = 0.0
        self._guarantees = ShareGuarantees(engine)
        self._shares: dict[tuple[Gauge, str, str], float] = {}
        self.fragments: Mapping[str, float] = {}
        """Fragmentation by resource, as last measured."""

    def refresh(self, now: float) -> None:
        """Update every metric that is not counted where it happens."""
        self._count_tally()
        self._show_gangs(now)
        self._show_watches(now)
        self._show_cluster()
        self._show_shares()

    def _raise(self, counter: CounterMetric, total: int) -> None:
        counter.inc(total - self._told[counter])
        self._told[counter] = total

    def _count_tally(self) -> None:
        metrics, tally = self._metrics, self._engine.ledger.counters
        for reason, total in tally.decisions.items():
            self._raise(metrics.decisions_total.labels(str(reason)), total)
        for cause, total in tally.pins_broken.items():
            self._raise(metrics.pins_broken_total.labels(cause), total)
        self._raise(metrics.gang_faults_total, self._engine.ledger.faults.total)
        self._raise(metrics.reseats_total, tally.reseats)
        for kind, total in tally.victims.items():
            self._raise(metrics.victims_total.labels(kind), total)
        for kind, total in tally.refusals.items():
            self._raise(metrics.victims_refused_total.labels(str(kind)), total)
        metrics.lost_device_seconds_total.inc(max(0.0, tally.lost - self._lost))
        self._lost = tally.lost
        started, tally.starts = tally.starts, []
        for ratio in self._engine.forecasts.started(started):
            metrics.forecast_ratio.observe(ratio)
        waits, placements = tally.drain()
        for wait in waits:
            metrics.gang_wait_seconds.observe(wait)
        for placement in placements:
            metrics.alignment.observe(placement.alignment)
            for level, (spanned, fewest) in placement.spans.items():
                if fewest:
                    metrics.domains_spanned_ratio.labels(level).observe(spanned / fewest)

    def _show_gangs(self, now: float) -> None:
        """Update the metrics of gangs. A standby replica only keeps facts and decides nothing, so it shows no gangs."""
        metrics, ledger = self._metrics, self._engine.ledger
        census = ledger.gang_counts() if ledger.acting else {}
        metrics.gangs.clear()
        for (state, reason), count in census.items():
            metrics.gangs.labels(str(state), reason).set(count)
        metrics.gang_oldest_wait_seconds.set(ledger.oldest_wait(now) if ledger.acting else 0.0)
        metrics.holds.set(ledger.holds())
        reserved = self._engine.cycle.head.reserved
        metrics.reservation_seconds.set(max(0.0, reserved.start - now) if reserved is not None else 0.0)
        metrics.acting.set(ledger.ready)

    def _show_watches(self, now: float) -> None:
        metrics = self._metrics
        for name, reflector in self._reflectors.items():
            age = reflector.last_event_age(now)
            if math.isfinite(age):  # a kind that is not installed never sent an event
                metrics.cache_age_seconds.labels(name).set(max(0.0, age))
            metrics.cache_objects.labels(name).set(reflector.count)
            for cause, total in reflector.restarts.items():
                self._raise(metrics.watch_restarts_total.labels(name, cause), total)

    def _show_cluster(self) -> None:
        picture = self._engine.snapshot()
        metrics = self._metrics
        total = picture.capacity.sum(axis=0)
        used = total - picture.free.sum(axis=0)
        names = picture.axis.names
        metrics.set_ratio(
            metrics.resource_use_ratio,
            {
                name: float(used[i] / total[i])
                for i, name in enumerate(names)
                if total[i] > 0 and is_shown(name)
            },
        )
        metrics.set_ratio(metrics.guaranteed_ratio, self._guarantees.check())
        self.fragments = scoring.fragmentation(picture, self._engine.demands_seen())
        metrics.set_ratio(metrics.fragmentation_ratio, self.fragments)

    def _show_shares(self) -> None:
        """Update the metrics of shares, only for namespaces and resources in `queue.shares`: this bounds the series."""
        before, self._shares = self._shares, dict(self._share_amounts())
        for own in [own for own in before if own not in self._shares]:
            own[0].remove(*own[1:])
        for own, value in self._shares.items():
            if before.get(own) != value:  # most have not changed
                own[0].labels(*own[1:]).set(value)

    def _share_amounts(self) -> Iterator[tuple[tuple[Gauge, str, str], float]]:
        """The values to show, by gauge, namespace and resource."""
        ledger = self._engine.ledger
        shares = self._engine.policy.shares if ledger.acting else {}
        named = {name for share in shares.values() for name, _ in (*share.guaranteed, *share.ceiling)}
        gauges = [getattr(self._metrics, f"share_{name}") for name in ShareAmount._fields]
        for namespace in shares:
            amounts = share_amounts.amounts(ledger, namespace)
            for resource in named:
                unit = 1000 if resource == CPU else 1
                for gauge, value in zip(gauges, amounts.get(resource, NOTHING), strict=True):
                    if value is not None:
                        yield (gauge, namespace, resource), value / unit


RESULTS: Final = ("done", *FailureKind)
"""Outcomes of a write."""


def begin_all(metrics: Metrics) -> None:
    """Set every counter with a fixed list of labels to 0: Prometheus misses the growth of one that starts above 0."""
    effects = [kind.__name__ for kind in get_args(Effect)]
    begin(metrics.verb_total, VERBS, get_args(Result))
    begin(metrics.verb_total, ["none"], ["error"])
    begin(metrics.answers_total, ["filter"], [*Reason, "Malformed", "TooSlow", "Broken"])
    begin(metrics.answers_total, ["prioritize"], [Reason.SCORED, "Malformed", "TooSlow", "Broken"])
    begin(metrics.answers_total, ["preempt"], ["none", "Malformed", "TooSlow", "Broken"])
    begin(metrics.connections_closed_total, get_args(listener.Cause))
    begin(metrics.decisions_total, Reason)
    begin(metrics.pins_broken_total, get_args(pins.Cause))
    begin(metrics.evictions_total, RESULTS)
    begin(metrics.victims_total, [kind.name.lower() for kind in Kind])
    begin(metrics.victims_refused_total, FailureKind)
    begin(metrics.effects_total, effects, RESULTS)
    begin(metrics.watch_restarts_total, KINDS, CAUSES)
    begin(metrics.unreadable_objects_total, KINDS)
    begin(metrics.status_reviews_total, ["token", "access"], ["yes", "no"])
