"""The rendezvous of the workers: rounds and the values that members of a round exchange, over HTTPS.

Lives here: routes, bodies, bounds, authentication, and the values of a round. Never here: which workers are members,
when a round begins, or what a worker receives: the master's `job_registry.WorkerHandler` decides that. Never here
either: a pickle. Bodies are JSON, or bytes that nothing here interprets.
"""
