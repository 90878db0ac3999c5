"""Liveness of a child, and the verdict on its end: the cause and the culprit. Pure.

Horovod with gloo detects neither a frozen process nor a hung main thread. A frozen process costs its peers the whole
collective timeout; a hung main thread blocks them indefinitely. The agent kills only a process that it can prove dead,
because peers learn of it only by a reset. It cannot distinguish a hung main thread, while other threads live, from a
long validation. It reports that, and the master, which sees all workers, decides.

The verdict on an end follows from the wait status, the last lines and other known facts. A worker that lost a peer is
not the culprit of the loss; the address that Horovod reports is.
"""

from __future__ import annotations

import os
import re
import signal
from typing import Any, NamedTuple, Sequence

from .agent_errors import shortened

STEPS = 10
"""Multiple of the usual step time that may pass without progress."""

PEER = re.compile(
    r"(?:Connection closed by peer|Read error|Write error|Timed out|Connection reset|Application timeout|connect)"
    r"[^\[\n]{0,80}\[(?P<address>[0-9A-Fa-f.:]+)\](?::\d+)?"
)
"""Text in which gloo names a lost peer, for example `Connection closed by peer [10.1.2.3]:5631`."""

LAST_WORD = re.compile(r"(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)\b.*")
"""The last line of a Python traceback."""

LOOK_BACK = 60
"""Number of last lines that are searched."""


class Sight(NamedTuple):
    """State of a child: seconds since the last sign of life of its main thread and of any thread; its usual step."""

    stopped: bool
    silent: float
    unheard: float
    usual_step: float
    training: bool
    collective: bool


class Watchdog:
    """Watches one child at a time; `renew` starts with the next."""

    def __init__(self, stopped_limit: float, silent_limit: float) -> None:
        self._stopped_limit = stopped_limit
        self._silent_limit = silent_limit
        self.renew()

    def renew(self) -> None:
        """Start with another child."""
        self._stopped_since: float | None = None
        self._told = False

    def limit(self, sight: Sight) -> float:
        """Seconds of silence that are still acceptable."""
        return max(self._silent_limit, STEPS * sight.usual_step)

    @property
    def due(self) -> float | None:
        """Time at which a stopped child exceeds its limit; None if the child is not stopped."""
        since = self._stopped_since
        return None if since is None else since + self._stopped_limit

    def condemn(self, sight: Sight, now: float) -> str | None:
        """Why the child is to be killed; None if it is not."""
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
        """Warning about a main thread that shows no progress; once per silence."""
        silent = sight.training and sight.silent >= self.limit(sight)
        if not silent or self._told:
            self._told = silent
            return None
        self._told = True
        where = (
            "inside a collective, so it waits for another worker"
            if sight.collective
            else "outside any collective, so the others wait for this worker"
        )
        return f"no progress for {sight.silent:.0f} s: the main thread is {where}"


class Ending(NamedTuple):
    """The end of a child: exit code or signal, cause, and culprit (a pod's name, an address, or None)."""

    code: int | None
    signal: int | None
    why: str
    culprit: str | None

    @property
    def exit_code(self) -> int:
        """Exit code as a shell reports it."""
        return 128 + (self.signal or 0) if self.code is None else self.code

    def report(self, tail: Sequence[str], number: int) -> dict[str, Any]:
        """The body of the exit report; `number`: the round of the child."""
        return {**self._asdict(), "tail": list(tail), "round": number}


class Known(NamedTuple):
    """Other known facts: what the agent did to the child, what it reported, whether it was removed."""

    pod: str
    killed: str | None = None
    gone: str | None = None
    removed: bool = False
    returned: bool = False
    """Its training function had returned, so what it reported then does not explain an end that came later."""
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
        return Ending(None, number, "killed by the kernel: out of memory", known.pod)
    lines = tail[: -LOOK_BACK - 1 : -1]
    peer = next((found["address"] for found in map(PEER.search, lines) if found), None)
    word = next((shortened(found[0]) for found in map(LAST_WORD.match, lines) if found), None)
    said = None if known.returned else known.gone
    return Ending(code, number, said or word or _plainly(code, number), peer or known.pod)


def never_started(command: str, error: OSError, pod: str) -> Ending:
    """The verdict on a command that could not be started, with the exit codes of a shell."""
    code = 127 if isinstance(error, FileNotFoundError) else 126
    return Ending(code, None, shortened(f"cannot start {command}: {error.strerror}"), pod)


def _plainly(code: int | None, number: int | None) -> str:
    if number is None:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:
        return f"killed by signal {number}"
