"""How long a filter call takes for a pod whose seat is held, in milliseconds, seen from kube-scheduler's end."""

from bench.micro import asking
from bench.micro.children import child

WARM_UP = 300
TRIES = 5
CALLS = 1000
"""Of one try, to an idle service."""

BUSY_CALLS = 400
BUSY_PAUSE = 0.005
"""Seconds between two calls to a busy service: they are to meet it at any point of its work."""


def held_p99() -> float:
    """Nothing else happens."""
    with child("bench.micro.extender", "idle") as server:
        content = asking.body(server["pod"], [server["node"]])
        asking.times(server["url"], content, count=WARM_UP)
        return min(asking.p99(asking.times(server["url"], content, count=CALLS)) for _ in range(TRIES))


def busy_p99() -> float:
    """The planning loop works on 1,000 gangs that wait, without end."""
    with child("bench.micro.extender", "busy") as server:
        content = asking.body(server["pod"], [server["node"]])
        asking.times(server["url"], content, count=WARM_UP)
        return min(
            asking.p99(asking.times(server["url"], content, count=BUSY_CALLS, pause=BUSY_PAUSE))
            for _ in range(TRIES)
        )
