"""Every metric of `gangwright serve`, in the order in which the documentation lists them.

Lives here: names, meanings, labels and buckets. Never here: the moment at which something is counted.

Why so few labels: a label's values must be a short fixed list, or a scrape grows with the objects that users create. So
no label names a gang, pod, node or user, and a namespace only if the settings name it. The two open lists, resources
and levels, are cut by `Few`. Names after the prefix follow kube-scheduler's if it has the same metric. Units are base
units.
"""

import platform
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import ClassVar, Final, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from scheduler import __version__

OTHER: Final = "other"


def doubling(start: float, count: int) -> tuple[float, ...]:
    """`count` upper bounds, each twice the previous one, rounded for readability."""
    return tuple(float(f"{start * 2**power:.6g}") for power in range(count))


SHORT: Final = doubling(0.0001, 17)
"""0.1 ms … 6.6 s: a known seat is confirmed in less than 1 ms. kube-scheduler waits 2 s, by default 5 s. The first
bound is that of `scheduler_framework_extension_point_duration_seconds`."""

WAITS: Final = doubling(0.01, 23)
"""10 ms … 11.7 h: begins like `scheduler_pod_scheduling_sli_duration_seconds`, and goes on because gangs wait hours."""

SPANS: Final = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0)
"""1 is the best possible."""

RATIOS: Final = doubling(1 / 16, 9)
"""1/16 … 16; 1 is exact."""

UNIT: Final = tuple(round(step * 0.05, 2) for step in range(1, 21))
"""0 … 1 in steps of 0.05."""


class Few:
    """Keeps the first `limit` names. Every later name becomes "other"."""

    def __init__(self, known: Iterable[str] = (), limit: int = 16) -> None:
        self._limit = limit
        self._known = dict.fromkeys(known)

    def __call__(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= self._limit:
                return OTHER
            self._known[name] = None
        return name


def counter(meaning: str, *labels: str) -> Counter:
    """A counter of every program whose class has this attribute. The next two functions work alike."""
    return cast("Counter", partial(Counter, documentation=meaning, labelnames=labels))


def gauge(meaning: str, *labels: str) -> Gauge:
    return cast("Gauge", partial(Gauge, documentation=meaning, labelnames=labels))


def histogram(meaning: str, *labels: str, buckets: Sequence[float]) -> Histogram:
    return cast("Histogram", partial(Histogram, documentation=meaning, labelnames=labels, buckets=buckets))


class Exported:
    """The metrics of one program in a registry of their own: one per attribute of the class, with its name."""

    subsystem: ClassVar[str] = ""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for name, declared in vars(type(self)).items():
            if isinstance(declared, partial):
                place = {"namespace": "gangwright", "subsystem": self.subsystem, "registry": self.registry}
                setattr(self, name, declared(name, **place))
        describe(self.registry)


class Metrics(Exported):
    """One attribute per metric, named without the prefix `gangwright_`, in a registry of its own."""

    verb_duration_seconds = histogram("Time to answer kube-scheduler, by endpoint.", "verb", buckets=SHORT)
    verb_total = counter(
        "Calls from kube-scheduler, by endpoint and result (allowed, refused, error).", "verb", "result"
    )
    answers_total = counter("Calls from kube-scheduler, by endpoint and reason.", "verb", "reason")
    connections = gauge("Open connections to the extender endpoints, from kube-scheduler and other clients.")
    connections_closed_total = counter(
        "Connections that were rejected or cut, by cause (full, silent, slow, ahead, handshake, certificate).",
        "cause",
    )
    decisions_total = counter("Decisions of the planner on gangs, by reason (Seated: placed).", "reason")
    gangs = gauge(
        "Gangs, by state and reason. Only from the active replica.",
        "state",
        "reason",
    )
    gang_oldest_wait_seconds = gauge(
        "Longest time that a pending gang has waited since its quorum was complete. Excludes gangs whose quorum is"
        " incomplete. 0 on a standby replica."
    )
    gang_wait_seconds = histogram(
        "Time from a gang's complete quorum until the gang is bound.", buckets=WAITS
    )
    plan_duration_seconds = histogram("Time of one planning pass over the queue.", buckets=SHORT)
    holds = gauge("Members with a reserved node that are not yet bound.")
    pins_broken_total = counter(
        "Assigned nodes that were lost between planning and binding, by cause.", "cause"
    )
    reseats_total = counter("Members that were assigned to another node after they lost their first one.")
    evictions_total = counter("Evictions that were requested, by result.", "result")
    victims_total = counter(
        "Pods that were preempted for a gang, by kind of unit: surplus, pod, gang.", "kind"
    )
    lost_device_seconds_total = counter("Unsaved work of preempted pods, in device-seconds.")
    victims_refused_total = counter("Preemptions that the API server rejected, by kind of failure.", "kind")
    reservation_seconds = gauge(
        "Time until the first pending gang can start; 0 if no capacity is reserved for it."
    )
    forecast_duration_seconds = histogram("Time of one forecast of the queue.", buckets=SHORT)
    forecast_ratio = histogram("First forecast of a gang's wait, divided by its actual wait.", buckets=RATIOS)
    effects_total = counter("Writes to the API server, by effect and result.", "effect", "result")
    cache_age_seconds = gauge("Time since the API server last sent data on a watch, by kind.", "resource")
    watch_restarts_total = counter("Watches that ended and were restarted.", "resource", "cause")
    cache_objects = gauge("Objects in the watch cache, by kind.", "resource")
    unreadable_objects_total = counter(
        "Objects that could not be read and were skipped, in whole or in part, by kind. The log names them.",
        "resource",
    )
    gang_faults_total = counter(
        "Steps of Gangwright that failed on one gang. The gang is rejected and retried; other gangs are not affected."
        " The log has the details."
    )
    domains_spanned_ratio = histogram(
        "Domains that a placed gang spans, as a multiple of the fewest that could hold it.",
        "level",
        buckets=SPANS,
    )
    fragmentation_ratio = gauge(
        "Share of a device's free amount that current gangs cannot use where it is, by resource. The mean over their"
        " distinct demands. 0 if no pod requests the device.",
        "resource",
    )
    alignment = histogram(
        "Mean cosine between a placed member's demand and the free vector of its node, 0 to 1.", buckets=UNIT
    )
    resource_use_ratio = gauge("Share of the allocatable amount in use, by resource.", "resource")
    guaranteed_ratio = gauge(
        "Share of the allocatable amount that `queue.shares` guarantees to all namespaces together, by resource."
        " Above 1, not all namespaces can use their guarantee at the same time.",
        "resource",
    )
    share_used = gauge(
        "Amount of a resource that a namespace of `queue.shares` uses, bound or reserved, in cores, bytes or pieces."
        " This metric and the next four come only from the active replica.",
        "namespace",
        "resource",
    )
    share_guaranteed = gauge("Amount that `queue.shares` guarantees to a namespace.", "namespace", "resource")
    share_borrowed = gauge("Amount that a namespace uses above its guarantee.", "namespace", "resource")
    share_ceiling = gauge(
        "Maximum amount that `queue.shares` lets a namespace use; missing if there is no ceiling.",
        "namespace",
        "resource",
    )
    share_waiting = gauge(
        "Amount that unassigned pods of a namespace request, in pending gangs with a complete quorum.",
        "namespace",
        "resource",
    )
    status_duration_seconds = histogram(
        "Time to answer a request to the status API or page, by route.", "route", buckets=SHORT
    )
    status_requests_total = counter(
        "Requests to the status API, by route (page: its files; none: unknown path) and HTTP status.",
        "route",
        "status",
    )
    status_reviews_total = counter(
        "Reviews requested from the API server for users, by kind (token, access) and answer (yes, no).",
        "kind",
        "answer",
    )
    certificate_end_timestamp_seconds = gauge(
        "When the certificates that a server uses expire, in seconds since the epoch, by server (verbs, status) and"
        " the setting that names the file (cert, clientCa). If a file has several, the earliest.",
        "server",
        "setting",
    )
    loop_lag_seconds = gauge("Lag of the event loop at its last check.")
    acting = gauge("1 while this replica's kube-scheduler leads and Gangwright may write.")

    def __init__(self) -> None:
        super().__init__()
        self._resources = Few(("cpu", "memory", "ephemeral-storage", "pods"))

    def set_ratio(self, gauge: Gauge, ratios: Mapping[str, float]) -> None:
        """Set a gauge by resource. Resources beyond the first few share one series, with their largest ratio."""
        shown: dict[str, float] = {}
        for resource, ratio in ratios.items():
            word = self._resources(resource)
            shown[word] = max(shown.get(word, ratio), ratio)
        gauge.clear()  # drop resources that no longer exist in the cluster
        for word, ratio in shown.items():
            gauge.labels(word).set(ratio)


def describe(registry: CollectorRegistry) -> None:
    """Add the metrics that every program exports: its build, its process, and its garbage collection."""
    build = Gauge(
        "gangwright_build_info",
        "Always 1. The labels hold the versions of Gangwright and Python.",
        ("version", "python"),
        registry=registry,
    )
    build.labels(__version__, platform.python_version()).set(1)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)


def begin(counter: Counter, *words: Iterable[str]) -> None:
    """Set each of these label combinations to 0: Prometheus misses the growth of a counter that starts above 0."""
    for combination in product(*words):
        counter.labels(*combination)
