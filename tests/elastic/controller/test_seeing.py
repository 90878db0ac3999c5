"""The API server refuses the watch of pods and answers everything else."""

import asyncio

import msgspec
import pytest

from scheduler.elastic.controller.elastic_master import SIGHT, TOLD_WITHIN
from scheduler.elastic.reconciler.timeouts import Timeouts
from scheduler.elastic.rendezvous.worker_messages import Reason, Refused
from scheduler.kube.watch import INACTIVITY
from scheduler.settings import Settings
from tests.elastic.controller.support.house import LIMITS, PODS, House, job, pods, status, train
from tests.kube.support.api_server import Refuse

IMPATIENT = msgspec.structs.replace(LIMITS, unseen=0.5)


@pytest.fixture
async def house(api, tmp_path):
    async with House(api, tmp_path, limits=IMPATIENT, blind_after=0.1) as made:
        yield made


def seen(api, name="train"):
    found = [one for one in status(api, name).get("conditions", ()) if one["type"] == "PodWatchHealthy"]
    return found[0] if found else {"status": "Unknown"}


def lose(api):
    api.barred[PODS] = Refuse(500)
    api.cut()


@pytest.mark.slow
async def test_pods_that_are_not_seen_are_made_once(api, tmp_path):
    """The same pods stand after many times the limit, which the condition explains; they train when the watch is
    back.
    """
    patient = msgspec.structs.replace(LIMITS, unseen=1.5)  # the pods are made before anything is blind
    async with House(api, tmp_path, limits=patient, blind_after=0.75) as house:
        lose(api)
        job(api)
        await house.until(lambda: len(pods(api)) == 2)
        await house.until(lambda: seen(api)["status"] == "False")
        before = [pod["metadata"]["uid"] for pod in pods(api)]
        await asyncio.sleep(3 * patient.unseen)

        assert [pod["metadata"]["uid"] for pod in pods(api)] == before
        assert seen(api)["reason"] == "WatchFailed"
        assert seen(api)["message"].startswith("The watch of pods is down (")
        api.barred.clear()
        await house.until(lambda: seen(api)["status"] == "True", seconds=60)
        await train(house, 2)
        assert [pod["metadata"]["uid"] for pod in pods(api)] == before


@pytest.mark.slow
async def test_a_job_that_comes_meanwhile_waits(api, house):
    """It has no pod until they are seen; who trains goes on, and a worker that may be new is no stranger."""
    job(api)
    first, _ = await train(house, 2)
    lose(api)
    await house.until(lambda: seen(api)["status"] == "False")
    job(api, "second")
    await house.until(lambda: seen(api, "second")["status"] == "False")
    step = first.step
    await house.until(lambda: first.step > step + 3)
    with pytest.raises(Refused) as refused:
        house.handler.worker("unknown")

    assert refused.value.reason is Reason.AWAY
    assert pods(api, "second") == []
    api.barred.clear()
    await house.until(lambda: len(pods(api, "second")) == 2, seconds=60)
    assert house.handler.worker("unknown") is None


async def test_one_namespace_of_several(api, tmp_path):
    """Where each namespace has its own watch, the jobs of the others go on."""
    settings = {"namespaces": ("team", "other"), "limits": IMPATIENT, "blind_after": 0.5}
    async with House(api, tmp_path, **settings) as house:
        api.barred["/api/v1/namespaces/team/pods"] = Refuse(403)
        api.cut()
        job(api)
        job(api, "second", "other")
        await house.until(lambda: seen(api)["status"] == "False")

        await house.until(lambda: len(pods(api, "second")) == 2)
        assert seen(api)["message"].startswith("The watch of pods of team is down (")


def test_a_dead_watch_is_told_before_a_pod_is_given_up():
    """By default: the stream may be silent for its limit, then not stand for the setting's, and the look comes in
    time.
    """
    assert SIGHT < TOLD_WITHIN
    assert Timeouts().unseen == INACTIVITY + Settings().api.silent_after + TOLD_WITHIN
