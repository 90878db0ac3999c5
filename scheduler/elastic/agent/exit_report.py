"""How a child ended, in words: why, and who is to blame.

Pure: the wait status, the last lines and what is known besides, in; a verdict out. A worker that lost a peer is not the
culprit of the loss; the address that Horovod names is.
"""

from __future__ import annotations

import os
import re
import signal
from typing import Any, NamedTuple, Sequence

from .agent_errors import shortened

PEER = re.compile(
    r"(?:Connection closed by peer|Read error|Write error|Timed out|Connection reset|Application timeout|connect)"
    r"[^\[\n]{0,80}\[(?P<address>[0-9A-Fa-f.:]+)\](?::\d+)?"
)
"""How gloo names the peer it lost, e.g. `Connection closed by peer [10.1.2.3]:5631`."""

LAST_WORD = re.compile(r"(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)\b.*")
"""The last line of a Python traceback."""

LOOK_BACK = 60
"""Lines looked through."""


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
    code, number = _split(status)
    if known.killed is not None:
        return Ending(code, number, known.killed, known.pod)
    if code == 0:
        return Ending(0, None, "removed" if known.removed else known.gone or "finished", None)
    if known.out_of_memory and number == signal.SIGKILL:
        return Ending(None, number, "killed for want of memory", known.pod)
    peer = _peer(tail)
    said = None if known.returned else known.gone
    why = said or _last_word(tail) or _plainly(code, number)
    return Ending(code, number, why, peer or known.pod)


def never_started(command: str, error: OSError, pod: str) -> Ending:
    """The verdict on a command that could not be started; the codes are a shell's."""
    code = 127 if isinstance(error, FileNotFoundError) else 126
    return Ending(code, None, shortened(f"cannot start {command}: {error.strerror}"), pod)


def _split(status: int) -> tuple[int | None, int | None]:
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), None


def _peer(tail: Sequence[str]) -> str | None:
    for line in reversed(tail[-LOOK_BACK:]):
        found = PEER.search(line)
        if found:
            return found["address"]
    return None


def _last_word(tail: Sequence[str]) -> str | None:
    for line in reversed(tail[-LOOK_BACK:]):
        found = LAST_WORD.match(line)
        if found:
            return shortened(found[0])
    return None


def _plainly(code: int | None, number: int | None) -> str:
    if number is None:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:
        return f"killed by signal {number}"
