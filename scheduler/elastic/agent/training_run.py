"""One run of the child, from its start to its end: its key, its place in the round, and its progress.

A restarted child is another incarnation with another key, so that no message to or from the previous one is attributed
to the new one. Thread-safe.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterable, Iterator, Mapping

from ..runtime.round_assignment import Assignment
from .init_unblock import Place
from .liveness import Sight
from .progress_report import Progress

KEYS_KEPT = 4096
"""Maximum cached values of the current round: Horovod reads each peer's twice; six meshes of 512 members fit."""

PLACES_KEPT = 4096
"""Maximum addresses of the current round at which the child listens: one for each peer, in two meshes."""


FINISH = 3600.0
"""Seconds that a script may run after its training without a sign of progress, for the last evaluation or an export. No
other worker waits for it any more. After more than an hour the process most likely hangs at its exit.
"""


class TrainingRun:
    """State of one run of the child."""

    def __init__(
        self, number: int, clock: Callable[[], float] = time.monotonic, finish: float = FINISH
    ) -> None:
        self.number = number
        self.key = secrets.token_urlsafe(24)
        self.ended = False
        self.gone: str | None = None
        """Why the child ends, once it reported that."""
        self._clock, self._finish = clock, finish
        self.entered = False
        """It has started as a worker, by `hvd.elastic.run` or the small API: no other child reports or meets others."""
        self.foreign: str | None = None
        """Evidence that its script is not an elastic training; None: there is none."""
        self._well = False
        """It has completed its training."""
        self._lock = threading.Lock()
        self._assignment: Assignment | None = None
        self._values: dict[tuple[str, str], bytes] = {}
        self._places: list[Place] = []
        self._progress = Progress(clock())
        self._asking = 0
        self._at_barrier = 0
        self._listens = False
        self.place: Mapping[str, Any] | None = None
        """Its first round, as last reported by the master."""
        self.placed = threading.Event()
        """`place` is known."""
        self._heard = clock()

    @property
    def assignment(self) -> Assignment | None:
        """The latest assignment of this child; None before the first."""
        with self._lock:
            return self._assignment

    @property
    def round(self) -> int:
        """The round of this child; 0 for a newcomer."""
        with self._lock:
            return self._round()

    def _round(self) -> int:
        return self._assignment.round if self._assignment else 0

    @property
    def removed(self) -> bool:
        place = self.assignment
        return bool(place and place.removed)

    @property
    def returned(self) -> bool:
        """Whether the last training function of its script has returned."""
        with self._lock:
            return self._well and not (self._assignment and self._assignment.removed)

    @property
    def saves(self) -> bool:
        """Whether it must save its state to disk before it ends."""
        place = self.assignment
        return bool(place and place.checkpoint)

    @property
    def step_s(self) -> float | None:
        """The mean step time since the last beat, in seconds; None if there was no step."""
        with self._lock:
            return self._progress.step_s

    def assign(self, place: Assignment) -> None:
        """The child receives this assignment. Values of the previous round are dropped."""
        with self._lock:
            if self._assignment is None or place.round != self._assignment.round:
                self._values.clear()
                self._places.clear()
            self._assignment = place

    def keep(self, number: int, scope: str, key: str, value: bytes) -> None:
        """Cache a value while the child is in round `number`; 0: in no round."""
        with self._lock:
            if number == self._round() and len(self._values) < KEYS_KEPT:
                self._values[scope, key] = value

    def kept(self, number: int, scope: str, key: str) -> bytes | None:
        """A cached value of this round."""
        with self._lock:
            return self._values.get((scope, key)) if number == self._round() else None

    def listens_at(self, number: int, places: Iterable[Place]) -> None:
        """The child published in round `number` the addresses at which it listens for its peers."""
        with self._lock:
            if self._assignment is not None and number == self._assignment.round:
                self._places = [*self._places, *places][:PLACES_KEPT]

    def heard(self, number: int, place: Mapping[str, Any] | None, broken: int) -> tuple[Place, ...]:
        """A beat of process `number` was answered, with the child's first round if the master knows it and has not
        reported it before. Returns the addresses at which the child may wait for peers that have died.
        """
        if number == self.number and place is not None:
            self.place = place
            self.placed.set()
        return self.awaits(broken)

    def awaits(self, number: int) -> tuple[Place, ...]:
        """Addresses at which the child may wait for peers, if it is in round `number` and does not train yet."""
        with self._lock:
            inside = self._assignment is not None and number == self._assignment.round
            waits = inside and not self._at_barrier and self._progress.phase != "Training"
            return tuple(self._places) if waits else ()

    def lets_in(self, door: str | None) -> bool:
        """Whether this key allows reading and writing values. None never does."""
        return door is not None and hmac.compare_digest(door, self.key)

    def goes(self, why: str, *, well: bool) -> None:
        """The child reports that its training is over; `well`: it is complete, or the job continues without it."""
        with self._lock:
            self.gone, self._well = why, well

    def shows(self, foreign: str) -> bool:
        """Evidence that a process of the child is not an elastic training. False if an elastic training has begun."""
        with self._lock:
            if not self.entered:
                self.foreign = foreign
            return not self.entered

    def take(self, report: Mapping[str, Any]) -> None:
        """Accept the child's report. Raises progress_report.Wrong."""
        with self._lock:
            self._trains_again(setup=report.get("setup") is True)
            self._progress.take(report, self._clock())

    @contextmanager
    def asks(self) -> Iterator[None]:
        """Context while a call of the child is answered: its threads are alive."""
        with self._lock:
            self._asking += 1
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1
                self._heard = self._clock()

    @contextmanager
    def at_barrier(self, *, setup: bool = False) -> Iterator[None]:
        """Context while the child's main thread waits for its next place; this does not count as silence. setup: its
        script is in its setup.
        """
        with self._lock:
            self._trains_again(setup=setup)
            self._at_barrier += 1
            self._progress.goes_on(self._clock())
        try:
            yield
        finally:
            with self._lock:
                self._at_barrier -= 1
                self._progress.goes_on(self._clock())

    def _trains_again(self, *, setup: bool) -> None:
        """A child that reports or is at the barrier trains, also if it ended an earlier training."""
        self.gone, self._well = None, False
        self.entered = self.entered or not setup
        self.foreign = None if self.entered else self.foreign

    def listens(self) -> None:
        """The child listens for announcements: until it reports its end, one of its threads always sends requests."""
        with self._lock:
            self._listens = True

    def sight(self, *, stopped: bool) -> Sight:
        """State of the child for the watchdog. A child that never listened does not count as unheard."""
        with self._lock:
            now, progress = self._clock(), self._progress
            training = progress.phase == "Training" and self.gone is None
            listening = self._listens and training and not self._asking
            return Sight(
                stopped=stopped,
                silent=self._silence(now),
                unheard=max(0.0, now - self._heard) if listening else 0.0,
                usual_step=progress.usual_step,
                training=training,
                collective=progress.collective,
            )

    def _silence(self, now: float) -> float:
        """Seconds without progress that count: 0 at the barrier; after the training's end only those beyond the time
        that a script may take there.
        """
        allowed = self._finish if self._well else 0.0
        return 0.0 if self._at_barrier else max(0.0, self._progress.silent(now) - allowed)

    @property
    def newcomer(self) -> bool:
        """Whether no other worker depends on this child yet: it is in no round, and not at the barrier."""
        with self._lock:
            return self._assignment is None and not self._at_barrier

    def end(self) -> dict[str, Any]:
        """This child's part of the exit report."""
        return {
            "checkpoint_step": self._progress.saved,
            "returned": self.returned,
            "entered": self.entered,
            "foreign": self.foreign,
        }

    def beat(self) -> dict[str, Any]:
        """This child's part of a beat."""
        returned = self.returned
        with self._lock:
            now = self._clock()
            report = {
                **self._progress.beat(now),
                "silent_s": round(self._silence(now), 3),
                "returned": returned,
                "round": self._round(),
            }
            if self._at_barrier and not report["round"]:
                report["phase"] = "Ready"
            return report
