"""The metrics of the elastic master; it is a program of its own, so its scrape holds nothing else.

Lives here: names, meanings, labels and buckets, as in `metrics`. Never here: the moment at which something is counted.
Labels are closed lists: never a job, worker or node. There is one exception, bounded in names, values and jobs, and under
the operator's word (`elastic.reported`): what scripts report means nothing without its job.
"""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from scheduler.telemetry.metrics import SHORT, WAITS, describe


class ElasticMetrics:
    """One attribute a metric, named as it without `gangwright_elastic_`, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        counter = partial(Counter, namespace="gangwright", subsystem="elastic", registry=registry)
        gauge = partial(Gauge, namespace="gangwright", subsystem="elastic", registry=registry)
        histogram = partial(Histogram, namespace="gangwright", subsystem="elastic", registry=registry)
        self.connections = gauge(
            "connections", "Connections that workers, or somebody else, hold to the rendezvous."
        )
        self.connections_closed_total = counter(
            "connections_closed_total",
            "Connections to the rendezvous that were refused or cut, by cause (full, silent, slow, ahead, handshake).",
            ("cause",),
        )
        self.requests_total = counter(
            "requests_total",
            "Requests to the rendezvous, by route (none: no path of ours) and HTTP status.",
            ("route", "status"),
        )
        self.request_duration_seconds = histogram(
            "request_duration_seconds",
            "Time to answer a request to the rendezvous, by route; the routes that wait are not in it.",
            ("route",),
            buckets=SHORT,
        )
        self.refusals_total = counter(
            "refusals_total", "Requests to the rendezvous that were refused, by reason.", ("reason",)
        )
        self.waits = gauge("waits", "Questions to the rendezvous that wait for their answer.")
        self.values = gauge("values", "Values that the rounds of all jobs hold, until all members train.")
        self.values_bytes = gauge("values_bytes", "Bytes that those values take, with their keys.")
        self.token_reviews_total = counter(
            "token_reviews_total",
            "Workers' tokens that the API server was asked about, by answer (yes, no, away).",
            ("answer",),
        )
        self.jobs = gauge("jobs", "ElasticJobs, by phase.", ("phase",))
        self.workers = gauge("workers", "Workers of all jobs, by phase.", ("phase",), registry=registry)
        self.members = gauge("members", "Workers of all jobs that are members of a round.")
        self.wanted = gauge("wanted", "Workers that all jobs want.")
        self.samples_per_second = gauge("samples_per_second", "Samples that all jobs train on in a second.")
        self.reported = gauge(
            "reported",
            "What a job's script reported last (accuracy, loss, …), by job (its uid, unless elastic.reported says otherwise) and"
            " name; of each of 500 jobs the first sixteen names.",
            ("elasticjob", "value"),
        )
        self.rounds_total = counter("rounds_total", "Rounds that were decided, by cause.", ("cause",))
        self.idle_seconds = histogram(
            "idle_seconds",
            "From the last step of a round to the first one of the next, by cause; rounds that found nobody training are not in it.",
            ("cause",),
            buckets=WAITS,
        )
        self.joins_total = counter("joins_total", "Workers that came into a round.", registry=registry)
        self.leaves_total = counter("leaves_total", "Workers that a round was told to go on without.")
        self.losses_total = counter("losses_total", "Members that were lost unannounced.", registry=registry)
        self.restarts_total = counter("restarts_total", "Gangs that began again from their last checkpoint.")
        self.stragglers_total = counter("stragglers_total", "Members that were found to hold up the others.")
        self.told_total = counter(
            "told_total", "Events told of jobs, by reason.", ("reason",), registry=registry
        )
        self.specs_refused_total = counter(
            "specs_refused_total", "Specs of jobs that cannot be read.", registry=registry
        )
        self.broken_total = counter("broken_total", "Jobs at which we failed, and which were begun anew.")
        self.writes_total = counter(
            "writes_total",
            "Requests to the API server for a job, by what (start, stop, status, read, policy, event, quorum) and result.",
            ("what", "result"),
        )
        self.sizing_duration_seconds = histogram(
            "sizing_duration_seconds", "Time to decide the sizes of all jobs.", buckets=SHORT
        )
        self.certificate_end_timestamp_seconds = gauge(
            "certificate_end_timestamp_seconds",
            "When the certificate of the rendezvous (cert) ends, and the authority that workers check it by (ca), in seconds"
            " since the epoch; of several in a file the first to end.",
            ("server", "setting"),
        )
        self.leading = gauge("leading", "1 while we hold the Lease, and act.", registry=registry)
        self.loop_lag_seconds = gauge(
            "loop_lag_seconds", "How late the event loop last turned.", registry=registry
        )
        self.cache_age_seconds = gauge(
            "cache_age_seconds", "Since the API server was last heard on a watch, by kind.", ("resource",)
        )
        self.cache_objects = gauge("cache_objects", "Objects in the watch cache, by kind.", ("resource",))
        self.watch_restarts_total = counter(
            "watch_restarts_total", "Watches that ended and were begun again.", ("resource", "cause")
        )
        self.unreadable_objects_total = counter(
            "unreadable_objects_total",
            "Objects that could not be read and were left out, by kind; the log names them.",
            ("resource",),
        )
        describe(registry)
