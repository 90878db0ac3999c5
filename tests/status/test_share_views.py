"""Shares as people see them: their own by name, and all others as one row of sums."""

import msgspec
import pytest

from scheduler.model.policy import Policy
from scheduler.model.queueing import Share
from scheduler.status import share_views
from scheduler.status.accounting import ShareAmount, ShareList
from scheduler.status.authorization import Sight
from scheduler.status.gang_views import at_once
from tests.engine.support.cast import a_gang_of_pods, a_pod
from tests.engine.support.world import World
from tests.status.support.reviewing import ADMIN, BOB, JANE
from tests.status.support.scene import ALIAS, EVERYTHING, NOBODY, a_scene
from tests.status.support.served import served
from tests.support.builders import GPU, some_nodes

SHARES = {"team-a": Share(((GPU, 2),), ((GPU, 16),)), "secret": Share(((GPU, 1),), ((GPU, 8),))}


@pytest.fixture(scope="module")
def world() -> World:
    """team-a uses 4 of 2 and waits for 16; secret uses 2 of 1; other has no share and uses 1."""
    made = World(some_nodes(nodes=2, gpu=8), Policy(shares=SHARES))
    made.submit(a_gang_of_pods("train", 2, namespace="team-a", gpu=2))
    made.submit([a_pod("one", namespace="secret", gpu=2), a_pod("two", namespace="other", gpu=1)])
    made.settle(5)
    made.submit(a_gang_of_pods("large", 2, namespace="team-a", gpu=8))
    made.settle(5)
    return made


def shown(world: World, sight: Sight = EVERYTHING) -> ShareList:
    return at_once(share_views.shares(world.engine, sight))


def of(found: ShareList) -> dict[str | None, ShareAmount]:
    return {row.namespace: row.resources[GPU] for row in found.shares}


def test_each_namespace_has_its_row(world: World) -> None:
    """By name; also one without a share that uses devices."""
    found = of(shown(world))

    assert list(found) == ["other", "secret", "team-a"]
    assert found["team-a"] == ShareAmount(4, 2, 2, 16, 16)
    assert found["secret"] == ShareAmount(2, 1, 1, 8, 0)
    assert found["other"] == ShareAmount(1, 0, 1, None, 0)


def test_hidden_namespaces_are_one_row(world: World) -> None:
    """Their sums, how many they are, and no ceiling; no name is anywhere."""
    found = shown(world, Sight(frozenset({"team-a"}), ALIAS))

    assert [(row.namespace, row.namespaces) for row in found.shares] == [("team-a", 1), (None, 2)]
    assert of(found)[None] == ShareAmount(3, 1, 2, None, 0)
    text = msgspec.json.encode(found).decode()
    assert "secret" not in text
    assert "other" not in text
    assert of(shown(world, NOBODY)) == {None: ShareAmount(7, 3, 4, None, 16)}


def test_a_replica_that_does_not_act_does_not_know_what_waits() -> None:
    """What is used it knows."""
    scene = a_scene()
    scene.engine.ledger.acting = False

    (row, *_) = (row for row in shown(scene).shares if row.namespace == "team-a")
    assert (row.resources[GPU].used, row.resources[GPU].waiting) == (17, None)


async def test_rights_decide_who_sees_which(world: World, reviewing) -> None:
    """The right to list pods, also in namespaces of `queue.shares` that have no gang."""
    async with served(world.engine, reviewing) as running:
        jane, bob, admin = [(await running.ask("/v1/shares", token)).json for token in (JANE, BOB, ADMIN)]

    assert [row["namespace"] for row in jane["shares"]] == ["team-a", None]
    assert [row["namespace"] for row in bob["shares"]] == [None]
    assert [row["namespace"] for row in admin["shares"]] == ["other", "secret", "team-a"]
