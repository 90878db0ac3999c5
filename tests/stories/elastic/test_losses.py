"""Workers, nodes and the master are lost; the training goes on."""

import asyncio
import os
import re
import signal
import time

import pytest

from bench.elastic.jobs import (
    COLLECTIVE,
    STANDIN,
    START,
    WAITING,
    grows,
    job,
    of_size,
    saved,
    slots,
    stillness,
    whole,
)

pytestmark = pytest.mark.timeout(900)

ACTS = 8.0
"""Seconds that a killed master may take beyond thrice what it takes after an orderly end: twice the 4 s that it has,
and less than the 15 s until the Lease that it had not given back is void."""


async def test_fewer_than_the_quorum_are_left(jobs, kubelet):
    """Who is left does not train, and keeps what was learnt; when another has come they go on, and nothing began
    again.
    """
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
    """It is ready, the member is called, and it dies: the member goes on alone, and the process that is started anew
    joins.

    A step takes a second, so that the member is nearly always called, and not yet there, when it happens.
    """
    await asyncio.to_thread(kubelet.add, slots(2))
    command = (*STANDIN, "--step-time", 1)
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


async def acting(elastic):
    """Starts a master that does not run; the seconds until it acts."""
    began = time.monotonic()
    await asyncio.to_thread(elastic.restart)
    return time.monotonic() - began


def held(elastic):
    """How many values the master holds for members that meet."""
    return elastic.metrics().value("gangwright_elastic_values")


async def test_the_master_is_killed(jobs, kubelet, elastic):
    """Training goes on without it, a worker lost meanwhile is noticed when it is back, and no step is lost or taken
    twice.
    """
    await asyncio.to_thread(kubelet.add, slots(2))
    await jobs.submit(job("train", 2, 2))
    trains = await jobs.until("train", of_size(2))
    before = await jobs.last_step("train")
    await asyncio.to_thread(elastic.program.stop)
    most = ACTS + 3 * await acting(elastic)
    elastic.kill()
    last = await jobs.last_step("train")
    await jobs.until_step("train", lambda step: step["step"] >= last["step"] + 20)
    assert await acting(elastic) < most
    still = await jobs.until("train", of_size(2))
    assert (still["round"], still["restarts"]) == (trains["round"], 0)
    steps = await jobs.steps("train")
    assert stillness(steps, before["at"]) < COLLECTIVE
    assert whole(steps)
    elastic.kill()
    kubelet.kill(jobs.worker(still, 1), signal.SIGKILL)
    last = await jobs.last_step("train")
    assert await acting(elastic) < most
    again = await jobs.until("train", lambda status: of_size(2)(status) and status["round"] > still["round"])
    assert again["restarts"] == 0
    step = await jobs.until_step("train", lambda step: step["step"] > last["step"] + 5)
    assert step["size"] == 2
    assert whole(await jobs.steps("train"))


@pytest.mark.parametrize(
    "away",
    [
        pytest.param(0.0, id="briefly"),
        pytest.param(COLLECTIVE + 5.0, id="for long", marks=pytest.mark.extended),  # the same way, only later
    ],
)
async def test_the_master_is_killed_while_workers_meet(jobs, kubelet, elastic, tmp_path, away):
    """Inside Horovod's `init` they wait for each other's addresses. What was told before went with the master's memory:
    after Horovod's time they end, and go on from what was saved last.
    """
    marked = tmp_path / "marked"
    alone = await grows(jobs, kubelet, WAITING, STANDIN, marked)
    async with asyncio.timeout(START):
        while marked.exists() or not await asyncio.to_thread(held, elastic):
            await asyncio.sleep(0.05)

    elastic.kill()
    marked.touch()
    await asyncio.sleep(away)
    await acting(elastic)
    met = await jobs.until_step("train", lambda step: step["size"] == 2)
    status = await jobs.until("train", of_size(2))
    assert {own["name"] for own in status["members"]} > {own["name"] for own in alone["members"]}
    steps = await jobs.steps("train")
    assert {step["step"] for step in steps} >= set(range(1, met["step"] + 1))
    begun = kubelet.log(jobs.worker(status, 0)).count("warmed up alone")
    assert (begun, status["restarts"]) == (2, 1)


async def test_all_workers_are_lost(jobs, kubelet, tmp_path):
    """Nobody is left with the state: the job begins again, once, from what was saved last, and trains on from there."""
    kept = tmp_path / "kept"
    await asyncio.to_thread(kubelet.add, slots(2))
    command = (*STANDIN, "--step-time", 0.1)
    checkpoint = {"path": str(kept), "every": "1s"}
    await jobs.submit(job("train", 2, 2, *command, spec={"checkpoint": checkpoint}))
    trained = await jobs.until("train", of_size(2))
    await jobs.until_step("train", lambda _: saved(kept) > 1)
    lost, already = {jobs.worker(trained, rank) for rank in (0, 1)}, saved(kept)
    for worker in lost:
        kubelet.kill(worker)

    again = await jobs.until("train", lambda now: of_size(2)(now) and not lost & jobs.members(now))
    names = {worker.partition("/")[2] for worker in lost}
    first = await jobs.until_step("train", lambda step: step["pod"] not in names)
    log = kubelet.log(jobs.worker(again, 0))
    (restored,) = re.findall(r"restored step (\d+) from ", log)
    last = max(step["step"] for step in await jobs.steps("train") if step["pod"] in names)
    assert already <= int(restored) <= last
    assert first["step"] == int(restored) + 1
    await jobs.until_step("train", lambda step: step["pod"] not in names and step["step"] > last)
    assert (await jobs.status("train"))["restarts"] == 1
    (told,) = await jobs.told("train", "GangLost")
    assert told.endswith(f"the gang restarts from the last checkpoint in {kept}")


def _runs(pod):
    return pod["status"].get("phase") == "Running"
