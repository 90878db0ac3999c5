"""A job takes what is free and gives it back."""

import asyncio

import pytest

from tests.plane import where
from tests.stories.elastic.jobs import job, of_size, slots

pytestmark = pytest.mark.timeout(900)


async def test_a_job_grows_into_a_free_node_and_gives_it_back(jobs, kubelet):
    """Its quorum is seated and trains; a node comes free and it trains there too; whoever has the right to the node
    gets it.
    """
    await asyncio.to_thread(kubelet.add, slots(3))
    await jobs.pod("first")
    await jobs.api.until(
        where("pods", jobs.namespace, "first"), lambda pod: pod["status"].get("phase") == "Running"
    )
    await jobs.submit(job("train", 2, 3))
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

    numbers = sorted({step["step"] for step in await jobs.steps("train")})
    assert numbers == list(range(1, numbers[-1] + 1))
