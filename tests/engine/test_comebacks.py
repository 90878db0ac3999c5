"""Pods of another scheduler give way once: their successors are bound into the room by a scheduler that does not ask."""

import pytest

from scheduler.ledger.preemption_history import LEFT_ALONE, SPARED, SparedOwners
from scheduler.model.decision import Reason
from scheduler.model.workload import GangKey, Owner, Pod
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_gang_of_pods, a_pod, an_owner
from tests.engine.support.freeing import a_stage, evicted, important
from tests.engine.support.stage import POLICY, seats
from tests.engine.support.world import World

DEFAULT = "default-scheduler"
COOLDOWN = POLICY.preemption_cooldown


def another_scheduler(world: World, *, binds: bool = True) -> None:
    """It binds its pods where there is room beside those that are bound, as soon as they are made."""
    make = world.api.run_controllers

    def run() -> bool:
        made = make()
        waiting = [pod for pod in world.api.pods.values() if pod.scheduler == DEFAULT and pod.node is None]
        for pod in waiting if binds else ():
            node = next((name for name in world.api.nodes if _has_room(world, name, pod)), None)
            if node is not None:
                world.api.bind(pod.uid, pod.key, node)
        return made

    world.api.run_controllers = run  # type: ignore[method-assign]


def _has_room(world: World, node: str, pod: Pod) -> bool:
    capacity = dict(world.api.nodes[node].capacity)
    there = [dict(other.demand.requests) for other in world.api.of_node(node)]
    return all(
        sum(other.get(name, 0) for other in there) + amount <= capacity.get(name, 0)
        for name, amount in pod.demand.requests
    )


def a_deployment(world: World, name: str, count: int, *, gpu: int = 1, namespace: str = "web") -> Owner:
    """A ReplicaSet whose pods name the cluster's own scheduler, each where it finds room."""
    owner = an_owner("ReplicaSet", name)
    template = lambda pod: a_pod(pod, namespace=namespace, owner=owner, gpu=gpu, scheduler=DEFAULT)  # noqa: E731
    world.control(Controller(owner, count, template, namespace=namespace))
    world.settle(1)
    return owner


def told(world: World) -> list[str]:
    return [own.message for _, own in world.api.announced if own.reason is Reason.PIN_BROKEN]


def test_an_owner_whose_pods_come_back_is_asked_once_an_hour() -> None:
    """Six pods of four devices fill three nodes, and a gang of two needs two nodes: four are evicted once, and their
    successors take the room. In the next hour none of them is evicted, however often the gang might ask.
    """
    world = a_stage(8, 8, 8)
    another_scheduler(world)
    a_deployment(world, "web", 6, gpu=4)
    important(world, 2, gpu=8)
    world.settle(10 * COOLDOWN)

    assert len(evicted(world)) == 4
    assert seats(world, "important") == 0
    world.settle(LEFT_ALONE)
    assert len(evicted(world)) == 8


@pytest.mark.parametrize(
    ("namespace", "taker"),
    [("default", "pod default/web-x"), ("web", "a pod in another namespace (pod uid web-x")],
)
def test_the_gang_is_told_which_pod_took_the_room(namespace: str, taker: str) -> None:
    """By name where the gang's people may know it, and on which node."""
    world = a_stage(1, 1)
    another_scheduler(world)
    a_deployment(world, "web", 2, namespace=namespace)
    important(world, 2)
    world.settle(COOLDOWN)

    text = told(world)[0]
    assert taker in text
    assert f"of {DEFAULT} took its reserved resources on n" in text


def test_the_pod_that_took_the_room_is_not_asked_for_it_again() -> None:
    """A second controller's pod waited for room, and is bound into it before the gang: its pod stays, too."""
    world = a_stage(1)
    another_scheduler(world)
    a_deployment(world, "web", 1)
    a_deployment(world, "other", 1)
    world.api.controllers["ReplicaSet/web"].replicas = 0
    important(world, 1)
    world.settle(10 * COOLDOWN)

    assert [name.partition("-")[0] for name in evicted(world)] == ["web"]
    assert "pod uid other-" in told(world)[0]


def test_an_owner_whose_pods_do_not_come_back_in_time_gives_the_room() -> None:
    """Where the other scheduler is slower than we are, one round is enough, and the next gang finds other pods."""
    world = a_stage(1, 1)
    another_scheduler(world)
    a_deployment(world, "web", 1)
    a_deployment(world, "other", 1)
    another_scheduler(world, binds=False)
    world.api.controllers["ReplicaSet/web"].replicas = world.api.controllers["ReplicaSet/other"].replicas = 0
    important(world, 1)
    world.settle(1)
    important(world, 1, name="second")
    world.settle(1)

    assert (seats(world, "important"), seats(world, "second"), told(world)) == (1, 1, [])


def test_an_eviction_that_was_refused_does_not_count() -> None:
    """A budget keeps the pod for a while: the owner is not left alone for that, and gives way when it may."""
    world = a_stage(1)
    another_scheduler(world)
    owner = a_deployment(world, "web", 1)
    (pod,) = [own for own in world.api.pods.values() if own.owner == owner]
    world.api.protected.add(pod.uid)
    important(world, 1)
    world.settle(30)
    assert owner.uid not in world.engine.ledger.spared_owners.owners(world.now)
    world.api.protected.clear()
    world.api.controllers[owner.uid].replicas = 0
    world.settle(30)

    assert seats(world, "important") == 1
    assert owner.uid in world.engine.ledger.spared_owners.owners(world.now)


def test_pods_of_our_scheduler_and_pods_without_an_owner_are_not_left_alone() -> None:
    """A pod that is not made again does not come back; what comes back to us waits in our queue."""
    world = a_stage(1, 1)
    (bare,) = world.submit([a_pod("bare", gpu=1, scheduler=DEFAULT)])
    world.api.bind(bare.uid, bare.key, "n0")
    world.submit(a_gang_of_pods("ours", 1, gpu=1, owner=an_owner("ReplicaSet", "ours")))
    world.settle(1)
    important(world, 2)
    world.settle(1)

    assert len(evicted(world)) == 2
    assert world.engine.ledger.spared_owners.owners(world.now) == frozenset()


def test_what_is_remembered_is_bounded() -> None:
    """Of more owners and nodes than that the oldest are forgotten."""
    comebacks = SparedOwners()
    for number in range(SPARED + 1):
        comebacks.leave_alone(f"owner-{number}", float(number))
        comebacks.made_room(f"n{number}", GangKey("default", "gang"))

    assert len(comebacks.owners(0.0)) == SPARED
    assert "owner-0" not in comebacks.owners(0.0)
    assert comebacks.room_on("n0") is None
    assert comebacks.next_end == 1 + LEFT_ALONE
    assert comebacks.owners(1 + LEFT_ALONE).isdisjoint({"owner-1"})
