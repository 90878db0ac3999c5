"""What a change of the round costs, as the policies are told: of which changes that is known, and what a restart of the
master leaves of it.
"""

import pytest

from scheduler.elastic.job import Phase, encode_status
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import STEP_S, World


def written(world: World) -> None:
    """The figures of the status are written now and then."""
    world.stored = encode_status(world.status)


def priced() -> World:
    """A job that has grown once, from two workers to three, for which it was idle for 1.7 s."""
    world = a_job(2)
    for pod in world.members():
        pod.says = {"idle_s": 1.7}
    world.size(3)
    assert world.run(20, lambda: world.trains(3))
    world.run(5)
    written(world)
    return world


def test_a_restart_leaves_what_the_last_change_was() -> None:
    """The round trains as it did: it was not changed by the master's end."""
    world = priced()
    before = world.status.last_resize
    world.die(1.0)
    world.run(10)
    view = world.membership.wishes(world.now)

    assert world.trains(3)
    assert before is not None
    assert (before.before, before.to, before.idle_seconds) == (2, 3, 1.7)
    assert world.status.last_resize == before
    assert view is not None
    assert view.idle == pytest.approx(1.7 - STEP_S)
    assert view.since_change > 5.0


def test_a_master_that_came_in_the_middle_of_a_change_knows_what_it_cost() -> None:
    """As the first of its members says; where that says nothing, what the change before cost stands."""
    world = priced()
    for says in ({"idle_s": 2.2}, {}):
        for pod in world.members():
            pod.says = dict(says)
        size = len(world.members()) + 1
        world.size(size)
        assert world.run(20, lambda: world.writing is not None)
        assert world.run(2, lambda: world.writing is None)
        world.die(0.3)
        assert world.run(30, lambda size=size: world.up and world.trains(size))
        world.run(2)
        view = world.membership.wishes(world.now)
        written(world)

        assert world.status.last_resize is not None
        assert (world.status.last_resize.before, world.status.last_resize.to) == (size - 1, size)
        assert world.status.last_resize.idle_seconds == says.get("idle_s")
        assert view is not None
        assert view.idle == pytest.approx(2.2 - STEP_S)


def test_a_pause_for_want_of_room_is_no_price_of_a_change() -> None:
    """Members that held their state for minutes, until the quorum had seats again, say how long that was; growing costs
    what it did.
    """
    world = priced()
    for pod in world.members()[1:]:
        world.cordoned.update(world.nodes)
        world.lose_node(pod)
    assert world.run(60, lambda: world.phase is Phase.QUEUED), world.status.reason
    world.size(2)
    world.run(120)
    for pod in world.pods.values():
        pod.says = {"idle_s": 150.0}
    world.cordoned.clear()
    assert world.run(60, lambda: world.trains(2)), world.status.reason
    world.run(2)
    view = world.membership.wishes(world.now)

    assert world.status.last_resize is not None
    assert world.status.last_resize.idle_seconds == 150.0
    assert view is not None
    assert view.idle == pytest.approx(1.7 - STEP_S)
