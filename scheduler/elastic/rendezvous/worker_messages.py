"""Requests of workers, decoded; the answers; and the closed list of reasons for a rejection.

Lives here: the answers as frozen structs, the error text for an invalid body, and each reason with its HTTP status.
Never here: the fields of requests, which are events of the reconciler (`job_events`), or their consequences. Undeclared
fields are ignored, so an agent may be newer than its master. A reason is a metric label, and the agent decides by it.
The message is for users and never logged, because it may contain what the worker sent.
"""

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final, Self, TypeVar, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from scheduler.elastic.job.status import WorkerPhase
from scheduler.elastic.reconciler.job_effects import Place
from scheduler.elastic.reconciler.job_events import Arrived, Beat, Child, Exited, Leaving, Uid, Why
from scheduler.errors import GangwrightError, shortened


class BeatAnswer(Struct, frozen=True, omit_defaults=True):
    """round: the newest announced round. abort: why the child is to be killed. interval: seconds to the next beat.
    broken: a round that cannot complete, because a member ended before all had met; omitted: none. place: the worker's
    first round; omitted: not known yet, or the worker is in one.
    """

    round: int
    abort: str | None
    interval: float
    broken: int = 0
    place: Place | None = None


class Announced(Struct, frozen=True):
    """The newest announced round."""

    round: int


class Values(Struct, frozen=True):
    """Values of one scope by key, in base64."""

    values: dict[str, bytes]


class ExitAnswer(Struct, frozen=True):
    """Whether the child is to be restarted."""

    restart: bool


class Failure(Struct, frozen=True):
    """The error that replaces an answer."""

    reason: str
    message: str


S = TypeVar("S", Beat, Arrived, Leaving, Exited)
DECODERS: Final[Mapping[type, Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (Beat, Arrived, Leaving, Exited)
}
NEEDED: Final[Mapping[type, frozenset[str]]] = {
    Beat: frozenset({"phase", "round"}),
    Arrived: frozenset({"round", "why"}),
    Leaving: frozenset({"why", "grace_s"}),
    Exited: frozenset({"why"}),
}
"""Required fields of a body; every other field has a default."""
encode: Final = msgspec.json.Encoder().encode

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "phase": tuple(WorkerPhase),
    "child": get_args(Child),
    "why": get_args(Why),
}
_AT: Final = re.compile(r"(?P<wrong>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")


def decoded(kind: type[S], uid: Uid, body: bytes) -> S:
    """The body as this kind of event of the worker `uid`; a uid in the body is ignored. Raises Refused, whose text
    names the field, its value and the valid values.
    """
    try:
        found: S = DECODERS[kind].decode(body)
        missing = NEEDED[kind] - msgspec.json.decode(body, type=dict[str, msgspec.Raw]).keys()
    except msgspec.ValidationError as error:
        raise Refused(Reason.INVALID, _explained(str(error), body)) from None
    except RecursionError:
        raise Refused(Reason.MALFORMED, "the body is nested too deeply") from None
    except ValueError as error:  # broken JSON, and bytes that are not UTF-8
        raise Refused(Reason.MALFORMED, f"the body is not valid JSON: {shortened(str(error))}") from None
    if missing:
        raise Refused(Reason.INVALID, f"{min(missing)} = none: is required")
    return replace(found, uid=uid)


def _explained(wrong: str, body: bytes) -> str:
    """The decoder's text, with the field and its value at the beginning."""
    said = _AT.fullmatch(wrong)
    path = (said and said["path"]) or ""
    text = said["wrong"] if said else wrong
    name = path.removeprefix(".")
    if not name:
        return f"the body: {shortened(text)}"
    choices = CHOICES.get(name) if text.startswith("Invalid enum") else None
    remedy = f"must be one of {', '.join(choices)}" if choices else text
    return f"{shortened(name, 64)} = {shortened(_value(body, path), 96)}: {shortened(remedy)}"


def _value(body: bytes, path: str) -> str:
    """The value at this path of the body, as far as the body can be read."""
    found: Any = ...
    with suppress(ValueError, RecursionError, KeyError, IndexError, TypeError):
        found = json.loads(body)  # this decoder rejects too large numbers, too
        for step in _STEP.finditer(path):
            found = found[step[1] or int(step[2])]
    return "…" if found is ... else repr(found)


class Reason(StrEnum):
    """Wire values, each with its HTTP status."""

    status: int

    def __new__(cls, text: str, status: int) -> Self:
        reason = str.__new__(cls, text)
        reason._value_, reason.status = text, status
        return reason

    MALFORMED = "Malformed", 400
    INVALID = "Invalid", 400
    PICKLE = "Pickle", 400
    NO_TOKEN = "NoToken", 401
    TOKEN_EXPIRED = "TokenExpired", 401
    TOKEN_FOR_OTHERS = "TokenForOthers", 401
    TOKEN_REFUSED = "TokenRefused", 401
    NO_POD = "NoPod", 403
    NO_WORKER = "NoWorker", 403
    OTHER_NAMESPACE = "OtherNamespace", 403
    NO_MEMBER = "NoMember", 403
    NO_PATH = "NoPath", 404
    NO_VALUE = "NoValue", 404
    NO_METHOD = "NoMethod", 405
    ROUND_AHEAD = "RoundAhead", 409
    ROUND_OVER = "RoundOver", 409
    ASKED_AGAIN = "AskedAgain", 409
    TOO_LARGE = "TooLarge", 413
    TOO_MANY_VALUES = "TooManyValues", 429
    NO_ROOM = "NoRoom", 429
    TOO_MANY_WAITS = "TooManyWaits", 429
    TOO_OFTEN = "TooOften", 429
    CROWDED = "Crowded", 429
    BROKEN = "Broken", 500
    AWAY = "Away", 503
    SLOW = "Slow", 503
    STANDBY = "Standby", 503


ORDINARY: Final = frozenset({Reason.NO_VALUE, Reason.ASKED_AGAIN})
"""Expected answers, which are neither counted as rejections nor logged."""

PAUSE: Final = 1.0
"""Seconds until the next try, if the reason is temporary."""


class Refused(GangwrightError):  # noqa: N818 - a rejection, not an exception of the program
    """The request is rejected. The message goes to the worker and says how to fix the request. The master may raise it
    too.

    after: seconds after which a retry makes sense, None if it does not.
    """

    def __init__(self, reason: Reason, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = reason.status
        self.after = after if after is not None or self.status not in {429, 503} else PAUSE

    @property
    def headers(self) -> dict[str, str]:
        """Response headers that the status requires."""
        found = {"WWW-Authenticate": 'Bearer realm="gangwright"'} if self.status == 401 else {}
        return found | ({"Retry-After": str(max(1, math.ceil(self.after)))} if self.after is not None else {})
