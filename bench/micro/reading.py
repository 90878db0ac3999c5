"""A service that reads a whole cluster once, and says what it took.

    python -m bench.micro.reading URL

The real client, reflectors, intake and engine, as `gangwright serve` puts them together. Prints seconds from the first
list to the moment when all is known, and the growth of resident memory, in MiB, once the engine has made its picture.
"""

import asyncio
import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import yaml

from bench.micro import world
from scheduler.engine import Engine
from scheduler.kube.client import Client
from scheduler.kube.credentials import find_access
from scheduler.kube.watch import Reflector
from scheduler.service.informers import Informers
from scheduler.service.service import Service
from scheduler.settings import Log, LogFormat
from scheduler.telemetry import log

LIMIT: Final = 120.0
"""Seconds for reading all."""


def resident() -> float:
    """MiB of this process that are in memory; proc_pid_status(5)."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmRSS")


async def read(url: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        access = await find_access(_kubeconfig(Path(folder), url), "")
    async with Client(access) as client:
        engine = Engine(world.POLICY)
        service = Service(engine, acting=lambda _: True, blind=lambda _: 0.0, blind_after=10.0)
        whole = asyncio.Event()
        intake = Informers(world.POLICY.levels, service.observe, whole.set)
        gc.collect()
        before, began = resident(), time.perf_counter()
        tasks = [
            asyncio.create_task(Reflector(client, resource, sink).run())
            for resource, sink in intake.watches().values()
        ]
        async with asyncio.timeout(LIMIT):
            await whole.wait()
        service.synced()
        picture = engine.snapshot()
        took = time.perf_counter() - began
        gc.collect()
        grown = resident() - before
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        pods = sum(1 for _ in engine.ledger.nodes.places())
        return {"seconds": took, "mib": grown, "nodes": len(picture.names), "pods": pods}


def _kubeconfig(folder: Path, url: str) -> str:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
    }
    place = folder / "config"
    place.write_text(yaml.safe_dump(content), encoding="utf-8")
    return str(place)


if __name__ == "__main__":
    log.configure(Log(format=LogFormat.JSON))
    print(json.dumps(asyncio.run(read(sys.argv[1]))), flush=True)
    sys.stdin.read()
