"""The elastic master at work: what watches and workers tell becomes events of each job's membership, and its effects
are done.

Lives here: everything between the pure rooms of elastic training and the world. Never here: who is in a round
(`membership`), how large a job should be (`sizing`), or a route (`rendezvous`).

    reading    API objects → events and amounts
    calls      what is to be done → requests to the API server
    trying     one request, tried until it is answered for good
    writing    a job's status: the newest one stands, however often somebody else writes
    carrying   pods, events and the policy of one job
    charge     one job: its membership, its workers that wait, its timer
    room       what the nodes have free
    seeing     whether pods are seen, told to the jobs
    master     all jobs: which watch concerns which
    desk       the rendezvous' questions
    sizes      sizes, decided for all jobs together every few seconds
    counting   what happened → metrics
    beginnings what is counted, at 0 before it happens
    run        the parts put together

Everything that the master must know to go on stands in the jobs' status and on the pods, so it may end at any line.
"""
