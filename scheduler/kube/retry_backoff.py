"""When to ask the API server again after a stream or a call ended.

Lives here: the table of causes and the computation of waits. Never here: the waiting. There are two ceilings. Transient
causes (an outage, a busy server) are retried within 9 s: the twelve kinds and the read of the Lease together send about
two requests per second. Causes that only a user can fix (a missing right, an unknown kind) are retried within 30 s. A
wait for an API server that was down ends when it answers any call: one read of the Lease every few seconds detects that
for all kinds.

An end that is cheap to repair (the server closed the stream, the version expired) is retried at once the first time. It
waits only if it repeats without progress. Every cause is counted separately. An API server that comes back has lost the
watch's version, and rejects all calls until it has read its roles. One wait for both would last half a minute.
"""

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from scheduler import errors
from scheduler.model.durations import doubled

BRIEF = 2.0
SOON = 9.0
LATE = 30.0
STEADY = 10.0
"""Seconds after which an open stream counts as progress, even without events, unless it ended by silence."""


class Rule(NamedTuple):
    """How to handle an end."""

    cause: str
    ceiling: float = SOON
    """Longest wait in seconds."""
    at_once: bool = False
    """Retry without a wait the first time."""
    relist_after: int = 0
    """List again after this many ends in a row without progress; 0 = never, continue from the last version."""
    until_back: bool = False
    """The wait ends when the API server answers any call after an outage (`Client.back`)."""


CLOSED = Rule("closed", at_once=True)
"""The server ended the stream, or the connection broke. Busy API servers close slow readers without any error."""

RULES: Mapping[type[errors.KubeError], Rule] = {
    errors.KubeError: Rule("refused", LATE),
    errors.Unreachable: Rule("unreachable", until_back=True),
    # Silent twice from one version: it may be in the future of a restored etcd. The silence was a long enough wait.
    errors.Silent: Rule("silent", BRIEF, at_once=True, relist_after=2),
    # One deaf stream is a network fault, and another from the same version helps. If each is deaf, lists remain.
    errors.Deaf: Rule("deaf", LATE, at_once=True, relist_after=3),
    errors.Gone: Rule("expired", LATE, at_once=True, relist_after=1),
    errors.Garbled: Rule("garbled", LATE, at_once=True, relist_after=1),
    # For a version that it cannot read or serve, the API server answers with a bad request or a server error.
    errors.Invalid: Rule("invalid", LATE, relist_after=1),
    errors.ServerError: Rule("server-error", relist_after=3, until_back=True),
    errors.TooManyRequests: Rule("throttled"),
}


CAUSES = tuple(dict.fromkeys(rule.cause for rule in (CLOSED, *RULES.values())))
"""The causes for which a stream or a call ends."""


def rule_of(error: errors.KubeError | None) -> Rule:
    """The rule of the nearest class in the tree. None stands for the end of a stream."""
    return CLOSED if error is None else next(RULES[kind] for kind in type(error).__mro__ if kind in RULES)


class BackOff:
    """Waits that double per cause, from 2 s up to a ceiling, each drawn from the upper quarter of its range."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._met: Counter[str] = Counter()
        self._waits: Counter[str] = Counter()
        self.ends = 0
        """Ends in a row without progress."""

    def progress(self) -> None:
        """Record progress: the next wait starts from the beginning."""
        self._met.clear()
        self._waits.clear()
        self.ends = 0

    def delay(self, rule: Rule, retry_after: float | None = None) -> float:
        """Seconds to wait after one more end: 0, or between 1 and the rule's ceiling.

        The server's Retry-After applies if it is longer, up to the ceiling `LATE`, plus at most a fifth, so that
        callers that were rejected together do not return together.
        """
        self.ends += 1
        self._met[rule.cause] += 1
        if rule.at_once and self._met[rule.cause] == 1 and not retry_after:
            return 0.0
        high = doubled(BRIEF, self._waits[rule.cause], rule.ceiling)
        self._waits[rule.cause] += 1
        wish = min(retry_after or 0.0, LATE) * self._chance.uniform(1.0, 1.2)
        return max(self._chance.uniform(0.75 * high, high), wish)
