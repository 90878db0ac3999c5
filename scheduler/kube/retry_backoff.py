"""When to ask the API server again after a stream or a call ended.

Lives here: the table of causes and the arithmetic of waiting. Never here: the waiting. There are two ceilings. What
passes by itself (an outage, a busy server) is tried again within 9 s: the twelve kinds and the look at the Lease ask
about twice a second together. What only a person can mend (a missing right, an unknown kind) is tried again within
30 s. A wait for an API server that was away ends when it answers any call: one look at the Lease every few seconds
finds that out for all kinds.

An end that costs nothing to repair (the server closed the stream, the version expired) is repaired at once the first
time. It waits only when it repeats without progress. Every cause counts for itself. An API server that comes back has
forgotten our version, and refuses all calls until it has read its roles: one wait for both would last half a minute.
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
"""Seconds after which a stream that stood counts as progress, even if nothing happened on it; not one that silence
ended.
"""


class Rule(NamedTuple):
    """How an end is treated."""

    cause: str
    ceiling: float = SOON
    """Longest wait in seconds."""
    at_once: bool = False
    """The first time is free."""
    relist_after: int = 0
    """List again after so many ends in a row without progress; 0 = never, go on from the last version."""
    until_back: bool = False
    """The wait ends when the API server answers any call after an outage (`Client.back`)."""


CLOSED = Rule("closed", at_once=True)
"""The server ended the stream, or the connection broke. Busy API servers do it to slow readers without any error."""

RULES: Mapping[type[errors.KubeError], Rule] = {
    errors.KubeError: Rule("refused", LATE),
    errors.Unreachable: Rule("unreachable", until_back=True),
    # Twice silent from one version: the version may lie in the future of a restored etcd. The silence was wait enough.
    errors.Silent: Rule("silent", BRIEF, at_once=True, relist_after=2),
    # One deaf stream is a fault on the way, and another from the same version does; where each is deaf, lists remain.
    errors.Deaf: Rule("deaf", LATE, at_once=True, relist_after=3),
    errors.Gone: Rule("expired", LATE, at_once=True, relist_after=1),
    errors.Garbled: Rule("garbled", LATE, at_once=True, relist_after=1),
    # The API server calls a version that it cannot read or serve a bad request, or a server error.
    errors.Invalid: Rule("invalid", LATE, relist_after=1),
    errors.ServerError: Rule("server-error", relist_after=3, until_back=True),
    errors.TooManyRequests: Rule("throttled"),
}


CAUSES = tuple(dict.fromkeys(rule.cause for rule in (CLOSED, *RULES.values())))
"""Why a stream or a call ends."""


def rule_of(error: errors.KubeError | None) -> Rule:
    """The rule of the nearest class in the tree; no error is an end of stream."""
    return CLOSED if error is None else next(RULES[kind] for kind in type(error).__mro__ if kind in RULES)


class BackOff:
    """Waits that double, cause by cause, from 2 s up to a ceiling, each drawn from the upper quarter of its range."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._met: Counter[str] = Counter()
        self._waits: Counter[str] = Counter()
        self.ends = 0
        """Ends in a row without progress."""

    def progress(self) -> None:
        """Things go well again: the next wait is a first one."""
        self._met.clear()
        self._waits.clear()
        self.ends = 0

    def delay(self, rule: Rule, retry_after: float | None = None) -> float:
        """Seconds to wait after one more end: 0, or between 1 and the rule's ceiling.

        The server's own wish counts if it is longer, up to the ceiling `LATE`, with a fifth on top at most, so that
        callers who were sent away together do not come back together.
        """
        self.ends += 1
        self._met[rule.cause] += 1
        if rule.at_once and self._met[rule.cause] == 1 and not retry_after:
            return 0.0
        high = doubled(BRIEF, self._waits[rule.cause], rule.ceiling)
        self._waits[rule.cause] += 1
        wish = min(retry_after or 0.0, LATE) * self._chance.uniform(1.0, 1.2)
        return max(self._chance.uniform(0.75 * high, high), wish)
