"""The two threads that keep in touch with the master: one beats, one listens for the next round.

Neither disturbs the training: whatever the master does or does not, they try on, and the child never waits for them.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Mapping

from .announcements import Announcements
from .backoff import Backoff, Outage, Over, Patience
from .errors import MasterError, Refused
from .master import Answer, Master

LISTEN = 25.0
"""Seconds the master keeps a listener waiting; below what proxies and load balancers usually allow."""

REFUSED_PAUSE = 1.0
"""Seconds until a listener that was refused asks again."""

STRANGER = "NoWorker"
"""The master's reason when it knows no job that this pod works for: it has not seen the pod yet, or the job is gone."""

Report = Callable[[], "tuple[int, Mapping[str, Any]]"]
Heard = Callable[[int, Answer], None]


class Beats:
    """Every second: how it goes. `report` gives the child's number and what to say; `heard` gets the answer to it."""

    def __init__(
        self, master: Master, outage: Outage, stop: threading.Event, report: Report, heard: Heard
    ) -> None:
        self._master = master
        self._outage = outage
        self._stop = stop
        self._report, self._heard = report, heard
        self._backoff = Backoff()
        self._stranger_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="beats", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def unknown(self) -> float:
        """Seconds that the master has said, and said nothing else, that it knows no such worker."""
        since = self._stranger_since
        return 0.0 if since is None else time.monotonic() - since

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            pause = self._beat()

    def _beat(self) -> float:
        """One beat; the seconds until the next."""
        number, report = self._report()
        try:
            answer = self._master.beat(report)
        except MasterError as error:
            self._note(error)
            self._outage.failed(error)
            return self._backoff.pause()
        self._stranger_since = None
        self._outage.went_well()
        self._backoff.reset()
        self._heard(number, answer)
        return answer.interval

    def _note(self, error: MasterError) -> None:
        if not (isinstance(error, Refused) and error.reason == STRANGER):
            self._stranger_since = None
        elif self._stranger_since is None:
            self._stranger_since = time.monotonic()


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
