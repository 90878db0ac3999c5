"""Peers of the rendezvous on the loopback, in a process of their own: attackers of several kinds, and one honest worker.

`python -m bench.elastic.peers KIND SECONDS` reads `Place` from standard input as JSON, and prints what it saw in a line.
Attackers come from eight addresses of the loopback that no worker has. What the server cuts comes back a second later.
"""

import asyncio
import json
import random
import ssl
import statistics
import sys
import time
from asyncio import sslproto
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.request import urlopen

from scheduler.elastic.agent.agent_errors import MasterError
from scheduler.elastic.agent.agent_settings import Address
from scheduler.elastic.agent.http_client import Connections
from scheduler.elastic.agent.master_client import BEAT

SOURCES: Final = tuple(f"127.0.0.{number}" for number in range(2, 10))
BACK: Final = 1.0
"""Seconds after which an attacker comes again."""

EVERY: Final = 0.1
"""Seconds from one honest beat to the next."""

FRESH: Final = 4
"""Each of so many honest beats comes by a new connection."""

BODY: Final = 2**20
"""Bytes of a body that is held back: the largest that the master takes."""

PROBE: Final = 10
"""Each of so many honest beats is followed by a probe, as kubelet makes one a second or two."""

PROBE_LIMIT: Final = 2.0
"""Seconds: `timeoutSeconds` of the probes in the manifests."""

HELLO: Final = b"\x16\x03\x01\x00\x10\x01\x01\xff\xb8\x03\x03" + bytes(10)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the master is. ca: PEM. token: of the worker whose peers these are. readyz: URL that kubelet asks."""

    host: str
    port: int
    ca: str
    token: str
    readyz: str


class Attackers:
    """So many of one kind until the time is over."""

    def __init__(self, place: Place, seconds: float) -> None:
        self._place = place
        self._end = time.monotonic() + seconds
        self._trust = ssl.create_default_context(cadata=place.ca)
        self.seen: Counter[str] = Counter()

    async def keep(self, count: int, visit: Callable[[], Awaitable[object]]) -> None:
        """So many at a time, each of which comes again when it was cut."""

        async def one() -> None:
            while time.monotonic() < self._end:
                try:
                    await visit()
                    self.seen["cut"] += 1
                except OSError as error:
                    self.seen[type(error).__name__] += 1
                await asyncio.sleep(BACK)

        await self._until_the_end([one() for _ in range(count)])

    async def pace(self, rate: float, visit: Callable[[], Awaitable[object]]) -> None:
        """So many a second, however long each takes."""
        began, tasks = time.monotonic(), set[asyncio.Task[object]]()
        while time.monotonic() < self._end:
            task = asyncio.ensure_future(visit())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            task.add_done_callback(lambda task: self.seen.update({self._word(task): 1}))
            await asyncio.sleep(max(0.0, began + sum(self.seen.values()) / rate - time.monotonic()))
        for task in list(tasks):
            task.cancel()

    async def silent(self) -> None:
        reader, writer = await self._connected(secure=False)
        await self._until_cut(reader, writer)

    async def hello(self) -> None:
        """The beginning of a ClientHello that says it has as many bytes as OpenSSL takes."""
        reader, writer = await self._connected(secure=False)
        writer.write(HELLO)
        await self._until_cut(reader, writer)

    async def idle(self) -> None:
        reader, writer = await self._connected(secure=True)
        self.seen["handshakes"] += 1
        await self._until_cut(reader, writer)

    async def held_body(self) -> None:
        reader, writer = await self._connected(secure=True)
        head = f"POST /v1/exit HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {self._place.token}\r\n"
        writer.write(f"{head}Content-Length: {BODY}\r\n\r\n".encode() + b" " * (BODY - 8))
        await writer.drain()
        await self._until_cut(reader, writer)

    async def handshake(self) -> None:
        _, writer = await self._connected(secure=True)
        writer.close()

    async def _connected(self, *, secure: bool) -> Streams:
        source = random.choice(SOURCES), 0
        more = {"ssl": self._trust} if secure else {}
        streams = await asyncio.open_connection(self._place.host, self._place.port, local_addr=source, **more)
        self.seen["connected"] += 1
        return streams

    async def _until_cut(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(4096):
                pass
        finally:
            writer.close()

    async def _until_the_end(self, visitors: list[Any]) -> None:
        tasks = [asyncio.ensure_future(visitor) for visitor in visitors]
        await asyncio.sleep(max(0.0, self._end - time.monotonic()))
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    @staticmethod
    def _word(task: "asyncio.Task[object]") -> str:
        return "cut" if task.cancelled() else type(error).__name__ if (error := task.exception()) else "done"


def honest(place: Place, seconds: float) -> Line:
    """Beats of a worker by the agent's own connections, and probes as kubelet's: how long each took, and how many the
    agent, or kubelet, would give up.
    """
    address = Address(place.host, place.port, secure=True)
    kept, took, probes, misses = Connections(address, place.ca), list[float](), list[float](), 0
    headers = {"Authorization": f"Bearer {place.token}", "Content-Type": "application/json"}
    body, end = json.dumps({"phase": "Starting", "round": 0}).encode(), time.monotonic() + seconds
    while time.monotonic() < end:
        fresh = len(took) % FRESH == 0
        connections = Connections(address, place.ca) if fresh else kept
        began = time.monotonic()
        try:
            status = connections.call("POST", "/v1/beat", headers, body, BEAT).status
            misses += status != 200
        except MasterError:
            misses += 1
        took.append(time.monotonic() - began)
        if fresh:
            connections.close()
        if len(took) % PROBE == 0:
            asked = time.monotonic()
            try:
                with urlopen(place.readyz, timeout=PROBE_LIMIT):
                    probes.append(time.monotonic() - asked)
            except OSError:
                misses += 1
        time.sleep(max(0.0, began + EVERY - time.monotonic()))
    kept.close()
    return {
        "beats": len(took),
        "median_ms": round(statistics.median(took) * 1e3, 1),
        "p99_ms": round(sorted(took)[int(len(took) * 0.99)] * 1e3, 1),
        "most_ms": round(max(took) * 1e3, 1),
        "probe_most_ms": round(max(probes, default=0.0) * 1e3, 1),
        "misses": misses,
    }


def attack(kind: str, place: Place, seconds: float) -> Line:
    """The flood of this kind, at the rates at which the master was once knocked over."""
    attackers = Attackers(place, seconds)
    floods = {
        "silent": lambda: attackers.keep(4000, attackers.silent),
        "hellos": lambda: attackers.keep(2000, attackers.hello),
        "idle": lambda: attackers.keep(1500, attackers.idle),
        "bodies": lambda: attackers.keep(500, attackers.held_body),
        "handshakes": lambda: attackers.pace(200, attackers.handshake),
    }
    asyncio.run(floods[kind]())
    return dict(attackers.seen)


def main() -> None:
    kind, seconds = sys.argv[1], float(sys.argv[2])
    place = Place(**json.load(sys.stdin))
    print(json.dumps(honest(place, seconds) if kind == "honest" else attack(kind, place, seconds)))


if __name__ == "__main__":
    sslproto.SSLProtocol.max_size = 2**14  # thousands of them, here too
    main()
