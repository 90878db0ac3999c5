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


def held_p99() -> tuple[float, float]:
    """Nothing else happens: our p99, and that of a server that looks at nothing, their tries in turns."""
    with child("bench.micro.extender", "idle") as server, child("bench.micro.bare") as bare:
        content = asking.body(server["pod"], [server["node"]])
        urls = (server["url"], bare["url"])
        for url in urls:
            asking.times(url, content, count=WARM_UP)
        tries = [[asking.times(url, content, count=CALLS) for url in urls] for _ in range(TRIES)]
    ours, theirs = (p99_of_all(each) for each in zip(*tries, strict=True))
    return ours, theirs


def busy_p99() -> float:
    """The planning loop works on 1,000 gangs that wait, without end."""
    with child("bench.micro.extender", "busy") as server:
        content = asking.body(server["pod"], [server["node"]])
        asking.times(server["url"], content, count=WARM_UP)
        return p99_of_all(
            asking.times(server["url"], content, count=BUSY_CALLS, pause=BUSY_PAUSE) for _ in range(TRIES)
        )


def p99_of_all(tries: Iterable[list[float]]) -> float:
    """The smallest figure that 99 of 100 calls do not exceed, whichever try they were of."""
    return asking.p99(list(chain.from_iterable(tries)))
