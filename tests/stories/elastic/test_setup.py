"""What a script is told of its rank and size while it sets up is what it has when it trains."""

import asyncio

import pytest

from bench.elastic.jobs import SCRIPTS, in_phase, job, of_size, slots

pytestmark = pytest.mark.timeout(900)

DIVIDING = SCRIPTS / "dividing.py"
REAL = ("--native", "horovod.tensorflow")
"""With Horovod's own native half."""


def said(steps, size):
    """What was told, what is true and which callbacks ran, of each worker in a round of this size."""
    return {
        (tuple(own["told"]), own["rank"], own["size"], own["resets"]) for own in steps if own["size"] == size
    }


async def test_the_place_at_set_up_is_true(jobs, kubelet):
    """Members of the first round and a newcomer hear the rank and size that they get, and run no reset callback for it.
    Those that were there before keep their process: a callback tells them.
    """
    await asyncio.to_thread(kubelet.add, slots(3))
    await jobs.submit(job("train", 2, 3, DIVIDING, "--reset", spec={"workers": 2}))
    await jobs.until("train", of_size(2))
    await jobs.until_step("train", lambda own: own["size"] == 2)
    await jobs.say("train", workers=3)
    grown = await jobs.until("train", of_size(3))
    await jobs.until_step("train", lambda own: own["size"] == 3 and own["rank"] == 2)
    steps = await jobs.steps("train")

    assert said(steps, 2) == {((0, 2), 0, 2, 0), ((1, 2), 1, 2, 0)}
    assert said(steps, 3) <= {((0, 2), 0, 3, 1), ((1, 2), 1, 3, 1), ((2, 3), 2, 3, 0)}
    assert all(own["cross"] == own["told"] and own["local"] == [0, 1] for own in steps)
    assert await jobs.told("train", "ProcessRestarted") == []
    assert stale(grown) == ""


def stale(status):
    """What the condition of a set-up for another place says; empty while it does not hold."""
    (found,) = [one for one in status["conditions"] if one["type"] == "SetupRankStale"]
    return found["message"] if found["status"] == "True" else ""


async def test_a_value_of_the_set_up_that_is_left_behind_is_told(jobs, kubelet):
    """The script asked for its size, which has changed, and takes no notice of it: a condition names the line."""
    await asyncio.to_thread(kubelet.add, slots(2))
    await jobs.submit(job("train", 1, 2, DIVIDING, spec={"workers": 1}))
    alone = await jobs.until("train", of_size(1))
    await jobs.say("train", workers=2)
    grown = await jobs.until("train", lambda status: of_size(2)(status) and stale(status))

    assert stale(alone) == ""
    assert f"read at {DIVIDING}:" in stale(grown)


@pytest.mark.parametrize("dies", [(), pytest.param(("--die",), marks=pytest.mark.extended)])
async def test_collectives_of_the_set_up_are_real(jobs, kubelet, dies):
    """Rank 0 reads the settings and the others hear them, before there is a training, and no member answers itself. Where
    one is lost before that, all set up again.
    """
    await asyncio.to_thread(kubelet.add, slots(2))
    command = (DIVIDING, *REAL, "--broadcast", "--steps", 10, *dies)
    await jobs.submit(job("train", 2, 2, *command))
    over = await jobs.until("train", in_phase("Succeeded", "Failed"))
    steps = await jobs.steps("train")

    assert over["phase"] == "Succeeded", over["reason"]
    assert {(own["rank"], own["settings"]["read_by"], tuple(own["gathered"])) for own in steps} == {
        (0, 0, (0, 1)),
        (1, 0, (0, 1)),
    }
    assert len(await jobs.told("train", "ProcessRestarted")) == 2 * len(dies)
