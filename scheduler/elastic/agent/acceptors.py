"""Threads that serve the connections of a listening socket: whoever is free takes the next one.

Horovod opens a connection for each of its requests, dozens in a moment, and a thread started for each would cost as
much as the answer. Here a thread that is done waits for another connection, in the kernel, which wakes one of them: no
start, and nobody who only passes the connection on (0.3 ms of processor time a request instead of 0.5, measured).

Lives here: how many threads there are. Never here: what is said on a connection (`shim`).
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any, Callable

SPARE = 4
"""Threads that wait for connections where nobody calls: for the child's main thread, its report, and Horovod's two."""

PAUSE = 0.05
"""Seconds until the next try where a connection could not be taken: there are too many open files."""

Serve = Callable[[socket.socket, Any], None]


class Acceptors:
    """Serves connections of `listener`, `most` at a time; the rest wait in its backlog. `serve` answers one to its end,
    given the socket and the caller's address; what it raises ends that connection alone.
    """

    def __init__(self, listener: socket.socket, serve: Serve, most: int) -> None:
        self._listener, self._serve, self._most = listener, serve, most
        self._lock = threading.Lock()
        self._threads = self._free = 0
        self._over = threading.Event()

    def start(self) -> None:
        """Begins to serve. Raises RuntimeError when there is no thread to be had."""
        self._threads = self._free = 1
        self._another()

    def close(self) -> None:
        """Takes no more connections; what is being answered ends with the process."""
        self._over.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes all who wait
        self._listener.close()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                connection, address = self._listener.accept()
            except OSError:
                self._over.wait(PAUSE)
                continue
            self._taken()
            self._answer(connection, address)
            if not self._free_again():
                return

    def _taken(self) -> None:
        """Whoever takes a connection sees to it that somebody is there for the next."""
        with self._lock:
            self._free -= 1
            if self._free or self._threads >= self._most:
                return
            self._threads += 1
            self._free += 1
        try:
            self._another()
        except RuntimeError:  # none to be had now: callers wait until one of ours is free
            with self._lock:
                self._threads -= 1
                self._free -= 1

    def _free_again(self) -> bool:
        """Whether this thread goes on; not when enough others are free."""
        with self._lock:
            if self._free >= SPARE:
                self._threads -= 1
                return False
            self._free += 1
            return True

    def _answer(self, connection: socket.socket, address: Any) -> None:
        with contextlib.closing(connection), contextlib.suppress(Exception):
            # whatever it raises: a child that was killed in the middle of a request is nothing to tell about
            self._serve(connection, address)
            connection.shutdown(socket.SHUT_WR)

    def _another(self) -> None:
        threading.Thread(target=self._run, name="shim", daemon=True).start()
