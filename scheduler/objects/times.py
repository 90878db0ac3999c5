"""Times as Kubernetes spells them, RFC 3339, and as they are counted here: seconds since the epoch.

Lives here: both ways between the two. Never here: a clock.
"""

from datetime import UTC, datetime
from typing import Literal


def rfc3339(at: float, digits: Literal["seconds", "milliseconds", "microseconds"] = "seconds") -> str:
    """A Time of Kubernetes, in UTC; with microseconds its MicroTime."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec=digits).replace("+00:00", "Z")


def seconds(text: str) -> float:
    """Seconds since the epoch; a time without a zone is in UTC. Raises ValueError."""
    # Some counts of seconds would be read as dates.
    found = datetime.fromisoformat("" if text.isdigit() else text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def known(text: str | None) -> float | None:
    """The same of a timestamp of the API; None where there is none, or none that can be read."""
    try:
        return seconds(text) if text else None
    except ValueError:
        return None
