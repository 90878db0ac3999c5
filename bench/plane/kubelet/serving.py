"""What a kubelet answers to the API server: the logs of its containers, and a way to the ports of its pods.

Lives here: the two routes, as kubelet and container runtime have them (k8s.io/kubernetes/pkg/kubelet/server,
k8s.io/cri-streaming). Never here: who may ask; that is the API server's business, and nobody else has a certificate
that is let in.

What is not known of a log is refused and not made up: to which of both streams a line was written. When it was is known
to a tenth of a second.
"""

import asyncio
import ssl
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from aiohttp import WSMsgType, web

from bench.plane.client import Object
from bench.plane.kubelet.life import Life
from bench.plane.kubelet.written import Stamps, Written
from bench.plane.ports import HOST

PROTOCOL: Final = "v4.channel.k8s.io"
DATA, ERROR = b"\x00", b"\x01"

UNKNOWN: Final = ("limitBytes",)
"""Words about a log that are not known here."""

LOOK: Final = 0.02
"""Seconds between two looks at a log that is followed."""

CHUNK: Final = 2**16

PORT: Final = "plane.gangwright.io/port."
"""Annotation of a pod, with a port's number behind it: the port of this machine that stands for it. By default the
same.
"""


class Server:
    """For all nodes of one stand-in. find: the pod of this "namespace/name", if it is on one of them."""

    def __init__(self, find: Callable[[str], Life | None], context: ssl.SSLContext) -> None:
        self._find = find
        self._context = context
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        app.router.add_get("/portForward/{namespace}/{pod}", self._forward)
        self._runner = web.AppRunner(app, shutdown_timeout=0.0)

    async def start(self) -> int:
        """Its port."""
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, 0, ssl_context=self._context).start()
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        await self._runner.cleanup()

    # ── logs ────────────────────────────────────────────────────────────────────────────────────────────

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        life, name, asked = self._life(request), request.match_info["container"], request.query
        pod = life.pod["metadata"]["name"]
        if name not in _containers(life.pod):
            raise web.HTTPNotFound(text=f'container "{name}" not found in pod "{pod}"')
        if (unknown := [word for word in UNKNOWN if word in asked]) or asked.get("stream", "All") != "All":
            raise web.HTTPBadRequest(
                text=f"{', '.join(unknown) or 'stream'}: the stand-in does not know this"
            )
        runs = life.runs(name)
        if asked.get("previous") == "true":
            *runs, _ = runs or [Path()]
        if not runs:
            raise web.HTTPBadRequest(
                text=f'container "{name}" in pod "{pod}" is waiting to start or never ran'
            )
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        follow = asked.get("follow") == "true" and asked.get("previous") != "true"
        written, tail = life.written[runs[-1]], int(asked.get("tailLines", -1))
        stamped = written if asked.get("timestamps") == "true" else None
        await _written(response, runs[-1], _old(written, asked), tail, life, name if follow else "", stamped)
        return response

    # ── ports ───────────────────────────────────────────────────────────────────────────────────────────

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        life, said = self._life(request), request.query.get("port", "")
        if not said.isdecimal() or len(request.query.getall("port")) != 1:
            raise web.HTTPBadRequest(text=f"port: {said!r}: the stand-in forwards one port at a time")
        socket = web.WebSocketResponse(protocols=[PROTOCOL], max_msg_size=0)
        if not socket.can_prepare(request):
            raise web.HTTPBadRequest(text="the stand-in forwards ports over WebSockets alone")
        await socket.prepare(request)
        for channel in (DATA, ERROR):
            await socket.send_bytes(channel + struct.pack("<H", int(said)))
        meta = life.pod["metadata"]
        port = int((meta.get("annotations") or {}).get(f"{PORT}{said}", said))
        try:
            reader, writer = await asyncio.open_connection(HOST, port)
        except OSError as error:
            why = f"error forwarding port {said} to pod {meta['name']}, uid {meta['uid']}: {error.strerror or error}"
            await socket.send_bytes(ERROR + why.encode())
            return socket
        await _carried(socket, reader, writer)
        return socket

    def _life(self, request: web.Request) -> Life:
        pod = request.match_info["pod"]
        if life := self._find(f"{request.match_info['namespace']}/{pod}"):
            return life
        raise web.HTTPNotFound(text=f'pod "{pod}" does not exist')


def _containers(pod: Object) -> Iterator[str]:
    for part in ("initContainers", "containers"):
        yield from (own["name"] for own in pod["spec"].get(part) or ())


def _old(written: Written, asked: Mapping[str, str]) -> int:
    """Bytes of a log that are older than what is asked for."""
    if "sinceTime" in asked:
        return written.before(datetime.fromisoformat(asked["sinceTime"]).timestamp())
    return written.since(int(asked["sinceSeconds"])) if "sinceSeconds" in asked else 0


async def _written(
    response: web.StreamResponse,
    file: Path,
    old: int,
    tail: int,
    life: Life,
    follow: str,
    stamped: Written | None,
) -> None:
    """Sends a run's log. old: bytes that are left out, but for a line that ends behind them. follow: its container,
    until which has ended it goes on. stamped: when it was written, where that is to stand before each line.
    """
    container = life.containers.get(follow)
    with file.open("rb") as log:
        before = log.read()
        lines = before[before.rfind(b"\n", 0, old) + 1 :].splitlines(keepends=True)
        shown = b"".join(lines if tail < 0 else lines[len(lines) - min(tail, len(lines)) :])
        put = Stamps(stamped, len(before) - len(shown)).put if stamped is not None else bytes
        await response.write(put(shown))
        alive = container is not None
        while container is not None and alive:
            alive = container.alive
            if more := log.read():
                await response.write(put(more))
            else:
                await asyncio.sleep(LOOK)


async def _carried(
    socket: web.WebSocketResponse, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Both ways, until either side ends it."""

    async def back() -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                await socket.send_bytes(DATA + chunk)
        await socket.close()

    task = asyncio.create_task(back())
    try:
        async for message in socket:
            if message.type is WSMsgType.BINARY and message.data[:1] == DATA:
                writer.write(message.data[1:])
    finally:
        task.cancel()
        writer.close()
        await asyncio.gather(task, return_exceptions=True)
        with suppress(OSError):
            await writer.wait_closed()
