"""What Gangwright costs and what it gains, as figures of this machine and this minute.

Lives here: measurements that anybody can repeat, and the tools that they share with the tests and the demo.
Never here: a test (a figure is no proof; `tests/` asserts no time).

    tables  what others published beside what Gangwright does, as one report: `python -m bench`
    micro   the planner, the filter verb and the cache, by themselves: `python -m bench.micro`
    load    whole rates on a real control plane, beside none and beside its own gangs: `python -m bench.load`
    soak    memory, events and the end of a Gangwright through which many gangs went: `python -m bench.soak`
    chaos   seconds from a fault to the next bind, with an accountant beside: `python -m bench.chaos`
    simulator  a trace of jobs on a clock of its own, decided by the same engine: `python -m bench.simulator`
    queue   how long gangs wait under each order of the queue, on three real traces: `python -m bench.queue`
    openb   pods that share GPUs, placed by the planner and by published policies: `python -m bench.openb`
    tetris  packing tasks of four resources: each order and backfill beside FIFO and Tetris' rule
    traces  what the tables in `data/` tell of jobs; report: what became of them, as figures

    plane    the control plane on this machine, and a stand-in for the kubelet: `python -m bench.plane`
    horovod  TensorFlow and PyTorch with Horovod, in environments of their own: `python -m bench.horovod`
    demo     the story of `make demo`, on that plane
"""
