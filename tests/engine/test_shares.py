"""Guarantees: what is lent comes back, and what a namespace keeps within its own nobody takes, whatever his priority."""

import pytest

from scheduler.model.policy import Policy
from scheduler.model.queueing import Share
from tests.builders import a_node
from tests.engine.api import Controller
from tests.engine.cast import a_gang_of_pods, a_membership, a_pod, an_owner
from tests.engine.world import World

GPU = "nvidia.com/gpu"
HALF = Share(guaranteed=((GPU, 4),))


def a_world(**shares: Share) -> World:
    return World([a_node("n1", gpu=4), a_node("n2", gpu=4)], Policy(shares=shares, preemption_cooldown=1.0))


def replicas(world: World, name: str, namespace: str, *, priority: int = 0) -> None:
    """Four pods of one GPU each, made again whenever they are lost."""
    owner, membership = an_owner("ReplicaSet", name), a_membership(name, 4, namespace=namespace)
    world.control(
        Controller(
            owner,
            4,
            lambda pod: a_pod(
                pod,
                namespace=namespace,
                owner=owner,
                membership=membership,
                gpu=1,
                priority=priority,
                created=world.now,
            ),
            namespace=namespace,
        )
    )
    world.settle(1.0)


def bound(world: World, *gangs: tuple[str, str]) -> list[int]:
    return [len(world.bound(name, namespace)) for name, namespace in gangs]


def test_lent_room_is_not_taken_again() -> None:
    """A borrower of higher priority gives back what it borrowed, and does not come for it again: no turns, no end of evictions."""
    world = a_world(lender=HALF, lodger=HALF)
    for name in ("keeps", "lends"):
        replicas(world, name, "lodger", priority=100)
    world.submit(a_gang_of_pods("owner", 4, namespace="lender", gpu=1))
    world.settle(600.0)

    assert sorted(bound(world, ("keeps", "lodger"), ("lends", "lodger"))) == [0, 4]
    assert bound(world, ("owner", "lender")) == [4]
    assert len(world.api.evicted) == 4


@pytest.mark.parametrize(("shares", "left"), [({}, 0), ({"team": HALF}, 4)], ids=["none", "guaranteed"])
def test_a_guarantee_holds_against_priority(shares: dict[str, Share], left: int) -> None:
    """Of a namespace that uses twice its guarantee an urgent gang of another takes one half, and never the other."""
    world = a_world(**shares)
    replicas(world, "one", "team")
    replicas(world, "two", "team")
    world.submit(a_gang_of_pods("first", 4, gpu=1, priority=100))
    world.settle(5.0)
    world.submit(a_gang_of_pods("second", 4, gpu=1, priority=100))
    world.settle(60.0)

    assert sum(bound(world, ("one", "team"), ("two", "team"))) == left


def test_priority_counts_inside_a_namespace() -> None:
    """Within one namespace a guarantee protects nobody from those who go before him."""
    world = a_world(default=Share(guaranteed=((GPU, 8),)))
    replicas(world, "low", "default")
    replicas(world, "also", "default")
    world.submit(a_gang_of_pods("high", 4, gpu=1, priority=100))
    world.settle(5.0)

    assert bound(world, ("high", "default")) == [4]


def test_what_is_not_guaranteed_is_open() -> None:
    """A guarantee of GPUs protects no pod that uses none."""
    world = World([a_node("n1", cpu=4, gpu=1)], Policy(shares={"team": HALF}))
    world.submit([a_pod("low", namespace="team", cpu=4)])
    world.settle(1.0)
    world.submit(a_gang_of_pods("high", 1, cpu=4, priority=100))
    world.settle(5.0)

    assert bound(world, ("high", "default")) == [1]
