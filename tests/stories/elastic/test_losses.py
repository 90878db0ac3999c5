"""Workers, nodes and the master are lost; the training goes on."""

import asyncio
import os
import signal

import pytest

from tests.stories.elastic.jobs import HANGING, SCRIPT, job, of_size, slots, whole

pytestmark = pytest.mark.timeout(900)


async def healed(jobs, lost, whole):
    """The job's status when it trains with three again, none of them the one that was lost."""

    def holds(status):
        return of_size(3)(status) and status["round"] > whole["round"] and lost not in _members(jobs, status)

    again = await jobs.until("train", holds)
    last = await jobs.last_step("train")
    await jobs.until_step("train", lambda step: step["size"] == 3 and step["at"] > last["at"])
    return again


async def test_workers_that_are_killed_and_frozen(jobs, kubelet):
    """The others go on without whoever is killed, or stands still; a new worker takes its place.

    Whoever is killed closes its connections: the others know at once, and train before the new worker is there. Of one that
    stands still they know when Horovod's time is up, which a new worker on a quick machine is there before.
    """
    await asyncio.to_thread(kubelet.add, slots(4))  # where a worker stood still none is put for a while
    await jobs.submit(job("train", 1, 3))
    whole = await jobs.until("train", of_size(3))

    killed, before = jobs.worker(whole, 0), await jobs.last_step("train")
    kubelet.kill(killed)
    await jobs.until_step("train", lambda step: step["size"] == 2 and step["at"] > before["at"])
    whole = await healed(jobs, killed, whole)

    frozen = jobs.worker(whole, 1)
    kubelet.freeze(frozen)
    await healed(jobs, frozen, whole)

    numbers = {step["step"] for step in await jobs.steps("train")}
    assert numbers == set(range(1, max(numbers) + 1))


async def test_a_main_thread_hangs(jobs, kubelet):
    """Its process lives and says so; the others wait for it in a collective. It is named, it alone is killed, and training goes on."""
    await asyncio.to_thread(kubelet.add, slots(2))
    command = (HANGING, SCRIPT, "--epochs", 10000, "--step-time", 0.2, "--batch", 16)
    await jobs.submit(job("train", 1, 2, *command))
    status = await jobs.until("train", of_size(2))
    await jobs.until_step("train", lambda step: step["size"] == 2)
    culprit = jobs.worker(status, 1)
    os.kill(jobs.training(culprit), signal.SIGUSR1)

    await jobs.until("train", lambda now: now["round"] > status["round"] and now["workers"] == 1)
    (told,) = await jobs.told("train", "WorkerLost")
    assert told.startswith(f"{culprit.partition('/')[2]} hangs: no progress for ")
    last = await jobs.last_step("train")
    await jobs.until_step("train", lambda step: step["at"] > last["at"] and step["size"] == 1)


async def test_fewer_than_the_quorum_are_left(jobs, kubelet):
    """Who is left does not train, and keeps what was learnt; when another has come they go on, and nothing began again."""
    await asyncio.to_thread(kubelet.add, slots(2))
    await jobs.submit(job("train", 2, 2))
    status = await jobs.until("train", of_size(2))
    await jobs.until_step("train", lambda step: step["step"] > 10)
    survivor = jobs.worker(status, 1)
    kubelet.kill(jobs.worker(status, 0))

    alone = await jobs.until("train", lambda now: not now["workers"])
    assert alone["phase"] in {"Queued", "Starting", "Resizing"}
    again = await jobs.until("train", of_size(2))
    last = await jobs.last_step("train")
    assert jobs.worker(again, 0) == survivor
    assert again["restarts"] == 0
    assert {step["step"] for step in await jobs.steps("train")} == set(range(1, last["step"] + 1))


async def test_a_newcomer_is_killed_at_the_door(jobs, kubelet):
    """It is ready, the member is called, and it dies: the member goes on alone, and the process that is started anew joins.

    A step takes a second, so that the member is nearly always called, and not yet there, when it happens.
    """
    await asyncio.to_thread(kubelet.add, slots(2))
    command = (SCRIPT, "--epochs", 10000, "--step-time", 1, "--batch", 16)
    await jobs.submit(job("train", 1, 2, *command, spec={"workers": 1}))
    (member,) = (await jobs.until("train", of_size(1)))["members"]
    await jobs.say("train", workers=2)
    pods = await jobs.until_pods("train", lambda pods: len(pods) == 2 and all(map(_runs, pods)))
    (newcomer,) = {pod["metadata"]["name"] for pod in pods} - {member["name"]}
    worker = f"{jobs.namespace}/{newcomer}"
    await jobs.until_log(worker, "warmed up alone")
    os.kill(jobs.training(worker), signal.SIGKILL)

    await jobs.until_log(worker, "warmed up alone", 2)
    status = await jobs.until("train", of_size(2))
    await jobs.until_step("train", lambda step: step["size"] == 2)
    assert {own["name"] for own in status["members"]} == {member["name"], newcomer}
    if (
        kubelet.log(f"{jobs.namespace}/{member['name']}").count("warmed up alone") == 1
    ):  # not yet inside `init`
        assert status["restarts"] == 0
        assert whole(await jobs.steps("train"))


async def test_a_node_dies(jobs, kubelet):
    """Nothing is heard of it any more; the job goes on with those that are left."""
    await asyncio.to_thread(kubelet.add, slots(2))
    await jobs.submit(job("train", 1, 2))
    whole = await jobs.until("train", of_size(2))
    (node,) = [own["node"] for own in whole["members"] if own["rank"] == 1]
    before = await jobs.last_step("train")
    await asyncio.to_thread(kubelet.kill_node, node)
    await jobs.until_step("train", lambda step: step["size"] == 1 and step["at"] > before["at"])
    await jobs.until("train", lambda status: status["workers"] == 1)


async def test_the_master_is_killed(jobs, kubelet, elastic):
    """Training goes on without it, a worker lost meanwhile is noticed when it is back, and no step is lost."""
    await asyncio.to_thread(kubelet.add, slots(2))
    await jobs.submit(job("train", 2, 2))
    whole = await jobs.until("train", of_size(2))
    before = await jobs.last_step("train")
    elastic.kill()
    await jobs.until_step("train", lambda step: step["step"] >= before["step"] + 20)
    await asyncio.to_thread(elastic.restart)
    still = await jobs.until("train", of_size(2))
    assert (still["round"], still["restarts"]) == (whole["round"], 0)
    elastic.kill()
    kubelet.kill(jobs.worker(still, 1), signal.SIGKILL)
    last = await jobs.last_step("train")
    await asyncio.to_thread(elastic.restart)
    again = await jobs.until("train", lambda status: of_size(2)(status) and status["round"] > still["round"])
    assert again["restarts"] == 0
    step = await jobs.until_step("train", lambda step: step["step"] > last["step"] + 5)
    assert step["size"] == 2


def _members(jobs, status):
    return {f"{jobs.namespace}/{own['name']}" for own in status["members"]}


def _runs(pod):
    return pod["status"].get("phase") == "Running"
