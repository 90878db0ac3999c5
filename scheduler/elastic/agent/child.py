"""The training as a child process: started in its own session, watched, reaped, and killed if necessary.

It has its own session, because signals to the agent's group (from a terminal, or a kubelet that signals more than
process 1) are for the agent only: SIGTERM means an orderly leave, but Python's default is to exit immediately. As
process 1 the agent reaps every process that ends below it, because a container's process table is small.

The child's output is passed on byte for byte, and its last lines are kept for the exit report. Lines are passed on
whole: two pipes and the agent itself write to one log, and an unbuffered child writes a line and its end separately
(`PYTHONUNBUFFERED`, C++ streams), so that lines could mix. With a prefix every line begins with the worker's name, for
merged logs of many workers.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections import deque
from typing import Callable, Mapping, Sequence

from .procfs import signal_group, stopped

DRAIN = 1.0
"""Seconds to read the last output of a child that ended."""

LINES = 100
"""Number of last lines kept: a Python traceback with its causes, or the stacks of a few threads."""

LINE_LIMIT = 500
"""Maximum characters kept of a line."""

CHUNK = 1 << 16
"""Bytes per read, the capacity of a pipe."""

PATIENCE = 0.1
"""Seconds that an incomplete line is held back. A prompt or a progress bar has no end of line and is shown then."""


class Child:
    """One training process. Raises OSError if the command cannot be started."""

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
        """Whether it is stopped by a signal."""
        return stopped(self.pid)

    def kill(self) -> None:
        """Kill it and all processes that it started."""
        signal_group(self.pid, signal.SIGKILL)

    def ask_for_stacks(self) -> None:
        """Make Python print the stacks of its threads and end. Kill a child that does not end shortly after."""
        signal_group(self.pid, signal.SIGABRT)

    def drain(self) -> None:
        """Wait for the rest of its output."""
        for stream in self._streams:
            stream.join(DRAIN)


Ended = Callable[[int, int], None]


class Reaper:
    """Reaps ended processes, in its own thread; calls `ended(pid, status)` for children that were started here."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._lock = threading.Lock()
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._somebody = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reaper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def launch(self, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        """Start a child under the lock: it is registered before it can be reaped. Raises what `start` raises."""
        with self._lock:
            child = start()
            self._children[child.pid] = child
        self._somebody.set()
        return child

    def _run(self) -> None:
        while True:
            try:
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:  # there is no child process
                self._somebody.clear()
                if not self._children:
                    self._somebody.wait()
                continue
            if dead is not None:
                self._take(dead.si_pid)

    def _take(self, pid: int) -> None:
        with self._lock:
            child = self._children.pop(pid, None)
            if child is not None:
                # kill the rest of its group now, while the pid cannot be reused
                signal_group(pid, signal.SIGKILL)
            try:
                _, status = os.waitpid(pid, 0)
            except ChildProcessError:  # the failed start reaped it already
                return
        if child is not None:
            # Popen must not wait for a pid that may be reused by now
            child.returncode = status
            self._ended(pid, status)


class Tail:
    """The last lines of all output, in order of arrival. Thread-safe."""

    def __init__(self, lines: int = LINES) -> None:
        self._lock = threading.Lock()
        self._lines: deque[str] = deque(maxlen=lines)

    def add(self, line: bytes) -> None:
        # A carriage return redraws a progress bar: keep the last state.
        text = line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
        with self._lock:
            self._lines.append(text[:LINE_LIMIT])

    def lines(self) -> list[str]:
        with self._lock:
            return list(self._lines)


class Stream:
    """One pipe of the child, read by its own thread until it is closed, and written to `target`."""

    def __init__(self, source: int, target: int, tail: Tail, prefix: bytes) -> None:
        self._source, self._target = source, target
        self._tail = tail
        self._prefix = prefix
        self._rest = b""
        self._held = b""
        self._thread = threading.Thread(target=self._run, name=f"output-{target}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until everything is passed on, at most `seconds` if another process keeps the pipe open."""
        self._thread.join(seconds)

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            ready = select.poll()
            ready.register(self._source, select.POLLIN)
            while True:
                if self._held and not ready.poll(PATIENCE * 1000):
                    self._release()
                chunk = os.read(self._source, CHUNK)
                if not chunk:
                    break
                self._pass_on(chunk)
        self._release()
        if self._rest:
            self._tail.add(self._rest)
            if self._prefix:
                self._write(self._prefix + self._rest + b"\n")

    def _pass_on(self, chunk: bytes) -> None:
        *lines, rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._tail.add(line)
        if not self._prefix:
            self._hold(chunk)
            self._rest = rest[-4 * LINE_LIMIT :]  # bounds the memory of an endless line
            return
        if len(rest) > CHUNK:
            lines, rest = [*lines, rest], b""
        self._write(b"".join(self._prefix + line + b"\n" for line in lines))
        self._rest = rest

    def _hold(self, chunk: bytes) -> None:
        lines, end, self._held = (self._held + chunk).rpartition(b"\n")
        self._write(lines + end)
        if len(self._held) > CHUNK:
            self._release()

    def _release(self) -> None:
        held, self._held = self._held, b""
        self._write(held)

    def _write(self, content: bytes) -> None:
        """Write all of it. If the output has no reader any more, the training continues without."""
        with contextlib.suppress(OSError):
            while content:
                content = content[os.write(self._target, content) :]
