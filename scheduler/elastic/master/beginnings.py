"""What the elastic master counts, at 0 before it happens: Prometheus sees no growth in a count that begins above it.

Lives here: the closed words of every counter's labels, each from where it is closed. Never here: HTTP statuses, the
reasons of events, and the names of watches, of which a master of many namespaces has many.
"""

from typing import get_args

from scheduler.elastic.master.master import JOBS, NODES, PODS
from scheduler.elastic.master.trying import COUNTED, What
from scheduler.elastic.membership.causes import TABLE
from scheduler.elastic.membership.flights import BEGINS
from scheduler.elastic.rendezvous.refusals import ORDINARY, Reason
from scheduler.serving.listener import Cause
from scheduler.telemetry.elastic import ElasticMetrics
from scheduler.telemetry.metrics import begin


def begin_all(metrics: ElasticMetrics) -> None:
    """Every counter whose words are a closed list."""
    begin(metrics.connections_closed_total, get_args(Cause))
    begin(metrics.refusals_total, [reason for reason in Reason if reason not in ORDINARY])
    begin(metrics.token_reviews_total, ["yes", "no", "away"])
    begin(metrics.rounds_total, [BEGINS, *(cause.name for cause in TABLE)])
    begin(metrics.writes_total, get_args(What), COUNTED)
    begin(metrics.unreadable_objects_total, [JOBS, PODS, NODES])
