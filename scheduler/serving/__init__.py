"""The basis of every HTTP edge: sockets, TLS, connections.

Lives here: serving an application on a port; limits on the number and slowness of connections; the accepted
certificates; bearer tokens, and how often their holders may send requests. Never here: a route, or the content of an
answer. Those belong to the edges.

    server           an application on a port
    listener         connections: how many, how slow, how many of strangers
    body             request bodies, bounded one by one and all together
    tls              the server's side of TLS
    middleware       failures as JSON, counters and durations of every request
    token_reviews    the token of a request, and the API server's review of it
    review_cache     the reviews, cached for a while
    rate_limit       how often a caller may send requests
    probes           /livez /readyz /metrics, on their own port; whether the other program in the Pod is alive
    component        the parts of every program: background tasks, gauges, probes
"""
