"""Pods a second, when all of them wait already.

The method. All pods exist before anything moves, in gangs of eight, each of one GPU. Whoever makes the first move
(kube-scheduler on the roads without our gate, Gangwright on those with it) stands by until the bench lets its Lease
go. The clock runs from the first write to a pod to the last bind, both as seen by a watch of the bench's own. The
roads are taken in turns, each turn beginning with another one, so that whatever drifts on the machine drifts for all.

The road `bare` (see there) is not measured unless asked for: `--roads none,bare,pinned` tells what of the difference to
`none` is the API server's price of a pin, and what is Gangwright's own.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from bench.load import bare, causes, cluster, effort, seen, start
from bench.load.effort import Run
from bench.load.figures import by_turn, median, medians, order, ratios, rounded
from bench.load.roads import ROADS, running
from bench.load.work import Object, gangs
from bench.plane import Client, NeverCameError, Plane

GANG: Final = 8
SLOWEST: Final = 10
"""Pods a second below which a run is given up."""

GRACE: Final = 60.0
"""Seconds for whatever is not binding: taking the lease, a full list."""


async def measure(
    plane: Plane, roads: Sequence[str], *, nodes: int, pods: int, repeats: int, profiled: bool = False
) -> AsyncIterator[dict[str, Any]]:
    """One line for each road, then the ratios turn by turn, then the median of each."""
    runs: dict[str, list[Run]] = {road: [] for road in roads}
    async with plane.client() as api:
        owner = await cluster.furnish(api, nodes)
        for turn in range(repeats):
            for road in order(roads, turn):
                names = [name for fleet in cluster.fleets(nodes) for name in fleet.names()]
                row = ROADS[road]
                bodies = gangs(f"{road}-{turn}-", pods, GANG, owner, gated=row.gated, native=row.native)
                run = await _run(plane, api, road, bodies, names, profiled=profiled)
                runs[road].append(run)
                cluster.say(f"turn {turn + 1} {road}: {pods / run.seconds:.0f} pods/s, {run}")
    seconds = {road: [run.seconds for run in own] for road, own in runs.items()}
    for road in roads:
        yield {
            "road": road,
            "nodes": nodes,
            "pods": pods,
            "repeats": repeats,
            "seconds": round(median(seconds[road]), 3),
            "pods_per_s": round(pods / median(seconds[road]), 1),
            "runs_s": rounded(seconds[road]),
            "cpu_ms_per_pod": medians([run.cpu_ms_per_pod for run in runs[road]]),
            "cycle_ms": median([run.cycle_ms for run in runs[road]]),
            **({"causes_percent": medians([run.causes for run in runs[road]])} if profiled else {}),
        }
    speeds = {road: [pods / s for s in own] for road, own in seconds.items()}
    yield {"turns": {name: rounded(found) for name, found in by_turn(speeds, over="none").items()}}
    yield ratios(speeds, over="none")
    cycles = {road: [run.cycle_ms for run in own] for road, own in runs.items()}
    yield {f"cycle_{name}": ratio for name, ratio in ratios(cycles, over="none").items()}


async def _run(
    plane: Plane, api: Client, road: str, pods: Sequence[Object], nodes: Sequence[str], *, profiled: bool
) -> Run:
    """Raises NeverCameError."""
    count = len(pods)
    await start.hold(api)
    try:
        async with running(plane, ROADS[road], waiting=True):
            await api.create_all(seen.PODS, pods)
            async with seen.binds(api) as bound, seen.first_write(api, count) as written:
                before, cycles = effort.spent(plane), effort.cycles(plane)
                await start.release(api)
                if ROADS[road].by_hand:
                    await start.taken(api)
                    await bare.write(api, pods, nodes, cluster.GPUS)
                began = await _first(written, road)
                found = asyncio.create_task(causes.profile(plane)) if profiled else None
                await bound.reach(count, within=GRACE + count / SLOWEST)
                cpu = effort.per_pod(before, effort.spent(plane), count)
                ends = effort.cycles(plane)
                cycle = (ends[0] - cycles[0]) / max(1.0, ends[1] - cycles[1])
                told = await found if found else {}
                return Run(max(bound.times.values()) - began, cpu, round(1000 * cycle, 3), told)
    finally:
        await cluster.clear(api)


async def _first(written: "asyncio.Future[float]", road: str) -> float:
    try:
        async with asyncio.timeout(GRACE):
            return await written
    except TimeoutError:
        raise NeverCameError(f"{road}: nothing was written to any pod within {GRACE:g} s") from None
