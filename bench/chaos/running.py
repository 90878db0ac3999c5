"""The whole of it: nodes, two replicas, Jobs, one fault after the other, the drain, the last gang, the report."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from typing import Any, Final

from bench.chaos import jobs
from bench.chaos.accounts import Accountant
from bench.chaos.faults import Breaker, Fault
from bench.chaos.keeper import Keeper, Probe
from bench.chaos.picture import Picture
from bench.load.cluster import say
from bench.load.figures import median
from bench.plane import Client, Fleet, NeverCameError, Plane, nodes
from bench.plane.installation import Installation
from tests.manifests.support.rendering import containers, pod_spec

CALM: Final = 8.0
"""Seconds between two faults, at the least."""

DRAINED: Final = 180.0
"""Seconds for all Jobs to end, and for the last gang after them."""


@contextmanager
def replicas(plane: Plane) -> Iterator[Mapping[str, Installation]]:
    """As the Deployment runs them, by host name: one Lease, and two Pods."""
    with (
        Installation(plane, lease=True, hostname="pod-a") as first,
        Installation(plane, manifests=None, lease=True, name="standby", hostname="pod-b") as second,
    ):
        for pod in (first, second):
            pod.retune({"probes.kubeScheduler": pod.kube_scheduler_url})
        yield {"pod-a": first, "pod-b": second}


async def run(
    plane: Plane, pods: Mapping[str, Installation], faults: Sequence[Fault], seed: int
) -> AsyncIterator[dict[str, Any]]:
    """A line a kind of fault with seconds to the next bind, then one of what was counted."""
    accountant, seconds = Accountant(), defaultdict[str, list[float]](list)
    keepers = [keeper for pod in pods.values() for keeper in keepers_of(pod)]
    async with plane.client() as api, plane.client() as own:
        await nodes.create(api, Fleet(racks=4, nodes_per_rack=jobs.NODES // 4, gpus=jobs.GPUS))
        seen = Picture(own, accountant)
        async with _beside(*seen.work(), *(keeper.keep() for keeper in keepers)):
            await seen.until(lambda: len(seen.nodes) == jobs.NODES, 30, "the nodes were not seen")
            async with _beside(jobs.submit(api, random.Random(seed), seen.jobs.values())):
                await _break(Breaker(plane, pods, api, seen), seen, faults, seconds)
            await _drain(api, seen)
    for name, found in sorted(seconds.items()):
        worst = round(max(found), 1)
        yield {"fault": name, "n": len(found), "median_s": round(median(found), 1), "max_s": worst}
    yield {
        "pods_bound": len(accountant.bound),
        "gangs_bound": len(accountant.gangs),
        "looks": accountant.looks,
        "longest_partly_bound_s": round(accountant.longest_partly, 1),
        "ended_by_probe": sum(keeper.ended for keeper in keepers),
        "violations": dict(Counter(kind for kind, _ in accountant.violations)),
    }


def keepers_of(pod: Installation) -> list[Keeper]:
    """One for each container, with the probes of the rendered Deployment on this machine's ports."""
    listens = {10259: pod.kube_scheduler_url, 10271: pod.probes}
    ports = {port: int(url.rpartition(":")[2]) for port, url in listens.items()}
    programs = {"gangwright": pod.extender, "kube-scheduler": pod.kube_scheduler}
    grace = pod_spec()["terminationGracePeriodSeconds"]
    found = []
    for name, program in programs.items():
        probes = (Probe.read(containers()[name], which, ports) for which in ("startupProbe", "livenessProbe"))
        found.append(Keeper(program, *probes, grace))
    return found


async def _break(
    breaker: Breaker, seen: Picture, faults: Sequence[Fault], seconds: Mapping[str, list[float]]
) -> None:
    """Before each fault all is well for a while; between those binds is the row `none`."""
    for fault in faults:
        calm = len(seen.times)
        await asyncio.sleep(CALM)
        seconds["none"].append(max((b - a for a, b in pairwise(seen.times[calm:])), default=CALM))
        try:
            seconds[str(fault)].append(await breaker.carry_out(fault))
            say(f"{fault}: {seconds[str(fault)][-1]:.1f} s")
        except NeverCameError as error:
            seen.note("no progress", f"{fault}: {error}")


async def _drain(api: Client, seen: Picture) -> None:
    """All Jobs end, and no seat is left that keeps a gang of all GPUs out."""
    try:
        await seen.until(lambda: all(map(jobs.over, seen.jobs.values())), DRAINED, "not all Jobs ended")
        await api.create(jobs.JOBS, jobs.job("whole", jobs.NODES, jobs.GPUS, 1.0))
        whole = "default/whole"
        await seen.until(lambda: jobs.over(seen.jobs.get(whole, {})), DRAINED, "the whole gang did not run")
    except NeverCameError as error:
        seen.note("seat leaked", str(error))


@asynccontextmanager
async def _beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
