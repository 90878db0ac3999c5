"""How long training stands still when a job changes its size, and what changing it is good for, measured here and now.

Everything is real: API server, kube-scheduler, extender, elastic master, agents, Horovod. The pods run as processes of
this machine (`bench.plane.kubelet`). Lives here: what is run and what is made of it. Never here: anything of
`scheduler`; the programs are started by their command lines and known by what they print and by the API server.

    stage       the whole plane with nodes of one slot each
    training    the script that all roads run, with no API but Horovod's own
    following   what processes printed so far
    steps       from steps to idle times, pure
    roads       one file for each way of changing a job's size
    resize      all roads in turn; targets
    experiments the three experiments of ElasticDL, at small scale
"""
