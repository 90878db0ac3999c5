"""Sizes are decided for all jobs together, from the room that the watches show."""

import asyncio
from types import SimpleNamespace

import pytest

from scheduler.elastic.controller import autoscaler, requests
from scheduler.elastic.controller.autoscaler import decide
from scheduler.elastic.controller.job_registry import watched
from scheduler.elastic.controller.node_usage import NodeUsage
from scheduler.elastic.sizing import Want, allocation, policies
from scheduler.objects import pod_annotations
from tests.elastic.controller.support.house import KIT, TEMPLATE, House, job, pods, status, train

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
    await house.until(lambda: len(house.master.controllers) == 2)

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
    known = house.controller().workers
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
        assert len(house.master.controllers) == 1


class Clock:
    """Time that passes when the test says so."""

    def __init__(self):
        self.now = 1000.0
        self._sleepers = []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        over = asyncio.get_running_loop().create_future()
        self._sleepers.append((round(self.now + seconds, 6), over))
        await over

    async def passes(self, seconds):
        """In steps of a hundredth, so that all that is due happens at its time."""
        for _ in range(round(100 * seconds)):
            await settled()
            self.now = round(self.now + 0.01, 6)
            for due, over in self._sleepers:
                if due <= self.now and not over.done():
                    over.set_result(None)
            await settled()


async def settled():
    """All that can happen without time has happened."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
async def deciding(monkeypatch):
    """Starts the loop; gives its clock, what wakes it, and the moments of its decisions since the first one."""
    running = []

    async def begin(every=5.0, *, soon=False, lasts=0.0):
        clock, moments = Clock(), []
        usage = NodeUsage()

        async def decided(*_, **_settings):
            moments.append(round(clock.now - 1000.0, 2))
            clock.now += lasts
            return {"team/train": Want(size=2, reason="", by="efficiency", soon=soon)}

        monkeypatch.setattr(autoscaler, "decide", decided)
        keeps = autoscaler.keep_sizing(
            SimpleNamespace(usage=usage), KIT, every, lambda _: None, clock, clock.sleep
        )
        running.append(asyncio.create_task(keeps))
        await settled()
        assert moments == [0.0]
        return clock, usage.freed, moments

    yield begin
    for task in running:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize(
    ("soon", "every", "at"), [(True, 5.0, [1.0, 2.0]), (False, 5.0, [5.0, 10.0]), (True, 0.5, [0.5, 1.0])]
)
async def test_how_often(soon, every, at, deciding):
    """Sizes are decided as often as is set, and every second while a job searches for its size."""
    clock, _, moments = await deciding(every, soon=soon)
    await clock.passes(at[-1])

    assert moments[1:] == at


async def test_capacity_that_appears_is_asked_for_at_once(deciding):
    """A node that is free again waits for no tick; the next tick counts from there."""
    clock, freed, moments = await deciding()
    await clock.passes(1.5)
    freed.set()
    await clock.passes(6.0)

    assert moments[1:] == [1.7, 6.7]


async def test_a_burst_makes_one_decision(deciding):
    """Fifty pods that end within a tenth of a second are decided about together."""
    clock, freed, moments = await deciding()
    for _ in range(10):
        for _ in range(5):
            freed.set()
        await clock.passes(0.01)
    await clock.passes(1.0)

    assert moments[1:] == [0.2]


async def test_decisions_keep_their_distance(deciding):
    """While pods end all the time, sizes are decided five times a second."""
    clock, freed, moments = await deciding()
    for _ in range(100):
        freed.set()
        await clock.passes(0.01)

    assert moments[1:] == [0.2, 0.4, 0.6, 0.8, 1.0]


async def test_long_decisions_are_further_apart(deciding):
    """Where one takes 200 ms, the next is a second away, whatever appears meanwhile: the rest is for heartbeats."""
    clock, freed, moments = await deciding(lasts=0.2)
    for _ in range(250):
        freed.set()
        await clock.passes(0.01)

    assert moments[1:] == [1.2, 2.4]


async def test_a_pod_that_ends_wakes_the_autoscaler(api, house):
    """The watches tell of it."""
    api.put("n0", requests.NODES, "", spec={}, status=ROOM)
    api.put("other", requests.PODS, spec={**BUSY["spec"], "nodeName": "n0"}, status={"phase": "Running"})
    known = house.master.usage
    uid = api.objects[requests.PODS]["team", "other"]["metadata"]["uid"]
    await house.until(lambda: known.holds(uid))
    known.freed.clear()
    api.change(requests.PODS, "team", "other", status={"phase": "Succeeded"})

    await house.until(known.freed.is_set)


def test_what_is_watched():
    """Everything of the cluster, or what is in some namespaces; nodes in any case."""
    assert set(watched(())) == {"nodes", "elasticjobs", "pods"}
    found = watched(("a", "b"))
    assert found["pods of a"] == ("pods", "/api/v1/namespaces/a/pods")
    assert found["elasticjobs of b"][1] == "/apis/gangwright.io/v1alpha1/namespaces/b/elasticjobs"
    assert found["nodes"] == ("nodes", "/api/v1/nodes")
    assert len(found) == 5
