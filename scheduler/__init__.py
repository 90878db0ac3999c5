"""Gangwright: whole gangs, placed through a stock kube-scheduler that asks us.

The rooms, from the outside in. An import may only point down:

    cli          the composition root: reads settings, builds the service, runs it
    service      the running service: watches → engine → effects → the API server
    extender     edge to kube-scheduler: filter, prioritize, preempt
    elastic      a program of its own: jobs that grow and shrink while they train
    status       edge to people: the JSON API and the page
    kube         edge to the API server: the only importer of `kubernetes`
    serving      what HTTP edges stand on: sockets, TLS, connections
    replay       the cluster as one document, and the live code that decides on it
    engine       one synchronous step per verb, event or plan; no await anywhere
    objects      the cluster's language: labels, gang formats, API objects as values
    placement    which nodes can hold a gang, and which seats are best
    ledger       what is bound, held and waiting; the life of a gang
    model        the words: frozen values that all rooms pass on

What happens to an event:

    kube/watch → service/informers → objects/translate → ledger.take → membership, handlers → cache
                                                                                               ▲
    kube/actions ← objects/patches ← effects ← ledger.settle ← reconcile ← rules ──────────────┤
                                                                                               │
                    ledger.handle(Decided) ← placement/planner ← engine/cycle ← snapshot ◄─────┘

`model`, `placement`, `ledger`, `engine`, `objects` and `replay` are pure: synchronous, deterministic, no I/O, no clock,
no logging, no randomness. import-linter checks the direction of every import, also inside `ledger` and `engine`.
"""

__version__ = "0.2.0"
