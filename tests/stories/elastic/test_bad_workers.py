"""Workers that never train: they are shown, they are given up, and their room is somebody else's."""

import asyncio

import pytest

from bench.elastic.jobs import LATE, STANDIN, job, of_size, slots, stillness, whole
from bench.plane import where

pytestmark = pytest.mark.timeout(900)


async def given_up(jobs, name, why):
    """What the master told of this job's first worker that it gave up, when its pod is gone."""
    (first, *_) = await jobs.until_pods(name, lambda pods: any(pod["spec"].get("nodeName") for pod in pods))
    await jobs.api.gone(where("pods", jobs.namespace, first["metadata"]["name"]), within=100)
    told = await jobs.told(name, "WorkerLost")
    assert any(why in message for message in told), told
    return first


async def test_workers_that_never_train(jobs, kubelet, impatient):
    """An image that cannot be pulled is named; a script that never gets to its training has a limit; both make room."""
    (one, other) = await asyncio.to_thread(kubelet.add, slots(2))
    pinned = {"kubernetes.io/hostname": one}, {"kubernetes.io/hostname": other}
    absent = job("absent", 1, 1, nodeSelector=pinned[0])
    absent["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/nobody:1"
    await jobs.submit(absent)
    await jobs.submit(job("idle", 1, 1, "-c", "import time; time.sleep(3600)", nodeSelector=pinned[1]))

    def named(status):
        return any("registry.example/nobody:1" in own.get("reason", "") for own in status.get("members", ()))

    await jobs.until("absent", named)
    await asyncio.gather(
        given_up(jobs, "absent", "cannot start: "),
        given_up(jobs, "idle", "was not ready 12 s after it was assigned to a node"),
    )

    for place, selector in enumerate(pinned):
        await jobs.pod(f"other-{place}", nodeSelector=selector)
    for place in range(2):
        await jobs.api.until(
            where("pods", jobs.namespace, f"other-{place}"),
            lambda pod: pod["status"].get("phase") == "Running",
            within=100,
        )
    for name in ("absent", "idle"):
        await jobs.until(name, lambda now: (now["phase"], now.get("workers", 0)) == ("Queued", 0))


@pytest.mark.parametrize("impatient", [{"elastic.startLimit": "15s"}], indirect=True)
@pytest.mark.usefixtures("impatient")
async def test_a_newcomer_that_is_never_ready(jobs, kubelet, tmp_path):
    """Who trains takes every step meanwhile, and is not called into another round; the newcomer is given up, and its
    room free.
    """
    nodes = await asyncio.to_thread(kubelet.add, slots(2))
    late = tmp_path / "late"
    command = (LATE, late, *STANDIN)
    await jobs.submit(job("train", 1, 2, *command, spec={"workers": 1}))
    alone = await jobs.until("train", of_size(1))
    (member,) = alone["members"]
    began = await jobs.last_step("train")
    late.touch()

    await jobs.say("train", workers=2)
    pods = await jobs.until_pods("train", lambda pods: len(pods) == 2)
    (newcomer,) = {pod["metadata"]["name"] for pod in pods} - {member["name"]}
    await jobs.api.gone(where("pods", jobs.namespace, newcomer), within=100)
    given_up = await jobs.last_step("train")
    await jobs.say("train", workers=1)
    told = await jobs.told("train", "WorkerLost")
    assert f"{newcomer} was not ready 15 s after it was assigned to a node" in told

    (free,) = {*nodes} - {member["node"]}
    await jobs.pod("other", nodeSelector={"kubernetes.io/hostname": free})
    await jobs.api.until(
        where("pods", jobs.namespace, "other"),
        lambda pod: pod["status"].get("phase") == "Running",
        within=100,
    )
    await jobs.until_step("train", lambda step: step["step"] > given_up["step"])
    steps, still = await jobs.steps("train"), await jobs.status("train")
    assert given_up["step"] > began["step"]
    assert stillness(steps, began["at"]) < 15
    assert whole(steps)
    assert (still["round"], still["restarts"]) == (alone["round"], 0)
