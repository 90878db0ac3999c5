"""How far the log of one member was read, so that a stream that is opened anew goes on from there.

Lives here: the time that kubelet puts before each line, and which lines were shown. Never here: a request. The API
server hands on whole seconds of `sinceTime`, so the lines of the last second come again, and are left out.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

Moment: TypeAlias = tuple[datetime, str]
"""A time in whole seconds, and the digits behind them: nanoseconds, of which a datetime would drop the last."""

STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d) ")


@dataclass(slots=True)
class Place:
    """In one log. Times without a date are seconds of the event loop's clock."""

    waits: bool = False
    """Its stream has ended, and may be opened anew."""
    broken: bool = False
    """It did so before its end."""
    opened: float | None = None
    """When it was opened first; None: it never was."""
    last: Moment | None = None
    """The latest time of a line that was shown."""
    shown: int = 0
    """Lines of that time that were."""
    left: int | None = None
    """Of these, those that are still to come again; None: what comes is new."""
    again: bool = False
    """The last line had been shown before."""

    def begin(self, now: float) -> None:
        """The stream was opened."""
        self.opened = now if self.opened is None else self.opened
        self.left, self.again = (None if self.last is None else self.shown), False

    def further(self, now: float) -> dict[str, str]:
        """What to ask for, so that what was shown does not come again; nothing before it was opened."""
        if self.last is not None:
            return {"sinceTime": self.last[0].astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        return {} if self.opened is None else {"sinceSeconds": str(max(1, round(now - self.opened)))}

    def take(self, line: str) -> str | None:
        """What the line says; None where it was shown before. What has no time goes with the line before it: it is the
        rest of one that was cut, or a word of kubelet's own.
        """
        moment, text = stamped(line)
        if moment is not None:
            self.again = self._came_before(moment)
            if not self.again:
                self._note(moment)
        return None if self.again else text

    def _came_before(self, moment: Moment) -> bool:
        if self.left is None or self.last is None or moment > self.last:
            self.left = None
            return False
        if moment < self.last:
            return True
        self.left -= 1
        return self.left >= 0

    def _note(self, moment: Moment) -> None:
        if self.last is None or moment > self.last:
            self.last, self.shown = moment, 0
        self.shown += moment == self.last


def stamped(line: str) -> tuple[Moment | None, str]:
    """When a line was written, and what."""
    found = STAMP.match(line)
    if found is None:
        return None, line
    seconds, digits, zone = found.groups()
    try:
        moment = datetime.fromisoformat(f"{seconds}{zone}")
    except ValueError:
        return None, line
    return (moment, (digits or "").ljust(9, "0")), line[found.end() :]
