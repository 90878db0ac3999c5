"""Horovod's rendezvous store for the current round: answers its C++ client over loopback.

Horovod 0.28.1 (`http_store.cc`) opens a connection for each request, knows only 200 and 404, retries a missing key
every 10 ms, and aborts the whole process after three other answers. Therefore a GET waits here until the key exists,
and a missing key is a 404 before Horovod's own timeout is over. An outage of the master is bridged. Only requests that
can never succeed are rejected: the round is over, or the worker is not a member.
"""

from __future__ import annotations

import time
from typing import Callable, NamedTuple

from ..runtime.round_assignment import ALONE
from .agent_errors import Refused
from .init_unblock import places
from .master_client import Master
from .retry import Over, Patience
from .training_run import TrainingRun

RANKS = "rank_and_size"
"""The scope in which Horovod reads its new rank and size."""

VALUE_LIMIT = 64 << 10
"""Maximum bytes of a value; an address of gloo has about a hundred."""

WAIT = 5.0
"""Maximum seconds that a GET waits: Horovod checks its own timeout only between two requests."""


FINAL = frozenset({"NoMember"})
"""A worker that is not a member of a round will not become one. `NoWorker` may be temporary: it may not be seen yet."""


OWN = ("local_", "cross_")
"""Prefixes of scopes that no other worker uses: the workers on this host, and those with this local rank. Every worker
has its own host and is alone in both, as its agent and its environment report to Horovod. It publishes two thirds of
its values there, which no other worker reads.
"""


class Said(NamedTuple):
    """An answer to the child: a status and an encoded body."""

    status: int
    body: bytes = b""


class Store:
    """PUT, GET and DELETE of one key, for one incarnation of the child."""

    def __init__(
        self,
        master: Master,
        patience: Patience,
        gloo_timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._master = master
        self._patience = patience
        self._limit = gloo_timeout
        self._wait = min(WAIT, gloo_timeout / 2)
        self._clock = clock

    def answer(self, child: TrainingRun, method: str, scope: str, key: str, value: bytes) -> Said:
        """The answer to Horovod."""
        if method == "DELETE":  # values end with their round; a late DELETE must not affect the next
            return Said(200)
        if scope == RANKS:
            return _ranks(child) if method == "GET" else Said(405)
        number = child.round
        try:
            if method == "PUT":
                return self._put(child, number, scope, key, value)
            return self._get(child, number, scope, key)
        except Refused as error:
            return Said(410 if error.status in {403, 404, 409, 410} else error.status, str(error).encode())

    def _put(self, child: TrainingRun, number: int, scope: str, key: str, value: bytes) -> Said:
        if len(value) > VALUE_LIMIT:
            return Said(413)
        if _shared(number, scope):
            try:
                self._patience.ask(
                    lambda: self._master.put(number, scope, key, value),
                    self._enough(child, self._limit),
                    FINAL,
                )
            except Over:
                return Said(503)
        child.keep(number, scope, key, value)
        child.listens_at(number, places(value))
        return Said(200)

    def _get(self, child: TrainingRun, number: int, scope: str, key: str) -> Said:
        value = child.kept(number, scope, key)
        if value is None and _shared(number, scope):
            value = self._fetched(child, number, scope, key)
        return Said(404) if value is None else Said(200, value)

    def _fetched(self, child: TrainingRun, number: int, scope: str, key: str) -> bytes | None:
        """The value from the master. Additional values in its answer are kept for later requests."""
        try:
            found = self._patience.ask(
                lambda: self._master.get(number, scope, key, self._wait),
                self._enough(child, self._wait),
                FINAL,
            )
        except Over:
            return None
        for name, value in (found or {}).items():
            child.keep(number, scope, name, value)
        return found[key] if found else None

    def _enough(self, child: TrainingRun, seconds: float) -> Callable[[], bool]:
        until = self._clock() + seconds
        return lambda: child.ended or self._clock() >= until


def _shared(number: int, scope: str) -> bool:
    """Whether other workers use this scope; none do before the first round."""
    return number > 0 and not scope.startswith(OWN)


def _ranks(child: TrainingRun) -> Said:
    """The place in the current round; rank 0 of 1 before the first. Never empty and never a 404: Horovod reads either
    as rank 0 of 0.

    Rank and size, also inside and across hosts. With one worker per pod and no hierarchy across pods, Horovod needs no
    third mesh, which saves a third of its start time. -1 means that this host left.
    """
    place = child.assignment or ALONE
    line = "-1,-1,-1,-1,-1,-1" if place.removed else f"{place.rank},{place.size},0,1,0,1"
    return Said(200, line.encode())
