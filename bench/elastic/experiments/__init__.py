"""The three experiments of ElasticDL, for real at small scale, beside their published timelines.

A slot is a node for one worker. On a machine with few cores it is emulated: every worker makes a real forward pass,
backward pass and allreduce in every step, and a pass is padded by sleep to a fixed time, as if the worker had a machine
of its own.

    published   their timelines
    slots       from who used a slot when to use, dips and regrowth, pure
    accuracy    paired differences and their intervals, pure
    two_jobs, serving, convergence   one file an experiment
    plots       what came of it beside what was published
"""
