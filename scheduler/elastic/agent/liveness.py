"""When a child is as good as dead, and how it ended: why, and who is to blame. Pure.

Horovod with gloo notices neither a frozen process nor a hung main thread. The first costs its peers the whole collective
time-out, the second stops them without end. The agent kills only what it can know by itself to be dead, because only a
reset tells the peers. A hung main thread beside living ones it cannot tell from a long validation. It says so, and the
master, who sees all workers, decides.

Of an end the wait status, the last lines and what is known besides go in, and a verdict comes out. A worker that lost a
peer is not the culprit of the loss; the address that Horovod names is.
"""

from __future__ import annotations

import os
import re
import signal
from typing import Any, NamedTuple, Sequence

from .agent_errors import shortened

STEPS = 10
"""So many times the usual step may pass without progress."""

PEER = re.compile(
    r"(?:Connection closed by peer|Read error|Write error|Timed out|Connection reset|Application timeout|connect)"
    r"[^\[\n]{0,80}\[(?P<address>[0-9A-Fa-f.:]+)\](?::\d+)?"
)
"""How gloo names the peer it lost, e.g. `Connection closed by peer [10.1.2.3]:5631`."""

LAST_WORD = re.compile(r"(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)\b.*")
"""The last line of a Python traceback."""

LOOK_BACK = 60
"""Lines looked through."""


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


class Ending(NamedTuple):
    """How a child ended: an exit code or a signal, why, and who is to blame (a pod's name, an address, or nobody)."""

    code: int | None
    signal: int | None
    why: str
    culprit: str | None

    @property
    def exit_code(self) -> int:
        """As a shell says it."""
        return 128 + (self.signal or 0) if self.code is None else self.code

    def report(self, tail: Sequence[str], number: int) -> dict[str, Any]:
        """The body of the exit report; `number`: the round it was in."""
        return {**self._asdict(), "tail": list(tail), "round": number}


class Known(NamedTuple):
    """What is known besides the status: what was done to the child, what it said, where it was."""

    pod: str
    killed: str | None = None
    gone: str | None = None
    removed: bool = False
    returned: bool = False
    """Its training function had: what it said of that is no reason for an end that came later."""
    out_of_memory: bool = False


def judge(status: int, tail: Sequence[str], known: Known) -> Ending:
    """The verdict on a child that ended with this wait status."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = os.WEXITSTATUS(status) if number is None else None
    if known.killed is not None:
        return Ending(code, number, known.killed, known.pod)
    if code == 0:
        return Ending(0, None, "removed" if known.removed else known.gone or "finished", None)
    if known.out_of_memory and number == signal.SIGKILL:
        return Ending(None, number, "killed for want of memory", known.pod)
    lines = tail[: -LOOK_BACK - 1 : -1]
    peer = next((found["address"] for found in map(PEER.search, lines) if found), None)
    word = next((shortened(found[0]) for found in map(LAST_WORD.match, lines) if found), None)
    said = None if known.returned else known.gone
    return Ending(code, number, said or word or _plainly(code, number), peer or known.pod)


def never_started(command: str, error: OSError, pod: str) -> Ending:
    """The verdict on a command that could not be started; the codes are a shell's."""
    code = 127 if isinstance(error, FileNotFoundError) else 126
    return Ending(code, None, shortened(f"cannot start {command}: {error.strerror}"), pod)


def _plainly(code: int | None, number: int | None) -> str:
    if number is None:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:
        return f"killed by signal {number}"
