"""A kube-scheduler's end of the wire: one connection, one call after the other, each timed."""

import gc
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

LIMIT: Final = 10.0
"""Seconds for one answer."""

PER_MILLE: Final = 990


def body(pod: dict[str, Any], nodes: list[str]) -> bytes:
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": nodes}).encode()


def call(host: str, content: bytes) -> bytes:
    """The whole request, as Go's client writes it: in one segment."""
    head = (
        f"POST /v1/filter HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Go-http-client/1.1\r\n"
        f"Content-Length: {len(content)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + content


def times(url: str, content: bytes, *, count: int, pause: float = 0.0) -> list[float]:
    """Milliseconds of each of `count` calls, `pause` seconds apart. Raises RuntimeError for any answer that is no
    seat.
    """
    found = []
    with _no_collection(), connection(url) as ask:
        for _ in range(count):
            took, answer = ask(content)
            found.append(took)
            said = json.loads(answer)
            if said.get("Error") or len(said.get("NodeNames") or ()) != 1:
                raise RuntimeError(f"filter was to answer one node, and said {answer[:200]!r}")
            if pause:
                time.sleep(pause)
    return found


@contextmanager
def connection(url: str) -> Iterator[Callable[[bytes], tuple[float, bytes]]]:
    """One kept connection: sends a body, and gives the milliseconds until its answer, and the answer's body.

    The call raises OSError, or RuntimeError where the connection is closed.
    """
    address = urlsplit(url)
    with socket.create_connection((address.hostname or "", address.port or 0), LIMIT) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def ask(content: bytes) -> tuple[float, bytes]:
            request = call(address.netloc, content)
            began = time.perf_counter()
            wire.sendall(request)
            answer = _answer(wire)
            return 1000 * (time.perf_counter() - began), answer

        yield ask


@contextmanager
def _no_collection() -> Iterator[None]:
    """This process has measured planners before: to go through all that they left takes longer than a call."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def p99(found: list[float]) -> float:
    """The smallest figure that 99 of 100 do not exceed."""
    line = sorted(found)
    return line[min(len(line) - 1, -(-len(line) * PER_MILLE // 1000) - 1)]


def _answer(wire: socket.socket) -> bytes:
    """The body of one response with a Content-Length."""
    head, _, rest = _until(wire, b"", b"\r\n\r\n").partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
    length = int(fields[b"content-length"])
    while len(rest) < length:
        rest += _more(wire)
    return rest


def _until(wire: socket.socket, text: bytes, end: bytes) -> bytes:
    while end not in text:
        text += _more(wire)
    return text


def _more(wire: socket.socket) -> bytes:
    chunk = wire.recv(65536)
    if not chunk:
        raise RuntimeError("the connection was closed before the answer was whole")
    return chunk
