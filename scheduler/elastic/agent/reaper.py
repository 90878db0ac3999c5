"""The duty of process 1: to take every process that ended below us, and to say when it was the child.

A process that nobody takes stays in the table for ever, and a container's table is small.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from typing import Callable

from .processes import signal_group

Ended = Callable[[int, int], None]


class Reaper:
    """Takes the dead, in a thread of its own; `ended(pid, status)` is called for children that were started here."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._lock = threading.Lock()
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._somebody = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reaper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def launch(self, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        """Start a child under the lock, so that it is known before it can be taken. Raises what `start` raises."""
        with self._lock:
            child = start()
            self._children[child.pid] = child
        self._somebody.set()
        return child

    def _run(self) -> None:
        while True:
            try:
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:  # nobody lives below us
                self._somebody.clear()
                if not self._children:
                    self._somebody.wait()
                continue
            if dead is not None:
                self._take(dead.si_pid)

    def _take(self, pid: int) -> None:
        with self._lock:
            child = self._children.pop(pid, None)
            if (
                child is not None
            ):  # what it leaves behind in its group goes too, while the number is surely its own
                signal_group(pid, signal.SIGKILL)
            try:
                _, status = os.waitpid(pid, 0)
            except ChildProcessError:  # whoever failed to start it took it already
                return
        if child is not None:
            child.returncode = (
                status  # told to Popen, which must not wait for a number that may be another's by now
            )
            self._ended(pid, status)
