"""A pod that gives way is told for which gang, once and only when it leaves; and its gang remembers it."""

from dataclasses import replace

from scheduler.ledger.messages import GaveWay
from scheduler.model.decision import Reason
from scheduler.model.effects import Announce, Evict
from scheduler.model.workload import GangKey, Phase
from tests.engine.support.cast import a_gang_of_pods, a_pod, an_owner
from tests.engine.support.freeing import GRACE, a_job, a_stage, important
from tests.engine.support.stage import a_set, seats
from tests.engine.support.world import World

TEXT = "Preempted for another gang"


def told(world: World) -> list[Announce]:
    return [own for own in world.said if isinstance(own, Announce) and own.reason is Reason.PREEMPTED]


def test_every_pod_is_told_and_its_owner_once() -> None:
    """By an event and a condition on each of four pods, and by one event on their owner: the gang that has their room."""
    world = a_stage(4, grace=GRACE)
    a_set(world, "low", 4)
    world.settle(1)
    low = {pod.uid for pod in world.pods("low")}
    important(world, 4)
    world.settle(1)

    assert {own.uid for own in told(world)} == low
    assert {(own.message, own.disrupted, own.gang.name) for own in told(world)} == {
        (f"{TEXT}: gang default/important, priority 100", True, "low")
    }
    assert [own.owner.name for own in told(world) if own.owner is not None] == ["low"]


def test_a_gang_of_another_namespace_is_not_named() -> None:
    """As kube-scheduler tells it: by the uid of a pod of it. Events do not say names of others."""
    world = a_stage(1, grace=GRACE)
    world.submit([a_pod("low", gpu=1, namespace="team")])
    world.settle(1)
    (winner,) = important(world, 1)
    world.settle(1)

    (own,) = told(world)
    assert own.message == (f"{TEXT}: a gang in another namespace (pod uid {winner.uid}), priority 100")


def test_a_pod_of_another_scheduler_is_told() -> None:
    """It is of no gang, and learns it all the same; so does its owner."""
    world = a_stage(1, grace=GRACE)
    owner = an_owner("ReplicaSet", "web")
    (pod,) = world.submit([a_pod("web", gpu=1, scheduler="default-scheduler", owner=owner)])
    world.api.bind(pod.uid, pod.key, "n0")
    world.settle(1)
    important(world, 1)
    world.settle(1)

    assert [(own.uid, own.owner, own.disrupted) for own in told(world)] == [(pod.uid, owner, True)]


def test_an_eviction_that_is_refused_is_told_to_no_pod() -> None:
    """What a budget keeps runs on, and is not called a victim."""
    world = a_stage(1)
    (pod,) = world.submit([a_pod("low", gpu=1)])
    world.settle(1)
    world.api.protected.add(pod.uid)
    important(world, 1)
    world.settle(20)

    assert any(isinstance(own, Evict) for own in world.said)
    assert told(world) == []
    assert (
        world.engine.ledger.registry.gangs[world.engine.ledger.registry.gang_of[pod.uid]].preemption.gave_way
        is None
    )


def test_a_job_that_is_suspended_is_told() -> None:
    """Once, on one of its pods and on the Job. No pod of it is evicted, so no condition says so."""
    world = a_stage(2, grace=GRACE)
    a_job(world, "train", 2)
    world.settle(1)
    important(world, 2)
    world.settle(1)

    assert [(own.gang.name, own.owner and own.owner.name, own.disrupted) for own in told(world)] == [
        ("train", "train", False)
    ]


def test_a_pod_that_is_gone_before_we_hear_of_its_eviction_is_told() -> None:
    """The watch may be faster than the answer to a call."""
    world = a_stage(1)
    a_set(world, "low", 1)
    world.settle(1)
    (pod,) = world.pods("low")
    important(world, 1)
    world.watch()
    while not isinstance(next(iter(world.lines.values()))[0], Evict):
        world.carry_out()
        world.report()
        world.watch()
    world.carry_out()
    world.api.run_pods()
    world.watch()
    assert told(world) == []
    world.report()

    assert [own.uid for own in told(world)] == [pod.uid]


def test_the_gang_that_is_made_again_remembers() -> None:
    """All its pods are gone, and its owner has made it again under its name: it still knows which gang that was for."""
    world = a_stage(2)
    a_set(world, "low", 2)
    world.settle(1)
    important(world, 2)
    world.settle(1)
    own = world.record("low").preemption.gave_way

    assert all(pod.gated for pod in world.pods("low"))
    assert own is not None
    assert own._replace(at=0.0) == GaveWay(GangKey("default", "important"), "important", 100, 0.0)
    assert seats(world, "important") == 2


def test_nothing_is_told_of_a_gang_that_went_by_itself() -> None:
    """Members that end give way to no gang."""
    world = a_stage(1)
    (pod,) = world.submit(a_gang_of_pods("ends", 1, gpu=1))
    world.settle(1)
    world.api.write(replace(world.api.pods[pod.key], phase=Phase.SUCCEEDED))
    important(world, 1)
    world.settle(1)

    assert told(world) == []
