"""Where a name is, in bounded time.

A resolver waits five seconds for a lost packet, in a call that nothing can interrupt; by then a master has given up a
worker that did not beat. So the call has a thread of its own, one at a time, and whoever waits too long for it takes
what was found before, as after a no: a Service keeps its address for life.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

from .deadline import Clock, Deadline


class Lookup:
    """Addresses of one host and port; safe from any thread."""

    def __init__(self, host: str, port: int, clock: Clock = time.monotonic) -> None:
        self._host, self._port, self._clock = host, port, clock
        self._lock = threading.Lock()
        self._under_way: threading.Event | None = None
        """Set when the call that is under way is over."""
        self._known: list[tuple[str, int]] = []
        self._refused: OSError | None = None

    def addresses(self, limit: float) -> list[tuple[str, int]]:
        """Each address with the port; those that were found last where none is found now, or not in `limit` seconds.
        Raises OSError, socket.timeout among them, where none ever was.
        """
        over = self._asked().wait(limit)
        if self._known:
            return self._known
        raise (over and self._refused) or socket.timeout(f"{self._host}: no answer in {limit:g} s")

    def connect(self, _address: Any, timeout: float, *_more: Any) -> socket.socket:
        """A connection to the first address that takes it, as `socket.create_connection` makes one; half of the time is
        for the name. Each address has an equal part of what is left: one that swallows everything, such as that of
        the other family, leaves time for the next. What is left then is the socket's own time-out. Raises OSError.
        """
        deadline = Deadline(timeout, self._clock)
        refused: OSError = OSError(f"{self._host} has no address")
        places = self.addresses(timeout / 2)
        for tried, place in enumerate(places):
            try:
                return _bounded(
                    socket.create_connection(place, deadline.left() / (len(places) - tried)), deadline
                )
            except OSError as error:
                refused = error
        raise refused

    def _asked(self) -> threading.Event:
        with self._lock:
            if self._under_way is None:
                over = threading.Event()
                try:
                    threading.Thread(target=self._ask, args=(over,), daemon=True, name="lookup").start()
                except RuntimeError as error:  # the container has no process to spare
                    self._refused = OSError(f"{self._host} is not looked up: {error}")
                    over.set()
                    return over
                self._under_way = over
            return self._under_way

    def _ask(self, over: threading.Event) -> None:
        try:
            told = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except OSError as error:
            self._refused = error
        except UnicodeError as error:  # no name at all
            self._refused = OSError(str(error))
        else:
            self._known = [(str(one[4][0]), int(one[4][1])) for one in told]
            self._refused = None if told else OSError(f"{self._host} has no address")
        finally:
            with self._lock:
                self._under_way = None
            over.set()


def _bounded(connection: socket.socket, deadline: Deadline) -> socket.socket:
    try:
        connection.settimeout(deadline.left())
    except OSError:
        connection.close()
        raise
    return connection
