"""From the first create to the last bind: gangs as they arrive, beside kube-scheduler's own gangs.

The programs stand ready and lead already. The clock runs from the first create (of the group's objects, on the road
that needs any) to the last bind as seen by a watch of the bench's own. Members of a gang are created one after the
other by one creator with 32 calls at a time, the same for every road, which are taken in turns.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from bench.load import cluster, effort, seen
from bench.load.effort import Run
from bench.load.figures import median, medians, order, ratios, rounded
from bench.load.roads import ROADS, running
from bench.load.throughput import GRACE, SLOWEST
from bench.load.work import GROUPS, NAMESPACE, gang, native_objects
from bench.plane import Client, Plane, where


async def measure(
    plane: Plane, roads: Sequence[str], *, gangs: int, size: int, nodes: int, repeats: int
) -> AsyncIterator[dict[str, Any]]:
    """One line for each road, then one of ratios: seconds over seconds, so less is better."""
    runs: dict[str, list[Run]] = {road: [] for road in roads}
    async with plane.client() as api:
        owner = await cluster.furnish(api, nodes)
        for turn in range(repeats):
            for road in order(roads, turn):
                names = [f"{road}-{turn}-{number}" for number in range(gangs)]
                run = await _run(plane, api, road, names, size, owner)
                runs[road].append(run)
                cluster.say(f"turn {turn + 1} {road}: {gangs} x {size} in {run.seconds:.2f} s, {run}")
    seconds = {road: [run.seconds for run in own] for road, own in runs.items()}
    for road in roads:
        yield {
            "road": road,
            "gangs": gangs,
            "size": size,
            "nodes": nodes,
            "repeats": repeats,
            "seconds": round(median(seconds[road]), 3),
            "runs_s": rounded(seconds[road]),
            "cpu_ms_per_pod": medians([run.cpu_ms_per_pod for run in runs[road]]),
        }
    yield {
        name: ratio
        for base in ("native", "none")
        for name, ratio in ratios(seconds, over=base).items()
        if name.startswith("gangwright_")
    }


async def _run(plane: Plane, api: Client, road: str, names: Sequence[str], size: int, owner: str) -> Run:
    """From the first create to the last bind. Raises NeverCameError."""
    row = ROADS[road]
    bodies = [pod for name in names for pod in gang(name, size, owner, gated=row.gated, native=row.native)]
    try:
        async with running(plane, row, waiting=False), seen.binds(api) as bound:
            before = effort.spent(plane)
            began = asyncio.get_running_loop().time()
            if row.native:
                await _create_groups(api, names, size)
            await api.create_all(seen.PODS, bodies)
            await bound.reach(len(bodies), within=GRACE + len(bodies) / SLOWEST)
            cpu = effort.per_pod(before, effort.spent(plane), len(bodies))
            return Run(max(bound.times.values()) - began, cpu)
    finally:
        await cluster.clear(api)


async def _create_groups(api: Client, names: Sequence[str], size: int) -> None:
    """The Workloads first: a PodGroup whose Workload is missing is refused."""
    wanted = [native_objects(name, size) for name in names]
    for plural in ("workloads", "podgroups"):
        await api.create_all(where(f"{GROUPS}/{plural}", NAMESPACE), [each[plural] for each in wanted])
