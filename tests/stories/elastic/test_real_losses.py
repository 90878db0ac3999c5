"""Losses that Horovod itself has to bear: workers that are killed, that stand still, and that die inside `init`.

How soon the training goes on, `bench.elastic failures` measures. The bounds here are several times its targets, so that
no slow machine breaks them, and none is so long that a wait for a time-out goes unseen.
"""

import asyncio
import os
import signal
import time
from datetime import datetime

import pytest

from bench.elastic.jobs import COLLECTIVE, DYING, HANGING, REAL, grows, job, of_size, slots, stillness
from bench.plane import where

pytestmark = pytest.mark.timeout(900)

NOTICED = COLLECTIVE + 20.0
"""Five times the 4 s that the others have beyond it when one stands still. Horovod's own time-out is as long, and
comes on top.
"""

BACK = 50.0
"""Five times the seconds in which a lost worker's place is taken; or thrice what the job took to start on this
machine.
"""


async def healed(jobs, lost, whole):
    """The job's status when it trains with three again, none of them the one that was lost."""

    def holds(status):
        return of_size(3)(status) and status["round"] > whole["round"] and lost not in jobs.members(status)

    again = await jobs.until("train", holds)
    last = await jobs.last_step("train")
    await jobs.until_step("train", lambda step: step["size"] == 3 and step["at"] > last["at"])
    return again


async def test_workers_that_are_killed_and_frozen(jobs, kubelet):
    """The others go on without a worker that is killed or stopped; a new worker takes its place.

    A killed worker's connections close: the others know at once, and train before the new worker is there. Of one that
    is stopped they know when Horovod's time is up. On a quick machine a new worker is there before.
    """
    await asyncio.to_thread(kubelet.add, slots(4))  # where a worker stood still none is put for a while
    submitted = time.monotonic()
    await jobs.submit(job("train", 1, 3, *REAL))
    whole = await jobs.until("train", of_size(3))
    await jobs.until_step("train", lambda step: step["size"] == 3)
    started = time.monotonic() - submitted

    killed, before = jobs.worker(whole, 0), await jobs.last_step("train")
    kubelet.kill(killed)
    two = await jobs.until_step("train", lambda step: step["size"] == 2 and step["at"] > before["at"])
    whole = await healed(jobs, killed, whole)
    back = await jobs.until_step("train", lambda step: step["size"] == 3 and step["at"] > two["at"])
    assert stillness(await jobs.steps("train"), before["at"]) < COLLECTIVE
    assert back["at"] - before["at"] < max(BACK, 3 * started)

    frozen, before = jobs.worker(whole, 1), await jobs.last_step("train")
    kubelet.freeze(frozen)
    await healed(jobs, frozen, whole)
    assert stillness(await jobs.steps("train"), before["at"]) < NOTICED

    numbers = {step["step"] for step in await jobs.steps("train")}
    assert numbers == set(range(1, max(numbers) + 1))


async def test_a_main_thread_hangs(jobs, kubelet):
    """Its process lives and says so; the others wait for it in a collective. It is named, it alone is killed, and
    training goes on.
    """
    await asyncio.to_thread(kubelet.add, slots(2))
    await jobs.submit(job("train", 1, 2, HANGING, *REAL))
    status = await jobs.until("train", of_size(2))
    await jobs.until_step("train", lambda step: step["size"] == 2)
    culprit = jobs.worker(status, 1)
    os.kill(jobs.training(culprit), signal.SIGUSR1)

    await jobs.until("train", lambda now: now["round"] > status["round"] and now["workers"] == 1)
    (told,) = await jobs.told("train", "WorkerLost")
    assert told.startswith(f"{culprit.partition('/')[2]} hangs: no progress for ")
    last = await jobs.last_step("train")
    await jobs.until_step("train", lambda step: step["at"] > last["at"] and step["size"] == 1)


@pytest.mark.parametrize("told", ["", pytest.param("told", marks=pytest.mark.extended)])
async def test_a_newcomer_is_killed_inside_init(jobs, kubelet, tmp_path, told):
    """A member that misses another inside Horovod's `init` never returns, whether that one had told its address or not.
    It ends as soon as the death is known, before the time is up. The job goes on from what was saved last, with both.
    """
    marked = tmp_path / "marked"
    alone = await grows(jobs, kubelet, DYING, REAL, marked, told)

    status = await jobs.until("train", lambda now: of_size(2)(now) and not marked.exists())
    met = await jobs.until_step("train", lambda step: step["size"] == 2)
    events = await jobs.api.items(where("events", jobs.namespace))
    newcomer, member = (
        datetime.fromisoformat(own["eventTime"])
        for own in sorted(events, key=lambda own: own["eventTime"])
        if own["reason"] == "ProcessRestarted"
    )
    assert (member - newcomer).total_seconds() < COLLECTIVE
    assert {own["name"] for own in status["members"]} > {own["name"] for own in alone["members"]}
    assert status["restarts"] == 1
    steps = {step["step"] for step in await jobs.steps("train")}
    assert steps >= set(range(1, met["step"] + 1))
