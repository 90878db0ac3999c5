"""Rigid Jobs share devices by turns, suspended and resumed: whoever has had more gives way to whoever has had less
under `las`, and, where the setting says so, whoever was let past and stays longer than it said to the one that it
passed.
"""

import pytest

from bench.plane import Fleet, where
from bench.plane.client import Object
from bench.plane.installation import Installation
from tests.stories.conftest import Tune
from tests.stories.support.cluster import Cluster
from tests.stories.support.workloads import made_by, pod

QUANTUM = {"queue.order": "las", "queue.lasQuantum": "3s", "queue.preemptionCooldown": "1s"}

PAUSED, ATTAINED = "gangwright.io/paused", "gangwright.io/attained"


@pytest.fixture
def gangwright(frail: Installation) -> Installation:
    return frail


def job(name: str, **words: object) -> Object:
    return made_by("Job", name, 2, preemption="suspend", **words)


async def seen(cluster: Cluster, name: str) -> Object:
    return await cluster.api.get(where("jobs", cluster.namespace, name))


async def test_two_jobs_take_turns(cluster: Cluster, tune: Tune):
    """Two Jobs that each need the whole cluster run by turns: suspended, resumed, their pods made again by the Job
    controller.
    """
    await tune(QUANTUM)
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=2))
    await cluster.submit(job("one"))
    turns = [await cluster.running("one", 2)]
    await cluster.submit(job("two"))

    turns.append(await cluster.running("two", 2))
    one = await cluster.thing("jobs", "one", lambda own: not own["spec"].get("suspend"))
    assert float(one["metadata"]["annotations"][ATTAINED]) >= 3
    assert PAUSED not in one["metadata"]["annotations"]
    assert not one["status"].get("failed")
    turns.append(await cluster.running("one", 2))
    two = await seen(cluster, "two")
    assert float(two["metadata"]["annotations"][ATTAINED]) >= 3

    made = [set(turn) for turn in turns]
    assert made[0].isdisjoint(made[2])
    await cluster.nothing_held()


async def test_who_does_not_ask_for_it_keeps_its_place(cluster: Cluster, tune: Tune):
    """A Job that says nothing of suspension runs on, however much it has had; the other waits for room."""
    await tune(QUANTUM)
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=2))
    await cluster.submit(made_by("Job", "keeps", 2))
    first = await cluster.running("keeps", 2)
    await cluster.submit(job("waits"))
    await cluster.told("waits", "InsufficientResources")
    await a_while(cluster, "6s")

    assert await cluster.bound("keeps") == first
    assert await cluster.bound("waits") == {}


async def a_while(cluster: Cluster, span: str) -> None:
    """A pod that needs no device ran for so long, and ended."""
    clock = pod(
        "clock", gang="clock", min_members=1, gpus=0, annotations={"plane.gangwright.io/runs-for": span}
    )
    await cluster.submit(clock)
    await cluster.until("clock", lambda pods: [own["status"]["phase"] for own in pods] == ["Succeeded"])
