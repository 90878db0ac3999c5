"""Durations: as users write them, and the pauses of a back-off.

Lives here: from a text to seconds and back, in Go's form without its sign and its units below a millisecond; and the
doubling.
Never here: which durations a setting, an annotation or a job takes, or what backs off.
"""

import re
from decimal import Decimal
from typing import Final

LONGEST: Final = 64
"""Characters of a text that is read at all, as of a quantity."""

DOUBLINGS: Final = 64
"""Above so many any limit has long been reached, and the power would leave the range of a float."""

_SECONDS: Final = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:h|ms|m|s))+")
_PART: Final = re.compile(r"([0-9.]+)(h|ms|m|s)")


def seconds(text: str) -> float | None:
    """The seconds of a duration such as 500ms, 30s or 1h30m; None for a text that is none."""
    if len(text) > LONGEST or not _DURATION.fullmatch(text):
        return None
    return float(sum(Decimal(number) * _SECONDS[unit] for number, unit in _PART.findall(text)))


def written(span: float) -> str:
    """So many seconds as users write them: 45s, 1h30m."""
    hours, rest = divmod(span, 3600)
    minutes, rest = divmod(rest, 60)
    return "".join(f"{part:g}{unit}" for part, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if part)


def doubled(first: float, times: int, longest: float) -> float:
    """`first` seconds, twice as long each time, and never above `longest`."""
    return min(first * 2.0 ** min(times, DOUBLINGS), longest)
