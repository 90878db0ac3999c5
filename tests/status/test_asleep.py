"""Gangs without pods, whose Job is suspended: who sees what of them."""

from dataclasses import replace

import pytest

from scheduler.model import events as ev
from scheduler.model.decision import TEXT, Reason
from scheduler.model.workload import Asleep, GangKey, Group, OwnerTraits, Phase
from scheduler.status import gang_views, node_views
from scheduler.status.authorization import Sight
from scheduler.status.gang_views import Page, at_once
from tests.engine.support.cast import a_gang_of_pods, a_membership, an_owner
from tests.status.support.reviewing import ADMIN, JANE
from tests.status.support.scene import ALIAS, EVERYTHING, NOBODY, a_scene
from tests.status.support.served import served

ALL = Page(0, 1000)
JOB = an_owner("Job", "nightly")


@pytest.fixture
def world():
    return a_scene()


def suspend(world, *, scheduler="gangwright", paused=False, exceeded=False, quorum=4, said_by="gangwright"):
    """The Job team-b/nightly, whose pods would be of the gang `night`."""
    membership = a_membership("night", quorum, namespace="team-b", said_by=said_by)
    asleep = Asleep("nightly", scheduler, membership, paused, exceeded)
    world.engine.observe(
        [ev.OwnerSeen(OwnerTraits(JOB.uid, remakes_freely=True, namespace="team-b", asleep=asleep))],
        world.now,
    )


def rows(world, sight=EVERYTHING, view=gang_views.gangs, **more):
    return at_once(view(world.engine, sight, world.now, ALL, **more)).gangs


def night(world, **more):
    return [row for row in rows(world, **more) if row.name == "night"]


def test_a_suspended_gang_is_listed_and_says_how_it_goes_on(world):
    """With its quorum, without what only pods tell; it has no place in the queue."""
    suspend(world)

    (row,) = night(world)

    assert (row.namespace, row.key, row.state, row.reason) == ("team-b", None, "suspended", Reason.SUSPENDED)
    assert (
        row.message == f"{TEXT[Reason.SUSPENDED]}: nightly; to resume it, run: gangwright resume team-b/night"
    )
    assert (row.members.present, row.members.needed, row.priority, row.wait_seconds) == (0, 4, None, None)
    assert night(world, namespace="team-a") == []
    assert night(world, view=gang_views.queue) == []


def test_who_was_suspended_for_another_gang_needs_nobody(world):
    """It is Gangwright that resumes it."""
    suspend(world, paused=True)

    (row,) = night(world)

    assert row.message.endswith("nightly; Gangwright resumes it automatically")


def test_a_gang_that_was_ended_says_so(world):
    """That it had run for its max-runtime, and how it goes on."""
    suspend(world, exceeded=True)

    (row,) = night(world)

    assert (row.state, row.reason) == ("suspended", Reason.RUNTIME_EXCEEDED)
    assert (
        row.message
        == f"{TEXT[Reason.RUNTIME_EXCEEDED]}: nightly; to resume it, run: gangwright resume team-b/night"
    )


def test_suspended_gangs_are_counted_and_come_in_pages(world):
    """The glance counts them as a state, and a list has each of them once."""
    suspend(world)

    found = at_once(node_views.cluster(world.engine, world.now, "jane", {}))
    pages = [
        at_once(gang_views.gangs(world.engine, EVERYTHING, world.now, Page(offset, 1))) for offset in range(6)
    ]

    assert found.gangs["suspended"] == 1
    assert [row.name for page in pages for row in page.gangs].count("night") == 1
    assert {page.total for page in pages} == {6}


def test_a_suspended_gang_of_others_has_no_name(world):
    """Who may not list pods of the namespace sees that there is one; its namespace is asked about like others."""
    suspend(world)

    (row,) = [row for row in rows(world, NOBODY) if row.state == "suspended"]

    assert (row.namespace, row.name, row.message) == (None, None, None)
    assert row.id == ALIAS(GangKey("team-b", "night"))
    assert night(world, sight=Sight(frozenset({"team-b"}), ALIAS)) != []
    assert "team-b" in gang_views.namespaces(world.engine)


def test_jobs_of_other_schedulers_are_not_shown(world):
    """Their pods would be none of ours."""
    suspend(world, scheduler="default-scheduler")
    assert night(world) == []


def test_a_gang_with_pods_is_not_suspended(world):
    """Whoever has pods is where these are; once all of them have ended, the rest is asleep."""
    suspend(world)
    pods = a_gang_of_pods("night", 2, quorum=4, namespace="team-b", owner=JOB)
    world.engine.observe([ev.PodSeen(pod) for pod in pods], world.now)
    assert [row.state for row in night(world)] == ["gathering"]

    world.engine.observe([ev.PodSeen(replace(pod, phase=Phase.SUCCEEDED)) for pod in pods], world.now)
    (row,) = night(world)
    assert (row.state, row.reason) == ("suspended", Reason.SUSPENDED)
    assert "resume team-b/night" in row.message


def test_the_quorum_of_a_suspended_gang_may_be_told_by_a_group(world):
    """Unknown until its PodGroup is seen."""
    suspend(world, quorum=None, said_by="volcano")
    assert [row.members.needed for row in night(world)] == [None]

    world.engine.observe([ev.GroupSeen(Group(GangKey("team-b", "night"), "volcano", {"": 8}))], world.now)
    assert [row.members.needed for row in night(world)] == [8]


def test_who_looks_on_judges_nothing(world):
    """A replica that does not act tells the state, and no reason."""
    suspend(world)
    world.engine.ledger.acting = False

    (row,) = night(world)
    assert (row.state, row.reason, row.message) == ("suspended", None, None)


async def test_the_api_says_why_there_is_no_such_gang(world, reviewing):
    """404, as there are no pods to tell of, and which Job is suspended; to nobody who may not know."""
    suspend(world)
    async with served(world.engine, reviewing, now=world.now) as status:
        asked = await status.ask("/v1/gangs/team-b/night", ADMIN)
        other = await status.ask("/v1/gangs/team-b/night", JANE)

    assert (asked.status, other.status) == (404, 403)
    assert "nightly; to resume it, run: gangwright resume team-b/night" in asked.json["error"]
    assert b"nightly" not in other.body
