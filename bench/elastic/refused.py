"""What the master uses for many jobs of which the API server makes no pod: its admission refuses every one.

A person waits for none of them, and each is tried for as long as it stands. So the figure is that of a minute in which
all have failed many times.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Final

from bench.elastic.jobs import JOBS, job
from bench.elastic.stage import INSTALLED
from bench.load.effort import spent
from bench.plane import Client, Plane, where
from bench.plane.elastic_master import MANIFESTS, Master
from bench.plane.errors import NotReadyError
from bench.plane.installation import NAMESPACE
from bench.plane.scrape import Metrics

Line = dict[str, Any]

CROWD: Final = "crowd"
"""The namespace of all jobs."""

STRICT: Final = "pod-security.kubernetes.io/enforce=restricted"
"""The label by which it refuses their pods."""

TARGETS: Final = {"core_percent": 3.0}
"""The most, in the last minute."""


def minutes(jobs: int, count: int, length: float = 60.0) -> Iterator[Line]:
    """A line for each minute, from the first job on. length: seconds of a minute; another one is no result."""
    with Plane(scheduler=False, kwok=False) as plane:
        for name in (NAMESPACE, CROWD):
            plane.kubectl("create", "namespace", name)
        plane.kubectl("label", "namespace", CROWD, STRICT)
        plane.apply_manifests(MANIFESTS)
        with Master(plane, set_=INSTALLED) as master:
            asyncio.run(_submit(plane, jobs))
            cpu, told, at = spent(plane)[master.name], master.metrics(), time.monotonic()
            for minute in range(1, count + 1):
                time.sleep(max(0.0, at + length - time.monotonic()))
                if not master.program.alive:
                    raise NotReadyError("the master lost its Lease: the machine is too busy to measure")
                used, then = spent(plane)[master.name], time.monotonic()
                after = master.metrics()
                yield line(minute, used - cpu, then - at, told, after)
                cpu, told, at = used, after, then


async def _submit(plane: Plane, jobs: int) -> None:
    async with plane.client() as api:
        await asyncio.gather(*(_created(api, number) for number in range(jobs)))


async def _created(api: Client, number: int) -> None:
    await api.create(where(JOBS, CROWD), job(f"refused-{number}", 1, 4, serviceAccountName="default"))


def line(minute: int, cpu: float, seconds: float, before: Metrics, after: Metrics) -> Line:
    """One minute. cpu: seconds of processor time in it. Writes and events are counts a second."""
    writes = {
        f"{own['what']} {own['result']}": total - before.value(_WRITES, **own)
        for own, total in after.all(_WRITES)
    }
    return {
        "minute": minute,
        "core_percent": round(100 * cpu / seconds, 1),
        "writes_per_s": {what: round(count / seconds, 2) for what, count in sorted(writes.items()) if count},
    }


def summary(found: list[Line]) -> Line:
    """The last minute against its target."""
    last = found[-1]
    missed = [name for name, target in TARGETS.items() if last[name] > target]
    return {**last, "targets": TARGETS, "missed": missed}


_WRITES: Final = "gangwright_elastic_writes_total"
