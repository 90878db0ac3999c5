"""The loopback server for the training: Horovod's C++ client uses it as its rendezvous, `runtime` for everything else.

Lives here: HTTP, authentication, bounds, and the threads. Never here: the meaning of an answer (`local_api`,
`kv_proxy`). It listens only on 127.0.0.1, on a port from the kernel. Every run of the child has its own key. `runtime`
sends it as a bearer token. Horovod's client cannot send one, but accepts an address with a path. There the key is the
first part of the path (`/KEY:PORT/SCOPE/NAME`), and gives access only to the values of the current round. Without the
key every request is rejected, because every process in the pod's network can reach this port.

Horovod opens a connection for each of its requests, dozens at once. So threads wait for connections in the kernel,
which wakes one of them: 0.3 ms of processor time per request, compared to 0.5 ms with a thread per request (measured).
"""

from __future__ import annotations

import contextlib
import hmac
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any, Callable, NamedTuple
from urllib.parse import urlsplit

from .agent_errors import MasterError
from .kv_proxy import Said, Store
from .local_api import LocalAPI
from .progress_report import Wrong
from .training_run import TrainingRun

SPARE = 4
"""Idle threads that wait for connections: for the child's main thread, its report, and Horovod's two."""

PAUSE = 0.05
"""Seconds until the next try if a connection could not be accepted because of too many open files."""

Serve = Callable[[socket.socket, Any], None]


class Acceptors:
    """Serves connections of `listener`, at most `most` at a time; the rest wait in its backlog. `serve(socket,
    address)` serves one connection to its end; an exception ends only that connection.
    """

    def __init__(self, listener: socket.socket, serve: Serve, most: int) -> None:
        self._listener, self._serve, self._most = listener, serve, most
        self._lock = threading.Lock()
        self._threads = self._free = 0
        self._over = threading.Event()

    def start(self) -> None:
        """Start serving. Raises RuntimeError if no thread can be started."""
        self._threads = self._free = 1
        self._another()

    def close(self) -> None:
        """Accept no more connections; open requests end with the process."""
        self._over.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes all waiting threads
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
        """A connection was accepted: start another thread if none is free for the next one."""
        with self._lock:
            self._free -= 1
            if self._free or self._threads >= self._most:
                return
            self._threads += 1
            self._free += 1
        try:
            self._another()
        except RuntimeError:  # no thread can be started now: callers wait until one is free
            with self._lock:
                self._threads -= 1
                self._free -= 1

    def _free_again(self) -> bool:
        """Whether this thread continues; False if enough others are free."""
        with self._lock:
            if self._free >= SPARE:
                self._threads -= 1
                return False
            self._free += 1
            return True

    def _answer(self, connection: socket.socket, address: Any) -> None:
        with contextlib.closing(connection), contextlib.suppress(Exception):
            # ignore all errors: a child may be killed in the middle of a request
            self._serve(connection, address)
            connection.shutdown(socket.SHUT_WR)

    def _another(self) -> None:
        threading.Thread(target=self._run, name="shim", daemon=True).start()


BACKLOG = 512
"""Maximum connections waiting to be accepted. With the usual 5, Horovod's start took seconds at 8 workers."""

AT_ONCE = 256
"""Maximum concurrent connections: a child has a few, Horovod one or two more."""

BODY_LIMIT = 1 << 20
"""Maximum bytes of a body, as at the master."""

IDLE = 300.0
"""Seconds until an idle connection is closed."""

KEY_VALUE = re.compile(
    r"(?:/(?P<door>[-_A-Za-z0-9]{16,64}):[0-9]{1,5})?"
    r"/(?P<scope>[A-Za-z0-9_][-._A-Za-z0-9]{0,511})/(?P<key>[A-Za-z0-9_][-._:A-Za-z0-9]{0,511})"
)
"""A path of Horovod's client: nothing encoded, no leading dots, nothing after the key."""

Current = Callable[[], "TrainingRun | None"]


class _Behind(NamedTuple):
    """The objects that answer a request."""

    doors: LocalAPI
    store: Store
    current: Current


class Shim:
    """The server; `current` returns the current incarnation of the child."""

    def __init__(self, doors: LocalAPI, store: Store, current: Current) -> None:
        behind = _Behind(doors, store, current)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self.port = int(self._listener.getsockname()[1])

        def serve(connection: socket.socket, address: Any) -> None:
            _Handler(connection, address, behind)  # type: ignore[arg-type]  # it asks nothing else of a server

        self._acceptors = Acceptors(self._listener, serve, AT_ONCE)

    def start(self) -> None:
        self._acceptors.start()

    def close(self) -> None:
        """Stop listening; open requests end with the process."""
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

    def _value(self, child: TrainingRun, body: bytes) -> Said:
        """The answer to Horovod."""
        found = KEY_VALUE.fullmatch(self.path)
        if found is None or self.command == "POST":
            return Said(400)
        if not (self._bears(child) or child.lets_in(found["door"])):
            return Said(401)
        with child.asks():
            return self.server.store.answer(child, self.command, found["scope"], found["key"], body)

    def _bears(self, child: TrainingRun) -> bool:
        """Whether the request contains this child's key."""
        given = self.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, f"Bearer {child.key}".encode())

    def _body(self) -> bytes | None:
        """The body; None if it was rejected."""
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
        """Answer, and close the connection, because the rest of its data cannot be parsed."""
        self.close_connection = True
        self._say(Said(status))

    def _say(self, said: Said) -> None:
        """Always with a length: without one, Horovod's client takes the first packet for the whole answer."""
        self.send_response_only(said.status)
        if said.status != 204:
            self.send_header("Content-Length", str(len(said.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(said.body if said.status != 204 else b"")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Reject a request that cannot be parsed, without repeating any of it."""
        self._refuse(code)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing, because paths contain the key."""
