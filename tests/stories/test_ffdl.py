"""Gangs that need all of their members, in a cluster that has room for half of them.

The deadlock and the placements are those that the FfDL paper measured its gang scheduler by (Jayaram et al., "FfDL: A
Flexible Multi-tenant Deep Learning Platform", Middleware 2019).
"""

import random

import pytest

from bench.plane import Fleet, watches, where
from tests.stories.support.cluster import Cluster, bound, per_node
from tests.stories.support.workloads import gang, interleaved, made_by

JOBS = ("red", "green", "blue", "white")
LEARNERS = 4
EIGHT_GPUS = Fleet(racks=1, nodes_per_rack=2, gpus=4)


async def test_without_gangwright_nobody_can_start(cluster: Cluster):
    """Four jobs of four learners on eight GPUs: pod by pod, every job gets two learners, and none will ever start."""
    await cluster.nodes(EIGHT_GPUS)
    await cluster.submit(*interleaved([gang(job, LEARNERS, scheduler="default-scheduler") for job in JOBS]))

    pods = await watches.until(cluster.api, where("pods", cluster.namespace), all_tried)

    learners = [sum(name.startswith(job) for name in bound(pods)) for job in JOBS]
    assert sum(learners) == 8, "all GPUs are taken"
    assert LEARNERS not in learners, "and no job is whole"


def all_tried(pods):
    """kube-scheduler has bound or refused all sixteen."""
    refused = [
        own
        for own in pods
        for condition in own.get("status", {}).get("conditions", [])
        if (condition["type"], condition["status"]) == ("PodScheduled", "False")
    ]
    return len(bound(pods)) + len(refused) == len(JOBS) * LEARNERS


@pytest.mark.parametrize("seed", range(10))
async def test_with_gangwright_two_run_and_two_wait(cluster: Cluster, seed: int):
    """However their pods come in, two jobs run whole, two wait whole and say why, and each starts when there is
    room.
    """
    chance = random.Random(seed)
    pods = [member for job in JOBS for member in gang(job, LEARNERS)]
    chance.shuffle(pods)
    await cluster.nodes(EIGHT_GPUS)
    await cluster.submit(*pods)

    running, waiting = await halves(cluster)
    for job in waiting:
        assert (await cluster.told(job, "InsufficientResources")).startswith(
            "Insufficient resources: needs 4 × 1 nvidia.com/gpu"
        )
    for job in running:
        await (cluster.complete if chance.random() < 0.5 else cluster.remove)(job)
        both = await watches.until(
            cluster.api, where("pods", cluster.namespace), lambda seen: of_jobs(seen, waiting)
        )
        for started in of_jobs(both, waiting):
            waiting.remove(started)
            await cluster.told(started, "Seated")
    assert waiting == []


async def halves(cluster: Cluster):
    """The jobs that run, and those that wait; nothing is between."""
    pods = await watches.until(
        cluster.api, where("pods", cluster.namespace), lambda seen: len(of_jobs(seen, JOBS)) == 2
    )
    running = of_jobs(pods, JOBS)
    waiting = [job for job in JOBS if job not in running]
    assert len(bound(pods)) == 8
    return running, waiting


def of_jobs(pods, jobs):
    """Those of these jobs that are whole."""
    names = list(bound(pods))
    return [job for job in jobs if sum(name.startswith(job) for name in names) == LEARNERS]


async def test_jobs_made_by_controllers_end_one_after_another(cluster: Cluster):
    """Four Jobs submitted at once all complete, two at a time, though together they want twice the cluster."""
    await cluster.nodes(EIGHT_GPUS)
    ends = {"plane.gangwright.io/runs-for": "300ms"}
    jobs = [made_by("Job", job, LEARNERS, annotations=ends) for job in JOBS]
    await cluster.submit(*jobs, at_once=4)

    for job in JOBS:
        await cluster.thing("jobs", job, lambda seen: seen["status"].get("succeeded") == LEARNERS)


async def test_pack_takes_one_machine(cluster: Cluster):
    """Two learners of two GPUs that are packed share one of four machines."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=4, gpus=4))
    await cluster.submit(*gang("packed", 2, gpus=2, strategy="pack"))

    assert per_node(await cluster.seated("packed", 2)) == [2]


async def test_spread_takes_two_machines(cluster: Cluster):
    """Two learners of two GPUs that are spread over hosts take two of four machines."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=4, gpus=4))
    await cluster.submit(*gang("spread", 2, gpus=2, strategy="spread", level="host"))

    assert per_node(await cluster.seated("spread", 2)) == [1, 1]
