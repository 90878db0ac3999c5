"""Disruption budgets and whole gangs: what a budget protects stays, and a gang that it takes apart is whole again
soon.
"""

from scheduler.model.policy import Policy
from tests.builders import a_node
from tests.engine.api import Controller
from tests.engine.cast import a_gang_of_pods, a_membership, a_pod, an_owner
from tests.engine.world import World

POLICY = Policy(timeout=60.0)


def full() -> World:
    """A gang of four takes all there is, and its owner makes its pods again."""
    world = World([a_node("n1", gpu=4)], POLICY)
    owner, membership = an_owner("ReplicaSet", "low"), a_membership("low", 4)
    world.control(
        Controller(
            owner, 4, lambda name: a_pod(name, owner=owner, membership=membership, gpu=1, created=world.now)
        )
    )
    world.settle(1.0)
    return world


def test_a_budget_that_takes_a_gang_apart_ends_the_plan() -> None:
    """One member may go and three may not: the plan is given up at once, not when its time is up, and the gang is
    whole.
    """
    world = full()
    world.api.protected |= {pod.uid for pod in world.pods("low")[1:]}
    world.submit(a_gang_of_pods("high", 4, gpu=1, priority=10))
    world.settle(2.0)

    assert len(world.api.evicted) == 1
    assert len(world.bound("low")) == 4
    assert world.engine.ledger.holds() == 0


def test_a_budget_that_keeps_all_is_waited_for() -> None:
    """Nobody has left yet, so nothing is lost by waiting: when the budget allows it, the gang leaves whole."""
    world = full()
    protected = {pod.uid for pod in world.pods("low")}
    world.api.protected |= protected
    world.submit(a_gang_of_pods("high", 4, gpu=1, priority=10))
    world.settle(20.0)
    assert world.api.evicted == []
    assert world.engine.ledger.holds() == 4
    world.api.protected -= protected
    world.settle(10.0)

    assert len(world.api.evicted) == 4
    assert len(world.bound("high")) == 4
