"""The two threads that keep in touch with the master: one beats, one listens for the next round.

Neither disturbs the training: whatever the master does, they try on, and the child never waits for them. The newest round
that was heard stands in `Announcements`, for every thread that waits for it.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any, Callable, Mapping

from .agent_errors import MasterError, Refused
from .master_client import Answer, Master
from .retry import Backoff, Outage, Over, Patience


class Announcements:
    """A number that only grows, and a way to wait until it has."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._newest = 0
        self._closed = False

    @property
    def newest(self) -> int:
        with self._condition:
            return self._newest

    def saw(self, number: int) -> None:
        """A round is announced; what is older than the newest is late news."""
        with self._condition:
            if number > self._newest:
                self._newest = number
                self._condition.notify_all()

    def wait(self, after: int, seconds: float) -> int:
        """The newest round, as soon as it is above `after`, or after `seconds`, or when this is closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or self._newest > after, seconds)
            return self._newest

    def close(self) -> None:
        """Nobody needs to wait any more."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()


LISTEN = 25.0
"""Seconds the master keeps a listener waiting; below what proxies and load balancers usually allow."""

REFUSED_PAUSE = 1.0
"""Seconds until a listener that was refused asks again."""

EARLY, LATE = 0.6, 1.25
"""Times the interval after which a beat goes out with the child's report, and without one. What an agent needs is in no
cache any more when it wakes, and the waking is taken from the training: so what is due at about the same time is done at
one waking, the child's. With reports every two seconds and beats every second each report still takes a beat along.
"""

STRANGER = "NoWorker"
"""The master's reason when it knows no job that this pod works for: it has not seen the pod yet, or the job is gone."""

Report = Callable[[], "tuple[int, Mapping[str, Any]]"]
Heard = Callable[[int, Answer], None]


class Heartbeat:
    """Every second or so: how it goes. `report` gives the child's number and what to say; `heard` gets the answer."""

    def __init__(
        self,
        master: Master,
        outage: Outage,
        stop: threading.Event,
        report: Report,
        heard: Heard,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._master = master
        self._outage = outage
        self._stop = stop
        self._report, self._heard, self._clock = report, heard, clock
        self._backoff = Backoff()
        self._stranger_since: float | None = None
        self._told = threading.Event()
        self._due_from = math.inf
        self._thread = threading.Thread(target=self._run, name="beats", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def unknown(self) -> float:
        """Seconds that the master has said, and said nothing else, that it knows no such worker."""
        since = self._stranger_since
        return 0.0 if since is None else self._clock() - since

    def child_told(self) -> None:
        """The child has just reported: a beat that is nearly due goes out with that."""
        if self._clock() >= self._due_from:
            self._told.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            interval = self._beat()
            if interval is None:
                self._stop.wait(self._backoff.pause())
                continue
            self._told.clear()
            self._due_from = self._clock() + EARLY * interval
            self._told.wait(LATE * interval)
            self._due_from = math.inf

    def _beat(self) -> float | None:
        """One beat; the seconds until the next, as the master wants it; None when it did not get there."""
        number, report = self._report()
        try:
            answer = self._master.beat(report)
        except MasterError as error:
            stranger = isinstance(error, Refused) and error.reason == STRANGER
            self._stranger_since = (self._stranger_since or self._clock()) if stranger else None
            self._outage.failed(error)
            return None
        self._stranger_since = None
        self._outage.went_well()
        self._backoff.reset()
        self._heard(number, answer)
        return answer.interval


class Listener:
    """Waits with the master for the next round, so that news come in milliseconds instead of with the next beat."""

    def __init__(
        self, master: Master, patience: Patience, stop: threading.Event, announcements: Announcements
    ) -> None:
        self._master = master
        self._patience = patience
        self._stop = stop
        self._announcements = announcements
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            newest = self._announcements.newest
            try:
                heard = self._patience.ask(lambda known=newest: self._master.announced(known, LISTEN))  # type: ignore[misc]
            except Over:
                return
            except Refused:
                self._stop.wait(REFUSED_PAUSE)
            else:
                self._announcements.saw(heard)
