"""Client of the agent, over HTTP on loopback: the child's requests, reports and waits.

Every wait is in Python, where its duration does not matter. Horovod's C++ is entered only when a round is complete,
because any failure in there ends the process. The agent calls the master and may have to wait for its restart. So a
request with an unexpected answer is repeated, with growing pauses.
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
"""Seconds between two tries: short at first, because most pauses are a reconnect, and never noticeably long."""

LONG_POLL = 45.0
"""Maximum seconds of a long poll: the master answers within 30, the rest is for transport."""

OVER = 410
"""The agent's status if a retry cannot help: the master has rejected this value permanently."""

BRIEF = 2.0
"""Seconds for a report."""


class Shim:
    """Calls to the agent at `url` (`http://127.0.0.1:PORT`), each with the child's `key`. Thread-safe."""

    def __init__(self, url: str, key: str) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 80
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._kept: list[http.client.HTTPConnection] = []

    def ready(self, body: Mapping[str, Any]) -> round_assignment.Assignment:
        """Waits at the barrier until there is an assignment. Raises AnswerError if it is invalid."""
        return round_assignment.decode(self._answer("POST", "/ready", json.dumps(body).encode()))

    def place(self) -> round_assignment.Place:
        """The place of this process in its first round, as soon as the agent knows it. Raises AnswerError."""
        return round_assignment.decode_place(self._answer("GET", "/place", None))

    def _answer(self, verb: str, path: str, body: bytes | None) -> bytes:
        """The agent's answer, as soon as it has one. Raises AnswerError if it rejects the request."""
        pause = FIRST_PAUSE
        while True:
            status, answer = self._try(verb, path, body, LONG_POLL)
            if status == 200:
                return answer
            if status == 400:
                raise AnswerError(f"the agent rejected {body!r}: {answer[:200].decode(errors='replace')}")
            if status == 204:
                pause = FIRST_PAUSE
            else:
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def announced(self, round_: int) -> int:
        """The newest announced round, as soon as it is greater than `round_`, or after a bounded wait."""
        status, answer = self._try("GET", f"/announced?round={round_}", None, LONG_POLL)
        if status == 200:
            try:
                return int(json.loads(answer)["round"])
            except (ValueError, KeyError, TypeError):
                pass
        time.sleep(FIRST_PAUSE * 4)
        return round_

    def tell(self, path: str, body: Mapping[str, Any]) -> bool:
        """Sends a report that needs no answer; False if it did not arrive.

        It uses a kept connection, because reports are frequent and a new connection costs the agent a thread. If the
        kept one was closed meanwhile, a new one is opened.
        """
        told = json.dumps(body).encode()
        with contextlib.suppress(OSError, http.client.HTTPException):
            with contextlib.suppress(IndexError, ConnectionError, http.client.BadStatusLine):
                return self._told(self._kept.pop(), path, told)
            return self._told(self._open(BRIEF), path, told)
        return False

    def put(self, scope: str, key: str, value: Mapping[str, Any]) -> bool:
        """Writes one value of the current round; False if it did not arrive. Raises RoundOver."""
        status, _ = self._value("PUT", scope, key, json.dumps(value).encode())
        return status in (200, 201, 204)

    def get(self, scope: str, key: str) -> dict[str, Any] | None:
        """One value of the current round; None if it does not exist yet (the agent itself waits a while). Raises
        RoundOver.
        """
        status, answer = self._value("GET", scope, key, None)
        try:
            value = json.loads(answer) if status == 200 else None
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def close(self) -> None:
        """Closes the kept connections. Later reports open new ones."""
        with contextlib.suppress(IndexError):
            while True:
                self._kept.pop().close()

    def _value(self, verb: str, scope: str, key: str, body: bytes | None) -> tuple[int, bytes]:
        status, answer = self._try(verb, f"/{scope}/{key}", body, LONG_POLL)
        if status == OVER:
            raise RoundOver(answer[:200].decode(errors="replace"))
        return status, answer

    def _told(self, connection: http.client.HTTPConnection, path: str, body: bytes) -> bool:
        """Whether the report arrived; keeps the connection for the next one. Raises OSError, HTTPException."""
        status, _ = self._exchange(connection, "POST", path, body)
        self._kept.append(connection)
        return status in (200, 204)

    def _open(self, patience: float) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._host, self._port, timeout=patience)

    def _try(self, verb: str, path: str, body: bytes | None, patience: float) -> tuple[int, bytes]:
        """(status, body) of one call; status 0 if there was no answer."""
        connection = self._open(patience)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            return self._exchange(connection, verb, path, body)
        return 0, b""

    def _exchange(
        self, connection: http.client.HTTPConnection, verb: str, path: str, body: bytes | None
    ) -> tuple[int, bytes]:
        """(status, body) of one call; closes the connection on failure. Raises OSError, HTTPException."""
        try:
            connection.request(verb, path, body, self._headers)
            response = connection.getresponse()
            return response.status, response.read()
        except BaseException:
            connection.close()
            raise
