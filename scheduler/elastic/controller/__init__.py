"""The running elastic master: watches and workers become events of each job's reconciler, whose effects it carries out.

Lives here: everything between the pure parts of elastic training and the outside. Never here: which workers are in a
round (`reconciler`), how large a job should be (`sizing`), or a route (`rendezvous`).

    decode            API objects → events; the spec that applies to one job
    pod_template      a worker's pod, built from its job's template
    requests          effects → requests to the API server
    request_retry     one request, retried until it has a final answer
    status_writer     a job's status: the newest one is written, however often other clients write
    pod_control       pods, events and the NetworkPolicy of one job
    job_controller    one job: its reconciler, its waiting workers, its timer
    node_usage        free capacity of the nodes
    job_registry      all jobs: routes watch events and worker requests to them
    autoscaler        sizes, decided for all jobs together, and when capacity appears
    job_metrics       events → metrics
    elastic_master    assembles the parts

All that the master needs to continue is stored in the jobs' status and on the pods, so it may stop at any point.
"""
