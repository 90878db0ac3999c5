"""Calls that kube-scheduler never makes, to the very service that it asks: each is answered or cut, and gangs go on.

What each body is told is tested on the verbs alone (tests/extender); here is the whole program, with a cluster behind
it.
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.plane import Fleet
from bench.plane.client import Object
from bench.plane.installation import Installation
from tests.stories.support.cluster import Cluster, gated, pinned
from tests.stories.support.workloads import gang, made_by

MIB = 2**20

DEEP = 100_000
"""Brackets: far more than any decoder goes down."""

HUGE = 8 * MIB
"""Above the limit of a cluster of two nodes, which is 4 MiB and a little."""

STALLED = 200
"""Bodies of which the second half never comes; with kube-scheduler's own connections fewer than the service keeps."""

HALF = 16 * 1024

GROWTH = 32 * MIB
"""By so much the memory may have grown afterwards: half of what all bodies together may ever take."""

ANSWERED = 10.0
"""Seconds within which each call is answered or cut; half bodies are given up after one."""

POD = {"metadata": {"name": "p", "namespace": "default", "uid": "no-such-pod"}}
OURS = {"schedulerName": "gangwright"}


def asked(pod: Any, **rest: Any) -> bytes:
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": ["r00-n00"], **rest}).encode()


def nested(opening: str, closing: str, inside: str = "%s") -> bytes:
    return (inside % (opening * DEEP + closing * DEEP)).encode()


BAD = {
    "nothing": b"",
    "half a text": b'{"Pod": {"metadata": {"na',
    "no object": b"[]",
    "not UTF-8": b'{"Pod": {"metadata": {"name": "\xff\xfe"}}}',
    "zeros": bytes(4096),
    "no pod": asked(None),
    "a pod of another shape": asked([1, 2, 3]),
    "a name that is a number": asked({"metadata": {"name": 7, "uid": {}}}),
    "deep lists": nested("[", "]"),
    "deep objects": nested('{"a":', "}", "%s").replace(b'{"a":}', b"{}"),
    "deep in the pod": nested(
        "[", "]", '{"Pod": {"metadata": {"name": "p", "labels": %s}}, "NodeNames": []}'
    ),
    "deep in the names": nested("[", "]", '{"Pod": {}, "NodeNames": %s}'),
    "huge": b" " * HUGE,
    "huge inside": asked(POD, Filling="x" * HUGE),
}
"""Bodies that are no question: each verb says that it has no answer, and kube-scheduler would show why."""

ODD: dict[str, tuple[dict[str, Any], set[int]]] = {
    "another method": ({"method": "GET"}, {405}),
    "another path": ({"path": "/v1/filter/../../etc/passwd"}, {404}),
    "another verb": ({"path": "/v1/bind"}, {404}),
    "no JSON": ({"kind": "text/plain"}, {415}),
    "compressed": ({"more": "Content-Encoding: gzip\r\n"}, {415}),
    "a negative length": ({"more": "Content-Length: -1\r\n"}, {400}),
    "two lengths": ({"more": "Content-Length: 3\r\n"}, {400}),
    "no protocol": ({"method": "\x16\x03\x01"}, {400}),
}
"""Requests that are no call of a verb, and the status of each."""


async def test_bad_calls_are_answered_and_gangs_go_on(cluster: Cluster) -> None:
    """Two hundred half bodies stall while others are broken, deep or huge: all are answered, and a gang is bound
    meanwhile.
    """
    service = cluster.gangwright
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=4))
    before, began = _resident(service), _log(service)

    async with _stalled(service) as stalled:
        await cluster.submit(made_by("ReplicaSet", "meanwhile", 4))
        for name, body in BAD.items():
            for verb in ("filter", "prioritize", "preempt"):
                status, text = await _call(service, body, path=f"/v1/{verb}")
                assert status == 200, f"{name} to {verb}: {status} {text[:200]!r}"
                assert _is_no_answer(text), f"{name} to {verb}: {text[:200]!r}"
        for name, (words, right) in ODD.items():
            status, text = await _call(service, asked(POD), **words)
            assert status in right, f"{name}: {status} {text[:200]!r}"
        await cluster.seated("meanwhile", 4)
        for status, text in await asyncio.gather(*stalled):
            assert (status, _is_no_answer(text)) == (200, True)

    await cluster.submit(*gang("afterwards", 4))
    await cluster.seated("afterwards", 4)
    assert "Traceback" not in _log(service)[len(began) :]
    assert _resident(service) - before < GROWTH


async def test_a_held_seat_is_told_however_often_and_late(cluster: Cluster) -> None:
    """Whoever asks about a held seat, many at a time or after the pod is bound, is told that one node, and nobody is
    moved.
    """
    service = cluster.gangwright
    names = await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=4))
    service.kube_scheduler.signal(signal.SIGSTOP)  # seats stay held, and nobody takes them
    try:
        await cluster.submit(made_by("ReplicaSet", "held", 4))
        members = await cluster.until("held", lambda pods: len(pods) == 4 and not any(map(gated, pods)))
        seats = {own["metadata"]["name"]: pinned(own) for own in members}
        asking = [own for own in members for _ in range(25)]
        early = await asyncio.gather(*(_seat(service, own, names) for own in asking))
    finally:
        service.kube_scheduler.signal(signal.SIGCONT)
    places = await cluster.seated("held", 4)
    late = await asyncio.gather(*(_seat(service, own, names) for own in asking))

    assert places == seats
    assert early == late == [[places[own["metadata"]["name"]]] for own in asking]
    await cluster.nothing_held()


async def _seat(service: Installation, pod: Object, names: list[str]) -> list[str]:
    """The nodes that are left of these for the pod, as it was when it was last seen."""
    status, text = await _call(service, json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode())
    said = json.loads(text)
    assert (status, said["Error"]) == (200, "")
    left: list[str] = said["NodeNames"]
    return left


@asynccontextmanager
async def _stalled(service: Installation) -> AsyncIterator[list[asyncio.Task[tuple[int, bytes]]]]:
    """So many calls of which half of the body came; each task ends with what the service said to it."""
    half = asked(POD, Filling="x" * 2 * HALF)[:HALF]
    async with asyncio.TaskGroup() as group:
        yield [group.create_task(_call(service, half, length=2 * HALF)) for _ in range(STALLED)]


async def _call(
    service: Installation,
    body: bytes,
    *,
    method: str = "POST",
    path: str = "/v1/filter",
    kind: str = "application/json",
    more: str = "",
    length: int | None = None,
) -> tuple[int, bytes]:
    """Status and body of the answer."""
    address = urlsplit(service.verbs)
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: {kind}\r\n{more}"
        f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
    )
    async with asyncio.timeout(ANSWERED):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            writer.write(head.encode() + body)
            return await _answer(reader)
        finally:
            writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    lines = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:] if line)
    return int(head.split()[1]), await reader.readexactly(int(lines["content-length"]))


def _is_no_answer(text: bytes) -> bool:
    """No node is left, nobody is scored, nobody is to go; and it says why."""
    said = json.loads(text)
    return bool(said["Error"]) and not said.get("NodeNames") and not said.get("NodeNameToMetaVictims")


def _resident(service: Installation) -> int:
    """Bytes of memory that the service has."""
    said = Path(f"/proc/{service.extender.pid}/status").read_text(encoding="ascii")
    (kib,) = [line.split()[1] for line in said.splitlines() if line.startswith("VmRSS:")]
    return 1024 * int(kib)


def _log(service: Installation) -> str:
    return service.extender.log.read_text(encoding="utf-8", errors="replace")
