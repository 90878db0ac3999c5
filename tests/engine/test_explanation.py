"""What a person hears about a gang that waits: how near it is at every level, and whom room would cost."""

import pytest

from scheduler.engine.explanation import Found
from scheduler.model.decision import Reason, Wait
from scheduler.model.policy import Policy
from scheduler.model.queueing import Share
from scheduler.model.workload import GangKey
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.stage import POLICY, a_world
from tests.engine.support.world import World
from tests.support.builders import GPU, some_nodes


def inquired(world: World, name: str) -> Found:
    asked = world.engine.inquire(GangKey("default", name), world.now)
    return asked.answer(world.engine.policy) if asked is not None else Found()


def full(policy: Policy = POLICY) -> World:
    """Two nodes of four GPUs: one is full of a gang of priority 0, of the other half is."""
    world = a_world(4, 4, policy=policy)
    world.submit(a_gang_of_pods("runs", 4, gpu=1))
    world.settle(5.0)
    world.submit(a_gang_of_pods("half", 2, gpu=1, priority=10))
    world.settle(5.0)
    return world


def test_of_every_level_the_nearest_domain_is_told() -> None:
    """A gang that prefers a rack hears how many of it a host could hold, a rack, and an area."""
    world = World(some_nodes(areas=2, racks=2, nodes=2, gpu=4), POLICY)
    world.submit(a_gang_of_pods("fills", 1, gpu=4, wish={"level": "rack"}))
    world.settle(5.0)
    world.submit(a_gang_of_pods("wide", 8, gpu=4, wish={"level": "rack"}))
    world.settle(5.0)

    found = inquired(world, "wide").nearest

    assert [(one.level, one.needed, one.best) for one in found] == [
        ("host", 8, 1),
        ("rack", 8, 2),
        ("area", 8, 4),
    ]
    assert all(one.domain for one in found)


def test_who_must_not_preempt_hears_whom_it_would_cost() -> None:
    """Preemption is switched off: nobody is asked to leave, and the cheapest gang of lower priority is named."""
    world = full(Policy(preemption=False))
    world.submit(a_gang_of_pods("urgent", 4, gpu=1, priority=20))
    world.settle(5.0)

    assert [unit.gang.name for unit in inquired(world, "urgent").victims] == ["runs"]
    assert world.record("urgent").plan is None
    assert len(world.bound("runs")) == 4


@pytest.mark.parametrize("guaranteed", [0, 4], ids=["nothing", "all that it uses"])
def test_nobody_is_named_who_uses_what_his_namespace_is_guaranteed(guaranteed: int) -> None:
    """No gang of another namespace might ask him, whatever its priority; so his leaving is no way to room."""
    world = full(Policy(preemption=False, shares={"default": Share(guaranteed=((GPU, guaranteed + 2),))}))
    urgent = a_gang_of_pods("urgent", 4, gpu=1, priority=20, namespace="lab")
    world.submit(urgent)
    world.settle(5.0)

    asked = world.engine.inquire(GangKey("lab", "urgent"), world.now)
    assert asked is not None
    named = [unit.gang.name for unit in asked.answer(world.engine.policy).victims]
    assert named == ([] if guaranteed else ["runs"])


def test_no_more_are_named_than_their_namespace_uses_above_its_guarantee() -> None:
    """Two nodes full of a namespace that is guaranteed one of them: one may be emptied for another's gang, not both."""
    shares = {"default": Share(guaranteed=((GPU, 4),))}
    world = a_world(4, 4, policy=Policy(preemption=False, shares=shares))
    for name in ("one", "two"):
        world.submit(a_gang_of_pods(name, 4, gpu=1))
        world.settle(5.0)
    for name, count in (("small", 4), ("large", 8)):
        world.submit(a_gang_of_pods(name, count, gpu=1, priority=20, namespace="lab"))
    world.settle(5.0)

    named = {}
    for name in ("small", "large"):
        asked = world.engine.inquire(GangKey("lab", name), world.now)
        assert asked is not None
        named[name] = len(asked.answer(world.engine.policy).victims)
    assert named == {"small": 1, "large": 0}


def test_nobody_of_equal_priority_is_named() -> None:
    """Whoever matters as much would not have to leave, whatever might be asked."""
    world = full()
    world.submit(a_gang_of_pods("equal", 4, gpu=1))
    world.settle(5.0)

    assert world.record("equal").verdict.decision == Wait(
        Reason.INSUFFICIENT_RESOURCES, world.record("equal").verdict.decision.shortfall
    )
    assert inquired(world, "equal").victims == ()


def test_who_waits_for_nothing_is_told_nothing() -> None:
    """It runs, or nobody knows it."""
    world = full()

    assert inquired(world, "runs") == Found()
    assert inquired(world, "nobody") == Found()
