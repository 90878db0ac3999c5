"""A job pauses as a whole, and goes on where and as large as there is room."""

import asyncio

import pytest

from bench.elastic.jobs import REAL, in_phase, job, of_size, slots, whole

pytestmark = pytest.mark.timeout(900)


async def test_suspended_and_resumed_elsewhere_with_another_size(jobs, kubelet, plane, tmp_path):
    """Rank 0 saves, all pods go, the nodes are somebody else's; on other nodes, fewer of them, no step is lost or
    repeated.
    """
    await asyncio.to_thread(kubelet.add, slots(2, "old-"))
    await jobs.submit(job("train", 1, 2, *REAL, spec={"checkpoint": {"path": str(tmp_path / "kept")}}))
    await jobs.until("train", of_size(2))
    await jobs.until_step("train", lambda step: step["size"] == 2)

    await jobs.say("train", suspend=True)
    paused = await jobs.until("train", in_phase("Suspended"))
    await jobs.until_pods("train", lambda pods: not pods)
    last = await jobs.last_step("train")
    assert paused["workers"] == 0

    for node in kubelet.nodes:
        await asyncio.to_thread(plane.kubectl, "cordon", node)
    (other,) = await asyncio.to_thread(kubelet.add, slots(1, "new-"))
    await jobs.say("train", suspend=False)
    again = await jobs.until("train", of_size(1))
    first = await jobs.until_step("train", lambda step: step["at"] > last["at"])

    assert (first["step"], first["size"]) == (last["step"] + 1, 1)
    assert [own["node"] for own in again["members"]] == [other]
    assert again["restarts"] == 0
    assert whole(await jobs.steps("train"))
