"""Connections to the master: kept alive, one per concurrent call, and one deadline per call.

Lives here: http.client, TLS and name lookup. Never here: the content of a call, or retries, with one exception: if a
kept connection turns out to be closed, the call is sent again on a new one, because that says nothing about the master.
Every call may be repeated. After a timeout no kept connection is used again, because the others most likely stall too.

The deadline covers the name lookup, every address, TLS, the request, the answer's last byte, and the second try. A
limit per step would not bound the sum. A resolver waits 5 seconds for a lost packet, in a call that cannot be
interrupted. So the lookup has its own thread, and a caller that waits too long uses the addresses of an earlier lookup.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import threading
import time
from typing import Any, Callable, Iterator, Mapping, NamedTuple

from .agent_errors import Garbled, SettingsError, Unreachable
from .agent_settings import Address

Clock = Callable[[], float]


class Deadline:
    """A point in time, `seconds` from now."""

    def __init__(self, seconds: float, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def left(self) -> float:
        """Remaining seconds, greater than 0. Raises socket.timeout if none remain."""
        left = self._end - self._clock()
        if left <= 0:
            raise socket.timeout("timed out")
        return left


class Lookup:
    """Addresses of one host and port. Thread-safe."""

    def __init__(self, host: str, port: int, clock: Clock = time.monotonic) -> None:
        self._host, self._port, self._clock = host, port, clock
        self._lock = threading.Lock()
        self._under_way: threading.Event | None = None
        """Set when the current lookup ends."""
        self._known: list[tuple[str, int]] = []
        self._refused: OSError | None = None

    def addresses(self, limit: float) -> list[tuple[str, int]]:
        """Each address with the port. If the lookup fails or takes more than `limit` seconds: those of the last lookup.
        Raises OSError, including socket.timeout, if there never were any.
        """
        over = self._asked().wait(limit)
        if self._known:
            return self._known
        raise (over and self._refused) or socket.timeout(f"{self._host}: no answer in {limit:g} s")

    def connect(self, _address: Any, timeout: float, *_more: Any) -> socket.socket:
        """A connection to the first address that accepts it, as from `socket.create_connection`. Half of the time is
        for the lookup. The addresses share the remaining time equally, so that an address that drops packets, for
        example of the other family, leaves time for the next one. The rest is the socket's own timeout. Raises OSError.
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
                except RuntimeError as error:  # the container is at its limit of processes
                    self._refused = OSError(f"cannot look up {self._host}: {error}")
                    over.set()
                    return over
                self._under_way = over
            return self._under_way

    def _ask(self, over: threading.Event) -> None:
        try:
            told = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except OSError as error:
            self._refused = error
        except UnicodeError as error:  # not a valid host name
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


CONNECT = 5.0
"""Maximum seconds for TCP and for TLS; less if the call has less."""

ANSWER_LIMIT = 1 << 20
"""Maximum bytes of an answer; the master sends no larger ones."""

PIECE = 1 << 14
"""Bytes per send: a TLS record. The deadline is checked before each."""

KEPT = 16
"""Maximum idle connections: beat, announcement, barrier, and a burst of keys."""


CLOSING = (ConnectionError, http.client.BadStatusLine, ssl.SSLError)
"""Errors that show that the other side closed the connection."""


class Closed(Unreachable):
    """The connection was closed before an answer came."""


class Reply(NamedTuple):
    """An answer, not decoded."""

    status: int
    body: bytes
    kind: str = ""
    """Its media type."""


class Connections:
    """A pool of connections to one address. Thread-safe."""

    def __init__(self, address: Address, ca: str, clock: Clock = time.monotonic) -> None:
        self._address = address
        self._clock = clock
        self._lookup = Lookup(address[0], address[1], clock)
        self._context = _context(ca) if address.secure else None
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []

    def call(self, method: str, path: str, headers: Mapping[str, str], body: bytes, limit: float) -> Reply:
        """One request, answered within `limit` seconds. Raises Unreachable, or Garbled if the answer is too large."""
        deadline = Deadline(limit, self._clock)
        kept = self._take()
        if kept is not None:
            try:
                return self._try(kept, method, path, headers, body, deadline)
            except Closed:
                pass
        return self._try(self._new(), method, path, headers, body, deadline)

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _try(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        deadline: Deadline,
    ) -> Reply:
        try:
            return self._exchange(connection, method, path, headers, body, deadline)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if isinstance(error, socket.timeout):
                self.close()
            kind = Closed if isinstance(error, CLOSING) else Unreachable
            raise kind(f"{method} {path.partition('?')[0]}: {_words(error)}") from error

    def _new(self) -> http.client.HTTPConnection:
        host, port, _ = self._address
        if self._context is None:
            connection = http.client.HTTPConnection(host, port)
        else:
            connection = http.client.HTTPSConnection(host, port, context=self._context)
        connection._create_connection = self._lookup.connect  # type: ignore[attr-defined]  # noqa: SLF001 - its seam
        return connection

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        deadline: Deadline,
    ) -> Reply:
        if connection.sock is None:
            connection.timeout = min(CONNECT, deadline.left())
            connection.connect()
        sock = connection.sock

        def received(_: Any, **more: Any) -> http.client.HTTPResponse:
            return http.client.HTTPResponse(_Incoming(sock, deadline), **more)  # type: ignore[arg-type]

        connection.response_class = received  # type: ignore[assignment]
        sock.settimeout(deadline.left())
        length = {"Content-Length": str(len(body))}
        connection.request(method, path, body=_pieces(sock, body, deadline), headers={**headers, **length})
        response = connection.getresponse()
        content = response.read(ANSWER_LIMIT + 1)
        if len(content) > ANSWER_LIMIT:
            connection.close()
            raise Garbled(f"{method} {path.partition('?')[0]}: the answer exceeds {ANSWER_LIMIT} bytes")
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        self._keep(connection, response)
        return Reply(response.status, content, response.headers.get_content_type())

    def _take(self) -> http.client.HTTPConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _keep(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        with self._lock:
            if connection.sock is not None and response.isclosed() and len(self._idle) < KEPT:
                self._idle.append(connection)
                return
        connection.close()


class _Incoming(io.RawIOBase):
    """Replaces a socket for reading, up to a deadline. The socket's own timeout restarts with every byte received."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock, self._deadline = sock, deadline
        self._file = sock.makefile("rb", buffering=0)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int | None:
        self._sock.settimeout(self._deadline.left())
        return self._file.readinto(room)

    def close(self) -> None:
        self._file.close()
        super().close()


def _pieces(sock: socket.socket, body: bytes, deadline: Deadline) -> Iterator[bytes]:
    for start in range(0, len(body), PIECE):
        sock.settimeout(deadline.left())
        yield body[start : start + PIECE]


def _context(ca: str) -> ssl.SSLContext:
    """Accepts only certificates of this CA, for the requested name. Raises SettingsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=ca)
    except (ssl.SSLError, ValueError):
        raise SettingsError("GANGWRIGHT_CA", ca, "must be the PEM of the master's CA") from None
    return context


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
