"""The child's own calls: its place, the barrier, announcements, progress reports and its end.

Lives here: the meaning of each call. Never here: HTTP, see `local_server`. Every wait is bounded, so that no thread
keeps waiting for a child that was killed.
"""

from __future__ import annotations

import json
import time
from typing import Any, Callable, Mapping
from urllib.parse import parse_qs

from ..runtime.round_assignment import decode
from ..runtime.runtime_errors import AnswerError
from .agent_errors import Refused, shortened
from .heartbeat import Announcements
from .kv_proxy import Said
from .master_client import NUMBER_LIMIT, READY_WAIT, Master
from .progress_report import Wrong
from .retry import Over, Patience, Say
from .training_run import TrainingRun

LISTEN = 10.0
"""Seconds until a listener gets an answer without news. It asks again at once, which proves that its threads live."""


class LocalAPI:
    """The five calls, by method and path. `told`: called when the child has reported."""

    def __init__(
        self,
        master: Master,
        patience: Patience,
        announcements: Announcements,
        say: Say,
        clock: Callable[[], float] = time.monotonic,
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self._master = master
        self._patience = patience
        self._announcements = announcements
        self._say = say
        self._clock, self._told = clock, told
        self.table: dict[tuple[str, str], Callable[[TrainingRun, str, bytes], Said]] = {
            ("POST", "/ready"): self._ready,
            ("GET", "/announced"): self._announced,
            ("GET", "/place"): self._place,
            ("POST", "/progress"): self._progress,
            ("POST", "/gone"): self._gone,
        }

    def _ready(self, child: TrainingRun, _: str, body: bytes) -> Said:
        """The next place, or 204 if there is none yet and the child must ask again."""
        arrival, took = _object(body), child.step_s
        if took is not None:
            arrival = {**arrival, "step_s": took}
        until = self._clock() + READY_WAIT
        with child.at_barrier(setup=arrival.get("setup") is True):
            try:
                told = self._patience.ask(
                    lambda: self._master.ready(arrival), lambda: child.ended or self._clock() >= until
                )
            except Over:
                return Said(204)
            except Refused as error:
                return Said(error.status, _json({"error": {"reason": error.reason, "message": str(error)}}))
            if told is None or child.ended:
                return Said(204)
            return self._assign(child, told)

    def _assign(self, child: TrainingRun, told: dict[str, Any]) -> Said:
        body = _json(told)
        try:
            place = decode(body)
        except AnswerError as error:
            raise Wrong(str(error)) from error
        child.assign(place)
        self._announcements.saw(place.round)
        self._say(
            f"round {place.round}: removed"
            if place.removed
            else f"round {place.round}: rank {place.rank} of {place.size}"
        )
        return Said(200, body)

    def _place(self, child: TrainingRun, _query: str, _: bytes) -> Said:
        """The child's first round, or 204 if it is not known yet and the child must ask again."""
        child.placed.wait(LISTEN)
        return Said(204) if child.place is None else Said(200, _json(child.place))

    def _announced(self, child: TrainingRun, query: str, _: bytes) -> Said:
        child.listens()
        words = parse_qs(query, max_num_fields=4)
        newest = self._announcements.wait(_number(words.get("round", ["0"])[0]), LISTEN)
        return Said(200, _json({"round": newest}))

    def _progress(self, child: TrainingRun, _: str, body: bytes) -> Said:
        try:
            child.take(_object(body))
        finally:  # valid fields were accepted
            self._told()
        return Said(200, b"{}")

    def _gone(self, child: TrainingRun, _: str, body: bytes) -> Said:
        told = _object(body)
        why, foreign = told.get("why"), told.get("foreign")
        if isinstance(foreign, str) and not child.shows(shortened(foreign)):
            return Said(409)
        child.goes(shortened(why) if isinstance(why, str) else "", well=told.get("code") == 0)
        return Said(200, b"{}")


def _object(body: bytes) -> dict[str, Any]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise Wrong("the body must be a JSON object")
    return told


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 17 and int(text) < NUMBER_LIMIT):
        raise Wrong("round must be an integer, 0 or more")
    return int(text)


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode()
