"""The template of a job that trains is edited: one ring trains one program."""

import asyncio

import pytest

from bench.elastic.jobs import in_phase, job, of_size, slots, whole

pytestmark = pytest.mark.timeout(900)

LABELED = {"metadata": {"labels": {"edit": "second"}}}


def edited(thing):
    """The job's template, with a label and another argument."""
    template = thing["spec"]["template"]
    (container,) = template["spec"]["containers"]
    command = [*container["command"], "--batch", "8"]
    return {**LABELED, "spec": {**template["spec"], "containers": [{**container, "command": command}]}}


def changed(status):
    """What the condition says of an edit that waits; empty while none does."""
    found = [own for own in status.get("conditions", ()) if own["type"] == "TemplateChanged"]
    return "".join(own["message"] for own in found if own["status"] == "True")


async def made_from(jobs):
    """Of each worker, the last words of its command."""
    return [tuple(pod["spec"]["containers"][0]["command"][-2:]) for pod in await jobs.workers("train")]


async def test_an_edit_waits_for_the_next_gang(jobs, kubelet, elastic, tmp_path):
    """Newcomers have the former template, also after a restart of the master, and people are told what differs. After a
    suspension all have the edited one, and no step is lost.
    """
    await asyncio.to_thread(kubelet.add, slots(3))
    thing = job("train", 1, 3, spec={"workers": 1, "checkpoint": {"path": str(tmp_path / "kept")}})
    former = tuple(thing["spec"]["template"]["spec"]["containers"][0]["command"][-2:])
    await jobs.submit(thing)
    await jobs.until("train", of_size(1))
    await jobs.say("train", workers=2, template=edited(thing))
    two = await jobs.until("train", of_size(2))

    said = "spec.template was edited: metadata.labels, spec.containers. "
    assert await made_from(jobs) == [former] * 2
    assert changed(two).startswith(said)
    await asyncio.to_thread(elastic.restart)
    await jobs.say("train", workers=3)
    three = await jobs.until("train", of_size(3))
    assert await made_from(jobs) == [former] * 3
    assert changed(three).startswith(said)

    await jobs.say("train", suspend=True)
    paused = await jobs.until("train", in_phase("Suspended"))
    last = await jobs.last_step("train")
    assert (changed(paused), paused.get("template")) == ("", None)
    await jobs.say("train", suspend=False, workers=2)
    await jobs.until("train", of_size(2))
    first = await jobs.until_step("train", lambda step: step["at"] > last["at"])

    assert await made_from(jobs) == [("--batch", "8")] * 2
    assert {pod["metadata"]["labels"]["edit"] for pod in await jobs.workers("train")} == {"second"}
    assert first["step"] == last["step"] + 1
    (told,) = await jobs.told("train", "TemplateChanged")
    assert told.startswith(said)
    assert whole(await jobs.steps("train"))
