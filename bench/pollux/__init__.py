"""The workloads of Pollux (Qiao et al., OSDI 2021), replayed: how long jobs take under Gangwright's division of a cluster.

160 jobs arrive within 8 hours on 16 nodes of 4 GPUs. Sizes are decided every 60 s. Step times depend on the number of
workers and on the nodes that they are on, as the authors measured. The batch is what the user tuned.

    workload    jobs, step times and published results, as in bench/data/pollux-osdi21
    training    one job in the simulation: its progress, and what a change of its workers costs
    cluster     the clock: arrivals, decisions, ends
    tiresias    the published baseline: rigid gangs, two queues by attained service
    elastic     Gangwright: sizes from `scheduler.elastic.sizing.size`, nodes from `scheduler.placement.planner.decide`
    results     what became of all jobs, as figures
"""
