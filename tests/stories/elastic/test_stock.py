"""A script written for horovodrun, not a word of it changed, in an elastic job."""

import asyncio
import os
import signal

import pytest

from bench.elastic.jobs import STOCK, job, of_size, slots

pytestmark = pytest.mark.timeout(900)


async def test_a_stock_script_joins_leaves_and_recovers(jobs, kubelet):
    """Its own elastic state and reset callbacks do: a worker joins, one leaves, one is killed, and it takes every step.
    What the spec says of batch and epochs is not for it, and the conditions say so.
    """
    await asyncio.to_thread(kubelet.add, slots(2))
    command = (STOCK, "--steps", 1000000, "--sleep", 0.1)
    in_vain = {"batch": {"perWorker": 64}, "schedule": [{"epoch": 0}, {"epoch": 1, "batch": 32}]}
    await jobs.submit(job("stock", 1, 2, *command, spec={"workers": 1, **in_vain}))
    await jobs.until("stock", of_size(1))
    await jobs.say("stock", workers=2)
    await jobs.until("stock", of_size(2))
    await jobs.until_step("stock", lambda step: step["size"] == 2)
    await jobs.say("stock", workers=1)
    await jobs.until("stock", of_size(1))
    alone = await jobs.last_step("stock")

    await jobs.say("stock", workers=2)
    status = await jobs.until("stock", of_size(2))
    await jobs.until_step("stock", lambda step: step["size"] == 2 and step["at"] > alone["at"])
    victim = jobs.worker(status, 0)
    os.kill(jobs.training(victim), signal.SIGKILL)
    again = await jobs.until("stock", lambda now: of_size(2)(now) and now["round"] > status["round"] + 1)
    last = await jobs.last_step("stock")
    await jobs.until_step("stock", lambda step: step["size"] == 2 and step["step"] > last["step"])

    said = {one["type"]: (one["status"], one["reason"]) for one in again["conditions"]}
    assert said["EpochReported"] == ("False", "NoEpochReported")
    assert again["batch"] == {"mode": "capped"}
    assert jobs.worker(again, 1) == victim
    assert again["restarts"] == 0
    numbers = {step["step"] for step in await jobs.steps("stock")}
    assert numbers == set(range(max(numbers) + 1))
