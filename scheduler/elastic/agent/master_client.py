"""The master's calls, one method each: request, answer and time limit.

Lives here: paths, bodies and the token. Never here: retries, see `retry`; every method is one try and raises a
MasterError. The token is read again for every call, because the kubelet renews it, and it is never logged.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from typing import Any, Mapping, NamedTuple
from urllib.parse import quote

from .agent_errors import Garbled, Refused, Unreachable
from .http_client import Connections, Reply

CALL = 5.0
"""Seconds for a call that is answered immediately."""

BEAT = 1.5
"""Seconds for a beat in total. An unanswered beat leaves time for two more before the master considers the worker lost.
Therefore `rendezvous.silentAfter` is at least 5 seconds.
"""

READY_WAIT = 30.0
"""Seconds that the master holds a worker at the barrier before it answers that there is no assignment yet."""

SPARE = 5.0
"""Seconds in addition to a wait of the master, before the call times out."""

NUMBER_LIMIT = 1 << 53
"""Greater than any round, and still exact as a JSON number."""

BESIDE = 64
"""Maximum number of additional values in an answer: all of a ring of this size, and a part of a larger one."""

TOKEN_LIMIT = 16384
"""Maximum bytes; a service-account token has about a thousand."""

JSON = "application/json"


class Answer(NamedTuple):
    """The answer to a beat."""

    round: int
    abort: str | None
    interval: float
    broken: int = 0
    """A round that cannot complete, because a member ended before all had met; 0: none."""
    place: Mapping[str, Any] | None = None
    """The worker's first round; None: unknown, or it is over."""


class Master:
    """Client of the master."""

    def __init__(self, connections: Connections, token_file: str) -> None:
        self._connections = connections
        self._token_file = token_file

    def beat(self, report: Mapping[str, Any]) -> Answer:
        """Report progress. The answer contains the newest round, and whether the child is to be killed."""
        told = self._json("POST", "/v1/beat", report, BEAT)
        abort = told.get("abort")
        if not (abort is None or isinstance(abort, str)):
            raise Garbled(f"beat: abort is {type(abort).__name__}")
        broken = _whole({"broken": 0, **told}, "broken")
        place = told.get("place")
        if not (place is None or isinstance(place, dict)):
            raise Garbled(f"beat: place is {type(place).__name__}")
        return Answer(_whole(told, "round"), abort, _interval(told.get("interval")), broken, place)

    def ready(self, arrival: Mapping[str, Any]) -> dict[str, Any] | None:
        """Wait at the barrier; the assignment, or None if there is none yet. Takes up to READY_WAIT."""
        reply = self._call("POST", "/v1/ready", _packed(arrival), READY_WAIT + SPARE)
        return None if reply.status == 204 else _unpacked(reply)

    def announced(self, after: int, wait: float) -> int:
        """The newest round, as soon as it is greater than `after`, or after `wait` seconds."""
        path = f"/v1/announced?round={after}&wait={wait:g}"
        return _whole(_unpacked(self._call("GET", path, b"", wait + SPARE)), "round")

    def put(self, number: int, scope: str, key: str, value: bytes) -> None:
        """Publish a value for the members of a round."""
        self._call("PUT", _place(number, scope, key), value, CALL)

    def get(self, number: int, scope: str, key: str, wait: float) -> Mapping[str, bytes] | None:
        """A value that a member of the round published, as soon as it exists; None after `wait` seconds.

        The answer also contains the existing values of the following members in this scope, because a child reads one
        after the other.
        """
        path = f"{_place(number, scope, key)}?wait={wait:g}&beside={BESIDE}"
        try:
            return _values(self._call("GET", path, b"", wait + SPARE), key)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def leave(self, why: str, grace: float) -> None:
        """Report that this worker must leave, and within how many seconds."""
        self._json("POST", "/v1/leave", {"why": why, "grace_s": grace})

    def exit(self, report: Mapping[str, Any]) -> bool:
        """Report how the child ended; whether it is to be restarted."""
        return self._json("POST", "/v1/exit", report).get("restart") is True

    def _json(self, method: str, path: str, body: Mapping[str, Any], limit: float = CALL) -> dict[str, Any]:
        return _unpacked(self._call(method, path, _packed(body), limit))

    def _call(self, method: str, path: str, body: bytes, limit: float) -> Reply:
        headers = {"Authorization": f"Bearer {self._token()}", "Content-Type": _kind(path)}
        reply = self._connections.call(method, path, headers, body, limit)
        if reply.status not in {200, 204}:
            raise _refusal(reply)
        return reply

    def _token(self) -> str:
        try:
            with open(self._token_file, "rb", opener=_without_blocking) as file:
                text = file.read(TOKEN_LIMIT).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unreachable(f"cannot read the token: {type(error).__name__}: {self._token_file}") from None
        if not text or not text.isprintable() or " " in text:
            raise Unreachable(f"cannot read the token: {self._token_file} contains none")
        return text


def _without_blocking(path: str, flags: int) -> int:
    """Opens the file; a pipe or device in place of the token must not block the agent."""
    place = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(place).st_mode):
        os.close(place)
        raise OSError(f"{path} is not a file")
    return place


def _kind(path: str) -> str:
    return "application/octet-stream" if "/kv/" in path else JSON


def _place(number: int, scope: str, key: str) -> str:
    return f"/v1/rounds/{number}/kv/{quote(scope, safe='')}/{quote(key, safe='')}"


def _packed(body: Mapping[str, Any]) -> bytes:
    """JSON in UTF-8. A character that UTF-8 cannot encode, for example from a file name, becomes a question mark. If it
    were escaped, the master would reject the whole body.
    """
    return json.dumps(body, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace")


def _unpacked(reply: Reply) -> dict[str, Any]:
    try:
        told = json.loads(reply.body or b"{}")
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise Garbled("the master's answer is not a JSON object")
    return told


def _values(reply: Reply, key: str) -> Mapping[str, bytes]:
    """Values by key. An older master answers with the bare value."""
    if reply.kind != JSON:
        return {key: reply.body}
    told = _unpacked(reply).get("values")
    try:
        found = {name: base64.b64decode(value, validate=True) for name, value in told.items()}  # type: ignore[union-attr]
    except (AttributeError, ValueError, TypeError):
        found = {}
    if key not in found:
        raise Garbled("the master's answer is malformed, or the requested value is missing")
    return found


def _refusal(reply: Reply) -> Refused:
    try:
        told = _unpacked(reply).get("error")
    except Garbled:
        told = None
    words = told if isinstance(told, dict) else {}
    return Refused(reply.status, str(words.get("reason", "")), str(words.get("message", "")))


def _whole(told: Mapping[str, Any], name: str) -> int:
    value = told.get(name)
    if type(value) is not int or not 0 <= value < NUMBER_LIMIT:
        raise Garbled(f"{name} in the master's answer is not a valid number")
    return value


def _interval(value: Any) -> float:
    """Seconds to the next beat, from 0.1 to 10; 1 if the answer has no number."""
    known = type(value) in {int, float} and value == value  # noqa: PLR0124 - json takes NaN for a number
    return float(min(max(value, 0.1), 10.0)) if known else 1.0
