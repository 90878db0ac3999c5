"""Gangwright: gang scheduling through a stock kube-scheduler, which calls it as an extender.

The packages, from the outside in. An import may only point down:

    cli          the composition root: reads settings, builds the service, runs it
    service      the running service: watches → engine → effects → the API server
    extender     edge to kube-scheduler: filter, prioritize, preempt
    elastic      a separate program: jobs that grow and shrink while they train
    status       edge to users: the JSON API and the page
    kube         edge to the API server: the only importer of `kubernetes`
    serving      the basis of all HTTP edges: sockets, TLS, connections
    replay       the cluster as one document, and the live code that decides on it
    engine       one synchronous step per endpoint call, event or plan; no await anywhere
    objects      the cluster's formats: labels, gang formats, API objects as values
    placement    which nodes can hold a gang, and which seats are best
    ledger       what is bound, held and waiting; the life cycle of a gang
    model        the vocabulary: frozen values that all packages exchange

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
