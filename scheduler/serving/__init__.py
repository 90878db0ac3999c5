"""What every HTTP edge of ours stands on: sockets, TLS, connections.

Lives here: how an application is put on a port, how many connections it may have, how slow they may be, and whose
certificates are believed; the token that a request shows, and how often its sender may ask. Never here: a route, or
what an answer is; those are the edges' own.

    server           an application on a port
    listener         connections: how many, how slow, which of strangers
    body             request bodies, bounded one by one and all together
    tls              the server's side of TLS
    middleware       failures as JSON, counters and times of every request
    token_reviews    the token that a request shows, and what the API server says of it
    review_cache     its answers, remembered for a while
    rate_limit       how often a caller may ask
    probes           /livez /readyz /metrics, on a port of their own; whether the other program in the Pod is alive
    component        what each program has: tasks in the background, gauges, probes
"""
