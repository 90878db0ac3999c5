"""The child's output: passed on as it is, byte for byte, and its last lines kept for the exit report.

Lines are passed on whole. Two pipes and the agent itself write to one log, and a child without buffers writes a line
and its end separately (`PYTHONUNBUFFERED`, C++ streams): passed on as it comes, a line of one could end within a line
of another. With a prefix every line begins with the worker's name, for places where the logs of many flow together.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections import deque

LINES = 100
"""Last lines kept: a Python traceback with its causes, or the stacks of a handful of threads."""

LINE_LIMIT = 500
"""Characters kept of a line."""

CHUNK = 1 << 16
"""Bytes read at once, as much as a pipe holds."""

PATIENCE = 0.1
"""Seconds for which the beginning of a line waits for its end; a prompt or a progress bar has none and is shown
then.
"""


class Tail:
    """The last lines of all output, in the order in which they came. Safe from any thread."""

    def __init__(self, lines: int = LINES) -> None:
        self._lock = threading.Lock()
        self._lines: deque[str] = deque(maxlen=lines)

    def add(self, line: bytes) -> None:
        # A carriage return draws a progress bar anew: the last state counts.
        text = line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
        with self._lock:
            self._lines.append(text[:LINE_LIMIT])

    def lines(self) -> list[str]:
        with self._lock:
            return list(self._lines)


class Stream:
    """One pipe of the child's, read by a thread of its own until it is closed, and written to `target`."""

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
        """Wait until everything is passed on; somebody who keeps the pipe open is not waited for longer than this."""
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
            self._rest = rest[-4 * LINE_LIMIT :]  # a line without end must not grow here
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
        """All of it; when nobody reads our output any more, the training goes on without."""
        with contextlib.suppress(OSError):
            while content:
                content = content[os.write(self._target, content) :]
