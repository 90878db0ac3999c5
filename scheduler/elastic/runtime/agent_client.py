"""The agent beside this process, over HTTP on loopback: what the child asks, tells and waits for.

Every wait is in Python, where it may last as long as it must; Horovod's C++ is entered only when a round is complete,
because whatever fails in there ends the process. The agent talks to the master; it may have to wait for a master that
restarts, so an answer other than the expected one is asked for again, with growing pauses.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from typing import Any, Mapping
from urllib.parse import urlsplit

from . import round_assignment
from .runtime_errors import AnswerError, RoundOver

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two tries: soon at first, since most pauses are a reconnect; never so long that a person would
notice.
"""

LONG_POLL = 45.0
"""Seconds a long poll may take: the master answers within 30, the rest is for the way."""

OVER = 410
"""The agent's answer where asking again will not help: the master has refused this value for good."""

BRIEF = 2.0
"""Seconds for what is merely told."""


class Shim:
    """Calls to the agent at `url` (`http://127.0.0.1:PORT`), each with the child's `key`; usable from any thread."""

    def __init__(self, url: str, key: str) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 80
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._kept: list[http.client.HTTPConnection] = []

    def ready(self, body: Mapping[str, Any]) -> round_assignment.Assignment:
        """Stands at the barrier until there is an assignment. Raises AnswerError when it is unreadable."""
        return round_assignment.decode(self._answer("POST", "/ready", json.dumps(body).encode()))

    def place(self) -> round_assignment.Place:
        """The place that the first round will give this process, as soon as the agent knows. Raises AnswerError."""
        return round_assignment.decode_place(self._answer("GET", "/place", None))

    def _answer(self, verb: str, path: str, body: bytes | None) -> bytes:
        """What the agent says as soon as it knows. Raises AnswerError when it refuses the question."""
        pause = FIRST_PAUSE
        while True:
            status, answer = self._try(verb, path, body, LONG_POLL)
            if status == 200:
                return answer
            if status == 400:
                raise AnswerError(f"the agent refused {body!r}: {answer[:200].decode(errors='replace')}")
            if status == 204:
                pause = FIRST_PAUSE
            else:
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def announced(self, round_: int) -> int:
        """The newest round that was announced, as soon as it is above `round_`, or after a while whatever it is."""
        status, answer = self._try("GET", f"/announced?round={round_}", None, LONG_POLL)
        if status == 200:
            try:
                return int(json.loads(answer)["round"])
            except (ValueError, KeyError, TypeError):
                pass
        time.sleep(FIRST_PAUSE * 4)
        return round_

    def tell(self, path: str, body: Mapping[str, Any]) -> bool:
        """Tells the agent something that nobody waits for; False when it did not get there.

        On a connection that is kept, for it is told all the time, and a new one costs the agent a thread. One that
        was closed meanwhile says nothing about the agent.
        """
        told = json.dumps(body).encode()
        with contextlib.suppress(OSError, http.client.HTTPException):
            with contextlib.suppress(IndexError, ConnectionError, http.client.BadStatusLine):
                return self._told(self._kept.pop(), path, told)
            return self._told(self._open(BRIEF), path, told)
        return False

    def put(self, scope: str, key: str, value: Mapping[str, Any]) -> bool:
        """Writes one value of the current round; False when it did not get there. Raises RoundOver."""
        status, _ = self._value("PUT", scope, key, json.dumps(value).encode())
        return status in (200, 201, 204)

    def get(self, scope: str, key: str) -> dict[str, Any] | None:
        """One value of the current round; None when it is not there (yet: the agent waits a while by itself). Raises
        RoundOver.
        """
        status, answer = self._value("GET", scope, key, None)
        try:
            value = json.loads(answer) if status == 200 else None
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def close(self) -> None:
        """Nothing is kept any more; what is told afterwards opens anew."""
        with contextlib.suppress(IndexError):
            while True:
                self._kept.pop().close()

    def _value(self, verb: str, scope: str, key: str, body: bytes | None) -> tuple[int, bytes]:
        status, answer = self._try(verb, f"/{scope}/{key}", body, LONG_POLL)
        if status == OVER:
            raise RoundOver(answer[:200].decode(errors="replace"))
        return status, answer

    def _told(self, connection: http.client.HTTPConnection, path: str, body: bytes) -> bool:
        """Whether it got there; the connection is kept for the next one. Raises OSError, HTTPException."""
        status, _ = self._exchange(connection, "POST", path, body)
        self._kept.append(connection)
        return status in (200, 204)

    def _open(self, patience: float) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._host, self._port, timeout=patience)

    def _try(self, verb: str, path: str, body: bytes | None, patience: float) -> tuple[int, bytes]:
        """(status, body) of one call; status 0 when there was no answer."""
        connection = self._open(patience)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            return self._exchange(connection, verb, path, body)
        return 0, b""

    def _exchange(
        self, connection: http.client.HTTPConnection, verb: str, path: str, body: bytes | None
    ) -> tuple[int, bytes]:
        """(status, body) of one call; where it fails the connection is closed. Raises OSError, HTTPException."""
        try:
            connection.request(verb, path, body, self._headers)
            response = connection.getresponse()
            return response.status, response.read()
        except BaseException:
            connection.close()
            raise
