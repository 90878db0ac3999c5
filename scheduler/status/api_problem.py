"""Why a person gets no answer: one error that knows its HTTP status.

Lives here: the error and the texts that are constant. Never here: who raises it when.
"""

import math
from collections.abc import Mapping
from typing import Final

from scheduler.errors import GangwrightError

AWAY: Final = "the API server cannot be asked who may do this; try again in a moment"
READING: Final = "gangwright is still reading the cluster; try again in a moment"
SLOW: Final = "gangwright could not answer in time; try again in a moment"
NOT_ACTING: Final = "this replica looks on while another one acts; ask that one"


class Problem(GangwrightError):  # noqa: N818 - said so in HTTP too
    """No answer. The text is a sentence that says what would be right; it goes to whoever asked."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = dict(headers or {})


def unknown(text: str) -> Problem:
    """Nobody whom we know."""
    return Problem(401, text, {"WWW-Authenticate": 'Bearer realm="gangwright"'})


def too_often(seconds: float, text: str = "too many requests from here") -> Problem:
    """Not now, and in how many seconds."""
    return Problem(429, text, {"Retry-After": str(max(1, math.ceil(seconds)))})


def away() -> Problem:
    """Nobody can say whether he may."""
    return Problem(503, AWAY, {"Retry-After": "2"})


def reading() -> Problem:
    """Not yet: it began a moment ago."""
    return Problem(503, READING, {"Retry-After": "2"})
