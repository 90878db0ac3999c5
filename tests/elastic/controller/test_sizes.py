"""Sizes are decided for all jobs together, from the room that the watches show."""

import asyncio

import pytest

from scheduler.elastic.controller import autoscaler, requests
from scheduler.elastic.controller.autoscaler import decide
from scheduler.elastic.controller.job_registry import watched
from scheduler.elastic.sizing import Want, allocation, policies
from scheduler.objects import pod_annotations
from tests.elastic.controller.house import KIT, TEMPLATE, House, job, pods, status, train

ROOM = {"allocatable": {"cpu": "3", "memory": "64Gi", "pods": "110"}}
BUSY = {
    "spec": {"containers": [{**TEMPLATE["spec"]["containers"][0], "resources": {"requests": {"cpu": "1"}}}]}
}


async def test_a_job_grows_into_what_is_free(api, house):
    """Two of three places are taken by its quorum: it wants the third, and gets a surplus pod for it."""
    api.put("n0", requests.NODES, "", spec={}, status=ROOM)
    job(api, template=BUSY)
    await train(house, 2)
    await house.until(lambda: status(api).get("phase") == "Running")

    wants = await decide(house.master, KIT)

    assert wants["team/train"].size == 3
    await house.until(lambda: len(pods(api)) == 3)
    await house.until(lambda: (status(api)["wanted"], status(api)["wantedBy"]) == (3, "offer"))
    assert pods(api)[2]["metadata"]["labels"]["gangwright.io/surplus"] == "true"


async def test_a_job_that_cannot_be_sized_leaves_the_others_alone(api, house, monkeypatch):
    """What its policy stumbles over costs it its answer, and nobody else's."""

    def desire(view):
        if view.name == "team/strange":
            raise ZeroDivisionError
        return policies.offer(view)

    monkeypatch.setattr(allocation, "POLICIES", {"offer": desire})
    api.put("n0", requests.NODES, "", spec={}, status=ROOM)
    for name in ("strange", "train"):
        job(api, name, template=BUSY)
    await house.until(lambda: len(house.master.charges) == 2)

    assert (await decide(house.master, KIT)).keys() == {"team/train"}


async def test_a_seat_is_the_jobs_own_before_the_pod_is_bound(api, house):
    """The scheduler has seated the newcomer: its room is no longer free, and the job keeps it."""
    api.put("n0", requests.NODES, "", spec={}, status=ROOM)
    job(api, template=BUSY, sizing={"policy": "offer", "parameters": {"hold": 0}})
    await train(house, 2)
    await house.until(lambda: status(api).get("phase") == "Running")
    await decide(house.master, KIT)
    await house.until(lambda: len(pods(api)) == 3)
    meta = pods(api)[2]["metadata"]
    seat = {"gangwright.io/seat": pod_annotations.write_seat("n0", "plan", pin=True)}
    api.change(
        requests.PODS,
        meta["namespace"],
        meta["name"],
        metadata={"annotations": seat},
        spec={"schedulingGates": None},
    )
    known = house.charge().workers
    await house.until(lambda: meta["uid"] in known and not known[meta["uid"]].seen.gated)

    assert (await decide(house.master, KIT))["team/train"].size == 3


async def test_room_that_others_took_is_not_offered(api, house):
    """Pods of anybody count, and a size that a person set is not the policy's."""
    api.put("n0", requests.NODES, "", spec={}, status=ROOM)
    api.put("other", requests.PODS, spec={**BUSY["spec"], "nodeName": "n0"}, status={"phase": "Running"})
    job(api, template=BUSY)
    job(api, "fixed", template=BUSY, workers=4)
    await train(house, 2)
    await house.until(lambda: status(api).get("phase") == "Running")

    wants = await decide(house.master, KIT)

    assert {key: want.size for key, want in wants.items()} == {"team/train": 2}


async def test_where_not_all_is_seen_the_room_is_not_known(api, tmp_path):
    """With some namespaces alone jobs ask for what they like: their surplus waits at its gate."""
    async with House(api, tmp_path, namespaces=("team",)) as house:
        job(api, "strange", namespace="elsewhere")
        job(api)
        await train(house, 2)
        await house.until(lambda: status(api).get("phase") == "Running")

        wants = await decide(house.master, KIT)

        assert wants["team/train"].size == 4
        assert len(house.master.charges) == 1


@pytest.mark.parametrize(
    ("soon", "every", "waits"), [(True, 5.0, [1.0]), (False, 5.0, [5.0]), (True, 0.5, [0.5])]
)
async def test_how_often(soon, every, waits, monkeypatch):
    """Sizes are decided as often as is set, and every second while a job looks for its size."""
    waited = []

    async def decided(*_):
        return {"team/train": Want(size=2, reason="", by="efficiency", soon=soon)}

    async def sleep(seconds):
        waited.append(seconds)
        raise asyncio.CancelledError

    monkeypatch.setattr(autoscaler, "decide", decided)
    with pytest.raises(asyncio.CancelledError):
        await autoscaler.keep_sizing(None, KIT, every, lambda _: None, sleep)

    assert waited == waits


def test_what_is_watched():
    """Everything of the cluster, or what is in some namespaces; nodes in any case."""
    assert set(watched(())) == {"nodes", "elasticjobs", "pods"}
    found = watched(("a", "b"))
    assert found["pods of a"] == ("pods", "/api/v1/namespaces/a/pods")
    assert found["elasticjobs of b"][1] == "/apis/gangwright.io/v1alpha1/namespaces/b/elasticjobs"
    assert found["nodes"] == ("nodes", "/api/v1/nodes")
    assert len(found) == 5
