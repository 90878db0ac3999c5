"""What a flood of connections costs the master: its memory, how late beats are answered, and whether a worker is lost.

Peers are processes of their own (`peers`), workers too, so only the machine is shared. The peak is the kernel's own
figure, which is set back before each flood.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from yarl import URL

from bench.elastic.jobs import JOBS, job
from bench.elastic.peers import Place
from bench.elastic.stage import NAMESPACE, Stage
from bench.load.effort import forget_peak, mib
from bench.micro.children import said, started
from bench.plane import Client, where
from bench.plane.watches import until, until_one

Line = dict[str, Any]

PEERS: Final = "bench.elastic.peers"

FLOODS: Final = ("none", "silent", "hellos", "idle", "bodies", "handshakes")

TARGETS: Final = {"peak_mib": 256.0, "p99_ms": 1000.0, "misses": 0}
"""The most, of every flood."""

SPARE: Final = 60.0
"""Seconds that peers may take beyond their time."""

WORKERS: Final = 2
"""Of the job that trains. Two more jobs have one worker each, whose tokens the peers have."""

START: Final = 240.0
"""Seconds within which workers train on a machine that does much else."""

IDLE: Final = ("-c", "import time; time.sleep(100000)")
"""What a worker runs that never trains."""


def floods(stage: Stage, seconds: float, kinds: Sequence[str] = FLOODS) -> Iterator[Line]:
    """One after the other, beside a job that trains; `lost` are the workers of it that the master took for lost."""
    stage.submit(job("train", WORKERS, WORKERS))
    for name in ("honest", "hostile"):
        stage.submit(job(name, 1, 1, *IDLE))
    places = {
        name: stage.run(place(stage.api, NAMESPACE, name, stage.master.readyz))
        for name in ("honest", "hostile")
    }
    stage.run(_trains(stage.api))
    for kind in kinds:
        line = flood(kind, seconds, stage.master.program.pid, **places)
        yield {**line, "lost": stage.run(lost(stage.api, NAMESPACE, "train"))}


async def place(api: Client, namespace: str, name: str, readyz: str) -> Place:
    """Where the master is for the first worker of this job, and a token as its kubelet would get it. readyz: URL."""
    label = f"gangwright.io/elastic-job={name}"
    (pod, *_) = await until(
        api,
        where("pods", namespace),
        lambda pods: all(_runs(pod) for pod in pods) and pods,
        within=START,
        labels=label,
    )
    told = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    bound = {
        "kind": "Pod",
        "apiVersion": "v1",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
    }
    spec = {"audiences": ["gangwright-elastic"], "expirationSeconds": 3600, "boundObjectRef": bound}
    given = await api.create(where("serviceaccounts", namespace, "default", "token"), {"spec": spec})
    master = URL(told["GANGWRIGHT_MASTER"])
    return Place(
        str(master.host), int(master.port or 0), told["GANGWRIGHT_CA"], given["status"]["token"], readyz
    )


async def lost(api: Client, namespace: str, name: str) -> list[str]:
    """What was told of workers of this job that were lost."""
    events = await api.items(where("events", namespace))
    return [
        one["note"] for one in events if one["reason"] == "WorkerLost" and one["regarding"]["name"] == name
    ]


def flood(kind: str, seconds: float, pid: int, honest: Place, hostile: Place) -> Line:
    """One flood. pid: of the master. honest: a worker that nothing happens to. hostile: one whose token is misused.

    Raises CalledProcessError or TimeoutExpired when the peers do not do what they should.
    """
    forget_peak(pid)
    before = mib(pid, "VmRSS")
    peers = [started(PEERS, "honest", f"{seconds:g}", given=asdict(honest))]
    try:
        if kind != "none":
            peers.append(started(PEERS, kind, f"{seconds:g}", given=asdict(hostile)))
        told, *attacked = [said(peer, seconds + SPARE) for peer in peers]
    finally:
        for peer in peers:
            peer.kill()
    return {
        "flood": kind,
        "seconds": seconds,
        "before_mib": before,
        "peak_mib": mib(pid, "VmHWM"),
        **told,
        "attackers": next(iter(attacked), {}),
    }


def missed(line: Line) -> list[str]:
    """The figures of a flood that are beyond their target."""
    return [name for name, most in TARGETS.items() if line[name] > most]


def _runs(pod: Line) -> bool:
    return bool(pod["status"].get("phase") == "Running")


async def _trains(api: Client) -> None:
    await until_one(
        api,
        where(JOBS, NAMESPACE, "train"),
        lambda own: own.get("status", {}).get("workers") == WORKERS,
        within=START,
    )
