"""What a job goes by while its spec is refused, also for a master that never saw what was accepted."""

import asyncio

import pytest

from scheduler.elastic.controller import requests
from scheduler.elastic.controller.decode import AcceptedSpec, Job, Meta
from scheduler.elastic.job import validation
from scheduler.elastic.job.status_json import LONGEST_COPY, accepted_spec
from scheduler.elastic.reconciler.job_events import SpecRefused, SpecSeen
from tests.elastic.controller.support.house import TEMPLATE, House, job, pods, status, train

GOOD = {"minWorkers": 1, "maxWorkers": 2, "template": TEMPLATE}
BAD = {**GOOD, "maxWorkers": 0}


def accepting():
    return AcceptedSpec(lambda _: (), lambda: None)


def read(spec, accepted=None, own=None):
    """The kinds of what is told of a job with this spec and this accepted one in its status."""
    job = Job(Meta(generation=3), spec, {"accepted": accepted} if accepted else None)
    return [type(one) for one in (own or accepting()).read(job)]


def test_what_was_accepted_comes_before_what_is_refused():
    """And only to one that knows of none: what it accepted itself stands anyway."""
    assert read(GOOD) == [SpecSeen]
    assert read(BAD) == [SpecRefused]
    assert read(BAD, GOOD) == [SpecSeen, SpecRefused]
    assert read(BAD, BAD) == [SpecRefused]
    own = accepting()
    assert read(GOOD, own=own) == [SpecSeen]
    assert read(BAD, GOOD, own) == [SpecRefused]
    assert own.spec is not None
    assert own.spec.max_workers == 2


def test_what_another_master_accepted_is_kept_unread():
    """A former version cannot read it; the newer one finds it again when it is back."""
    own, newer = accepting(), {**GOOD, "yetUnknown": True}
    assert read(BAD, newer, own) == [SpecRefused]
    assert (own.spec, own.written) == (None, newer)
    assert read(GOOD, newer, own) == [SpecSeen]
    assert own.written == GOOD


@pytest.mark.parametrize("depth", [1, 900])
def test_what_is_too_long_or_too_deep_is_not_kept(depth):
    """The job goes by it all the same."""
    value = "x" * (LONGEST_COPY if depth == 1 else 1)
    for _ in range(depth):
        value = {"deeper": value}
    own = accepting()
    assert read({**GOOD, "template": {**TEMPLATE, "metadata": {"annotations": value}}}, own=own) == [SpecSeen]
    assert own.spec is not None
    assert own.written is None


def test_a_field_without_a_value_is_not_kept():
    """What stands in the status can be compared with what should."""
    own = accepting()
    read({**GOOD, "level": None, "schedule": None}, own=own)
    assert own.written == GOOD


async def test_a_job_is_looked_after_whatever_its_spec_says_by_now(api, tmp_path):
    """While no master runs, somebody writes what is refused: the next one goes by what the one before accepted, says so,
    and replaces a member that is lost.
    """
    job(api)
    async with House(api, tmp_path) as house:
        await train(house, 2)
    assert accepted_spec(status(api)) == {"minWorkers": 2, "maxWorkers": 4, "template": TEMPLATE}
    job(api, checkpoint={"every": "0s"})
    async with House(api, tmp_path) as house:
        await house.until(lambda: accepted(api, "train")["status"] == "False")
        lost, _ = pods(api)
        api.delete(lost["metadata"]["name"], requests.PODS)
        await house.until(
            lambda: len([one for one in pods(api) if one["metadata"]["uid"] != lost["metadata"]["uid"]]) == 2
        )


async def test_a_stricter_master_looks_after_what_trains(api, tmp_path, monkeypatch):
    """A maximum beyond what a round holds is refused by now, and the condition says so; the job that an earlier version
    accepted goes on within the bound, and starts what it lacks.
    """
    with monkeypatch.context() as earlier:
        earlier.setattr(validation, "MOST_MEMBERS", 400)
        job(api, maxWorkers=400)
        async with House(api, tmp_path) as house:
            await train(house, 2)
    async with House(api, tmp_path) as house:
        await house.until(lambda: accepted(api, "train")["status"] == "False")
        assert accepted(api, "train")["message"].startswith("spec.maxWorkers = 400: must be at most 170, ")
        assert house.controller().spec.max_workers == 170
        before = {one["metadata"]["uid"] for one in pods(api)}
        api.delete(pods(api)[0]["metadata"]["name"], requests.PODS)
        await house.until(lambda: {one["metadata"]["uid"] for one in pods(api)} - before)


def accepted(api, name):
    """The condition that says whether the spec can be obeyed."""
    found = [one for one in status(api, name).get("conditions", ()) if one["type"] == "Accepted"]
    return found[0] if found else {"status": "Unknown"}


async def test_a_refusal_is_written_at_once(api, tmp_path):
    """It does not wait for the next figures, which may be an hour away."""
    job(api)
    async with House(api, tmp_path) as house:
        await train(house, 2)
        await house.until(lambda: accepted(api, "train")["status"] == "True")
        job(api, checkpoint={"every": "0s"})
        async with asyncio.timeout(5):
            while (
                accepted(api, "train")["status"] != "False"
            ):  # `house.until` would bring the figures up to date
                await asyncio.sleep(0.02)


async def test_the_values_of_a_job_without_workers_are_dropped(api, tmp_path):
    """Its members have not met, and may never meet: others need the room."""
    job(api)
    async with House(api, tmp_path) as house:
        await train(house, 2)
        assert house.values.forgotten == []
        job(api, suspend=True)
        await house.until(lambda: house.controller().spec.suspend)
        for pod in pods(api):
            api.delete(pod["metadata"]["name"], requests.PODS)
        await house.until(lambda: house.values.forgotten == ["team/train"])
