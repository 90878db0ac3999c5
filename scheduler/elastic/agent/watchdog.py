"""When a child is as good as dead: stopped, or with no thread that answers; and when its main thread only seems to
hang.

Pure: sights in, verdicts out. Horovod with gloo notices neither: a frozen process costs its peers the whole collective
time-out, and a hung main thread stops everybody for ever. The agent kills only what it can know by itself to be dead,
because only a reset tells the peers. A hung main thread beside living ones it cannot tell from a long validation; it
says so, and the master, who sees all workers, decides.
"""

from __future__ import annotations

from typing import NamedTuple

STEPS = 10
"""So many times the usual step may pass without progress."""


class Sight(NamedTuple):
    """A child as it looks now: seconds since its main thread and any of its threads showed life, and its usual step."""

    stopped: bool
    silent: float
    unheard: float
    usual_step: float
    training: bool
    collective: bool


class Watchdog:
    """Looks at one child after the other; `renew` begins with the next."""

    def __init__(self, stopped_limit: float, silent_limit: float) -> None:
        self._stopped_limit = stopped_limit
        self._silent_limit = silent_limit
        self.renew()

    def renew(self) -> None:
        """Another child."""
        self._stopped_since: float | None = None
        self._told = False

    def limit(self, sight: Sight) -> float:
        """Seconds of silence that are still no cause for doubt."""
        return max(self._silent_limit, STEPS * sight.usual_step)

    @property
    def due(self) -> float | None:
        """When a child that stands still will have done so for too long; None where none does."""
        since = self._stopped_since
        return None if since is None else since + self._stopped_limit

    def condemn(self, sight: Sight, now: float) -> str | None:
        """Why the child is to be killed; None while it may live."""
        if not sight.stopped:
            self._stopped_since = None
        elif self._stopped_since is None:
            self._stopped_since = now
        elif now - self._stopped_since >= self._stopped_limit:
            return f"stopped for {now - self._stopped_since:.1f} s"
        if not sight.stopped and sight.unheard >= self.limit(sight):
            return f"none of its threads answered for {sight.unheard:.0f} s"
        return None

    def doubt(self, sight: Sight) -> str | None:
        """What to say about a main thread that shows no progress; once for each silence."""
        silent = sight.training and sight.silent >= self.limit(sight)
        if not silent or self._told:
            self._told = silent
            return None
        self._told = True
        where = (
            "inside a collective, so it waits for another worker"
            if sight.collective
            else "outside of any collective, so the others wait for this worker"
        )
        return f"no progress for {sight.silent:.0f} s; the main thread is {where}"
