"""A training is resized over and over."""

import asyncio
import random

import pytest

from bench.elastic.jobs import REAL, STEP_SECONDS, job, of_size, slots, whole

RESIZES = 30
"""In a row."""


@pytest.mark.extended
@pytest.mark.timeout(max(900, 60 * RESIZES))
async def test_resizes_in_a_row(jobs, kubelet):
    """Sizes by chance, one after the other: each is reached, no process is lost, and no step."""
    chance = random.Random(4)
    await asyncio.to_thread(kubelet.add, slots(4))
    # Steps of twice the usual length leave more of the processor to those that start.
    words = (*REAL, "--step-time", 2 * STEP_SECONDS)
    await jobs.submit(job("train", 1, 4, *words, spec={"workers": 2}))
    size = 2
    await jobs.until("train", of_size(size))
    for _ in range(RESIZES):
        size = chance.choice([other for other in (1, 2, 3, 4) if other != size])
        await jobs.say("train", workers=size)
        await jobs.until("train", of_size(size))
        last = await jobs.last_step("train")
        await jobs.until_step(
            "train", lambda step, size=size, last=last: step["size"] == size and step["at"] > last["at"]
        )

    assert (await jobs.status("train"))["restarts"] == 0
    assert await jobs.told("train", "WorkerLost") == []
    assert whole(await jobs.steps("train"))
