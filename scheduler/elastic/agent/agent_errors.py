"""What the agent raises on purpose, as one small tree of its own: it may import nothing of ours from outside.

    AgentError
    ├── SettingsError(name, value, remedy)     an environment variable is wrong; a person must act
    └── MasterError                            the master's answer, or the lack of one
        ├── Unreachable                        no answer: refused, reset, TLS, time over, or no token to ask with
        ├── Garbled                            an answer that is not what the master's calls say it is
        └── Refused(status, reason, message)   the master understood, and said no

No text here ever holds a token; texts of others are cut.
"""

# ruff: noqa: N818 - short names, read as such where they are caught
from __future__ import annotations

TEXT_LIMIT = 256
"""Characters kept of a text that somebody else wrote."""

LATER = frozenset({401, 403, 408, 429, 500, 502, 503, 504})
"""Answers that may be others in a moment: a token that was rotated, a master that has not seen this pod yet, or is
busy.
"""

WAITING = frozenset({"RoundAhead", "AskedAgain"})
"""Reasons that pass by themselves: a master that restarted has not read so far yet; a call of ours overtook this
one.
"""


def shortened(text: str, limit: int = TEXT_LIMIT) -> str:
    """The text on one line, at most `limit` characters."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


class AgentError(Exception):
    """The root of the tree."""


class SettingsError(AgentError):
    """An environment variable is wrong; the text says which, what it was, and what would be right."""

    def __init__(self, name: str, value: str, remedy: str) -> None:
        super().__init__(f"{name} = {shortened(repr(value))}: {remedy}")
        self.name = name


class MasterError(AgentError):
    """The master said no, or said nothing."""


class Unreachable(MasterError):
    """There was no answer."""


class Garbled(MasterError):
    """The answer makes no sense."""


class Refused(MasterError):
    """The master said no: with an HTTP status, a word of its closed list, and a sentence."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {shortened(message)}".rstrip(": "))
        self.status = status
        self.reason = reason

    @property
    def passing(self) -> bool:
        """Whether the same call may be answered otherwise in a moment."""
        return self.status in LATER or self.reason in WAITING
