"""Trying again, without end, ever more slowly up to a second, and told once, not at every try; and calls in the background.

An outage of the master must not disturb a training, so nothing here gives up by itself; the caller says until when.

A pod has a limit of processes, and threads count. Where none can be started the call waits for the agent's next look: an
orderly leave that ended in a traceback instead would cost the job the steps since its last commit.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Callable, TypeVar

from .agent_errors import MasterError, Refused

T = TypeVar("T")
Say = Callable[[str], None]
Work = Callable[[], None]

QUIET = 10.0
"""Seconds between two losses of the master that are told."""


class Backoff:
    """Pauses in seconds: doubling from `first` to `most`."""

    def __init__(self, first: float = 0.05, most: float = 1.0) -> None:
        self._first, self._most = first, most
        self._next = first

    def pause(self) -> float:
        """How long to wait now."""
        now, self._next = self._next, min(2 * self._next, self._most)
        return now

    def reset(self) -> None:
        """It went well: begin small again."""
        self._next = self._first


class Outage:
    """Tells when the master is lost, and when it is back; once each, whichever of the threads sees it first.

    A master that answers some calls and refuses others would be lost and back at every turn; so not more often than
    every `QUIET` seconds.
    """

    def __init__(self, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._lock = threading.Lock()
        self._since: float | None = None
        self._told = float("-inf")

    def failed(self, error: MasterError) -> None:
        with self._lock:
            now = self._clock()
            if self._since is not None or now - self._told < QUIET:
                return
            self._since = self._told = now
        self._say(f"the master does not answer as it should, trying on: {error}")

    def went_well(self) -> None:
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            self._say(f"the master answers again, after {self._clock() - since:.1f} s")


class Over(Exception):  # noqa: N818 - not an error: the time that was given is over
    """The caller of `Patience.ask` said that it is enough."""


class Patience:
    """Repeats a call until it is answered: yes, or a no that will stay one (Refused is then raised).

    enough: asked before each try; True ends it with `Over`. stop: set when the agent ends, cuts pauses short.
    """

    def __init__(self, outage: Outage, stop: threading.Event) -> None:
        self._outage, self._stop = outage, stop

    def ask(
        self,
        call: Callable[[], T],
        enough: Callable[[], bool] = lambda: False,
        final: frozenset[str] = frozenset(),
    ) -> T:
        """The answer of `call`. Raises Refused when the master says no for good, Over when it is enough.

        final: reasons that will stay what they are in this call, though others may ask again after such a status.
        """
        backoff = Backoff()
        while not (enough() or self._stop.is_set()):
            try:
                answer = call()
            except MasterError as error:
                if isinstance(error, Refused) and (error.reason in final or not error.passing):
                    raise
                self._outage.failed(error)
                self._stop.wait(backoff.pause())
            else:
                self._outage.went_well()
                return answer
        raise Over


class BackgroundCalls:
    """Safe from any thread."""

    def __init__(self) -> None:
        self._kept: queue.SimpleQueue[tuple[str, Work]] = queue.SimpleQueue()

    def run(self, name: str, work: Work) -> None:
        """Now, or as soon as there is a thread to be had."""
        try:
            threading.Thread(target=work, name=name, daemon=True).start()
        except RuntimeError:
            self._kept.put((name, work))

    def again(self) -> None:
        """Tries once more what found no thread."""
        for _ in range(self._kept.qsize()):
            self.run(*self._kept.get())
