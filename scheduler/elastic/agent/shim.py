"""The loopback server that the child talks to: Horovod's C++ for its rendezvous, our boot for everything else.

Lives here: HTTP, who may ask, and bounds. Never here: what an answer means (`doors`, `store`). It listens on
127.0.0.1 alone, on a port from the kernel. Every incarnation of the child has a key of its own: our calls show it as a
bearer token; Horovod's client cannot send one, but takes an address with a path in it, so there the key is the first
part of the path (`/KEY:PORT/SCOPE/NAME`), and through that door one reaches nothing but the values of the current
round. Nobody is answered without the key, from the first moment on: every process in the pod's network can reach this
port.
"""

from __future__ import annotations

import hmac
import re
import socket
from http.server import BaseHTTPRequestHandler
from typing import Any, Callable, NamedTuple
from urllib.parse import urlsplit

from .acceptors import Acceptors
from .doors import Doors
from .errors import MasterError
from .incarnation import Incarnation
from .progress import Wrong
from .store import Said, Store

BACKLOG = 512
"""Connections that may wait to be accepted. The usual 5 made Horovod's start take seconds at 8 workers."""

AT_ONCE = 256
"""Connections served at a time: a child has a handful, Horovod one or two besides."""

BODY_LIMIT = 1 << 20
"""Bytes of a body, as at the master."""

IDLE = 300.0
"""Seconds until a connection on which nothing comes is closed."""

KEY_VALUE = re.compile(
    r"(?:/(?P<door>[-_A-Za-z0-9]{16,64}):[0-9]{1,5})?"
    r"/(?P<scope>[A-Za-z0-9_][-._A-Za-z0-9]{0,511})/(?P<key>[A-Za-z0-9_][-._:A-Za-z0-9]{0,511})"
)
"""A path of Horovod's client. Nothing encoded, no dots in front, nothing beyond the key."""

Current = Callable[[], "Incarnation | None"]


class _Behind(NamedTuple):
    """What a request is answered from."""

    doors: Doors
    store: Store
    current: Current


class Shim:
    """The server; `current` says which incarnation of the child runs now."""

    def __init__(self, doors: Doors, store: Store, current: Current) -> None:
        behind = _Behind(doors, store, current)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self.port = int(self._listener.getsockname()[1])

        def serve(connection: socket.socket, address: Any) -> None:
            _Handler(connection, address, behind)  # type: ignore[arg-type]  # it asks nothing else of a server

        self._acceptors = Acceptors(self._listener, serve, AT_ONCE)

    def start(self) -> None:
        self._acceptors.start()

    def close(self) -> None:
        """Stop listening; calls that are being answered end with the process."""
        self._acceptors.close()


class _Handler(BaseHTTPRequestHandler):
    server: _Behind  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"
    server_version = "gangwright"
    sys_version = ""
    timeout = IDLE
    wbufsize = -1  # head and body leave in one piece
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - http.server looks for them by these names

    def _serve(self) -> None:
        body = self._body()
        if body is None:
            return
        try:
            said = self._answer(body)
        except Wrong as error:
            said = Said(400, str(error).encode())
        except MasterError as error:
            said = Said(502, str(error).encode())
        self._say(said)

    def _answer(self, body: bytes) -> Said:
        url = urlsplit(self.path)
        child = self.server.current()
        if url.scheme or url.netloc or child is None:
            return Said(404)
        door = self.server.doors.table.get((self.command, url.path))
        if door is None:
            return self._value(child, body)
        if not self._bears(child):
            return Said(401)
        with child.asks():
            return door(child, url.query, body)

    def _value(self, child: Incarnation, body: bytes) -> Said:
        """Horovod's part."""
        found = KEY_VALUE.fullmatch(self.path)
        if found is None or self.command == "POST":
            return Said(400)
        if not (self._bears(child) or child.lets_in(found["door"])):
            return Said(401)
        with child.asks():
            return self.server.store.answer(child, self.command, found["scope"], found["key"], body)

    def _bears(self, child: Incarnation) -> bool:
        """Whether the request shows this child's key."""
        given = self.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, f"Bearer {child.key}".encode())

    def _body(self) -> bytes | None:
        """The body; None when it was refused."""
        length = self.headers.get("Content-Length", "0")
        known = length.isascii() and length.isdigit() and "Transfer-Encoding" not in self.headers
        if not known:
            self._refuse(411)
        elif len(length) > 9 or int(length) > BODY_LIMIT:
            self._refuse(413)
        else:
            body = self.rfile.read(int(length))
            if len(body) == int(length):
                return body
            self.close_connection = True
        return None

    def _refuse(self, status: int) -> None:
        """Answer, and close: what follows on this connection is not known."""
        self.close_connection = True
        self._say(Said(status))

    def _say(self, said: Said) -> None:
        """Always with a length: without one, Horovod's client takes the first packet for the whole."""
        self.send_response_only(said.status)
        if said.status != 204:
            self.send_header("Content-Length", str(len(said.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(said.body if said.status != 204 else b"")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """What could not even be read is refused without repeating any of it."""
        self._refuse(code)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Paths hold the key, so none is written down."""
