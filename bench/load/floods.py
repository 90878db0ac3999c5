"""What kube-scheduler waits while others flood the ports that it does not ask: metrics and the status service.

The method. One extender on a real API server, as the manifests run it, without a kube-scheduler: a prober asks `filter`
in its place, at a steady pace on one kept connection, about a planned pod of a gang and about a plain pod in turns. In
each phase clients of other processes ask another port. The same prober and the same flood then meet a server that answers
constants (`bench.micro.bare`): what that takes is the machine's, what the extender takes more is the extender's.
"""

import asyncio
import json
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from bench.load import cluster, effort, seen, work
from bench.load.callers import Calls
from bench.micro import asking
from bench.micro.children import child, said, started
from bench.plane import Client, Plane, where
from bench.plane.installation import Installation
from bench.report import Spread
from tests.stories.support.people import binding, role

Line = dict[str, Any]
Urls = Mapping[str, str]

MEMORY: Final = {"rss_mib": "VmRSS", "peak_mib": "VmHWM"}
"""Of the extender, at the end of a phase and at the most within it."""

NODES: Final = 16
EVERY: Final = 0.02
"""Seconds from one call of the prober to the next, as long as each is answered within it."""

PROCESSES: Final = 2
"""That a flood's clients are divided among: a single one could be slower than what it floods."""

SETTLE: Final = 2.0
"""Seconds of a flood before the first call that counts: its processes start."""

SPARE: Final = 30.0
"""Seconds that a flood may take beyond its time to end."""

MEMBERS: Final = 4096
"""Pods of a dry run: the most that one may have."""


@dataclass(frozen=True)
class Flood:
    """clients, rate, length: as in `Calls`. accounts: whose tokens are used. Dry runs where there are accounts."""

    port: str
    path: str
    clients: int
    rate: float = 0.0
    accounts: int = 0
    length: int = 0


FLOODS: Final[Mapping[str, Flood | None]] = {
    "quiet": None,
    "scrapes": Flood("probes", "/metrics", 32, rate=66),
    "scrapes-unpaced": Flood("probes", "/metrics", 32),
    "simulations": Flood("status", "/v1/simulate", 2, accounts=1),
    "simulations-8": Flood("status", "/v1/simulate", 16, accounts=8),
    "tokens-9000": Flood("status", "/v1/queue", 8, length=9_000),
    "tokens-20000": Flood("status", "/v1/queue", 8, length=20_000),
}
"""By phase, what is asked beside the prober."""


@dataclass(frozen=True)
class Side:
    """One phase of one server: milliseconds of the prober's calls, how many failed, what became of the flood's."""

    times: Sequence[float]
    failed: int
    calls: Mapping[str, int]


def measure(plane: Plane, seconds: float, phases: Sequence[str] = tuple(FLOODS)) -> Iterator[Line]:
    """A line a phase. Raises PlaneError, CalledProcessError or TimeoutExpired."""
    with Installation(plane, manifests=None, set_={"gangs.timeout": "24h"}, scheduler=False) as ours:
        bodies, tokens = asyncio.run(_furnished(plane))
        urls = {"url": ours.verbs, "probes": ours.probes, "status": ours.status}
        with child("bench.micro.bare", str(_size(f"{ours.probes}/metrics"))) as bare:
            for name in phases:
                effort.forget_peak(ours.extender.pid)
                own = phase(FLOODS[name], urls, bodies, tokens, seconds)
                memory = {key: effort.mib(ours.extender.pid, field) for key, field in MEMORY.items()}
                other = phase(FLOODS[name], bare, bodies, tokens, seconds)
                yield {"phase": name, "seconds": seconds, **figures(own, other), **memory}


def phase(
    flood: Flood | None, urls: Urls, bodies: Sequence[bytes], tokens: Sequence[str], seconds: float
) -> Side:
    """The prober beside this flood, for so many seconds."""
    with flooded(flood, urls, tokens, SETTLE + seconds) as peers:
        time.sleep(SETTLE)
        times, failed = probed(urls["url"], bodies, seconds)
        calls = sum((Counter(said(peer, SPARE)) for peer in peers), Counter[str]())
    return Side(times, failed, calls)


def probed(url: str, bodies: Sequence[bytes], seconds: float) -> tuple[list[float], int]:
    """Milliseconds of each call, and how many calls failed: no answer, an Error, or a connection that was cut."""
    found, failed, end = list[float](), 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        try:
            with asking.connection(url) as ask:
                while (began := time.perf_counter()) < end:
                    took, answer = ask(bodies[len(found) % len(bodies)])
                    found.append(took)
                    failed += bool(json.loads(answer).get("Error"))
                    time.sleep(max(0.0, began + EVERY - time.perf_counter()))
        except (OSError, RuntimeError):
            failed += 1
            time.sleep(EVERY)
    return found, failed


def figures(ours: Side, bare: Side) -> Line:
    """The times of both, and what became of the flood, which is two seconds longer. ratio: of the p99s, None without
    calls.
    """
    own, other = Spread.of(ours.times), Spread.of(bare.times)
    strange = {how: count for how, count in ours.calls.items() if how not in {"200", "429"}}
    return {
        "calls": own.count,
        "failed": ours.failed,
        **{name: round(getattr(own, name[:3]), 2) for name in TIMES},
        **{f"bare_{name}": round(getattr(other, name[:3]), 2) for name in TIMES},
        "ratio": round(own.p99 / other.p99, 1) if own.count and other.p99 else None,
        "answered": ours.calls.get("200", 0),
        "refused": ours.calls.get("429", 0),
        "other": strange,
        "bare_answered": bare.calls.get("200", 0),
    }


TIMES: Final = ("p50_ms", "p99_ms", "max_ms")
FATES: Final = ("failed", "answered", "refused", "other", "bare_answered")
HEADS: Final = ("phase", *TIMES, *(f"bare_{name}" for name in TIMES), "ratio", *MEMORY, *FATES)
"""Columns of the table."""


def table(lines: Sequence[Line]) -> str:
    """For a person: a row a phase; milliseconds and MiB."""
    rows = [list(HEADS), *([_cell(line[key]) for key in HEADS] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    )


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        value = " ".join(f"{how}:{count}" for how, count in value.items())
    return "-" if value in (None, "") else str(value)


async def _furnished(plane: Plane) -> tuple[list[bytes], list[str]]:
    """What the prober sends, and a token of each account that may try pods out."""
    async with plane.client() as api:
        owner = await cluster.furnish(api, NODES)
        nodes = [name for fleet in cluster.fleets(NODES) for name in fleet.names()]
        (plain,) = work.gang("plain", 1, owner, gated=False)
        plain["metadata"] |= {"labels": {}, "annotations": {}}
        await api.create_all(seen.PODS, [*work.gang("waits", cluster.GPUS, owner, gated=True), plain])
        planned = await api.until(f"{seen.PODS}/waits-0", lambda pod: not pod["spec"].get("schedulingGates"))
        pods = [planned, await api.get(f"{seen.PODS}/plain-0")]
        for pod in pods:
            del pod["metadata"]["managedFields"]  # kube-scheduler's own cache is without them
        accounts = max(flood.accounts for flood in FLOODS.values() if flood)
        return [asking.body(pod, nodes) for pod in pods], await _tokens(plane, api, accounts)


async def _tokens(plane: Plane, api: Client, count: int) -> list[str]:
    names, kind = [f"flood-{number}" for number in range(count)], where("serviceaccounts", work.NAMESPACE)
    await api.create_all(kind, [{"metadata": {"name": name}} for name in names])
    rights = role("flood", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}])
    given = [binding(name, "flood", name, work.NAMESPACE, inside=work.NAMESPACE) for name in names]
    await asyncio.to_thread(plane.apply, [rights, *given])
    made = [
        await api.create(f"{kind}/{name}/token", {"spec": {"expirationSeconds": 86400}}) for name in names
    ]
    return [each["status"]["token"] for each in made]


def _size(url: str) -> int:
    """Bytes of the body, as Prometheus asks for it."""
    asked = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=5) as answer:
        return len(answer.read())


def shares(flood: Flood, urls: Urls, tokens: Sequence[str], seconds: float) -> list[Calls]:
    """What each process asks."""
    own = tokens[: flood.accounts]
    return [
        Calls(
            f"{urls[flood.port]}{flood.path}",
            seconds,
            flood.clients // PROCESSES,
            flood.rate / PROCESSES,
            _trial() if own else "",
            tuple(own[number % len(own) :: PROCESSES] if own else ()),
            flood.length,
        )
        for number in range(PROCESSES)
    ]


@contextmanager
def flooded(
    flood: Flood | None, urls: Urls, tokens: Sequence[str], seconds: float
) -> Iterator["list[subprocess.Popen[str]]"]:
    """Its processes; none is left behind."""
    peers: list[subprocess.Popen[str]] = []
    try:
        for calls in shares(flood, urls, tokens, seconds) if flood else ():
            peers += [started("bench.load.callers", given=asdict(calls))]
        yield peers
    finally:
        for peer in peers:
            with peer:
                peer.kill()


def _trial() -> str:
    """A few hundred bytes that ask for thousands of pods."""
    pod = work.gang("trial", MEMBERS, "uid", gated=False)[0]
    return json.dumps({"namespace": work.NAMESPACE, "pods": [{"count": MEMBERS, "pod": pod}]})
