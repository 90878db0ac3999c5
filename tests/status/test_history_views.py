"""Gangs that ended, as people see them."""

import msgspec
import pytest

from scheduler.model.events import PodGone
from scheduler.status import history_views
from scheduler.status.accounting import HistoryList
from scheduler.status.authorization import Sight
from scheduler.status.gang_views import at_once
from tests.engine.support.cast import a_pod
from tests.engine.support.freeing import a_stage, important
from tests.engine.support.stage import a_set
from tests.engine.support.world import World
from tests.status.support.reviewing import ADMIN, BOB, JANE
from tests.status.support.scene import ALIAS, EVERYTHING, a_scene
from tests.status.support.served import served
from tests.support.builders import GPU


@pytest.fixture(scope="module")
def world() -> World:
    """A scene in which team-a/solo ended, and then team-b/huge."""
    made = a_scene()
    for name in ("solo", "huge"):
        gone = [pod for pod in made.api.pods.values() if pod.key.name.startswith(name)]
        made.engine.observe([PodGone(pod.uid, pod.key) for pod in gone], made.now)
    return made


def shown(
    world: World, sight: Sight = EVERYTHING, limit: int = 100, namespace: str | None = None
) -> HistoryList:
    return at_once(history_views.history(world.engine, sight, limit, namespace))


def names(found: HistoryList) -> list[tuple[str, str]]:
    return [(row.namespace, row.name) for row in found.gangs]


def test_the_last_that_ended_comes_first(world: World) -> None:
    """As many as are asked for, of one namespace or of all."""
    assert names(shown(world)) == [("team-b", "huge"), ("team-a", "solo")]
    assert names(shown(world, limit=1)) == [("team-b", "huge")]
    assert names(shown(world, namespace="team-a")) == [("team-a", "solo")]
    assert shown(world).since == 0.0


def test_hours_are_those_of_devices(world: World) -> None:
    """An hour of one GPU; what never ran used nothing."""
    huge, solo = shown(world).gangs

    assert (huge.outcome, huge.ran_seconds, huge.hours) == ("deleted", 0, {})
    assert huge.waited_seconds == pytest.approx(30, abs=2)
    assert solo.hours == {GPU: pytest.approx(solo.ran_seconds / 3600, abs=0.01)}
    assert solo.ran_seconds == pytest.approx(60, abs=2)


def test_gangs_of_hidden_namespaces_are_left_out(world: World) -> None:
    """Neither their names nor their numbers are told."""
    found = shown(world, Sight(frozenset({"team-a"}), ALIAS))

    assert names(found) == [("team-a", "solo")]
    assert "team-b" not in msgspec.json.encode(found).decode()


def test_the_winner_is_named_to_those_who_may_read_it() -> None:
    """Of another namespace it is an id."""
    world = a_stage(1)
    a_set(world, "low", 1)
    world.settle(10)
    important(world, 1)
    world.settle(10)

    (row,) = shown(world).gangs
    assert row.preempted is not None
    assert (row.outcome, row.preempted.gang, row.preempted.priority) == ("preempted", "important", 100)
    assert row.owner == "ReplicaSet/low"


async def test_rights_decide_who_sees_which(world: World, reviewing) -> None:
    """The right to list pods, asked about the namespaces of gangs that are gone; a closed one is refused."""
    async with served(world.engine, reviewing) as running:
        jane, bob, admin = [(await running.ask("/v1/history", token)).json for token in (JANE, BOB, ADMIN)]
        closed = await running.ask("/v1/history?namespace=team-b", JANE)
        own = await running.ask("/v1/history?namespace=team-a&limit=1", JANE)

    assert [[row["name"] for row in found["gangs"]] for found in (jane, bob, admin)] == [
        ["solo"],
        [],
        ["huge", "solo"],
    ]
    assert closed.status == 403
    assert [row["name"] for row in own.json["gangs"]] == ["solo"]


async def test_a_namespace_whose_gangs_are_all_gone_is_asked_about(reviewing) -> None:
    """It has no gang any more, and its history may still be read."""
    world = a_stage(1)
    world.submit([a_pod("last", namespace="team-a", gpu=1)])
    world.settle(5)
    (pod,) = world.api.pods.values()
    world.engine.observe([PodGone(pod.uid, pod.key)], world.now)

    async with served(world.engine, reviewing) as running:
        found = await running.ask("/v1/history", JANE)

    assert [row["name"] for row in found.json["gangs"]] == ["last"]
