"""The two threads that stay in contact with the master: one sends heartbeats, one listens for the next round.

Neither disturbs the training: they retry regardless of what the master does, and the child never waits for them.
`Announcements` holds the newest announced round, for every thread that waits for it.
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
    """A number that only increases, and a way to wait for that."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._newest = 0
        self._closed = False

    @property
    def newest(self) -> int:
        with self._condition:
            return self._newest

    def saw(self, number: int) -> None:
        """A round is announced; an older one than the newest is ignored."""
        with self._condition:
            if number > self._newest:
                self._newest = number
                self._condition.notify_all()

    def wait(self, after: int, seconds: float) -> int:
        """The newest round, as soon as it is greater than `after`, or after `seconds`, or when this is closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or self._newest > after, seconds)
            return self._newest

    def close(self) -> None:
        """End all waits."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()


LISTEN = 25.0
"""Seconds that the master holds a listener's request; less than proxies and load balancers usually allow."""

REFUSED_PAUSE = 1.0
"""Seconds until a rejected listener asks again."""

EARLY, LATE = 0.6, 1.25
"""Fractions of the interval after which a beat is sent with the child's report, and without one. Each wakeup takes time
from the training, because the agent's data is no longer in any cache. So tasks that are due at about the same time
share one wakeup, the child's. With reports every two seconds and beats every second, each report still carries a beat.
"""

STRANGER = "NoWorker"
"""The master's reason if it knows no job of this pod: it has not seen the pod yet, or the job no longer exists."""

Report = Callable[[], "tuple[int, Mapping[str, Any]]"]
Heard = Callable[[int, Answer], None]


class Heartbeat:
    """Sends about one beat per second. `report` returns the child's number and the body; `heard` gets the answer."""

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
        """Seconds since which the master has answered only that it knows no such worker."""
        since = self._stranger_since
        return 0.0 if since is None else self._clock() - since

    def child_told(self) -> None:
        """The child has just reported: send a beat now if it is nearly due."""
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
        """Send a beat. Returns the seconds until the next one, as the master requests; None if the beat failed."""
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
    """Waits at the master for the next round, so that it is known in milliseconds instead of with the next beat."""

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
