"""The listening socket. Connections are counted on acceptance, before TLS, and bounded before they are trusted.

Lives here: limits that aiohttp's server lacks: connections, handshakes, how long a peer may stay unknown, and the time
for a request's head. Never here: HTTP. A connection passes bytes on to the protocol behind it.

Why a connection is closed instead of rejecting a new one: kube-scheduler and workers must always get in. So the newest
stays, and the oldest stranger is closed. A stranger is a connection whose peer has not identified itself: by a token or
certificate if the server requires one, otherwise by a request that was answered. A quarter of all connections is
reserved for strangers, no matter how many are known.
"""

import asyncio
import errno
import resource
import socket
from collections import OrderedDict
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, Literal, Never, TypeAlias

import structlog
from aiohttp import web

from scheduler.serving.tls import Identity

HEAD_LIMIT: Final = 5.0
"""Seconds for a TLS handshake, and from the first byte of a request until its head is complete. Both are short."""

STRANGER_LIMIT: Final = 10.0
"""Seconds after its acceptance within which a connection must show a token or certificate, if the server requires one.
A worker does so with its first request. The review of its token takes milliseconds and does not count."""

STRANGERS: Final = 2048
"""Maximum strangers at a time. Each takes 42 KiB as soon as TLS is established, so all of them take 86 MiB."""

HANDSHAKES: Final = 256
"""Maximum concurrent handshakes. A fast one takes milliseconds. OpenSSL allocates the size that a hello announces, with
all copies up to 450 KiB."""

STRANGERS_BYTES: Final = 32 * 2**20
"""Maximum bytes from all strangers together if the server requires tokens: HTTP keeps a head, and the start of a body,
until the sender is known. A worker's first request has two thousand."""

FILES: Final = 256
"""Open files reserved for everything else, for example connections to the API server."""

AT_ONCE: Final = 64
"""Connections that are accepted before everything else gets a turn. Each takes 30 microseconds."""

RETRY: Final = 1.0
"""Seconds until the next try if no connection can be accepted, or until the next check of a busy stranger."""

Cause: TypeAlias = Literal["full", "silent", "slow", "ahead", "handshake", "certificate"]
"""Why a connection is closed."""

_NO_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
_log = structlog.get_logger("serving")


class Listener:
    """Accepts connections while `run` runs.

    make: the protocol behind a connection, for example aiohttp's server. most: connections at a time. identity: the
    server's TLS identity. credentials: a peer stays a stranger until `authenticated` is called, otherwise until its
    first answer. stranger_limit: maximum seconds as a stranger. head_limit: seconds for a head, and for a handshake.
    closed: receives the cause of every connection that was cut.
    """

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        *,
        most: int,
        identity: Identity | None = None,
        credentials: bool = False,
        stranger_limit: float = STRANGER_LIMIT,
        head_limit: float = HEAD_LIMIT,
        closed: Callable[[Cause], None] = lambda _: None,
    ) -> None:
        self.make = make
        self.identity = identity
        self.credentials = credentials
        self.stranger_limit = stranger_limit
        self.head_limit = head_limit
        self.closed = closed
        self.open: dict[Connection, None] = {}
        """All connections, the oldest first."""
        self.strangers: dict[Connection, None] = {}
        """The strangers among them, the oldest first."""
        self.handshakes: dict[Connection, None] = {}
        """Connections whose TLS handshake is under way, the oldest first."""
        self.heard = 0
        """Bytes that the strangers have sent."""
        self._speaking: OrderedDict[str, dict[Connection, None]] = OrderedDict()
        """Connections that have sent a first byte, by address. The addresses take turns."""
        self._most = _within_files(most)

    async def run(self, listening: socket.socket) -> Never:
        """Accept connections until canceled."""
        loop = asyncio.get_running_loop()
        turn = 0
        while True:
            turn += 1
            try:
                accepted, (address, *_) = await loop.sock_accept(listening)
                self._make_room()
                Connection(self, accepted, address)
            except OSError as error:
                if error.errno in _NO_FILES and self.strangers:
                    self._close_oldest(self.strangers)
                    await asyncio.sleep(0)  # its socket is closed by then
                elif error.errno != errno.ECONNABORTED:
                    _log.warning("cannot accept connections", error=error.strerror)
                    await asyncio.sleep(RETRY)
            except Exception:  # noqa: BLE001 - a fault of one connection must not stop the listener
                _log.exception("a connection could not begin")
            if turn % AT_ONCE == 0:
                await asyncio.sleep(0)  # existing connections get their turn too

    def speaks(self, connection: "Connection") -> None:
        """The connection has sent its first byte. One connection begins per turn of the event loop, because a handshake
        takes a millisecond. Addresses take turns, so that a thousand connections of one do not delay another address.
        """
        if not self._speaking:
            asyncio.get_running_loop().call_soon(self._next_begins)
        self._speaking.setdefault(connection.address, {})[connection] = None

    def _next_begins(self) -> None:
        address, waiting = self._speaking.popitem(last=False)
        connection = next(iter(waiting), None)
        if connection is not None:
            del waiting[connection]
        if waiting:
            self._speaking[address] = waiting
        if self._speaking:
            asyncio.get_running_loop().call_soon(self._next_begins)
        if connection is not None:
            connection.stand()
        if len(self.handshakes) > HANDSHAKES:
            self._close_oldest(self.handshakes)

    def forget(self, connection: "Connection") -> None:
        """The connection no longer counts and waits for no turn."""
        self.open.pop(connection, None)
        self.handshakes.pop(connection, None)
        self.known(connection)
        self._speaking.get(connection.address, {}).pop(connection, None)

    def known(self, connection: "Connection") -> None:
        """The connection is no longer a stranger. If known ones exceed their quota, one of them is closed: the longest
        quiet one, or without credentials the one with the fewest answers, because kube-scheduler's has the most.
        """
        if connection not in self.strangers:
            return
        del self.strangers[connection]
        self.heard -= connection.heard
        known = len(self.open) - len(self.strangers)
        if connection in self.open and known > self._most - max(1, self._most // 4):
            others = [one for one in self.open if one not in self.strangers and one is not connection]
            if others:
                rank = attrgetter("busy" if self.credentials else "answered", "last")
                min(others, key=rank).close("full")

    def heard_more(self, size: int) -> None:
        """Strangers have sent `size` more bytes. If the total is too large, the one that sent most is closed."""
        self.heard += size
        if self.heard > STRANGERS_BYTES:
            max(self.strangers, key=lambda one: one.heard).close("full")

    def close(self) -> None:
        """End the connections without a request. The protocols end the others."""
        for connection in list(self.open):
            connection.give_up()

    def _make_room(self) -> None:
        full = len(self.open) >= self._most or len(self.strangers) >= STRANGERS
        if full and self.strangers:
            self._close_oldest(self.strangers)

    @staticmethod
    def _close_oldest(connections: "dict[Connection, None]") -> None:
        next(iter(connections)).close("full")


class Connection(asyncio.Protocol):
    """One connection, from its acceptance. The request handler calls `begin` and `finish` around each request."""

    def __init__(self, listener: Listener, accepted: socket.socket, address: str) -> None:
        self.address = address
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._inner: asyncio.Protocol | None = None
        """The protocol behind it, from the first byte on: a connection with only a handshake needs none."""
        self._transport: asyncio.BaseTransport | None = None
        self._standing: asyncio.Task[Any] | None = None
        self._head: asyncio.TimerHandle | None = None
        self._content: Any = None
        """The body of the request that is being answered."""
        self._unanswered = False
        """It has sent bytes since its handshake or its last answer."""
        self._spared = False
        """`expire` has waited for such bytes once."""
        self.heard = 0
        """Bytes that it has sent as a stranger."""
        self.answered = 0
        """Its requests that were answered and not rejected."""
        self.last = self._loop.time()
        """Its last sign of life, by the loop's clock."""
        self._unknown = self._loop.call_later(listener.stranger_limit, self.expire)
        self._accepted: socket.socket | None = accepted
        # In TLS and HTTP the client sends first: a silent connection costs no more than its socket.
        self._loop.add_reader(accepted, self._speaks, accepted)
        listener.open[self] = listener.strangers[self] = None

    @property
    def busy(self) -> bool:
        """One of its requests is being answered."""
        return self._content is not None

    def _speaks(self, accepted: socket.socket) -> None:
        self._loop.remove_reader(accepted)
        self._unanswered = True
        self._listener.speaks(self)

    def stand(self) -> None:
        """Begin with the TLS handshake, or without TLS with the first request."""
        if self._accepted is None:
            return
        tls: dict[str, Any] = {}
        if self._listener.identity is not None:
            self._listener.identity.refresh()
            tls = {"ssl": self._listener.identity.context, "ssl_handshake_timeout": self._listener.head_limit}
            self._listener.handshakes[self] = None
        self._standing = self._loop.create_task(
            self._loop.connect_accepted_socket(lambda: self, self._accepted, **tls)
        )
        self._standing.add_done_callback(self._stood)

    def _stood(self, standing: "asyncio.Task[Any]") -> None:
        self._standing = None
        if not standing.cancelled():
            standing.exception()  # mark it as retrieved; the peer reports the error
        if self in self._listener.open and self._transport is None:
            self._listener.closed("handshake")
            self._forget()
        self._free()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._accepted = None
        self._unanswered = False
        self._listener.handshakes.pop(self, None)
        if self not in self._listener.open:
            self._abort()
        elif self._listener.identity is not None and not self._listener.identity.admit(transport):
            self.close("certificate")
        else:
            self.last = self._loop.time()

    def data_received(self, data: bytes) -> None:
        listener = self._listener
        if listener.credentials and self in listener.strangers:
            self.heard += len(data)
            listener.heard_more(len(data))
        if listener.credentials and self.busy and self._content.at_eof():
            self.close("ahead")  # bytes that are sent before the answer would be kept until then
        if self not in listener.open or self._transport is None:
            return
        if self._inner is None:
            self._inner = listener.make()
            self._inner.connection_made(self._transport)
        self._unanswered = True
        if not self.busy and self._head is None:
            self._head = self._loop.call_later(listener.head_limit, self.close, "slow")
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._inner is not None else None

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        inner, self._inner, self._transport = self._inner, None, None
        if inner is not None:
            inner.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()

    def begin(self, request: web.Request) -> None:
        """A request's head is complete."""
        self._stop_head()
        self._content = request.content

    def finish(self, *, well: bool) -> None:
        """The request was answered. well: it was not rejected."""
        self._content = None
        self._unanswered = False
        self.answered += well
        self.last = self._loop.time()
        if not self._listener.credentials:
            self.authenticated()

    def authenticated(self) -> None:
        """The peer has identified itself."""
        self._unknown.cancel()
        self._listener.known(self)

    def expire(self) -> None:
        """The connection has been a stranger for too long. A request that is being answered has its own limits.

        One that has only arrived is waited for once. After a pause of this process it arrives in the same turn of the
        loop as this time-out. A browser whose request is cut shows half a page.
        """
        waits = self._unanswered and not self._spared
        if self.busy or waits:
            self._spared = self._spared or not self.busy
            self._unknown = self._loop.call_later(RETRY, self.expire)
        else:
            self.close("silent")

    def close(self, cause: Cause) -> None:
        """Cut the connection without waiting for further bytes."""
        self._listener.closed(cause)
        self._forget()
        self._abort()

    def give_up(self) -> None:
        """End the connection if there is no protocol behind it yet."""
        if self._inner is None:
            self._forget()
            self._abort()

    def _abort(self) -> None:
        if self._transport is not None:
            transport: Any = self._transport
            transport.abort()
        elif self._standing is not None:
            self._standing.cancel()
        elif self._accepted is not None:
            self._loop.remove_reader(self._accepted)
            self._free()

    def _free(self) -> None:
        """Close the socket if it has no transport that closes it."""
        if self._accepted is not None:
            self._accepted.close()
            self._accepted = None

    def _forget(self) -> None:
        self._unknown.cancel()
        self._stop_head()
        self._listener.forget(self)

    def _stop_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


def connection_of(request: web.Request) -> Connection | None:
    """The connection of a request; None for a request without a listener."""
    found = request.transport.get_protocol() if request.transport else None
    return found if isinstance(found, Connection) else None


def authenticated(request: web.Request) -> None:
    """The sender of this request has identified itself, so its connection is no longer a stranger."""
    connection = connection_of(request)
    if connection is not None:
        connection.authenticated()


def _within_files(most: int) -> int:
    """`most`, or as many connections as the limit on open files allows. The process raises its own limit as far as it
    may, because a container often starts with 1,024 of a million.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = hard if hard != resource.RLIM_INFINITY else max(soft, 2**20)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):
        allowed = soft
    if most > allowed - FILES:
        _log.warning(
            "fewer connections than set: the limit on open files is too low", files=allowed, set=most
        )
    return max(2, min(most, allowed - FILES))
