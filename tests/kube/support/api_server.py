"""A small API server on loopback: lists in pages of one moment, watches with bookmarks, and faults on request.

What it honours: `limit` and `continue` (a list's pages are of one moment), `resourceVersion` of a watch (410 when
older than the last compaction) and its `timeoutSeconds`, label selectors of the form key=value, one version counter for
all kinds, Status objects for refusals. It forgets nothing unless told to, and counts every request.
"""

import asyncio
import ctypes
import itertools
import json
import socket
import struct
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web
from aiohttp.test_utils import TestServer

PODS = "/api/v1/pods"

ATTACH_FILTER = 26
"""Linux' SO_ATTACH_FILTER."""


@dataclass
class Refuse:
    """The next request is answered with this."""

    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """A Status object that fits `status` unless given."""
    seconds: float = 0.0
    """How long the answer is kept back."""


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    peer: object
    """The connection it came on."""

    @property
    def watches(self) -> bool:
        return "watch" in self.query


def status_body(
    code: int, message: str = "as scripted", reason: str = "", causes: tuple[str, ...] = ()
) -> bytes:
    details = {"causes": [{"reason": cause} for cause in causes]}
    status = {"kind": "Status", "code": code, "message": message, "reason": reason, "details": details}
    return json.dumps(status).encode()


def drop_all(receiver: Any) -> None:
    """A filter of the kernel's before this socket, which lets nothing pass: the one instruction `return 0`."""
    code = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    receiver.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(code)))


class Stream:
    """An open watch."""

    def __init__(self, transport: asyncio.Transport, selector: str) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.transport = transport
        self.selector = selector
        self.mute = False

    def send(self, line: bytes | None) -> None:
        if not self.mute:
            self.queue.put_nowait(line)


class ApiServer:
    def __init__(self) -> None:
        self.objects: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
        self.history: list[tuple[int, str, str, dict[str, Any]]] = []
        self.version = 100
        self.oldest = 0
        self.calls: list[Call] = []
        self.refusals: deque[Refuse] = deque()
        self.unknown: set[str] = set()
        self.barred: dict[str, Refuse] = {}
        """Collections of which neither a list nor a watch is answered otherwise."""
        self.second = 1.0
        """How long a second of `timeoutSeconds` lasts."""
        self.deaf = False
        """Nothing reaches the watches that are opened from now on, except those that last a second."""
        self.unpaged = 0
        """Pages behind the first that are still to be refused."""
        self.broken = 0
        """Lists whose answer is still to break off in its middle."""
        self.streams: list[tuple[str, Stream]] = []
        self._moments: dict[str, list[dict[str, Any]]] = {}
        self._tokens = itertools.count()
        self._uids = itertools.count(1)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._server = TestServer(app)

    async def start(self, port: int = 0, **kwargs: Any) -> Self:
        self._server.port = port
        await self._server.start_server(shutdown_timeout=0.1, **kwargs)
        return self

    async def stop(self) -> None:
        self.finish()
        await self._server.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        return str(self._server.make_url("")).rstrip("/")

    # What exists

    def put(self, name: str, path: str = PODS, namespace: str = "team", **fields: Any) -> dict[str, Any]:
        """Create the object, or replace it."""
        kind = self.objects.setdefault(path, {})
        old = kind.get((namespace, name))
        self.version += 1
        meta = {
            "name": name,
            "namespace": namespace,
            "uid": old["metadata"]["uid"] if old else f"uid-{next(self._uids)}",
            "resourceVersion": str(self.version),
            "labels": fields.pop("labels", {}),
        }
        kind[namespace, name] = {"metadata": meta, **fields}
        self._happened(path, "MODIFIED" if old else "ADDED", kind[namespace, name])
        return kind[namespace, name]

    def delete(self, name: str, path: str = PODS, namespace: str = "team") -> None:
        gone = self.objects[path].pop((namespace, name))
        self.version += 1
        last = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
        self._happened(path, "DELETED", last)

    def _happened(self, path: str, kind: str, obj: dict[str, Any]) -> None:
        self.history.append((self.version, path, kind, obj))
        for watched, stream in self.streams:
            if watched == path and selected(stream.selector, obj):
                stream.send(line(kind, obj))

    # Faults

    def bookmark(self) -> None:
        """Tell every open watch the newest version."""
        for _, stream in self.streams:
            stream.send(line("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}}))

    def say(self, raw: bytes) -> None:
        """Put these bytes on every open watch."""
        for _, stream in self.streams:
            stream.send(raw)

    def error(self, code: int) -> None:
        """End every open watch with an ERROR event."""
        self.say(line("ERROR", json.loads(status_body(code))))
        self.finish()

    def finish(self) -> None:
        """End every open watch in good order."""
        for _, stream in self.streams:
            stream.mute = False
            stream.send(None)

    def cut(self) -> None:
        """Break every open connection of a watch."""
        for _, stream in self.streams:
            stream.transport.abort()
            stream.queue.put_nowait(None)

    def vanish(self) -> None:
        """The machine is gone without a word: what comes on the watches that are open now is not even acknowledged."""
        for _, stream in self.streams:
            drop_all(stream.transport.get_extra_info("socket"))

    def mute(self) -> None:
        """From now on nothing reaches the watches that are open now."""
        for _, stream in self.streams:
            stream.mute = True

    def compact(self) -> None:
        """Forget all versions before now."""
        self.oldest = self.version
        self._moments.clear()

    # Answers

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        peer = request.get_extra_info("peername")
        call = Call(request.method, request.path, dict(request.query), headers, body, peer)
        self.calls.append(call)
        if self.refusals:
            return await self._refused(self.refusals.popleft())
        if call.path in self.barred:
            return await self._refused(self.barred[call.path])
        if call.path in self.unknown:
            return await self._refused(Refuse(404))
        if call.watches:
            return await self._watch(request, call)
        if call.path in self.objects:
            listed = self._list(call)
            return await self._break_off(request, listed) if self.broken else listed
        return await self._object(call)

    async def _break_off(self, request: web.Request, whole: web.Response) -> web.StreamResponse:
        """The first half of the answer, and the end of its connection."""
        self.broken -= 1
        response = web.StreamResponse()
        await response.prepare(request)
        assert isinstance(whole.body, bytes)
        await response.write(whole.body[: len(whole.body) // 2])
        assert request.transport is not None
        request.transport.abort()
        return response

    async def _refused(self, refuse: Refuse) -> web.Response:
        await asyncio.sleep(refuse.seconds)
        body = status_body(refuse.status) if refuse.body is None else refuse.body
        return web.Response(status=refuse.status, headers=refuse.headers, body=body)

    async def _object(self, call: Call) -> web.Response:
        collection, _, name = call.path.rpartition("/")
        for (_, other), obj in self.objects.get(collection, {}).items():
            if other == name:
                return web.json_response(obj)
        return await self._refused(Refuse(404))

    def _list(self, call: Call) -> web.Response:
        token = call.query.get("continue", "")
        if token and self.unpaged:
            self.unpaged -= 1
            return web.Response(status=503, body=status_body(503))
        if token and token not in self._moments:
            return web.Response(status=410, body=status_body(410, reason="Expired"))
        if token:
            assert "resourceVersion" not in call.query
            version, items = token.split(".")[0], self._moments[token]
        else:
            selector = call.query.get("labelSelector", "")
            chosen = (o for o in self.objects[call.path].values() if selected(selector, o))
            version, items = str(self.version), list(chosen)
        limit = int(call.query["limit"])
        meta = {"resourceVersion": version}
        if items[limit:]:
            meta["continue"] = f"{version}.{next(self._tokens)}"
            self._moments[meta["continue"]] = items[limit:]
        return web.json_response({"kind": "List", "metadata": meta, "items": items[:limit] or None})

    async def _watch(self, request: web.Request, call: Call) -> web.StreamResponse:
        since = int(call.query["resourceVersion"])
        if since < self.oldest:
            return web.Response(status=410, body=status_body(410, reason="Expired"))
        assert request.transport is not None
        stream = Stream(request.transport, call.query.get("labelSelector", ""))
        stream.mute = self.deaf and call.query.get("timeoutSeconds") != "1"
        for version, path, kind, obj in self.history:
            if version > since and path == call.path and selected(stream.selector, obj):
                stream.send(line(kind, obj))
        response = web.StreamResponse()
        entry = (call.path, stream)
        self.streams.append(entry)
        life = float(call.query.get("timeoutSeconds", "inf")) * self.second
        end = asyncio.get_running_loop().call_later(min(life, 3600.0), stream.send, None)
        try:
            await response.prepare(request)
            while (piece := await stream.queue.get()) is not None:
                await response.write(piece)
        except (ConnectionError, OSError):
            pass
        finally:
            end.cancel()
            self.streams.remove(entry)
        return response


def line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def selected(selector: str, obj: dict[str, Any]) -> bool:
    key, _, value = selector.partition("=")
    return not selector or obj["metadata"].get("labels", {}).get(key) == value
