"""The metrics of the elastic master. It is a separate program, so its scrape holds nothing else.

Lives here: names, meanings, labels and buckets, as in `metrics`. Never here: the moment at which something is counted.
Label values are fixed lists: never a job, worker or node. The one exception is bounded in names, values and jobs, and
the operator controls it (`elastic.reported`): values that scripts report mean nothing without their job.
"""

from scheduler.telemetry.metrics import SHORT, WAITS, Exported, counter, gauge, histogram


class ElasticMetrics(Exported):
    """One attribute per metric, named without the prefix `gangwright_elastic_`, in a registry of its own."""

    subsystem = "elastic"

    connections = gauge("Open connections to the rendezvous, from workers and other clients.")
    connections_closed_total = counter(
        "Connections to the rendezvous that were rejected or cut, by cause (full, silent, slow, ahead, handshake).",
        "cause",
    )
    requests_total = counter(
        "Requests to the rendezvous, by route (none: unknown path) and HTTP status.", "route", "status"
    )
    request_duration_seconds = histogram(
        "Time to answer a request to the rendezvous, by route. Excludes the routes that wait.",
        "route",
        buckets=SHORT,
    )
    refusals_total = counter("Requests to the rendezvous that were rejected, by reason.", "reason")
    waits = gauge("Requests to the rendezvous that wait for their answer.")
    values = gauge("Values that the rounds of all jobs hold until all members train.")
    values_bytes = gauge("Bytes that those values and their keys take.")
    token_reviews_total = counter(
        "TokenReviews of workers' tokens, by answer of the API server (yes, no, away).", "answer"
    )
    jobs = gauge("ElasticJobs, by phase.", "phase")
    workers = gauge("Workers of all jobs, by phase.", "phase")
    members = gauge("Workers of all jobs that are members of a round.")
    wanted = gauge("Workers that all jobs want.")
    samples_per_second = gauge("Samples per second that all jobs train on.")
    reported = gauge(
        "Last value that a job's script reported (accuracy, loss, …), by job (its uid, unless elastic.reported says"
        " otherwise) and name. Limited to 500 jobs and the first 16 names of each.",
        "elasticjob",
        "value",
    )
    rounds_total = counter("Rounds that were decided, by cause.", "cause")
    idle_seconds = histogram(
        "Time from the last step of a round to the first step of the next, by cause. Excludes rounds before which no"
        " worker trained.",
        "cause",
        buckets=WAITS,
    )
    joins_total = counter("Workers that joined a round.")
    leaves_total = counter("Workers that left when a new round began.")
    losses_total = counter("Members that were lost without notice.")
    restarts_total = counter("Gangs that restarted from their last checkpoint.")
    stragglers_total = counter("Members that were found to slow down the others.")
    told_total = counter("Events published for jobs, by reason.", "reason")
    specs_refused_total = counter("Job specs that could not be read.")
    broken_total = counter("ElasticJobs whose controller state was rebuilt after an internal error.")
    writes_total = counter(
        "Requests to the API server for a job, by what (start, stop, status, read, policy, event, quorum) and result.",
        "what",
        "result",
    )
    sizing_duration_seconds = histogram("Time to decide the sizes of all jobs.", buckets=SHORT)
    certificate_end_timestamp_seconds = gauge(
        "When the certificate of the rendezvous (cert) and the authority that workers check it by (ca) expire, in"
        " seconds since the epoch. If a file has several, the earliest.",
        "server",
        "setting",
    )
    leading = gauge("1 while this replica holds the Lease and is active.")
    loop_lag_seconds = gauge("Lag of the event loop at its last check.")
    cache_age_seconds = gauge("Time since the API server last sent data on a watch, by kind.", "resource")
    cache_objects = gauge("Objects in the watch cache, by kind.", "resource")
    watch_restarts_total = counter("Watches that ended and were restarted.", "resource", "cause")
    unreadable_objects_total = counter(
        "Objects that could not be read and were skipped, by kind. The log names them.", "resource"
    )
