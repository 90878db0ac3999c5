"""Times in the format of Kubernetes, RFC 3339, and in seconds since the epoch, which Gangwright uses.

Lives here: the conversion in both directions. Never here: a clock.
"""

from datetime import UTC, datetime
from typing import Literal


def rfc3339(at: float, digits: Literal["seconds", "milliseconds", "microseconds"] = "seconds") -> str:
    """A Kubernetes Time in UTC. With microseconds, a MicroTime."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec=digits).replace("+00:00", "Z")


def seconds(text: str) -> float:
    """Seconds since the epoch. A time without a zone is in UTC. Raises ValueError."""
    # Some numbers of seconds would be read as dates.
    found = datetime.fromisoformat("" if text.isdigit() else text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def known(text: str | None) -> float | None:
    """The same for a timestamp of the API. None: it is missing or invalid."""
    try:
        return seconds(text) if text else None
    except ValueError:
        return None
