"""The planner, the sizes of elastic jobs, the filter verb and the cache, each by itself, on this machine.

Lives here: measurements without a cluster. `python -m bench.micro` prints one line of JSON:

    plan_64_5000_ms       deciding a gang of 64 on 5,000 nodes      \\  the worst of all strategies and levels,
    plan_1000_15000_ms    deciding a gang of 1,000 on 15,000 nodes  /   required and preferred (`plan`)
    plan_64_5000_neighbors_ms  deciding a gang of 64, one a host by anti-affinity, spread over zones; at most 10
    plan_64_40000_devices_ms  deciding a gang of 64 with a device claim each, over 40,000 devices; at most 20
    preempt_100_over_1000_ms  choosing whom a gang of 100 displaces on 100 full nodes with 1,000 pods (`preempt`)
    plan_10000_waiting_ms  one pass over 10,000 waiting gangs after a pod has ended, the worst of all orders (`queue`)
    plan_10000_unlike_ms   the same where each asks for CPU that no other asks for
    stranger_bind_ms       one pass over 5,000 after a pod of another scheduler was bound
    pass_after_label_ms   the event and the pass after one of 15,000 nodes moved to another rack, CPU time, beside 150,000
                          pods of gangs and 300 gangs that wait, each of its own shape (`relabeling`)
    pass_after_note_ms    the same after a label changed that nothing asks about
    pass_after_end_ms      one pod of 150,000 on 15,000 nodes ends, 300 gangs of as many shapes wait, CPU time (`ended_pod`)
    step_…_ms              the longest step of the event loop with 15,000 nodes and 150,000 pods, by kind, CPU time (`steps`)
    sizing_100_1000_ms    deciding the sizes of 100 elastic jobs on 1,000 nodes, CPU time; at most 50 (`sizing`)
    sizing_300_1000_ms    the same of 300; at most 200
    filter_held_p99_ms    a filter call for a pod whose seat is held, over HTTP, to an idle service (`filtering`)
    filter_bare_p99_ms    the same to a server that looks at nothing, in turns with it: the machine's own part (`bare`)
    filter_busy_p99_ms    the same while the service plans for 1,000 gangs that wait
    cache_mib             what 5,000 nodes and 50,000 pods add to the process (`cache`)
    cache_load_s          how long it takes until they are all known
    cache_load_single_s   CPU time until the core knows as many pods in gangs of one and is active; at most 6 (`loading`)
    cache_load_gangs_s    the same in gangs of ten

Each figure but the p99s, which are of all calls, is the best of several tries: what disturbs a try on a shared machine
only ever makes it slower. Programs that are measured run as processes of their own, so that the bench's work is not
counted as theirs.
"""
