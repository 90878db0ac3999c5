"""Where workers meet: rounds and the values that members of a round exchange, over HTTPS.

Lives here: routes, bodies, bounds, who asks, and the values of a round. Never here: who is a member, when a round
begins, or what a worker is told: the master's `job_registry.WorkerHandler` answers that. Never here either: a pickle. Bodies are
JSON, or bytes that nothing here looks into.
"""
