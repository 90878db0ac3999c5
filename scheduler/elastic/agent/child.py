"""The training as a child process: started in a session of its own, watched, reaped, and killed when it must be.

A session of its own, because signals to our group (a terminal, a kubelet that signals more than process 1) are for the
agent alone: SIGTERM means an orderly leave, and Python's default is to die at once. As process 1 the agent reaps every
process that ends below it, since a container's process table is small.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from typing import Callable, Mapping, Sequence

from .log_tee import Stream, Tail
from .procfs import signal_group, stopped

DRAIN = 1.0
"""Seconds for the last output of a child that ended."""


class Child:
    """One process that trains. Raises OSError when the command cannot be started."""

    def __init__(
        self, reaper: Reaper, command: Sequence[str], environment: Mapping[str, str], prefix: bytes = b""
    ) -> None:
        self.tail = Tail()
        out, into_out = os.pipe()
        err, into_err = os.pipe()
        try:
            self._process = reaper.launch(
                lambda: subprocess.Popen(  # noqa: S603 - the user's own command
                    list(command),
                    env=dict(environment),
                    stdout=into_out,
                    stderr=into_err,
                    start_new_session=True,
                )
            )
        except OSError:
            os.close(out)
            os.close(err)
            raise
        finally:
            os.close(into_out)
            os.close(into_err)
        self._streams = [Stream(out, 1, self.tail, prefix), Stream(err, 2, self.tail, prefix)]
        for stream in self._streams:
            stream.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stopped(self) -> bool:
        """Whether somebody stopped it."""
        return stopped(self.pid)

    def kill(self) -> None:
        """End it and all it started, now."""
        signal_group(self.pid, signal.SIGKILL)

    def ask_for_stacks(self) -> None:
        """Have Python print where each of its threads is, and end; who does not is to be killed a moment later."""
        signal_group(self.pid, signal.SIGABRT)

    def drain(self) -> None:
        """Wait for the rest of its output."""
        for stream in self._streams:
            stream.join(DRAIN)


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
