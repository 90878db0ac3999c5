"""Every metric, in one table.

Lives here: names, meanings, labels and buckets (`METRICS`), and one attribute for each (`Metrics`). Never here: the
moment at which something is counted.

Why so few labels: a label's values must be a short closed list, or a scrape grows with what users make. So never a
gang, pod, node, namespace or user. The two lists that we do not close ourselves, resources and levels, are cut by
`Few`. Words after the prefix follow kube-scheduler's where it has one for the same thing; base units throughout.
"""

import platform
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from scheduler import __version__

PREFIX: Final = "gangwright_"
OTHER: Final = "other"


class Kind(StrEnum):
    """How a metric behaves; the words of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One row. `name` is without the prefix; a counter's ends in `_total`."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def doubling(start: float, count: int) -> tuple[float, ...]:
    """`count` upper bounds, each twice the one before, rounded so that they read well."""
    return tuple(float(f"{start * 2**power:.6g}") for power in range(count))


SHORT: Final = doubling(0.0001, 17)
"""0.1 ms … 6.6 s: a known seat is confirmed in less than 1 ms, kube-scheduler waits for 2 s, by default 5 s. The
start is that of `scheduler_framework_extension_point_duration_seconds`."""

WAITS: Final = doubling(0.01, 23)
"""10 ms … 11.7 h: begins as `scheduler_pod_scheduling_sli_duration_seconds`, and goes on, for gangs wait for hours."""

SPANS: Final = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0)
"""1 is the best possible."""

RATIOS: Final = doubling(1 / 16, 9)
"""A sixteenth … sixteen times; 1 is right."""

UNIT: Final = tuple(round(step * 0.05, 2) for step in range(1, 21))
"""0 … 1 in twentieths."""

C, G, H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

METRICS: Final = (
    Metric("verb_duration_seconds", H, "Time to answer kube-scheduler, by verb.", ("verb",), SHORT),
    Metric(
        "verb_total",
        C,
        "Calls of kube-scheduler, by verb and result (allowed, refused, error).",
        ("verb", "result"),
    ),
    Metric("answers_total", C, "Calls of kube-scheduler, by verb and reason.", ("verb", "reason")),
    Metric("connections", G, "Connections that kube-scheduler, or somebody else, holds to the verbs."),
    Metric(
        "connections_closed_total",
        C,
        "Connections that were refused or cut, by cause (full, silent, slow, ahead, handshake, certificate).",
        ("cause",),
    ),
    Metric(
        "decisions_total", C, "Verdicts of the planner on gangs, by reason (Seated: placed).", ("reason",)
    ),
    Metric(
        "gangs",
        G,
        "Gangs, by state of their life and the reason they are in it. Of the replica that acts alone.",
        ("state", "reason"),
    ),
    Metric(
        "gang_oldest_wait_seconds",
        G,
        "How long the gang that waits longest has waited with its whole quorum there; gangs that still gather"
        " their members are not counted. 0 on a replica that does not act.",
    ),
    Metric("gang_wait_seconds", H, "From a gang's whole quorum being there to its being bound.", (), WAITS),
    Metric("plan_duration_seconds", H, "Time of one planning pass over the queue.", (), SHORT),
    Metric("holds", G, "Seats that are kept and not yet bound."),
    Metric(
        "pins_broken_total", C, "Seats that were lost between planning and binding, by cause.", ("cause",)
    ),
    Metric("reseats_total", C, "Members that were given another seat after theirs was lost."),
    Metric("evictions_total", C, "Evictions that were asked for, by result.", ("result",)),
    Metric(
        "victims_total",
        C,
        "Pods that were asked to give way to a gang, by what they are: surplus, pod, gang.",
        ("kind",),
    ),
    Metric("lost_device_seconds_total", C, "Work that those had not saved, in seconds of a device."),
    Metric(
        "victims_refused_total",
        C,
        "Requests to give way that the API server refused, by kind of failure.",
        ("kind",),
    ),
    Metric(
        "reservation_seconds", G, "Until the first gang that waits can start; 0 where none is reserved for."
    ),
    Metric("forecast_duration_seconds", H, "Time of one forecast of the queue.", (), SHORT),
    Metric(
        "forecast_ratio",
        H,
        "How long a gang was first told to wait, for each second that it waited.",
        (),
        RATIOS,
    ),
    Metric("effects_total", C, "Writes to the API server, by effect and result.", ("effect", "result")),
    Metric("cache_age_seconds", G, "Since the API server was last heard on a watch, by kind.", ("resource",)),
    Metric("watch_restarts_total", C, "Watches that ended and were begun again.", ("resource", "cause")),
    Metric("cache_objects", G, "Objects in the watch cache, by kind.", ("resource",)),
    Metric(
        "unreadable_objects_total",
        C,
        "Objects that could not be understood, and were left out whole or in part, by kind; the log names them.",
        ("resource",),
    ),
    Metric(
        "gang_faults_total",
        C,
        "Steps of Gangwright that failed on one gang: it is refused and tried again, the others go on; the log tells"
        " more.",
    ),
    Metric(
        "domains_spanned_ratio",
        H,
        "Domains that a placed gang spans, as a multiple of the fewest that could hold it.",
        ("level",),
        SPANS,
    ),
    Metric(
        "fragmentation_ratio",
        G,
        "Share of the free amount of a device that the pods of present gangs cannot use where it is, by resource:"
        " mean over their distinct demands; 0 when nobody asks for it.",
        ("resource",),
    ),
    Metric(
        "alignment",
        H,
        "Mean cosine between a placed member's demand and the free vector of its node, 0 to 1.",
        (),
        UNIT,
    ),
    Metric("resource_use_ratio", G, "Share of the allocatable amount in use, by resource.", ("resource",)),
    Metric(
        "guaranteed_ratio",
        G,
        "Share of the allocatable amount that `queue.shares` guarantees to all namespaces together, by resource;"
        " above 1 not all of them can have it at once.",
        ("resource",),
    ),
    Metric("status_duration_seconds", H, "Time to answer a person or the page, by route.", ("route",), SHORT),
    Metric(
        "status_requests_total",
        C,
        "Requests to the status API, by route (page: its files; none: no path of ours) and HTTP status.",
        ("route", "status"),
    ),
    Metric(
        "status_reviews_total",
        C,
        "Reviews that the API server was asked for on behalf of people, by kind (token, access) and answer (yes, no).",
        ("kind", "answer"),
    ),
    Metric(
        "certificate_end_timestamp_seconds",
        G,
        "When what a server with TLS has in force ends, in seconds since the epoch, by server (verbs, status) and the"
        " setting that names the file (cert, clientCa); of several in a file the first to end.",
        ("server", "setting"),
    ),
    Metric("loop_lag_seconds", G, "How late the event loop last turned."),
    Metric("acting", G, "1 while the kube-scheduler beside us leads, and we may write."),
    Metric("build_info", G, "Always 1; the labels tell what runs.", ("version", "python")),
)
"""The whole list, in the order in which README shows it."""

Collector: TypeAlias = Counter | Gauge | Histogram


class Few:
    """The first `limit` names keep their own word; every later one is "other"."""

    def __init__(self, known: Iterable[str] = (), limit: int = 16) -> None:
        self._limit = limit
        self._known = dict.fromkeys(known)

    def __call__(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= self._limit:
                return OTHER
            self._known[name] = None
        return name


class Metrics:
    """One attribute a metric, named as in the table without the prefix, in a registry of its own.

    `process_*` and `python_gc_*` are in the registry besides.
    """

    verb_duration_seconds: Histogram
    verb_total: Counter
    answers_total: Counter
    connections: Gauge
    connections_closed_total: Counter
    decisions_total: Counter
    gangs: Gauge
    gang_oldest_wait_seconds: Gauge
    gang_wait_seconds: Histogram
    plan_duration_seconds: Histogram
    holds: Gauge
    pins_broken_total: Counter
    reseats_total: Counter
    evictions_total: Counter
    victims_total: Counter
    lost_device_seconds_total: Counter
    victims_refused_total: Counter
    reservation_seconds: Gauge
    forecast_duration_seconds: Histogram
    forecast_ratio: Histogram
    effects_total: Counter
    cache_age_seconds: Gauge
    watch_restarts_total: Counter
    cache_objects: Gauge
    unreadable_objects_total: Counter
    gang_faults_total: Counter
    domains_spanned_ratio: Histogram
    fragmentation_ratio: Gauge
    alignment: Histogram
    resource_use_ratio: Gauge
    guaranteed_ratio: Gauge
    status_duration_seconds: Histogram
    status_requests_total: Counter
    status_reviews_total: Counter
    certificate_end_timestamp_seconds: Gauge
    loop_lag_seconds: Gauge
    acting: Gauge
    build_info: Gauge

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for row in METRICS:
            setattr(self, row.name, made(row, self.registry))
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._resources = Few(("cpu", "memory", "ephemeral-storage", "pods"))
        self.build_info.labels(__version__, platform.python_version()).set(1)

    def set_ratio(self, gauge: Gauge, ratios: Mapping[str, float]) -> None:
        """Set a gauge by resource. Of the resources beyond the first few, the largest ratio stands for all."""
        shown: dict[str, float] = {}
        for resource, ratio in ratios.items():
            word = self._resources(resource)
            shown[word] = max(shown.get(word, ratio), ratio)
        gauge.clear()  # a resource that left the cluster leaves the metric
        for word, ratio in shown.items():
            gauge.labels(word).set(ratio)


def made(row: Metric, registry: CollectorRegistry) -> Collector:
    """The metric of a row, in this registry."""
    return _MAKE[row.kind](row, registry)


def begin(counter: Counter, *words: Iterable[str]) -> None:
    """Show each of these combinations of labels, at 0: Prometheus sees no growth in a count that begins above it."""
    for combination in product(*words):
        counter.labels(*combination)


def markdown(rows: Iterable[Metric] = METRICS) -> str:
    """The table as README shows it."""
    lines = [f"| `{PREFIX}{row.name}` | {row.kind} | {_labels(row)} | {row.help} |" for row in rows]
    return "\n".join(["| metric | type | labels | meaning |", "|---|---|---|---|", *lines])


def _labels(row: Metric) -> str:
    return ", ".join(f"`{label}`" for label in row.labels) or "–"


def _counter(row: Metric, registry: CollectorRegistry) -> Collector:
    return Counter(PREFIX + row.name, row.help, row.labels, registry=registry)


def _gauge(row: Metric, registry: CollectorRegistry) -> Collector:
    return Gauge(PREFIX + row.name, row.help, row.labels, registry=registry)


def _histogram(row: Metric, registry: CollectorRegistry) -> Collector:
    return Histogram(PREFIX + row.name, row.help, row.labels, registry=registry, buckets=row.buckets)


_MAKE: Final[Mapping[Kind, Callable[[Metric, CollectorRegistry], Collector]]] = {
    Kind.COUNTER: _counter,
    Kind.GAUGE: _gauge,
    Kind.HISTOGRAM: _histogram,
}
