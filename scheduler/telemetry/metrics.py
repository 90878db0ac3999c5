"""Every metric of `gangwright serve`, in the order in which README shows them.

Lives here: names, meanings, labels and buckets. Never here: the moment at which something is counted.

Why so few labels: a label's values must be a short closed list, or a scrape grows with what users make. So never a
gang, pod, node or user, and a namespace only where the settings name it. The two lists that we do not close ourselves,
resources and levels, are cut by `Few`. Words after the prefix follow kube-scheduler's where it has one for the same thing; base units throughout.
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


def counter(meaning: str, *labels: str) -> Counter:
    """A counter of every program whose class has this attribute; so with the next two."""
    return cast("Counter", partial(Counter, documentation=meaning, labelnames=labels))


def gauge(meaning: str, *labels: str) -> Gauge:
    return cast("Gauge", partial(Gauge, documentation=meaning, labelnames=labels))


def histogram(meaning: str, *labels: str, buckets: Sequence[float]) -> Histogram:
    return cast("Histogram", partial(Histogram, documentation=meaning, labelnames=labels, buckets=buckets))


class Exported:
    """The metrics of one program in a registry of their own: one for each attribute of the class, named as it."""

    subsystem: ClassVar[str] = ""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for name, declared in vars(type(self)).items():
            if isinstance(declared, partial):
                place = {"namespace": "gangwright", "subsystem": self.subsystem, "registry": self.registry}
                setattr(self, name, declared(name, **place))
        describe(self.registry)


class Metrics(Exported):
    """One attribute a metric, named as it without `gangwright_`, in a registry of its own."""

    verb_duration_seconds = histogram("Time to answer kube-scheduler, by verb.", "verb", buckets=SHORT)
    verb_total = counter(
        "Calls of kube-scheduler, by verb and result (allowed, refused, error).", "verb", "result"
    )
    answers_total = counter("Calls of kube-scheduler, by verb and reason.", "verb", "reason")
    connections = gauge("Connections that kube-scheduler, or somebody else, holds to the verbs.")
    connections_closed_total = counter(
        "Connections that were refused or cut, by cause (full, silent, slow, ahead, handshake, certificate).",
        "cause",
    )
    decisions_total = counter("Verdicts of the planner on gangs, by reason (Seated: placed).", "reason")
    gangs = gauge(
        "Gangs, by state of their life and the reason they are in it. Of the replica that acts alone.",
        "state",
        "reason",
    )
    gang_oldest_wait_seconds = gauge(
        "How long the gang that waits longest has waited with its whole quorum there; gangs that still gather"
        " their members are not counted. 0 on a replica that does not act."
    )
    gang_wait_seconds = histogram("From a gang's whole quorum being there to its being bound.", buckets=WAITS)
    plan_duration_seconds = histogram("Time of one planning pass over the queue.", buckets=SHORT)
    holds = gauge("Seats that are kept and not yet bound.")
    pins_broken_total = counter("Seats that were lost between planning and binding, by cause.", "cause")
    reseats_total = counter("Members that were given another seat after theirs was lost.")
    evictions_total = counter("Evictions that were asked for, by result.", "result")
    victims_total = counter(
        "Pods that were asked to give way to a gang, by what they are: surplus, pod, gang.", "kind"
    )
    lost_device_seconds_total = counter("Work that those had not saved, in seconds of a device.")
    victims_refused_total = counter(
        "Requests to give way that the API server refused, by kind of failure.", "kind"
    )
    reservation_seconds = gauge("Until the first gang that waits can start; 0 where none is reserved for.")
    forecast_duration_seconds = histogram("Time of one forecast of the queue.", buckets=SHORT)
    forecast_ratio = histogram(
        "How long a gang was first told to wait, for each second that it waited.", buckets=RATIOS
    )
    effects_total = counter("Writes to the API server, by effect and result.", "effect", "result")
    cache_age_seconds = gauge("Since the API server was last heard on a watch, by kind.", "resource")
    watch_restarts_total = counter("Watches that ended and were begun again.", "resource", "cause")
    cache_objects = gauge("Objects in the watch cache, by kind.", "resource")
    unreadable_objects_total = counter(
        "Objects that could not be understood, and were left out whole or in part, by kind; the log names them.",
        "resource",
    )
    gang_faults_total = counter(
        "Steps of Gangwright that failed on one gang: it is refused and tried again, the others go on; the log tells"
        " more."
    )
    domains_spanned_ratio = histogram(
        "Domains that a placed gang spans, as a multiple of the fewest that could hold it.",
        "level",
        buckets=SPANS,
    )
    fragmentation_ratio = gauge(
        "Share of the free amount of a device that the pods of present gangs cannot use where it is, by resource:"
        " mean over their distinct demands; 0 when nobody asks for it.",
        "resource",
    )
    alignment = histogram(
        "Mean cosine between a placed member's demand and the free vector of its node, 0 to 1.", buckets=UNIT
    )
    resource_use_ratio = gauge("Share of the allocatable amount in use, by resource.", "resource")
    guaranteed_ratio = gauge(
        "Share of the allocatable amount that `queue.shares` guarantees to all namespaces together, by resource;"
        " above 1 not all of them can have it at once.",
        "resource",
    )
    share_used = gauge(
        "What a namespace of `queue.shares` uses, bound or with a seat kept, of each resource that `queue.shares` names:"
        " in cores, bytes, pieces. This and the next four are of the replica that acts alone.",
        "namespace",
        "resource",
    )
    share_guaranteed = gauge("What `queue.shares` guarantees to a namespace.", "namespace", "resource")
    share_borrowed = gauge("What a namespace uses beyond what it is guaranteed.", "namespace", "resource")
    share_ceiling = gauge(
        "The most that `queue.shares` lets a namespace use; missing where nothing limits it.",
        "namespace",
        "resource",
    )
    share_waiting = gauge(
        "What pods without a seat ask for in a namespace, of gangs that wait with their whole quorum.",
        "namespace",
        "resource",
    )
    status_duration_seconds = histogram(
        "Time to answer a person or the page, by route.", "route", buckets=SHORT
    )
    status_requests_total = counter(
        "Requests to the status API, by route (page: its files; none: no path of ours) and HTTP status.",
        "route",
        "status",
    )
    status_reviews_total = counter(
        "Reviews that the API server was asked for on behalf of people, by kind (token, access) and answer (yes, no).",
        "kind",
        "answer",
    )
    certificate_end_timestamp_seconds = gauge(
        "When what a server with TLS has in force ends, in seconds since the epoch, by server (verbs, status) and the"
        " setting that names the file (cert, clientCa); of several in a file the first to end.",
        "server",
        "setting",
    )
    loop_lag_seconds = gauge("How late the event loop last turned.")
    acting = gauge("1 while the kube-scheduler beside us leads, and we may write.")

    def __init__(self) -> None:
        super().__init__()
        self._resources = Few(("cpu", "memory", "ephemeral-storage", "pods"))

    def set_ratio(self, gauge: Gauge, ratios: Mapping[str, float]) -> None:
        """Set a gauge by resource. Of the resources beyond the first few, the largest ratio stands for all."""
        shown: dict[str, float] = {}
        for resource, ratio in ratios.items():
            word = self._resources(resource)
            shown[word] = max(shown.get(word, ratio), ratio)
        gauge.clear()  # a resource that left the cluster leaves the metric
        for word, ratio in shown.items():
            gauge.labels(word).set(ratio)


def describe(registry: CollectorRegistry) -> None:
    """What every program exports besides: what runs, its process, and its garbage collection."""
    build = Gauge(
        "gangwright_build_info",
        "Always 1; the labels tell what runs.",
        ("version", "python"),
        registry=registry,
    )
    build.labels(__version__, platform.python_version()).set(1)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)


def begin(counter: Counter, *words: Iterable[str]) -> None:
    """Show each of these combinations of labels, at 0: Prometheus sees no growth in a count that begins above it."""
    for combination in product(*words):
        counter.labels(*combination)
