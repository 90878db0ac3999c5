"""Every metric of the two programs as a row, read from what they register."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from prometheus_client import Counter, Gauge, Histogram

from scheduler.telemetry.elastic_metrics import ElasticMetrics
from scheduler.telemetry.metrics import Metrics

PREFIX: Final = "gangwright_"
GROUP: Final = "elastic_"
"""What every name of the elastic master begins with after the prefix, the build's excepted."""

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class Row(NamedTuple):
    """One metric. `name` is without the prefix; a counter's ends in `_total`."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...]


def rows(metrics: Metrics | ElasticMetrics) -> list[Row]:
    """The metrics in their order, without those of the process."""
    registered = metrics.registry._collector_to_names
    return [_row(own) for own in registered if isinstance(own, Counter | Gauge | Histogram)]


def _row(own: Counter | Gauge | Histogram) -> Row:
    name = own._name.removeprefix(PREFIX) + ("_total" if isinstance(own, Counter) else "")
    buckets = tuple(own._kwargs["buckets"]) if isinstance(own, Histogram) else ()
    return Row(name, own._type, own._documentation, own._labelnames, buckets)


METRICS: Final = rows(Metrics())
ELASTIC: Final = rows(ElasticMetrics())


def markdown(shown: Iterable[Row]) -> str:
    """The table as README shows it."""
    lines = [f"| `{PREFIX}{row.name}` | {row.kind} | {_labels(row)} | {row.help} |" for row in shown]
    return "\n".join(["| metric | type | labels | meaning |", "|---|---|---|---|", *lines])


def _labels(row: Row) -> str:
    return ", ".join(f"`{label}`" for label in row.labels) or "–"
