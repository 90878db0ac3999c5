"""Where a name is, in bounded time.

A resolver waits five seconds for a lost packet, in a call that nothing can interrupt; by then a master has given up a
worker that did not beat. So the call has a thread of its own, one at a time, and whoever waits too long for it takes
what was found before, as after a no: a Service keeps its address for life.
"""

from __future__ import annotations

import socket
import threading
from typing import Any, List, Tuple, Union

Found = Union[List[Tuple[str, int]], OSError]


class Lookup:
    """Addresses of one host and port; safe from any thread."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._known: list[tuple[str, int]] = []
        self._lock = threading.Lock()
        self._under_way: _Call | None = None

    def addresses(self, limit: float) -> list[tuple[str, int]]:
        """Each address with the port; those that were found last where none is found now, or not in `limit` seconds.
        Raises OSError, socket.timeout among them, where none ever was.
        """
        with self._lock:
            if self._under_way is None or self._under_way.over.is_set():
                self._under_way = _Call(self._host, self._port)
                self._under_way.start()
            call = self._under_way
        found = (
            call.found if call.over.wait(limit) else socket.timeout(f"{self._host}: no answer in {limit:g} s")
        )
        if not isinstance(found, OSError):
            self._known = found
        elif not self._known:
            raise found
        return self._known

    def connect(self, _address: Any, timeout: float, *_more: Any) -> socket.socket:
        """A connection to the first address that takes it, as `socket.create_connection` makes one; half of the time is
        for the name. Raises OSError.
        """
        refused: OSError = OSError(f"{self._host} has no address")
        for place in self.addresses(timeout / 2):
            try:
                return socket.create_connection(place, timeout)
            except OSError as error:
                refused = error
        raise refused


class _Call(threading.Thread):
    def __init__(self, host: str, port: int) -> None:
        super().__init__(daemon=True, name="lookup")
        self._place = host, port
        self.over = threading.Event()
        self.found: Found = []

    def run(self) -> None:
        try:
            told = socket.getaddrinfo(*self._place, type=socket.SOCK_STREAM)
            self.found = [(str(one[4][0]), int(one[4][1])) for one in told]
        except OSError as error:
            self.found = error
        except UnicodeError as error:  # no name at all
            self.found = OSError(str(error))
        finally:
            self.over.set()
