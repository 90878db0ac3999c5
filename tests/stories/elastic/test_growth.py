"""A job takes what is free and gives it back; two jobs share what there is."""

import asyncio
from collections import defaultdict

import pytest

from bench.elastic.jobs import JOBS, REAL, job, of_size, slots, whole
from bench.plane import where

pytestmark = pytest.mark.timeout(900)

SAMPLES = 1500
"""Of an epoch: the digits that are not kept for the accuracy."""


async def test_a_job_grows_into_a_free_node_and_gives_it_back(jobs, kubelet):
    """Its quorum is seated and trains; a node comes free and it trains there too; whatever has the right to the node
    gets it. At every size all workers have the same weights, and no sample of an epoch is taken twice or left out.
    """
    await asyncio.to_thread(kubelet.add, slots(3))
    await jobs.pod("first")
    await jobs.api.until(
        where("pods", jobs.namespace, "first"), lambda pod: pod["status"].get("phase") == "Running"
    )
    await jobs.submit(job("train", 2, 3, *REAL, "--indices"))
    await jobs.until("train", of_size(2))
    before = await jobs.until_step("train", lambda step: step["size"] == 2)

    await jobs.api.delete(where("pods", jobs.namespace, "first"))
    grown = await jobs.until("train", of_size(3))
    three = await jobs.until_step("train", lambda step: step["size"] == 3)
    assert three["step"] > before["step"]
    assert {member["role"] for member in grown["members"]} == {"core", "surplus"}

    await jobs.pod("second")
    await jobs.until("train", of_size(2))
    await jobs.until_step("train", lambda step: step["size"] == 2 and step["step"] > three["step"])
    await jobs.api.until(
        where("pods", jobs.namespace, "second"), lambda pod: pod["status"].get("phase") == "Running"
    )

    steps = await jobs.steps("train")
    assert whole(steps)
    assert len({(step["step"], step["sum"]) for step in steps}) == len({step["step"] for step in steps})
    _every_sample_once(steps)


def _every_sample_once(steps):
    """Up to the last step that all its workers have printed."""
    taken = defaultdict(list)
    for step in steps:
        taken[step["step"]].append(step)
    ended = [number for number, each in taken.items() if len(each) == each[0]["size"]]
    epochs = defaultdict(list)
    for number in range(1, max(ended) + 1):
        epoch = (round(taken[number][0]["epoch"] * SAMPLES) - 1) // SAMPLES
        for step in taken[number]:
            epochs[epoch] += step["indices"]
    *done, last = (epochs[epoch] for epoch in sorted(epochs))
    assert all(sorted(each) == list(range(SAMPLES)) for each in done)
    assert len(last) == len(set(last))
    assert sum(map(len, epochs.values())) == round(taken[max(ended)][0]["epoch"] * SAMPLES)


async def test_two_jobs_share_the_slots(jobs, kubelet):
    """The second job gets its least from what the first has above its own, and grows when the first is over; neither
    loses a step.
    """
    await asyncio.to_thread(kubelet.add, slots(3))
    await jobs.submit(job("first", 1, 3, *REAL))
    await jobs.until("first", of_size(3))
    await jobs.until_step("first", lambda step: step["size"] == 3)

    await jobs.submit(job("second", 2, 3, *REAL))
    await jobs.until("second", of_size(2))
    shared = await jobs.until_step("second", lambda step: step["size"] == 2)
    await jobs.until_step("first", lambda step: step["size"] == 1 and step["at"] > shared["at"])
    await jobs.api.delete(where(JOBS, jobs.namespace, "first"))
    await jobs.until("second", of_size(3))
    await jobs.until_step("second", lambda step: step["size"] == 3)

    assert (await jobs.status("second"))["restarts"] == 0
    assert await jobs.told("first", "WorkerLost") == await jobs.told("second", "WorkerLost") == []
    assert whole(await jobs.steps("first"))
    assert whole(await jobs.steps("second"))
