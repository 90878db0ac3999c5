"""Endless retries with pauses of up to a second, which log an outage once, not per try; and calls in the background.

An outage of the master must not disturb a training, so nothing here gives up by itself; the caller decides when to
stop.

A pod has a limit of processes, and threads count. If no thread can be started, the call waits for the agent's next
check: an orderly leave that ended in a traceback instead would cost the job the steps since its last commit.
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
"""Minimum seconds between two logged outages of the master."""


class Backoff:
    """Pauses in seconds: doubling from `first` to `most`."""

    def __init__(self, first: float = 0.05, most: float = 1.0) -> None:
        self._first, self._most = first, most
        self._next = first

    def pause(self) -> float:
        """Seconds to wait now; doubles the next pause."""
        now, self._next = self._next, min(2 * self._next, self._most)
        return now

    def reset(self) -> None:
        """Start again with the first pause, after a success."""
        self._next = self._first


class Outage:
    """Logs when the master is unavailable and when it is back, once for all threads.

    A master that answers some calls and rejects others would alternate between both, so an outage is logged at most
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
        self._say(f"the master is unavailable, retrying: {error}")

    def went_well(self) -> None:
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            self._say(f"the master answers again after {self._clock() - since:.1f} s")


class Over(Exception):  # noqa: N818 - not an error: the given time is over
    """`enough` of `Patience.ask` returned True, or the agent ends."""


class Patience:
    """Repeats a call until it succeeds or is rejected permanently (then it raises Refused).

    enough: called before each try; True ends the call with `Over`. stop: set when the agent ends; it cuts pauses short.
    """

    def __init__(self, outage: Outage, stop: threading.Event) -> None:
        self._outage, self._stop = outage, stop

    def ask(
        self,
        call: Callable[[], T],
        enough: Callable[[], bool] = lambda: False,
        final: frozenset[str] = frozenset(),
    ) -> T:
        """The answer of `call`. Raises Refused if the master rejects it permanently, Over if `enough` returns True.

        final: reasons that are permanent for this call, although other calls may retry after such a status.
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
    """Calls in threads of their own. Thread-safe."""

    def __init__(self) -> None:
        self._kept: queue.SimpleQueue[tuple[str, Work]] = queue.SimpleQueue()

    def run(self, name: str, work: Work) -> None:
        """Run the work now, or as soon as a thread can be started."""
        try:
            threading.Thread(target=work, name=name, daemon=True).start()
        except RuntimeError:
            self._kept.put((name, work))

    def again(self) -> None:
        """Retry the calls for which no thread could be started."""
        for _ in range(self._kept.qsize()):
            self.run(*self._kept.get())
