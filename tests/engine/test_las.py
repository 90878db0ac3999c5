"""Turns by attained service: Jobs that give way by being suspended share devices that only one of them fits."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.las import Over
from scheduler.model.effects import Evict, SuspendJob
from scheduler.model.policy import Policy
from scheduler.model.queueing import Order, Share
from scheduler.model.workload import GangKey, GiveWay, Pod
from scheduler.placement import order
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_membership, a_pod, an_owner
from tests.engine.support.world import World
from tests.support.builders import GPU, a_node

QUANTUM = 10.0
BIRTHS = st.integers(0, 5).map(float)
SERVICES = st.tuples(st.integers(0, order.LAST_BAND), BIRTHS)
LAS = Policy(order=Order.LAS, las_quantum=QUANTUM, preemption_cooldown=1.0)


def a_job(
    world: World,
    name: str,
    *,
    gpu: int = 2,
    give_way: GiveWay | None = GiveWay.SUSPEND,
    namespace: str = "default",
    priority: int = 0,
) -> None:
    """Two pods, of `gpu` devices each."""
    owner, membership = an_owner("Job", name), a_membership(name, 2, namespace=namespace, give_way=give_way)
    world.control(
        Controller(
            owner,
            2,
            lambda pod: a_pod(
                pod,
                namespace=namespace,
                owner=owner,
                membership=membership,
                gpu=gpu,
                created=world.now,
                priority=priority,
            ),
            namespace=namespace,
        )
    )


def turns(world: World, seconds: float, *names: str, apart: str = "default") -> list[str]:
    """Who ran, in order, watched for so long; the last of them in the namespace `apart`."""
    places = dict.fromkeys(names, "default") | {names[-1]: apart}
    ran: list[str] = []
    for _ in range(int(seconds)):
        world.settle(1.0)
        now = [name for name in names if len(world.bound(name, places[name])) == 2]
        assert len(now) <= 1, "two run where one has room"
        ran += [name for name in now if ran[-1:] != [name]]
    return ran


def test_two_jobs_take_turns() -> None:
    """Each runs until it has had a band more than the other; once both have had much, the older runs to its end."""
    world = World([a_node("n1", gpu=4)], LAS)
    a_job(world, "one")
    world.settle(1.0)
    a_job(world, "two")

    assert turns(world, 40 * QUANTUM, "one", "two") == ["one", "two", "one"]
    had = [world.api.owners[f"Job/{name}"].attained for name in ("one", "two")]
    assert all(had)


@pytest.mark.parametrize(
    "shares",
    [
        {"others": Share(weight=2.0)},
        {"default": Share(ceiling=((GPU, 8),))},
        {"default": Share(guaranteed=((GPU, 4),))},
    ],
    ids=["a weight", "a ceiling", "a guarantee"],
)
def test_turns_inside_a_namespace_are_the_same_with_shares(shares: dict[str, Share]) -> None:
    """Whatever is shared out between namespaces, two Jobs of one take turns."""
    world = World([a_node("n1", gpu=4)], replace(LAS, shares=shares))
    a_job(world, "one")
    world.settle(1.0)
    a_job(world, "two")

    assert turns(world, 20 * QUANTUM, "one", "two") == ["one", "two", "one"]


@pytest.mark.parametrize(("guaranteed", "order"), [(4, ["one"]), (0, ["one", "two", "one"])])
def test_no_turn_is_taken_from_what_another_namespace_is_guaranteed(
    guaranteed: int, order: list[str]
) -> None:
    """A Job within its namespace's guarantee runs on beside one of another namespace that has had less."""
    world = World(
        [a_node("n1", gpu=4)], replace(LAS, shares={"default": Share(((GPU, guaranteed),), weight=1.0)})
    )
    a_job(world, "one")
    world.settle(1.0)
    a_job(world, "two", namespace="others")

    assert turns(world, 20 * QUANTUM, "one", "two", apart="others") == order


def test_nobody_takes_a_turn_from_a_higher_priority() -> None:
    """However much it has had, a Job gives way to its equals alone, and to who is above it."""
    world = World([a_node("n1", gpu=4)], LAS)
    a_job(world, "high", priority=10)
    world.settle(1.0)
    a_job(world, "low")
    assert turns(world, 20 * QUANTUM, "high", "low") == ["high"]
    assert not [effect for effect in world.said if isinstance(effect, SuspendJob)]


def test_a_job_of_two_gangs_takes_no_turns() -> None:
    """For the turn of one of them the other would go too, so neither leaves, nor is evicted."""
    world = World([a_node("n1", gpu=4)], LAS)
    owner = an_owner("Job", "pair")

    def one(name: str) -> Pod:
        membership = a_membership(name, 1, give_way=GiveWay.SUSPEND)
        return a_pod(name, owner=owner, membership=membership, gpu=2, created=world.now)

    world.control(Controller(owner, 2, one))
    world.settle(5.0)
    a_job(world, "new")
    assert turns(world, 20 * QUANTUM, "new") == []
    assert not [effect for effect in world.said if isinstance(effect, SuspendJob | Evict)]


def test_of_two_that_had_much_the_older_goes_on() -> None:
    """A newcomer gets its turns; then the room goes back to the Job that was made first, not to who came back last."""
    world = World([a_node("n1", gpu=4)], LAS)
    for name in ("one", "two"):
        a_job(world, name)
        world.settle(1.0)
    turns(world, 40 * QUANTUM, "one", "two")
    a_job(world, "three")

    assert turns(world, 40 * QUANTUM, "one", "two", "three") == ["three", "one"]


def test_no_turn_is_shorter_than_the_quantum() -> None:
    """However many devices a Job has, it keeps them for a quantum of time."""
    world = World([a_node("n1", gpu=32)], LAS)
    a_job(world, "one", gpu=16)
    world.settle(1.0)
    a_job(world, "two", gpu=16)

    assert turns(world, 0.8 * QUANTUM, "one", "two") == ["one"]
    assert turns(world, 0.8 * QUANTUM, "one", "two")[-1:] == ["two"]


def test_who_is_not_suspended_keeps_its_place() -> None:
    """A Job that does not ask to give way in this manner runs on, however much it has had."""
    world = World([a_node("n1", gpu=4)], LAS)
    a_job(world, "one", give_way=None)
    world.settle(1.0)
    a_job(world, "two")

    assert turns(world, 20 * QUANTUM, "one", "two") == ["one"]


@given(SERVICES, st.lists(SERVICES))
def test_whoever_one_goes_before_gives_way(own: order.Service, others: list[order.Service]) -> None:
    """What was sorted for everybody says the same as the rule said for each of them."""
    known = [(service, GangKey("default", f"g{number}")) for number, service in enumerate(others)]

    assert Over(known).after(own) == {key for service, key in known if order.goes_first(own, service)}
