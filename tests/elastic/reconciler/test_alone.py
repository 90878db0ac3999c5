"""Jobs in which one worker alone trains: its state is handed on before it goes, as in larger ones."""

import pytest

from scheduler.elastic.job.spec import Checkpoint
from scheduler.elastic.reconciler import job_effects
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import World


def alone(most: int, **fields: object) -> World:
    world = a_job(1, min_workers=1, max_workers=most, **fields)
    world.run(30)
    return world


def rounds(world: World) -> int:
    return len(world.sentences(job_effects.Publish))


def test_a_drained_node_is_left() -> None:
    """The replacement takes the state over in one round with the one that has it, and trains on alone."""
    world = alone(4)
    steps = world.steps()
    node = world.members()[0].node
    world.cordon(node)
    world.run(60)
    (member,) = world.members()

    assert (len(world.pods), member.node == node) == (1, False), world.status.reason
    assert (member.step > steps, world.status.restarts) == (True, 0)


def test_who_is_evicted_hands_the_state_on() -> None:
    """A newcomer that warms up already takes it over before the only member ends; nothing is lost."""
    world = alone(4)
    world.size(2)
    world.run(3)
    steps = world.steps()
    world.delete(world.members()[0])
    world.run(25)

    assert all(member.step > steps for member in world.members())
    assert (world.trains(2), world.status.restarts, rounds(world) < 8) == (True, 0, True)


def test_where_no_two_may_train_the_disk_hands_the_state_on() -> None:
    """With maxWorkers 1 the one that has to go saves, and its replacement goes on from there."""
    world = alone(1, checkpoint=Checkpoint(path="/ckpt"))
    world.cordon(world.members()[0].node)
    world.run(30)
    steps = world.steps()
    world.delete(world.members()[0])
    world.run(25)
    (member,) = world.members()

    assert world.disk is not None
    assert (member.step > steps, world.status.restarts, rounds(world) < 8) == (True, 0, True)


@pytest.mark.parametrize("most", [1, 5])
def test_who_stays_alone_is_of_the_core(most: int) -> None:
    """Surplus of rank 0 makes way like any other: no second worker waits beside it for ever."""
    world = a_job(5, min_workers=1, max_workers=5)
    world.delete(next(pod for pod in world.members() if pod.role == "core"))
    assert world.run(60, lambda: world.trains(5) and world.status.members[0].role == "surplus")
    world.run(10)
    world.size(1)
    world.change(max_workers=most)
    world.run(60)

    assert [pod.role for pod in world.pods.values()] == ["core"]


def test_a_core_takes_over_from_surplus_that_is_left_alone() -> None:
    """Where only surplus has the state, it hands it on to the core, and goes."""
    world = a_job(2, min_workers=1, max_workers=4)
    steps = world.steps()
    world.size(1)
    world.remove(next(pod for pod in world.members() if pod.role == "core"))
    world.run(60)

    assert [pod.role for pod in world.pods.values()] == ["core"]
    assert world.steps() >= steps
