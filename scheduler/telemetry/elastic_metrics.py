"""The metrics of the elastic master, in one table; it is a program of its own, so its scrape holds nothing else.

Lives here: names, meanings, labels and buckets (`METRICS`), and one attribute for each (`ElasticMetrics`), as in
`metrics`. Never here: the moment at which something is counted. Labels are closed lists: never a job, worker or node.
There is one exception, bounded in names, values and jobs, and under the operator's word (`elastic.reported`): what
scripts report means nothing without its job.
"""

import platform
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from scheduler import __version__
from scheduler.telemetry.metrics import SHORT, WAITS, Kind, Metric, made

GROUP: Final = "elastic_"
"""After the common prefix: what every name of this table begins with, the build's excepted."""

C, G, H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

METRICS: Final = (
    Metric("elastic_connections", G, "Connections that workers, or somebody else, hold to the rendezvous."),
    Metric(
        "elastic_connections_closed_total",
        C,
        "Connections to the rendezvous that were refused or cut, by cause (full, silent, slow, ahead, handshake).",
        ("cause",),
    ),
    Metric(
        "elastic_requests_total",
        C,
        "Requests to the rendezvous, by route (none: no path of ours) and HTTP status.",
        ("route", "status"),
    ),
    Metric(
        "elastic_request_duration_seconds",
        H,
        "Time to answer a request to the rendezvous, by route; the routes that wait are not in it.",
        ("route",),
        SHORT,
    ),
    Metric(
        "elastic_refusals_total", C, "Requests to the rendezvous that were refused, by reason.", ("reason",)
    ),
    Metric("elastic_waits", G, "Questions to the rendezvous that wait for their answer."),
    Metric("elastic_values", G, "Values that the rounds of all jobs hold, until all members train."),
    Metric("elastic_values_bytes", G, "Bytes that those values take, with their keys."),
    Metric(
        "elastic_token_reviews_total",
        C,
        "Workers' tokens that the API server was asked about, by answer (yes, no, away).",
        ("answer",),
    ),
    Metric("elastic_jobs", G, "ElasticJobs, by phase.", ("phase",)),
    Metric("elastic_workers", G, "Workers of all jobs, by phase.", ("phase",)),
    Metric("elastic_members", G, "Workers of all jobs that are members of a round."),
    Metric("elastic_wanted", G, "Workers that all jobs want."),
    Metric("elastic_samples_per_second", G, "Samples that all jobs train on in a second."),
    Metric(
        "elastic_reported",
        G,
        "What a job's script reported last (accuracy, loss, …), by job (its uid, unless elastic.reported says otherwise) and"
        " name; of each of 500 jobs the first sixteen names.",
        ("elasticjob", "value"),
    ),
    Metric("elastic_rounds_total", C, "Rounds that were decided, by cause.", ("cause",)),
    Metric(
        "elastic_idle_seconds",
        H,
        "From the last step of a round to the first one of the next, by cause; rounds that found nobody training are not in it.",
        ("cause",),
        WAITS,
    ),
    Metric("elastic_joins_total", C, "Workers that came into a round."),
    Metric("elastic_leaves_total", C, "Workers that a round was told to go on without."),
    Metric("elastic_losses_total", C, "Members that were lost unannounced."),
    Metric("elastic_restarts_total", C, "Gangs that began again from their last checkpoint."),
    Metric("elastic_stragglers_total", C, "Members that were found to hold up the others."),
    Metric("elastic_told_total", C, "Events told of jobs, by reason.", ("reason",)),
    Metric("elastic_specs_refused_total", C, "Specs of jobs that cannot be read."),
    Metric("elastic_broken_total", C, "Jobs at which we failed, and which were begun anew."),
    Metric(
        "elastic_writes_total",
        C,
        "Requests to the API server for a job, by what (start, stop, status, read, policy, event, quorum) and result.",
        ("what", "result"),
    ),
    Metric("elastic_sizing_duration_seconds", H, "Time to decide the sizes of all jobs.", (), SHORT),
    Metric(
        "elastic_certificate_end_timestamp_seconds",
        G,
        "When the certificate of the rendezvous (cert) ends, and the authority that workers check it by (ca), in seconds"
        " since the epoch; of several in a file the first to end.",
        ("server", "setting"),
    ),
    Metric("elastic_leading", G, "1 while we hold the Lease, and act."),
    Metric("elastic_loop_lag_seconds", G, "How late the event loop last turned."),
    Metric(
        "elastic_cache_age_seconds",
        G,
        "Since the API server was last heard on a watch, by kind.",
        ("resource",),
    ),
    Metric("elastic_cache_objects", G, "Objects in the watch cache, by kind.", ("resource",)),
    Metric(
        "elastic_watch_restarts_total", C, "Watches that ended and were begun again.", ("resource", "cause")
    ),
    Metric(
        "elastic_unreadable_objects_total",
        C,
        "Objects that could not be read and were left out, by kind; the log names them.",
        ("resource",),
    ),
    Metric("build_info", G, "Always 1; the labels tell what runs.", ("version", "python")),
)
"""The whole list, in the order in which it is shown."""


class ElasticMetrics:
    """One attribute a metric, named as in the table without `elastic_`, in a registry of its own.

    `process_*` and `python_gc_*` are in the registry besides.
    """

    connections: Gauge
    connections_closed_total: Counter
    requests_total: Counter
    request_duration_seconds: Histogram
    refusals_total: Counter
    waits: Gauge
    values: Gauge
    values_bytes: Gauge
    token_reviews_total: Counter
    jobs: Gauge
    workers: Gauge
    members: Gauge
    wanted: Gauge
    samples_per_second: Gauge
    reported: Gauge
    rounds_total: Counter
    idle_seconds: Histogram
    joins_total: Counter
    leaves_total: Counter
    losses_total: Counter
    restarts_total: Counter
    stragglers_total: Counter
    told_total: Counter
    specs_refused_total: Counter
    broken_total: Counter
    writes_total: Counter
    sizing_duration_seconds: Histogram
    certificate_end_timestamp_seconds: Gauge
    leading: Gauge
    loop_lag_seconds: Gauge
    cache_age_seconds: Gauge
    cache_objects: Gauge
    watch_restarts_total: Counter
    unreadable_objects_total: Counter
    build_info: Gauge

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for row in METRICS:
            setattr(self, row.name.removeprefix(GROUP), made(row, self.registry))
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.build_info.labels(__version__, platform.python_version()).set(1)
