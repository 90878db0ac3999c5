"""What the kernel knows of processes: who is stopped, who takes in orphans, how many were killed for want of memory.

Best effort throughout: an image without /proc, a kernel that says no, or a Python without ctypes costs a diagnosis, not
the training.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Callable

PR_SET_CHILD_SUBREAPER = 36
PR_SET_PDEATHSIG = 1

LEAVE = (signal.SIGTERM, signal.SIGINT)
"""Signals that tell us to end; blocked while we begin (`__main__`, and the archive's)."""

EVENTS = Path("/sys/fs/cgroup/memory.events")
"""Of the container's own control group (cgroup v2)."""


def stopped(pid: int) -> bool:
    """Whether the process was stopped (SIGSTOP); a debugger's look is not that, and has another letter."""
    try:
        told = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return told.rpartition(b")")[2].split()[:1] == [b"T"]


def memory_kills() -> int:
    """How many processes of this container the kernel killed for want of memory, as far as it tells."""
    try:
        lines = EVENTS.read_text("ascii").splitlines()
        return int(dict(line.split() for line in lines).get("oom_kill", "0"))
    except (OSError, ValueError):
        return 0


def adopt_orphans() -> bool:
    """Have the kernel hand us the children of children that ended, also when we are not process 1."""
    return os.getpid() == 1 or _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> bool:
    """Have the kernel kill this process when the thread that started it ends."""
    return _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def listen(told: Callable[[str], None]) -> None:
    """Hear of the signals that tell us to end, by name; those too that came while they were blocked."""
    for number in LEAVE:
        signal.signal(number, lambda got, _: told(signal.Signals(got).name))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, LEAVE)


def signal_group(leader: int, number: int) -> None:
    """Send a signal to a whole process group, if there is one still."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _prctl(option: int, value: int) -> bool:
    try:
        import ctypes

        return bool(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False
