"""Who is let past a gang that waits, because it says that it leaves in time, and then does not."""

from dataclasses import replace

import pytest

from scheduler.model.effects import SuspendJob
from scheduler.model.policy import Policy
from scheduler.model.queueing import Overrun, Share
from scheduler.model.workload import GiveWay, Pod, Wish
from tests.builders import a_node
from tests.engine.api import Controller
from tests.engine.cast import a_membership, a_pod, an_owner
from tests.engine.world import World


def a_job(
    world: World, name: str, gpu: int, runs: float, give_way: GiveWay | None = None, *, priority: int = 0
) -> None:
    """Two pods of `gpu` devices each that say how long they run."""
    owner = an_owner("Job", name)
    membership = replace(a_membership(name, 2), wish=Wish(expected_runtime=runs, give_way=give_way))
    world.control(
        Controller(
            owner,
            2,
            lambda pod: a_pod(
                pod, owner=owner, membership=membership, gpu=gpu, created=world.now, priority=priority
            ),
        )
    )


def end(world: World, name: str) -> None:
    """Its Job is deleted, and its pods with it."""
    world.api.controllers.pop(f"Job/{name}")
    for pod in world.pods(name):
        world.api.delete(pod.key)


@pytest.mark.parametrize("overrun", Overrun)
def test_who_overstays_is_suspended_for_the_one_it_passed_where_the_setting_says_so(overrun: Overrun) -> None:
    """The first that waits needs all four devices; beside a gang of 100 s one of 5 s is let past, and runs on and
    on.
    """
    world = World([a_node("n1", gpu=4)], Policy(overrun=overrun, preemption_cooldown=1.0))
    a_job(world, "long", 1, 100.0)
    world.settle(1.0)
    a_job(world, "head", 2, 100.0)
    world.settle(1.0)
    a_job(world, "liar", 1, 5.0, GiveWay.SUSPEND)
    world.settle(60.0)
    assert len(world.bound("liar")) == 2, "a short gang passes the one that waits"
    assert world.bound("head") == []

    end(world, "long")
    world.settle(60.0)

    assert len(world.bound("head")) == (2 if overrun is Overrun.SUSPEND else 0)
    assert len(world.bound("liar")) == (0 if overrun is Overrun.SUSPEND else 2)


def test_nobody_is_suspended_for_a_lower_priority() -> None:
    """Whom it passed has gone, and one of lower priority waits for the room: it waits until that comes by itself."""
    world = World([a_node("n1", gpu=4)], Policy(overrun=Overrun.SUSPEND, preemption_cooldown=1.0))
    a_job(world, "long", 1, 100.0, priority=10)
    world.settle(1.0)
    a_job(world, "head", 2, 100.0, priority=10)
    world.settle(1.0)
    a_job(world, "liar", 1, 5.0, GiveWay.SUSPEND, priority=10)
    world.settle(60.0)
    end(world, "head")
    end(world, "long")
    a_job(world, "low", 2, 100.0)
    world.settle(60.0)

    assert [len(world.bound(name)) for name in ("liar", "low")] == [2, 0]
    assert not [effect for effect in world.said if isinstance(effect, SuspendJob)]


def test_who_never_passed_anybody_may_take_his_time() -> None:
    """A gang that was there first is not suspended for running longer than it said."""
    world = World([a_node("n1", gpu=4)], Policy(overrun=Overrun.SUSPEND, preemption_cooldown=1.0))
    a_job(world, "slow", 2, 5.0, GiveWay.SUSPEND)
    world.settle(1.0)
    a_job(world, "head", 2, 100.0)

    world.settle(120.0)

    assert len(world.bound("slow")) == 2


def test_who_cannot_be_suspended_alone_may_overstay() -> None:
    """Two gangs of one Job: for what one of them ran too long the other would go too, so neither leaves, nor is
    evicted.
    """
    world = World([a_node("n1", gpu=4)], Policy(overrun=Overrun.SUSPEND, preemption_cooldown=1.0))
    a_job(world, "long", 1, 100.0)
    world.settle(1.0)
    a_job(world, "head", 2, 100.0)
    world.settle(1.0)
    owner, wish = an_owner("Job", "liars"), Wish(expected_runtime=5.0, give_way=GiveWay.SUSPEND)

    def liar(name: str) -> Pod:
        membership = replace(a_membership(name, 1), wish=wish)
        return a_pod(name, owner=owner, membership=membership, gpu=1, created=world.now)

    world.control(Controller(owner, 2, liar))
    world.settle(60.0)
    liars = {pod.uid for pod in world.api.pods.values() if pod.owner == owner and pod.node}
    assert len(liars) == 2, "short gangs pass the one that waits"

    end(world, "long")
    world.settle(60.0)

    assert world.bound("head") == []
    assert {pod.uid for pod in world.api.pods.values() if pod.owner == owner and pod.node} == liars


def test_who_overstays_is_suspended_with_shares_as_well() -> None:
    """A weight of another namespace changes nothing between two gangs of one."""
    policy = Policy(overrun=Overrun.SUSPEND, preemption_cooldown=1.0, shares={"others": Share(weight=2.0)})
    world = World([a_node("n1", gpu=4)], policy)
    a_job(world, "long", 1, 100.0)
    world.settle(1.0)
    a_job(world, "head", 2, 100.0)
    world.settle(1.0)
    a_job(world, "liar", 1, 5.0, GiveWay.SUSPEND)
    world.settle(60.0)
    end(world, "long")
    world.settle(60.0)

    assert [len(world.bound(name)) for name in ("head", "liar")] == [2, 0]


def test_who_began_with_the_clock_overstays_as_well() -> None:
    """The simulator's time begins at 0, and so may a gang that is let past another then."""
    world = World([a_node("n1", gpu=4)], Policy(overrun=Overrun.SUSPEND, preemption_cooldown=1.0))
    a_job(world, "early", 1, 100.0)
    a_job(world, "head", 2, 100.0)
    a_job(world, "liar", 1, 5.0, GiveWay.SUSPEND)
    for _ in range(20):
        world.step()
    assert (world.now, len(world.bound("liar"))) == (0.0, 2)

    world.settle(60.0)
    end(world, "early")
    world.settle(60.0)

    assert [len(world.bound(name)) for name in ("head", "liar")] == [2, 0]
