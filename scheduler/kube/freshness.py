"""Whether what we know is the present: the API server answers, and every watch by which is decided stands.

Lives here: the worst of these, in seconds and in words. Never here: how old is too old, and what follows from it.
Why not the API server's answers alone: a look at a Lease succeeds while one kind is refused, throttled or too large to
be read in time, and then what is known of that kind stays as it was, for ever.
"""

import math
from collections.abc import Mapping
from typing import Any

from scheduler.kube.client import Client
from scheduler.kube.watch import Reflector


class Freshness:
    """Asked again and again. `watches`: those that decide, by name."""

    def __init__(self, client: Client, watches: Mapping[str, Reflector[Any]]) -> None:
        self._client = client
        self._watches = dict(watches)

    def blind_for(self, now: float) -> float:
        """Seconds for which something that counts may have happened unseen."""
        return max(self._quiet(now), *(watch.blind_for(now) for watch in self._watches.values()))

    def told(self, now: float) -> str:
        """In words, what has been unseen the longest."""
        quiet = self._quiet(now)
        name, worst = max(self._watches.items(), key=lambda row: row[1].blind_for(now))
        blind = worst.blind_for(now)
        why = f": {worst.fault}" if worst.fault is not None else ""
        if blind <= quiet:
            return answered(quiet) + why
        if math.isinf(blind):
            return f"the watch of {name} has not begun yet{why}"
        return f"the watch of {name} does not stand for {blind:.0f} s{why}"

    def _quiet(self, now: float) -> float:
        return now - self._client.last_answer


def answered(quiet: float) -> str:
    """In words, since when the API server has not answered; `quiet` is infinite where it never did."""
    if math.isinf(quiet):
        return "the API server has not answered yet"
    return f"the API server last answered {quiet:.0f} s ago"
