"""What Kubernetes says of a worker's dead pod reaches people: in events, in the job's status, and by `explain`."""

import asyncio

import pytest

from bench.elastic.jobs import STANDIN, in_phase, job, of_size, slots
from bench.plane import where
from tests.cli.support.speaking import Said, say

pytestmark = pytest.mark.timeout(900)

LIMIT = "3Gi"
OOM = f"OOMKilled: container main exceeded its memory limit of {LIMIT}"
EVICTED = "Evicted: The node was low on resource: memory."


async def explained(jobs, plane, name: str) -> Said:
    return await asyncio.to_thread(
        say, "explain", "--offline", f"{jobs.namespace}/{name}", KUBECONFIG=str(plane.kubeconfig())
    )


async def evict(jobs, worker: str) -> None:
    """As a kubelet tells of it that needs the memory."""
    reason, _, message = EVICTED.partition(": ")
    status = {"phase": "Failed", "reason": reason, "message": message}
    await jobs.api.patch(where("pods", *worker.split("/"), "status"), {"status": status})


def told_of(worker: str, cause: str):
    """The job's status says that its node failed by this worker's cause."""
    return lambda status: any(own["why"] == f"failed: {cause}" for own in status.get("barred", ()))


async def test_workers_that_die_without_a_word_of_their_agent(jobs, kubelet, plane):
    """One is killed for memory with all its processes, its successor is evicted: each cause is told, and the other
    worker trains on.
    """
    await asyncio.to_thread(kubelet.add, slots(2))
    training = job("train", 1, 2, *STANDIN)
    (container,) = training["spec"]["template"]["spec"]["containers"]
    container["resources"]["limits"]["memory"] = LIMIT
    await jobs.submit(training)
    worker = jobs.worker(await jobs.until("train", of_size(2)), 1)
    await asyncio.to_thread(kubelet.kill, worker, memory=True)
    await jobs.until("train", told_of(worker, OOM))
    said = await explained(jobs, plane, "train")

    assert await jobs.told("train", "WorkerLost") == [f"{worker.partition('/')[2]} failed: {OOM}"]
    assert said.code == 0
    assert f"failed 1×: failed: {OOM}\n" in said.out

    worker = jobs.worker(await jobs.until("train", of_size(2)), 1)
    await evict(jobs, worker)
    status = await jobs.until("train", told_of(worker, EVICTED))
    said = await explained(jobs, plane, "train")

    assert f"{worker.partition('/')[2]} failed: {EVICTED}" in await jobs.told("train", "WorkerLost")
    assert f": failed: {EVICTED}\n" in said.out
    assert status["restarts"] == 0


async def test_a_command_that_does_not_exist(jobs, kubelet, plane):
    """The job ends with the runtime's own words, and `explain` has them when its pods are gone."""
    await asyncio.to_thread(kubelet.add, slots(2))
    fetch = {"name": "fetch", "image": "plain", "command": ["/no/such/program"]}
    await jobs.submit(job("train", 2, 2, spec={"maxRestarts": 0}, initContainers=[fetch]))
    over = await jobs.until("train", in_phase("Failed"))
    said = await explained(jobs, plane, "train")

    assert "failed: StartError: init container fetch: " in over["reason"]
    assert "/no/such/program" in over["reason"]
    assert {"failed: StartError" in own["why"] for own in over["barred"]} == {True}
    assert any("failed: StartError: " in text for text in await jobs.told("train", "WorkerLost"))
    assert over["reason"] in " ".join((said.out + said.err).split())
