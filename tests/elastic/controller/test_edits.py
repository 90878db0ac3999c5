"""An edited template, as the API server sees it: pods of a gang are made from one template, whichever master makes them."""

import copy

import msgspec

from scheduler.elastic.controller import requests
from scheduler.elastic.controller.autoscaler import decide
from scheduler.elastic.job.status_json import LONGEST_COPY
from tests.elastic.controller.support.house import KIT, TEMPLATE, House, job, pods, status, train
from tests.elastic.controller.test_sizes import BUSY, ROOM

EDITED = {
    "metadata": {"labels": {"at": "noon"}},
    "spec": {"containers": [{**TEMPLATE["spec"]["containers"][0]}]},
}
EDITED["spec"]["containers"][0]["image"] = "tf:2"


def images(api):
    """Of the job's pods, by number."""
    return [pod["spec"]["containers"][0]["image"] for pod in pods(api)]


def changed(api):
    """The condition of an edit: its status, and what it says first."""
    found = [own for own in status(api).get("conditions", ()) if own["type"] == "TemplateChanged"]
    return [(own["status"], own["message"].partition(". ")[0]) for own in found]


def events(api, reason):
    return [own["note"] for own in api.objects[requests.EVENTS].values() if own["reason"] == reason]


WAITS = [("True", "spec.template was edited: metadata.labels, spec.containers")]


async def test_a_gang_has_one_template(api, tmp_path):
    """The status keeps it while the spec has another one, so that the next master makes the same pods; told is it once.
    When the job goes on after a suspension, all are made from the edited one, and nothing is kept.
    """
    job(api, workers=2)
    async with House(api, tmp_path) as house:
        await train(house, 2)
        job(api, workers=3, template=EDITED)
        await house.until(lambda: len(pods(api)) == 3 and changed(api) == WAITS)
        assert status(api)["template"] == TEMPLATE
        assert status(api)["accepted"]["template"] == EDITED

    async with House(api, tmp_path) as house:
        job(api, workers=4, template=EDITED)
        await house.until(lambda: len(pods(api)) == 4)
        assert images(api) == ["tf"] * 4
        assert changed(api) == WAITS
        job(api, workers=4, template=EDITED, suspend=True)
        for pod in pods(api):
            api.delete(pod["metadata"]["name"], requests.PODS)
        await house.until(lambda: changed(api) == [("False", "")])
        assert "template" not in status(api)
        job(api, template=EDITED)
        await house.until(lambda: len(pods(api)) == 2)

    assert images(api) == ["tf:2"] * 2
    assert pods(api)[0]["metadata"]["labels"]["at"] == "noon"
    assert len(events(api, "TemplateChanged")) == 1
    assert events(api, "TemplateApplied")


async def test_an_edit_while_no_master_runs(api, tmp_path):
    """The one that comes knows by the spec that was accepted last."""
    job(api, workers=2)
    async with House(api, tmp_path) as house:
        await train(house, 2)
    job(api, workers=3, template=EDITED)
    async with House(api, tmp_path) as house:
        await house.until(lambda: len(pods(api)) == 3 and changed(api) == WAITS)

    assert images(api) == ["tf"] * 3


async def test_what_else_was_edited_counts_at_once(api, house):
    """A newcomer has the former template, and the new quorum and class."""
    job(api, workers=2)
    await train(house, 2)
    job(api, workers=3, minWorkers=1, surplusPriorityClassName="spare", template=EDITED)
    await house.until(lambda: len(pods(api)) == 3)

    assert images(api) == ["tf"] * 3
    assert pods(api)[2]["spec"]["priorityClassName"] == "spare"
    assert pods(api)[2]["metadata"]["annotations"]["gangwright.io/min-members"] == "1"


async def test_room_is_sought_for_what_is_made(api, house):
    """An edited template that would fit nowhere takes no room from the newcomers of the former one."""
    api.put("n0", requests.NODES, "", spec={}, status=ROOM)
    job(api, template=BUSY)
    await train(house, 2)
    await house.until(lambda: status(api).get("phase") == "Running")
    large = copy.deepcopy(BUSY)
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100"
    job(api, template=large)
    await house.until(lambda: changed(api)[0][0] == "True")

    assert (await decide(house.master, KIT))["team/train"].size == 3


async def test_a_template_that_is_too_long_is_not_kept(api, house):
    """The condition says what that means, and the gang has one template as long as this master runs."""
    long = {**TEMPLATE, "metadata": {"annotations": {"note": "x" * LONGEST_COPY}}}
    job(api, workers=2, template=long)
    await train(house, 2)
    job(api, workers=3, template=EDITED)
    await house.until(lambda: len(pods(api)) == 3 and changed(api)[0][0] == "True")

    (said,) = [own["message"] for own in status(api)["conditions"] if own["type"] == "TemplateChanged"]
    assert said.endswith("after a restart of the master the edited one is used.")
    assert images(api) == ["tf"] * 3
    assert "template" not in status(api)
    assert len(msgspec.json.encode(status(api))) < LONGEST_COPY
