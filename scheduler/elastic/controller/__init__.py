"""The elastic master at work: watches and workers become events of each job's reconciler, and its effects are carried out.

Lives here: everything between the pure rooms of elastic training and the world. Never here: who is in a round
(`reconciler`), how large a job should be (`sizing`), or a route (`rendezvous`).

    decode            API objects → events; the spec that one job goes by
    pod_template      a worker's pod, made of its job's template
    requests          what is to be done → requests to the API server
    request_retry     one request, tried until it is answered for good
    status_writer     a job's status: the newest one stands, however often another client writes
    pod_control       pods, events and the NetworkPolicy of one job
    job_controller    one job: its reconciler, its workers that wait, its timer
    node_usage        what the nodes have free
    job_registry      all jobs: which watch, and which request of a worker, concerns which
    autoscaler        sizes, decided for all jobs together, and when capacity appears
    job_metrics       what happened → metrics
    elastic_master    the parts put together

Everything that the master must know to go on stands in the jobs' status and on the pods, so it may end at any line.
"""
