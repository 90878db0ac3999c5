"""What workers send, decoded; what they are answered; and the closed list of refusals.

Lives here: the answers as frozen structs, the text that says what is wrong with a body, and each reason with its HTTP
status. Never here: the fields of what workers send, which are events of the reconciler (`job_events`), or what follows
from them. Fields that are not declared are ignored, so an agent may be newer than its master. A reason is a metric's
label, and the agent decides by it. The message is for people, and never logged: it may show what was sent.
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
    """round: the newest that is announced. abort: why the child is to be killed. interval: seconds to the next beat.
    broken: a round of which a member has ended before all had met, so that none can meet in it; left out: none.
    place: what its first round will be; left out: not known yet, or it is in one.
    """

    round: int
    abort: str | None
    interval: float
    broken: int = 0
    place: Place | None = None


class Announced(Struct, frozen=True):
    """The newest round that is announced."""

    round: int


class Values(Struct, frozen=True):
    """Values of one scope by key, in base64."""

    values: dict[str, bytes]


class ExitAnswer(Struct, frozen=True):
    """Whether the child is to be started again."""

    restart: bool


class Failure(Struct, frozen=True):
    """What stands where an answer would."""

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
"""Fields without which a body says nothing; every other has its default."""
encode: Final = msgspec.json.Encoder().encode

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "phase": tuple(WorkerPhase),
    "child": get_args(Child),
    "why": get_args(Why),
}
_AT: Final = re.compile(r"(?P<wrong>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")


def decoded(kind: type[S], uid: Uid, body: bytes) -> S:
    """The body as this kind of event of the worker `uid`, whatever uid the body has. Raises Refused, whose text names
    field, value and what would be right.
    """
    try:
        found: S = DECODERS[kind].decode(body)
        missing = NEEDED[kind] - msgspec.json.decode(body, type=dict[str, msgspec.Raw]).keys()
    except msgspec.ValidationError as error:
        raise Refused(Reason.INVALID, _explained(str(error), body)) from None
    except RecursionError:
        raise Refused(Reason.MALFORMED, "the body is nested too deeply") from None
    except ValueError as error:  # broken JSON, and bytes that are not UTF-8
        raise Refused(Reason.MALFORMED, f"the body is no JSON: {shortened(str(error))}") from None
    if missing:
        raise Refused(Reason.INVALID, f"{min(missing)} = none: is needed")
    return replace(found, uid=uid)


def _explained(wrong: str, body: bytes) -> str:
    """The decoder's text as one that begins with the field and the value that it speaks of."""
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
    """What stands there in the body, as far as the path leads and the body can be read."""
    found: Any = ...
    with suppress(ValueError, RecursionError, KeyError, IndexError, TypeError):
        found = json.loads(
            body
        )  # the decoder that refused the body refuses a number that is too large here, too
        for step in _STEP.finditer(path):
            found = found[step[1] or int(step[2])]
    return "…" if found is ... else repr(found)


class Reason(StrEnum):
    """In words of the wire, each with its HTTP status."""

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
"""Answers of everyday life: they are neither counted among the refusals nor logged."""

PAUSE: Final = 1.0
"""Seconds after which to ask again, where the reason passes by itself."""


class Refused(GangwrightError):  # noqa: N818 - said so in HTTP too
    """No answer. The message says what would be right; it goes to whoever asked. The master may raise it too.

    after: seconds after which it makes sense to ask again, None where it does not.
    """

    def __init__(self, reason: Reason, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = reason.status
        self.after = after if after is not None or self.status not in {429, 503} else PAUSE

    @property
    def headers(self) -> dict[str, str]:
        """What HTTP wants beside the status."""
        found = {"WWW-Authenticate": 'Bearer realm="gangwright"'} if self.status == 401 else {}
        return found | ({"Retry-After": str(max(1, math.ceil(self.after)))} if self.after is not None else {})
