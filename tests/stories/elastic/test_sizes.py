"""People and the cluster say how many workers a job has, and where; nobody loses a step for it."""

import asyncio
import itertools

import pytest

from bench.elastic.jobs import job, of_size, slots, whole
from tests.cli.support.speaking import say

pytestmark = pytest.mark.timeout(900)


async def test_people_say_the_size(jobs, kubelet, plane):
    """kubectl scale and gangwright resize set it, whatever the policy would like; auto lets the policy decide again."""
    await asyncio.to_thread(kubelet.add, slots(2))
    await jobs.submit(job("train", 1, 2, spec={"workers": 1}))
    await jobs.until("train", of_size(1))

    await asyncio.to_thread(
        plane.kubectl, "scale", "elasticjob/train", "--replicas=2", f"--namespace={jobs.namespace}"
    )
    two = await jobs.until("train", of_size(2))
    assert two["wantedBy"] == "user"
    kubeconfig = str(plane.kubeconfig())
    said = await asyncio.to_thread(say, "resize", "train", "1", "-n", jobs.namespace, KUBECONFIG=kubeconfig)
    assert said.code == 0, said.err
    await jobs.until("train", of_size(1))
    said = await asyncio.to_thread(
        say, "resize", "train", "auto", "-n", jobs.namespace, KUBECONFIG=kubeconfig
    )
    assert said.code == 0, said.err
    again = await jobs.until("train", of_size(2))

    assert again["wantedBy"] == "offer"
    assert again["restarts"] == 0
    assert whole(await jobs.steps("train"))


async def test_a_job_finds_its_own_size(jobs, kubelet):
    """A job that scales doubles its workers from one to four, each size measured on the way, and says why it stays."""
    await asyncio.to_thread(kubelet.add, slots(4))
    sizing = {"policy": "efficiency", "parameters": {"hold": 0}}
    await jobs.submit(job("train", 1, 4, spec={"sizing": sizing}))

    found = await jobs.until("train", lambda status: "the best of" in status.get("reason", ""))
    steps = await jobs.steps("train")
    assert of_size(4)(found)
    assert found["wantedBy"] == "efficiency"
    assert "the best of 1, 2, 4 workers: 4, " in found["reason"]
    assert found["restarts"] == 0
    assert [size for size, _ in itertools.groupby(own["size"] for own in steps)] == [1, 2, 4]
    assert whole(steps)


async def test_a_node_is_cordoned_and_another_drained(jobs, kubelet, plane):
    """A cordon brings a replacement first, and one round swaps the two; kubectl drain evicts a worker at once, which
    leaves in order while another starts elsewhere: neither costs a step.
    """
    await asyncio.to_thread(kubelet.add, slots(3))
    await jobs.submit(job("train", 2, 2))
    before = await jobs.until("train", of_size(2))
    (node,) = [own["node"] for own in before["members"] if own["rank"] == 1]

    await asyncio.to_thread(plane.kubectl, "cordon", node)
    swapped = await jobs.until(
        "train", lambda status: of_size(2)(status) and status["lastResize"]["cause"] == "NodeDrain"
    )
    assert swapped["round"] == before["round"] + 1
    assert node not in {own["node"] for own in swapped["members"] if own.get("rank") is not None}
    await asyncio.to_thread(plane.kubectl, "uncordon", node)

    gone = jobs.worker(swapped, 0)
    (node,) = [own["node"] for own in swapped["members"] if own.get("rank") == 0]
    words = ("--delete-emptydir-data", "--timeout=60s")
    said = await asyncio.to_thread(plane.kubectl, "drain", node, *words)
    assert f"pod/{gone.partition('/')[2]} evicted" in said
    again = await jobs.until(
        "train",
        lambda status: of_size(2)(status) and gone not in {jobs.worker(status, rank) for rank in (0, 1)},
    )
    last = await jobs.last_step("train")
    await jobs.until_step("train", lambda step: step["step"] > last["step"] + 3)

    assert node not in {own["node"] for own in again["members"] if own.get("rank") is not None}
    assert "excludes this worker: leaving" in kubelet.log(gone)
    assert again["restarts"] == 0
    assert await jobs.told("train", "WorkerLost") == []
    assert whole(await jobs.steps("train"))
