"""What `gangwright serve` counts, at 0 before it happens: Prometheus sees no growth in a count that begins above it.

Lives here: the closed words of every counter's labels, each from where it is closed. Never here: HTTP statuses, of which
there is no short list.
"""

from typing import Final, get_args

from scheduler.extender.verb_handlers import VERBS, Result
from scheduler.kube.retry_backoff import CAUSES
from scheduler.ledger import pins
from scheduler.model.decision import Reason
from scheduler.model.effects import Effect
from scheduler.model.events import FailureKind
from scheduler.model.preemption_units import Kind
from scheduler.service.informers import KINDS
from scheduler.serving import listener
from scheduler.telemetry.metrics import Metrics, begin

RESULTS: Final = ("done", *FailureKind)
"""What became of a write."""


def begin_all(metrics: Metrics) -> None:
    """Every counter whose words are a closed list."""
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
