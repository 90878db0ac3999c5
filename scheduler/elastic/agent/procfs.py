"""Process information from the kernel: stopped processes, adoption of orphans, processes killed when out of memory.

Best effort: an image without /proc, a kernel without permission, or a Python without ctypes costs a diagnosis, not the
training.
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
"""Signals that request the agent to end; blocked during its start (`__main__`, and that of the archive)."""

EVENTS = Path("/sys/fs/cgroup/memory.events")
"""Memory events of the container's own control group (cgroup v2)."""


def stopped(pid: int) -> bool:
    """Whether the process is stopped (SIGSTOP). A debugger's stop has another letter and does not count."""
    try:
        told = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return told.rpartition(b")")[2].split()[:1] == [b"T"]


def memory_kills() -> int:
    """Number of processes of this container that the kernel killed when out of memory; 0 if unknown."""
    try:
        lines = EVENTS.read_text("ascii").splitlines()
        return int(dict(line.split() for line in lines).get("oom_kill", "0"))
    except (OSError, ValueError):
        return 0


def adopt_orphans() -> bool:
    """Make the agent the parent of orphaned descendants, also if it is not process 1."""
    return os.getpid() == 1 or _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> bool:
    """Make the kernel kill this process when the thread that started it ends."""
    return _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def listen(told: Callable[[str], None]) -> None:
    """Call `told` with the name of each signal that requests an end, including those that came while blocked."""
    for number in LEAVE:
        signal.signal(number, lambda got, _: told(signal.Signals(got).name))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, LEAVE)


def signal_group(leader: int, number: int) -> None:
    """Send a signal to a whole process group, if it still exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _prctl(option: int, value: int) -> bool:
    try:
        import ctypes

        return bool(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False
