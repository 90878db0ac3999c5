"""Connections to the master: kept alive, as many as there are calls at once, each with bounded times.

Lives here: http.client and TLS. Never here: where a name is (`lookup`), what is asked, who asks, or whether to ask
again, except for one thing: a connection that was kept and turns out to be closed says nothing about the master, so the
call goes out on a new one. Every call of ours may be repeated, so that is safe. After a time-out nothing that was kept is used again: what stalled
one connection (an address translation that was forgotten, a proxy that hangs) stalled those beside it.

A call has one deadline: for the name, every address, TLS, what is sent, the answer's last byte, and the second try.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import threading
import time
from typing import Any, Iterator, Mapping, NamedTuple

from .deadline import Clock, Deadline
from .errors import Garbled, SettingsError, Unreachable
from .lookup import Lookup
from .settings import Address

CONNECT = 5.0
"""Seconds for TCP and for TLS; a call that has less has less for these too."""

ANSWER_LIMIT = 1 << 20
"""Bytes of an answer; more is not from our master."""

PIECE = 1 << 14
"""Bytes sent at a time: a record of TLS. For each the time is looked at."""

KEPT = 16
"""Idle connections kept: beat, announcement, barrier, and a burst of keys."""


CLOSING = (ConnectionError, http.client.BadStatusLine, ssl.SSLError)
"""How it shows that the other side closed the connection."""


class Closed(Unreachable):
    """The connection was closed before an answer came."""


class Reply(NamedTuple):
    """An answer as it came."""

    status: int
    body: bytes
    kind: str = ""
    """Its media type."""


class Connections:
    """A pool of connections to one address; safe from any thread."""

    def __init__(self, address: Address, ca: str, clock: Clock = time.monotonic) -> None:
        self._address = address
        self._clock = clock
        self._lookup = Lookup(address[0], address[1], clock)
        self._context = _context(ca) if address.secure else None
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []

    def call(self, method: str, path: str, headers: Mapping[str, str], body: bytes, limit: float) -> Reply:
        """One request, answered within `limit` seconds. Raises Unreachable, or Garbled when it is no HTTP."""
        deadline = Deadline(limit, self._clock)
        kept = self._take()
        if kept is not None:
            try:
                return self._try(kept, method, path, headers, body, deadline)
            except Closed:
                pass
        return self._try(self._new(), method, path, headers, body, deadline)

    def close(self) -> None:
        """Close what is idle."""
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
            raise Garbled(f"{method} {path.partition('?')[0]}: an answer of more than {ANSWER_LIMIT} bytes")
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
    """What a socket receives, up to a deadline, in the place of a socket: a time-out of its own begins again with every
    byte that comes.
    """

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
    """Believes certificates of this authority alone, for the name that is called. Raises SettingsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=ca)
    except (ssl.SSLError, ValueError):
        raise SettingsError("GANGWRIGHT_CA", ca, "must be the PEM of the master's authority") from None
    return context


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
