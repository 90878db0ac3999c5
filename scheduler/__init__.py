"""Gangwright: whole gangs, placed through a stock kube-scheduler that asks us.

The map, from the outside in; an arrow may only point down:

    cli          the composition root: reads settings, builds the service, runs it
    service      the running service: watches → engine → effects → the API server
    extender     edge to kube-scheduler: filter, prioritize, preempt
    elastic      a program of its own: jobs that grow and shrink while they train
    status       edge to people: the JSON API and the page
    kube         edge to the API server: the only importer of `kubernetes`
    serving      what HTTP edges stand on: sockets, TLS, connections
    engine       the neck: one synchronous step per verb, event or plan; no await anywhere
    objects      the cluster's language: labels, gang formats, API objects as values
    placement    the thinking: who can hold it, which seats are best, all or nobody
    ledger       the memory: what is bound, held and waiting; the life of a gang
    model        the words: frozen values that everybody passes about

`model`, `placement`, `ledger`, `engine` and `objects` are pure: synchronous, deterministic, no I/O, no
clock, no logging, no chance.  The direction of every import is checked by import-linter.
"""

__version__ = "0.1.0"
