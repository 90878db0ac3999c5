"""Why a worker gets no answer: a closed list of reasons, each with its HTTP status.

Lives here: the reasons and the error that carries one. Never here: who raises it when. A reason is a metric's label and
what the agent decides by; the message is for people, and never logged: it may show what was sent.
"""

import math
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from scheduler.errors import GangwrightError


class Reason(StrEnum):
    """In words of the wire."""

    MALFORMED = "Malformed"
    INVALID = "Invalid"
    PICKLE = "Pickle"
    NO_TOKEN = "NoToken"  # noqa: S105 - a word
    TOKEN_EXPIRED = "TokenExpired"  # noqa: S105 - a word
    TOKEN_FOR_OTHERS = "TokenForOthers"  # noqa: S105 - a word
    TOKEN_REFUSED = "TokenRefused"  # noqa: S105 - a word
    NO_POD = "NoPod"
    NO_WORKER = "NoWorker"
    OTHER_NAMESPACE = "OtherNamespace"
    NO_MEMBER = "NoMember"
    NO_PATH = "NoPath"
    NO_VALUE = "NoValue"
    NO_METHOD = "NoMethod"
    ROUND_AHEAD = "RoundAhead"
    ROUND_OVER = "RoundOver"
    ASKED_AGAIN = "AskedAgain"
    TOO_LARGE = "TooLarge"
    TOO_MANY_VALUES = "TooManyValues"
    NO_ROOM = "NoRoom"
    TOO_MANY_WAITS = "TooManyWaits"
    TOO_OFTEN = "TooOften"
    CROWDED = "Crowded"
    BROKEN = "Broken"
    AWAY = "Away"
    SLOW = "Slow"
    STANDBY = "Standby"


STATUS: Final = MappingProxyType(
    {
        Reason.MALFORMED: 400,
        Reason.INVALID: 400,
        Reason.PICKLE: 400,
        Reason.NO_TOKEN: 401,
        Reason.TOKEN_EXPIRED: 401,
        Reason.TOKEN_FOR_OTHERS: 401,
        Reason.TOKEN_REFUSED: 401,
        Reason.NO_POD: 403,
        Reason.NO_WORKER: 403,
        Reason.OTHER_NAMESPACE: 403,
        Reason.NO_MEMBER: 403,
        Reason.NO_PATH: 404,
        Reason.NO_VALUE: 404,
        Reason.NO_METHOD: 405,
        Reason.ROUND_AHEAD: 409,
        Reason.ROUND_OVER: 409,
        Reason.ASKED_AGAIN: 409,
        Reason.TOO_LARGE: 413,
        Reason.TOO_MANY_VALUES: 429,
        Reason.NO_ROOM: 429,
        Reason.TOO_MANY_WAITS: 429,
        Reason.TOO_OFTEN: 429,
        Reason.CROWDED: 429,
        Reason.BROKEN: 500,
        Reason.AWAY: 503,
        Reason.SLOW: 503,
        Reason.STANDBY: 503,
    }
)

ORDINARY: Final = frozenset({Reason.NO_VALUE, Reason.ASKED_AGAIN})
"""Answers of everyday life: they are neither counted among the refusals nor logged."""

PAUSE: Final = 1.0
"""Seconds after which to ask again, where the reason passes by itself."""


class Refused(GangwrightError):  # noqa: N818 - said so in HTTP too
    """No answer. The message says what would be right; it goes to whoever asked. A desk may raise it too.

    after: seconds after which it makes sense to ask again, None where it does not.
    """

    def __init__(self, reason: Reason, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.status: int = STATUS[reason]
        self.after = after if after is not None or self.status not in {429, 503} else PAUSE

    @property
    def headers(self) -> dict[str, str]:
        """What HTTP wants beside the status."""
        found = {"WWW-Authenticate": 'Bearer realm="gangwright"'} if self.status == 401 else {}
        return found | ({"Retry-After": str(max(1, math.ceil(self.after)))} if self.after is not None else {})
