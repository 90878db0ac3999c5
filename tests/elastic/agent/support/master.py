"""A small master on loopback that speaks the workers' calls over HTTP or HTTPS, and writes down what it heard.

It keeps the rules that an agent can see: who shows no valid token is refused, a round's values belong to that round, a
GET waits, and what is asked again is answered again.
"""

import contextlib
import json
import socket
import ssl
import threading
from base64 import b64encode
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

PATIENCE = 60.0
"""Seconds a test waits for something that must happen. Where others of higher priority want all of the processor, half of
it may pass: a process that starts, and is told to end, took 28 s beside seven of those on two cores."""


class Master:
    """What a test sets (`tokens`, `assign`, `abort` …) and what it may look at (`calls`, `values`)."""

    def __init__(self, context: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.tokens = {"token-1"}
        self.calls: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.values: dict[tuple[int, str, str], bytes] = {}
        self.assignment: dict[str, Any] | None = None
        self.newest = 0
        self.abort: str | None = None
        self.broken = 0
        self.place: dict[str, Any] | None = {"rank": 0, "size": 1, "joins": False}
        self.restarts = 0
        self.over = (409, "RoundOver")
        self.refusal: dict[str, int] = {}
        self.reason = "Refused"
        self.changed = threading.Condition()
        self.asks = threading.local()
        self._context = context
        self._server: _Server | None = None
        self._host = host
        self._port = 0
        self._place = socket.socket()

    def __enter__(self) -> Self:
        self._place.close()
        self._server = _Server((self._host, self._port), self, self._context)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.away()
        self._place.close()

    def away(self) -> None:
        """As when its process is killed: connections are reset, and nobody listens; the port stays ours."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            server.cut()
            self._place = socket.socket()
            self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._place.bind((self._host, self._port))

    back = __enter__

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://{self._host}:{self._port}"

    def assign(self, number: int, rank: int = 0, size: int = 1, **more: Any) -> None:
        """Publish a round to the one worker."""
        with self.changed:
            self.newest = max(self.newest, number)
            self.assignment = {
                "round": number, "rank": rank, "size": size, "members": [], "sync": True, "removed": False,
                "checkpoint": False, "restore": None, "batch": None, "lr_scale": 1.0, "ramp_steps": 0, "env": {}, **more,
            }  # fmt: skip
            self.changed.notify_all()

    def announce(self, number: int) -> None:
        with self.changed:
            self.newest, self.assignment = number, None
            self.changed.notify_all()

    def until(self, true: Any) -> None:
        """Wait until `true()` holds; the test fails when it never does."""
        with self.changed:
            assert self.changed.wait_for(true, PATIENCE), dict(self.calls)

    def heard(self, call: str, times: int = 1, **words: Any) -> dict[str, Any]:
        """The last such call, as soon as there were so many with these words."""

        def found() -> list[dict[str, Any]]:
            return [one for one in self.calls[call] if words.items() <= one.items()]

        self.until(lambda: len(found()) >= times)
        return found()[-1]

    # the calls

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, bytes]:
        name = path.rpartition("/")[2]
        told = json.loads(body) if method == "POST" else {}
        with self.changed:
            self.calls[name if "/kv/" not in path else f"kv {method}"].append(told)
            self.changed.notify_all()
            if name in self.refusal:
                return _no(self.refusal[name], self.reason)
        if "/kv/" in path:
            return self._value(method, path, query, body)
        return getattr(self, f"_{name}")(told, query)

    def _beat(self, told: dict[str, Any], _: Any) -> tuple[int, bytes]:
        with self.changed:
            abort, self.abort = self.abort, None
            said = {"round": self.newest, "abort": abort, "interval": 0.1, "broken": self.broken}
            return _yes({**said, "place": self.place})

    def _ready(self, told: dict[str, Any], _: Any) -> tuple[int, bytes]:
        with self.changed:
            there = self.changed.wait_for(
                lambda: self.assignment is not None and self.assignment["round"] > told.get("round", 0), 1.0
            )
            return _yes(self.assignment) if there else (204, b"")

    def _announced(self, _: Any, query: dict[str, list[str]]) -> tuple[int, bytes]:
        after, wait = int(query["round"][0]), float(query["wait"][0])
        with self.changed:
            self.changed.wait_for(lambda: self.newest > after, min(wait, 2.0))
            return _yes({"round": self.newest})

    def _leave(self, told: dict[str, Any], _: Any) -> tuple[int, bytes]:
        return _yes({})

    def _exit(self, told: dict[str, Any], _: Any) -> tuple[int, bytes]:
        with self.changed:
            again, self.restarts = self.restarts > 0, self.restarts - 1
            return _yes({"restart": again})

    def _value(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, bytes]:
        _, _, _, number, _, scope, key = (unquote(part) for part in path.split("/"))
        place = (int(number), scope, key)
        if self.assignment is None or place[0] != self.assignment["round"]:
            return _no(*self.over)
        with self.changed:
            if method == "PUT":
                self.values[place] = body
                self.changed.notify_all()
                return 204, b""
            self.changed.wait_for(lambda: place in self.values, float(query["wait"][0]))
            if place not in self.values:
                return _no(404, "NotFound")
            beside = (
                [(*place[:2], str(int(key) + more + 1)) for more in range(int(query["beside"][0]))]
                if key.isdigit()
                else []
            )
            there = {one[2]: self.values[one] for one in (place, *beside) if one in self.values}
            return _yes({"values": {name: b64encode(value).decode() for name, value in there.items()}})


def _yes(told: Any) -> tuple[int, bytes]:
    return 200, json.dumps(told).encode()


def _no(status: int, reason: str) -> tuple[int, bytes]:
    return status, json.dumps({"error": {"reason": reason, "message": "no"}}).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    allow_reuse_address = True

    def __init__(self, place: tuple[str, int], master: Master, context: ssl.SSLContext | None) -> None:
        super().__init__(place, _Handler)
        self.master, self.context = master, context
        self.open: set[Any] = set()

    def get_request(self) -> Any:
        request, address = super().get_request()
        if self.context is not None:
            request = self.context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        self.open.add(request)
        return request, address

    def cut(self) -> None:
        """As when the process is killed: every connection is reset."""
        for request in list(self.open):
            with contextlib.suppress(OSError):
                request.shutdown(2)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not believe our certificate hangs up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        master = self.server.master
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        url = urlsplit(self.path)
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        master.asks.token = token
        if token in master.tokens:
            status, content = master.answer(self.command, url.path, parse_qs(url.query), body)
        else:
            with master.changed:
                master.calls["unauthorized"].append({"token": token})
                master.changed.notify_all()
            status, content = _no(401, "Unauthorized")
        self.send_response_only(status)
        if status != 204:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PUT = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""
