"""Jobs of which the API server makes no pod: what each try costs, and what is made up for once there is one."""

import asyncio

import msgspec
import pytest

from scheduler.elastic.controller import pod_control, requests
from tests.elastic.controller.support.house import LIMITS, House, job, pods, status
from tests.kube.support.api_server import Refuse

QUICK = msgspec.structs.replace(LIMITS, backoff_most=0.02, backoff_each=0.0)
"""The next try comes at once."""

POD, POLICY = ("POST", requests.PODS), ("PATCH", requests.POLICIES)


@pytest.fixture
async def house(api, tmp_path, monkeypatch):
    """Where a policy is looked at before each worker, unless there is a better reason."""
    monkeypatch.setattr(pod_control, "STANDS", 0.0)
    async with House(api, tmp_path, limits=QUICK) as made:
        yield made


def refuse(api, what, times=10_000):
    """That many requests of this kind are refused; gives what is left of them."""
    left = api.refused[what] = [Refuse(403) for _ in range(times)]
    return left


def asked(api, what):
    method, collection = what
    kind = collection.rpartition("/")[2]
    return sum(own == method and f"/{kind}" in path for own, path, _ in api.writes)


async def tried(house, left, times):
    """So many more tries for a pod are refused."""
    before = len(left)
    await house.until(lambda: len(left) <= before - times)


async def test_its_policy_is_not_written_at_each_try(api, house):
    """It stood before the first one, and nothing runs that could miss it."""
    left = refuse(api, POD)
    job(api, minWorkers=1)
    await tried(house, left, 5)

    assert asked(api, POLICY) == 1


async def test_its_policy_is_there_for_the_first_pod_that_is_made(api, house):
    """It was deleted meanwhile, and is made again at once."""
    left = refuse(api, POD)
    job(api, minWorkers=1)
    await tried(house, left, 3)
    del api.objects[requests.POLICIES]["team", "train-workers"]
    left.clear()
    await house.until(lambda: len(pods(api)) == 1)

    await house.until(lambda: ("team", "train-workers") in api.objects[requests.POLICIES])


async def test_a_policy_that_is_refused_is_not_believed_to_stand(api, house):
    """After the first pod it cannot be written: no other is made before it is."""
    left = refuse(api, POD)
    job(api, minWorkers=1)
    await tried(house, left, 3)
    denied = refuse(api, POLICY)
    left.clear()
    await house.until(lambda: len(pods(api)) == 1)
    job(api, minWorkers=2)
    await house.until(lambda: "NetworkPolicy" in status(api).get("reason", ""))
    await asyncio.sleep(0.2)
    assert len(pods(api)) == 1

    denied.clear()
    await house.until(lambda: len(pods(api)) == 2)


async def test_a_refusal_does_not_name_the_pod(api, house, monkeypatch):
    """Each try has a name of its own, which says nothing: the reason stays the same, and is one event."""
    monkeypatch.setattr(pod_control, "worker_name", lambda *_: "train-9-chance")
    body = b'{"kind": "Status", "code": 403, "message": "pods \\"train-9-chance\\" is forbidden"}'
    left = api.refused[POD] = [Refuse(403, body=body) for _ in range(10_000)]
    job(api, minWorkers=1)
    await tried(house, left, 5)
    await house.until(lambda: 'pods "train-…" is forbidden' in status(api).get("reason", ""))

    assert house.value("told_total", reason="FailedCreate") == 1


async def test_the_jobs_of_a_namespace_that_are_refused_are_counted(api, house, monkeypatch):
    """Each is told how many they are; one whose pod was made, or that is gone, is none of them any more."""
    crowds = []
    before = pod_control.StartRefused

    def told(number, why, crowd):
        crowds.append(crowd)
        return before(number, why, crowd)

    monkeypatch.setattr(pod_control, "StartRefused", told)
    left = refuse(api, POD)
    for name in ("a", "b", "c"):
        job(api, name, minWorkers=1)
    job(api, "far", "elsewhere", minWorkers=1)
    await tried(house, left, 20)
    assert max(crowds) == 3

    api.delete("c", requests.JOBS)
    await house.until(lambda: len(house.master.controllers) == 3)
    crowds.clear()
    await tried(house, left, 20)
    assert max(crowds) == 2

    left.clear()
    await house.until(lambda: pods(api, "a") and pods(api, "b"))
    await house.until(lambda: house.master._site.refused["team"] == set())


async def test_a_status_is_not_worked_out_where_nothing_has_happened(api, house):
    """What another writes over it meanwhile is put right all the same."""
    job(api)
    await house.until(lambda: "waiting to be scheduled" in status(api).get("reason", ""))
    controller = house.controller()
    controller.refresh()
    controller._reconciler.status = None
    api.change(requests.JOBS, "team", "train", status={"reason": "all is well"})

    await house.until(lambda: "waiting to be scheduled" in status(api).get("reason", ""))
    assert house.value("broken_total") == 0
