"""How long a filter call takes for a pod whose seat is held, in milliseconds, seen from kube-scheduler's end.

Every try is a connection of its own. The figure is of all calls of all tries, the slowest try included; only calls made
before, to a service that has just started, are left out.
"""

from collections.abc import Iterable
from itertools import chain

from bench.micro import asking
from bench.micro.children import child

WARM_UP = 300
"""Calls to a service that has just started; nobody looks at their times."""

TRIES = 5
CALLS = 1000
"""Of one try, to an idle service."""

BUSY_CALLS = 400
BUSY_PAUSE = 0.005
"""Seconds between two calls to a busy service: they are to meet it at any point of its work."""


def held_p99() -> float:
    """Nothing else happens."""
    return _measured("idle", CALLS)


def busy_p99() -> float:
    """The planning loop works on 1,000 gangs that wait, without end."""
    return _measured("busy", BUSY_CALLS, BUSY_PAUSE)


def p99_of_all(tries: Iterable[list[float]]) -> float:
    """The smallest figure that 99 of 100 calls do not exceed, whichever try they were of."""
    return asking.p99(list(chain.from_iterable(tries)))


def _measured(state: str, count: int, pause: float = 0.0) -> float:
    with child("bench.micro.extender", state) as server:
        content = asking.body(server["pod"], [server["node"]])
        asking.times(server["url"], content, count=WARM_UP)
        return p99_of_all(
            asking.times(server["url"], content, count=count, pause=pause) for _ in range(TRIES)
        )
