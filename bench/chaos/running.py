"""The whole of it: nodes, two replicas, Jobs, one fault after the other, the drain, the last gang, the report."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from typing import Any, Final

from bench.chaos import jobs
from bench.chaos.accounts import Accountant
from bench.chaos.faults import Breaker
from bench.chaos.keeper import Keeper, Probe
from bench.chaos.picture import Picture
from bench.chaos.schedule import Fault
from bench.load.cluster import say
from bench.load.figures import median
from tests.manifests.rendering import containers, pod_spec
from tests.plane import Client, Fleet, NeverCameError, Plane, nodes
from tests.plane.installation import Installation

HOSTS: Final = ("pod-a", "pod-b")

CALM: Final = 8.0
"""Seconds between two faults, at the least."""

DRAINED: Final = 180.0
"""Seconds for all Jobs to end, and then for the last gang to be bound."""


@contextmanager
def replicas(plane: Plane) -> Iterator[list[Installation]]:
    """As the Deployment runs them: one Lease, and two Pods with host names of their own."""
    with (
        Installation(plane, lease=True, name="gangwright", hostname=HOSTS[0]) as first,
        Installation(plane, manifests=None, lease=True, name="standby", hostname=HOSTS[1]) as second,
    ):
        yield [first, second]


async def run(
    plane: Plane, pods: Sequence[Installation], faults: Sequence[Fault], seed: int
) -> AsyncIterator[dict[str, Any]]:
    """A line a kind of fault, then one of what was counted, `violations` by kind among it."""
    accountant, seconds = Accountant(), defaultdict[str, list[float]](list)
    keepers = [keeper for pod in pods for keeper in keepers_of(pod)]
    async with plane.client() as api, plane.client() as own:
        await nodes.create(api, Fleet(racks=4, nodes_per_rack=jobs.NODES // 4, gpus=jobs.GPUS))
        seen = Picture(own, accountant)
        async with _beside(*seen.work(), *(keeper.keep() for keeper in keepers)):
            await seen.until(lambda: len(seen.nodes) == jobs.NODES, 30, "the nodes were not seen")
            calm = await _break(Breaker(plane, pods, HOSTS, api, seen), api, seen, faults, seconds, seed)
            await _drain(api, seen)
    for line in table(seconds):
        yield line
    yield {
        "faults": sum(map(len, seconds.values())),
        "calm_gap_s": _figures(calm),
        "pods_bound": len(accountant.bound),
        "gangs_bound": len(accountant.gangs),
        "looks": accountant.looks,
        "longest_partly_bound_s": round(accountant.longest_partly, 1),
        "ended_by_liveness": sum(keeper.ended for keeper in keepers),
        "violations": accountant.counts(),
    }


def keepers_of(pod: Installation) -> list[Keeper]:
    """One for each container, with the probes of the rendered Deployment on this machine's ports."""
    spec, own = pod_spec(), containers()
    command = pod.kube_scheduler.command
    secure = next(word for word in command if word.startswith("--secure-port=")).partition("=")[2]
    ports = {10259: int(secure), 10271: int(pod.probes.rpartition(":")[2])}
    return [
        Keeper(
            program,
            Probe.read(own[name], "startupProbe", ports),
            Probe.read(own[name], "livenessProbe", ports),
            spec["terminationGracePeriodSeconds"],
        )
        for name, program in (("gangwright", pod.extender), ("kube-scheduler", pod.kube_scheduler))
    ]


def table(seconds: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """A line a kind of fault: how many, and the median and worst seconds to the next bind."""
    return [{"fault": name, **_figures(found)} for name, found in sorted(seconds.items())]


def _figures(found: Sequence[float]) -> dict[str, float]:
    if not found:
        return {"n": 0}
    return {"n": len(found), "median_s": round(median(found), 1), "max_s": round(max(found), 1)}


async def _break(
    breaker: Breaker,
    api: Client,
    seen: Picture,
    faults: Sequence[Fault],
    seconds: defaultdict[str, list[float]],
    seed: int,
) -> list[float]:
    """Gives the seconds between binds while all was well: what a fault is to be compared with."""
    calm: list[float] = []
    now = asyncio.get_running_loop().time
    async with _beside(jobs.submit(api, random.Random(seed), seen.jobs.values())):
        for fault in faults:
            began = now()
            await asyncio.sleep(CALM)
            calm += [later - at for at, later in pairwise(at for at in seen.times if at > began)]
            try:
                seconds[str(fault)].append(await breaker.carry_out(fault))
                say(f"{fault}: {seconds[str(fault)][-1]:.1f} s")
            except NeverCameError as error:
                seen.note("no progress", f"{fault} {began:.0f}", f"{fault}: {error}")
    return calm


async def _drain(api: Client, seen: Picture) -> None:
    """All Jobs end, and the cluster is empty: no seat is left that keeps a gang of all GPUs out."""
    try:
        await seen.until(lambda: all(map(jobs.over, seen.jobs.values())), DRAINED, "not all Jobs ended")
        await api.create(jobs.JOBS, jobs.job("whole", jobs.NODES, jobs.GPUS, 1.0))
        await seen.until(
            lambda: any(jobs.over(job) for name, job in seen.jobs.items() if name.endswith("/whole")),
            DRAINED,
            "the gang of all GPUs was not bound",
        )
    except NeverCameError as error:
        seen.note("seat leaked", "drain", str(error))


@asynccontextmanager
async def _beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
