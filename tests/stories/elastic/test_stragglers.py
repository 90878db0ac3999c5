"""A worker that holds the others up makes way, and nobody waits for that."""

import asyncio

import pytest

from bench.elastic.jobs import REAL, job, of_size, slots, whole

pytestmark = pytest.mark.timeout(900)

COUNTED = ("stragglers", "joins", "leaves", "losses")
"""Metrics: what a swap counts."""


async def counted(elastic):
    """The master's counters, by name."""
    found = await asyncio.to_thread(elastic.metrics)
    return {name: found.value(f"gangwright_elastic_{name}_total") for name in COUNTED}


async def test_a_straggler_makes_way(jobs, kubelet, elastic, tmp_path):
    """On the node of rank 0 a pass begins to take four times as long: it is named, and goes on while another worker
    starts and warms up; one round swaps the two, two train at every moment, and no step is lost.
    """
    await asyncio.to_thread(kubelet.add, slots(3))
    place = tmp_path / "slow"
    await jobs.submit(job("train", 2, 2, *REAL, "--slow-on", place))
    trains = await jobs.until("train", of_size(2))
    slow, other = trains["members"]
    await jobs.until_step("train", lambda step: step["size"] == 2)
    before = await counted(elastic)
    place.write_text(slow["node"])

    pods = await jobs.until_pods(
        "train", lambda pods: len(pods) == 3 and all(pod["status"].get("phase") == "Running" for pod in pods)
    )
    (newcomer,) = {pod["metadata"]["name"] for pod in pods} - {slow["name"], other["name"]}
    starts = await jobs.last_step("train")
    swapped = await jobs.until(
        "train", lambda status: of_size(2)(status) and status["lastResize"]["cause"] == "Straggler"
    )
    await jobs.until_log(f"{jobs.namespace}/{slow['name']}", "excludes this worker: leaving")
    await jobs.until_step("train", lambda step: step["pod"] == newcomer)
    last = await jobs.last_step("train")
    await jobs.until_step("train", lambda step: step["step"] > last["step"] + 3)

    (told,) = await jobs.told("train", "Straggler")
    assert told.startswith(f"{slow['name']} computes at ")
    steps, after = await jobs.steps("train"), await counted(elastic)
    assert (swapped["round"], swapped["restarts"]) == (trains["round"] + 1, 0)
    assert {own["name"] for own in swapped["members"] if own.get("rank") is not None} == {
        other["name"],
        newcomer,
    }
    theirs, ours = ([own["step"] for own in steps if own["pod"] == name] for name in (slow["name"], newcomer))
    assert starts["step"] < max(theirs) == min(ours) - 1
    assert {own["size"] for own in steps} == {2}
    assert whole(steps)
    assert {name: after[name] - before[name] for name in COUNTED} == {
        "stragglers": 1,
        "joins": 1,
        "leaves": 1,
        "losses": 0,
    }
    assert await jobs.told("train", "WorkerLost") == []
