"""The metrics of the elastic master; it is a program of its own, so its scrape holds nothing else.

Lives here: names, meanings, labels and buckets, as in `metrics`. Never here: the moment at which something is counted.
Labels are closed lists: never a job, worker or node. There is one exception, bounded in names, values and jobs, and under
the operator's word (`elastic.reported`): what scripts report means nothing without its job.
"""

from scheduler.telemetry.metrics import SHORT, WAITS, Exported, counter, gauge, histogram


class ElasticMetrics(Exported):
    """One attribute a metric, named as it without `gangwright_elastic_`, in a registry of its own."""

    subsystem = "elastic"

    connections = gauge("Connections that workers, or somebody else, hold to the rendezvous.")
    connections_closed_total = counter(
        "Connections to the rendezvous that were refused or cut, by cause (full, silent, slow, ahead, handshake).",
        "cause",
    )
    requests_total = counter(
        "Requests to the rendezvous, by route (none: no path of ours) and HTTP status.", "route", "status"
    )
    request_duration_seconds = histogram(
        "Time to answer a request to the rendezvous, by route; the routes that wait are not in it.",
        "route",
        buckets=SHORT,
    )
    refusals_total = counter("Requests to the rendezvous that were refused, by reason.", "reason")
    waits = gauge("Questions to the rendezvous that wait for their answer.")
    values = gauge("Values that the rounds of all jobs hold, until all members train.")
    values_bytes = gauge("Bytes that those values take, with their keys.")
    token_reviews_total = counter(
        "Workers' tokens that the API server was asked about, by answer (yes, no, away).", "answer"
    )
    jobs = gauge("ElasticJobs, by phase.", "phase")
    workers = gauge("Workers of all jobs, by phase.", "phase")
    members = gauge("Workers of all jobs that are members of a round.")
    wanted = gauge("Workers that all jobs want.")
    samples_per_second = gauge("Samples that all jobs train on in a second.")
    reported = gauge(
        "What a job's script reported last (accuracy, loss, …), by job (its uid, unless elastic.reported says otherwise) and"
        " name; of each of 500 jobs the first sixteen names.",
        "elasticjob",
        "value",
    )
    rounds_total = counter("Rounds that were decided, by cause.", "cause")
    idle_seconds = histogram(
        "From the last step of a round to the first one of the next, by cause; rounds that found nobody training are not in it.",
        "cause",
        buckets=WAITS,
    )
    joins_total = counter("Workers that came into a round.")
    leaves_total = counter("Workers that a round was told to go on without.")
    losses_total = counter("Members that were lost unannounced.")
    restarts_total = counter("Gangs that began again from their last checkpoint.")
    stragglers_total = counter("Members that were found to hold up the others.")
    told_total = counter("Events told of jobs, by reason.", "reason")
    specs_refused_total = counter("Specs of jobs that cannot be read.")
    broken_total = counter("Jobs at which we failed, and which were begun anew.")
    writes_total = counter(
        "Requests to the API server for a job, by what (start, stop, status, read, policy, event, quorum) and result.",
        "what",
        "result",
    )
    sizing_duration_seconds = histogram("Time to decide the sizes of all jobs.", buckets=SHORT)
    certificate_end_timestamp_seconds = gauge(
        "When the certificate of the rendezvous (cert) ends, and the authority that workers check it by (ca), in seconds"
        " since the epoch; of several in a file the first to end.",
        "server",
        "setting",
    )
    leading = gauge("1 while we hold the Lease, and act.")
    loop_lag_seconds = gauge("How late the event loop last turned.")
    cache_age_seconds = gauge("Since the API server was last heard on a watch, by kind.", "resource")
    cache_objects = gauge("Objects in the watch cache, by kind.", "resource")
    watch_restarts_total = counter("Watches that ended and were begun again.", "resource", "cause")
    unreadable_objects_total = counter(
        "Objects that could not be read and were left out, by kind; the log names them.", "resource"
    )
