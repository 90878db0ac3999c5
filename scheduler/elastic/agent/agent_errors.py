"""Exceptions that the agent raises, as a separate tree: it may import no other Gangwright package.

    AgentError
    ├── SettingsError(name, value, remedy)     an environment variable is wrong; the user must fix it
    └── MasterError                            an error in the master's answer, or no answer
        ├── Unreachable                        no answer: refused, reset, TLS, timeout, or no token
        ├── Garbled                            an answer in an unexpected form
        └── Refused(status, reason, message)   the master rejected the request

No text here contains a token; foreign texts are shortened.
"""

# ruff: noqa: N818 - short names, clear where they are caught
from __future__ import annotations

TEXT_LIMIT = 256
"""Maximum characters of a foreign text."""

LATER = frozenset({401, 403, 408, 429, 500, 502, 503, 504})
"""Temporary statuses: a token was rotated, the master has not seen this pod yet, or it is busy."""

WAITING = frozenset({"RoundAhead", "AskedAgain"})
"""Temporary reasons: a restarted master has not read everything yet, or a newer call of the agent replaced this one."""


def shortened(text: str, limit: int = TEXT_LIMIT) -> str:
    """The text on one line, at most `limit` characters."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


class AgentError(Exception):
    """Base class of the agent's exceptions."""


class SettingsError(AgentError):
    """An environment variable is wrong. The text contains its name, its value and the valid values."""

    def __init__(self, name: str, value: str, remedy: str) -> None:
        super().__init__(f"{name} = {shortened(repr(value))}: {remedy}")
        self.name = name


class MasterError(AgentError):
    """The master rejected a request, or did not answer."""


class Unreachable(MasterError):
    """There was no answer."""


class Garbled(MasterError):
    """The answer is malformed."""


class Refused(MasterError):
    """The master rejected the request, with an HTTP status, a reason of its closed list, and a message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {shortened(message)}".rstrip(": "))
        self.status = status
        self.reason = reason

    @property
    def passing(self) -> bool:
        """Whether the same call may succeed in a moment."""
        return self.status in LATER or self.reason in WAITING
