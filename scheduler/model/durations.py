"""Durations as people write them: Go's form, without its sign and its units below a millisecond.

Lives here: from a text to seconds. Never here: which durations a setting, an annotation or a job takes.
"""

import re
from decimal import Decimal
from typing import Final

LONGEST: Final = 64
"""Characters of a text that is read at all, as of a quantity."""

_SECONDS: Final = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:h|ms|m|s))+")
_PART: Final = re.compile(r"([0-9.]+)(h|ms|m|s)")


def seconds(text: str) -> float | None:
    """The seconds of a duration such as 500ms, 30s or 1h30m; None for a text that is none."""
    if len(text) > LONGEST or not _DURATION.fullmatch(text):
        return None
    return float(sum(Decimal(number) * _SECONDS[unit] for number, unit in _PART.findall(text)))
