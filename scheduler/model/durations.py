"""Durations as users write them, and the intervals of a backoff.

Lives here: conversion between text and seconds in Go's format, without its sign and its units below a millisecond;
doubling.
Never here: which durations a setting, an annotation or a job accepts, or what backs off.
"""

import re
from decimal import Decimal
from typing import Final

LONGEST: Final = 64
"""Maximum characters of a duration text, as for a quantity."""

DOUBLINGS: Final = 64
"""Any limit is reached long before this, and a larger power would overflow a float."""

_SECONDS: Final = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:h|ms|m|s))+")
_PART: Final = re.compile(r"([0-9.]+)(h|ms|m|s)")


def seconds(text: str) -> float | None:
    """The seconds of a duration, for example 500ms, 30s or 1h30m. None for invalid text."""
    if len(text) > LONGEST or not _DURATION.fullmatch(text):
        return None
    return float(sum(Decimal(number) * _SECONDS[unit] for number, unit in _PART.findall(text)))


def written(span: float) -> str:
    """Seconds as users write them: 45s, 1h30m."""
    hours, rest = divmod(span, 3600)
    minutes, rest = divmod(rest, 60)
    return "".join(f"{part:g}{unit}" for part, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if part)


def doubled(first: float, times: int, longest: float) -> float:
    """`first` seconds, doubled `times` times, at most `longest`."""
    return min(first * 2.0 ** min(times, DOUBLINGS), longest)
