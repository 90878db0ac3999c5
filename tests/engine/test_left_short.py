"""Gangs that lack members, or are refused, while others of them run: they give way as whole ones do."""

from dataclasses import replace

from scheduler.ledger.gang import Step
from tests.engine.support.cast import with_membership
from tests.engine.support.freeing import a_stage, evicted, important
from tests.engine.support.stage import a_set, seats
from tests.engine.support.world import World


def a_gang_that_lost_a_node(*gpus: int) -> World:
    """Four members, one on each node, of which the last is gone: no room is left for the fourth."""
    world = a_stage(*gpus)
    a_set(world, "low", 4)
    world.settle(5)
    world.api.delete_node(f"n{len(gpus) - 1}")
    world.settle(30)
    assert (seats(world, "low"), world.record("low").state) == (3, "waiting")
    return world


def test_a_gang_that_lost_a_member_gives_way() -> None:
    """What is left of it stands still, and leaves whole for a gang that goes before it."""
    world = a_gang_that_lost_a_node(1, 1, 1, 1)
    important(world, 2)
    world.settle(30)
    assert seats(world, "important") == 2
    assert len(evicted(world)) == 3


def test_to_an_equal_priority_it_does_not() -> None:
    """It keeps its places, and waits for the rest."""
    world = a_gang_that_lost_a_node(1, 1, 1, 1)
    important(world, 2, priority=0)
    world.settle(300)
    assert (seats(world, "important"), seats(world, "low"), evicted(world)) == (0, 3, [])


def test_a_gang_that_asks_for_more_than_there_is_gives_way() -> None:
    """Who raises his quorum beyond the cluster keeps what he has from nobody."""
    world = a_stage(2)
    pods = a_set(world, "low", 2)
    world.settle(5)
    pods.replicas = 3
    pods.template = _asking_for(world, 3)
    for pod in world.pods("low"):
        world.api.write(with_membership(pod, quorum={"": 3}))
    world.settle(5)
    assert world.record("low").state == "waiting"
    important(world, 1)
    world.settle(30)
    assert seats(world, "important") == 1


def _asking_for(world: World, quorum: int):
    like = world.pods("low")[0]
    return lambda name: replace(
        with_membership(like, quorum={"": quorum}),
        uid=name,
        key=like.key._replace(name=name),
        node=None,
        gated=True,
        seat=None,
    )


def test_a_gang_that_is_refused_while_it_runs_gives_way() -> None:
    """A pod that says another quorum than the rest makes nobody safe."""
    world = a_stage(2)
    a_set(world, "low", 2)
    world.settle(5)
    other = replace(with_membership(world.pods("low")[0], quorum={"": 1}), seat=None, node=None, gated=True)
    world.submit([replace(other, key=other.key._replace(name="low-other"))])
    world.settle(5)
    assert world.engine.ledger.gang_counts()[(world.record("low").state, "Conflict")] == 1
    important(world, 2)
    world.settle(30)
    assert seats(world, "important") == 2
    assert seats(world, "low") == 0


def test_while_a_member_is_on_its_way_nobody_of_it_is_asked() -> None:
    """It may be bound at any moment, so nobody knows yet what there is to take; when it is there, all leave."""
    world = a_stage(1, 1, 1)
    a_set(world, "low", 3)
    world.settle(5)
    world.api.delete(world.pods("low")[0].key)
    world.api.run_pods()
    world.watch()
    world.api.run_controllers()
    world.watch()
    plan = world.record("low").plan
    assert plan is not None
    assert plan.step is not Step.DONE
    important(world, 1)
    world.watch()
    assert not world.engine.ledger.freeing
    world.settle(30)
    assert (seats(world, "important"), len(evicted(world))) == (1, 3)
