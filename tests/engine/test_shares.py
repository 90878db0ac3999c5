"""Guarantees: what is lent comes back, and what a namespace keeps within its own nobody takes, whatever his
priority.
"""

import pytest

from scheduler.model.policy import Policy
from scheduler.model.queueing import Reclaim, Share
from scheduler.model.workload import Strategy
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod, an_owner
from tests.engine.support.world import World
from tests.support.builders import a_node

GPU = "nvidia.com/gpu"
HALF = Share(guaranteed=((GPU, 4),))


def a_world(**shares: Share) -> World:
    return World([a_node("n1", gpu=4), a_node("n2", gpu=4)], Policy(shares=shares, preemption_cooldown=1.0))


def replicas(
    world: World,
    name: str,
    namespace: str,
    *,
    count: int = 4,
    gpu: int = 1,
    cpu: int = 0,
    priority: int = 0,
    **wish,
) -> None:
    """Pods of one GPU each, or as is said, made again whenever they are lost."""
    owner, membership = an_owner("ReplicaSet", name), a_membership(name, count, namespace=namespace, **wish)
    world.control(
        Controller(
            owner,
            count,
            lambda pod: a_pod(
                pod,
                namespace=namespace,
                owner=owner,
                membership=membership,
                gpu=gpu,
                cpu=cpu,
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
    """A borrower of higher priority gives back what it borrowed, and does not come for it again: no turns, no end of
    evictions.
    """
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


def test_a_ceiling_of_one_namespace_is_told_to_no_other() -> None:
    """Of two gangs that run alike each gets a member more, and one namespace may use no more: only that one waits."""
    world = World([a_node("n1", gpu=8)], Policy(shares={"default": Share(ceiling=((GPU, 3),))}))
    for namespace in ("default", "lab"):
        world.submit(a_gang_of_pods("elastic", 3, namespace=namespace, gpu=1))
        world.settle(1.0)
    more = ((a_membership("elastic", 3, namespace=name), name) for name in ("default", "lab"))
    world.submit([a_pod("more", namespace=name, membership=said, gpu=1) for said, name in more])
    world.settle(5.0)

    assert bound(world, ("elastic", "default"), ("elastic", "lab")) == [3, 4]


def test_what_is_not_guaranteed_is_open() -> None:
    """A guarantee of GPUs protects no pod that uses none."""
    world = World([a_node("n1", cpu=4, gpu=1)], Policy(shares={"team": HALF}))
    world.submit([a_pod("low", namespace="team", cpu=4)])
    world.settle(1.0)
    world.submit(a_gang_of_pods("high", 1, cpu=4, priority=100))
    world.settle(5.0)

    assert bound(world, ("high", "default")) == [1]


def test_a_guarantee_of_one_resource_reclaims_no_other() -> None:
    """GPUs that are guaranteed to nobody are not taken from those who go before, for CPUs that lie idle."""
    shares = {"team": Share(guaranteed=(("cpu", 8_000),))}
    world = World([a_node("n1", gpu=4, cpu=64)], Policy(shares=shares, preemption_cooldown=1.0))
    replicas(world, "first", "others", cpu=1, priority=1000)
    world.submit(a_gang_of_pods("low", 4, namespace="team", gpu=1, cpu=1))
    world.settle(60.0)

    assert bound(world, ("first", "others"), ("low", "team")) == [4, 0]
    assert world.api.evicted == []


def test_only_those_leave_by_a_claim_who_are_in_the_way_of_what_is_claimed() -> None:
    """CPUs are claimed and short: who uses them where the gang sits leaves, and who keeps only its GPU there stays."""
    shares = {"team": Share(guaranteed=(("cpu", 8_000),))}
    world = World([a_node("n1", gpu=2, cpu=8)], Policy(shares=shares, preemption_cooldown=1.0))
    replicas(world, "both", "others", count=1, gpu=2, cpu=1, priority=1000)
    replicas(world, "cpus", "others", count=1, gpu=0, cpu=7, priority=1000)
    world.submit(a_gang_of_pods("greedy", 1, namespace="team", gpu=1, cpu=7))
    world.settle(30.0)
    assert bound(world, ("both", "others"), ("cpus", "others")) == [1, 1]

    world.submit(a_gang_of_pods("modest", 1, namespace="team", cpu=7))
    world.settle(30.0)
    assert bound(world, ("both", "others"), ("modest", "team")) == [1, 1]


@pytest.mark.parametrize("priority", [0, 100], ids=["reclaims", "goes before"])
def test_who_borrows_something_keeps_the_rest_of_its_guarantee(priority: int) -> None:
    """A namespace that uses more CPUs than its own keeps the GPUs that it uses within its guarantee."""
    shares = {
        "lender": Share(guaranteed=((GPU, 4),)),
        "team": Share(guaranteed=((GPU, 4), ("cpu", 4_000))),
    }
    nodes = [a_node(name, gpu=4, cpu=32) for name in ("n1", "n2")]
    world = World(nodes, Policy(shares=shares, preemption_cooldown=1.0))
    replicas(world, "cpus", "team", gpu=0, cpu=4)
    replicas(world, "lodges", "others", cpu=1)
    world.settle(300.0)
    replicas(world, "keeps", "team", cpu=1)
    world.submit(a_gang_of_pods("own", 4, namespace="lender", gpu=1, priority=priority))
    world.settle(60.0)

    kept = (("cpus", "team"), ("keeps", "team"), ("lodges", "others"), ("own", "lender"))
    assert bound(world, *kept) == [4, 4, 0, 4]


def test_lent_room_comes_back_where_the_cheapest_units_do_not_make_it() -> None:
    """What has just begun stands in nobody's way; the one gang whose leaving makes room is as much as was borrowed."""
    nodes = [a_node(name, gpu=4) for name in ("n1", "n2", "n3")]
    shares = {"lender": HALF, "lodger": Share(guaranteed=((GPU, 8),))}
    world = World(nodes, Policy(shares=shares, preemption_cooldown=1.0))
    replicas(world, "long", "lodger", count=1, gpu=4)
    replicas(world, "across", "lodger", count=2, gpu=2, strategy=Strategy.SPREAD, level="host")
    world.settle(300.0)
    for name in ("new", "newer"):
        replicas(world, name, "lodger", count=1, gpu=2)
    world.submit(a_gang_of_pods("own", 1, namespace="lender", gpu=4))
    world.settle(60.0)

    assert bound(world, ("own", "lender"), ("across", "lodger")) == [1, 2]


def test_who_leaves_already_is_not_taken_off_the_guarantee_once_more() -> None:
    """Two lenders at once get no more than was borrowed: what leaves for the first does not count for the second."""
    world = World(
        [a_node("n1", gpu=4), a_node("n2", gpu=4)],
        Policy(shares={"one": HALF, "two": HALF, "lodger": HALF}, preemption_cooldown=1.0),
    )
    world.api.grace = lambda _pod: 60.0
    for name in ("keeps", "lends"):
        replicas(world, name, "lodger")
    for lender in ("one", "two"):
        world.submit(a_gang_of_pods("own", 4, namespace=lender, gpu=1))
    world.settle(300.0)

    assert sorted(bound(world, ("keeps", "lodger"), ("lends", "lodger"))) == [0, 4]


def test_only_lower_priority_gives_back_where_the_setting_says_so() -> None:
    """A borrower of equal priority keeps what is lent to it, one of lower priority does not."""
    for priority, left in ((0, 4), (1, 0)):
        policy = Policy(shares={"lender": HALF}, reclaim=Reclaim.LOWER, preemption_cooldown=1.0)
        world = World([a_node("n1", gpu=4)], policy)
        replicas(world, "lodges", "others")
        world.submit(a_gang_of_pods("own", 4, namespace="lender", gpu=1, priority=priority))
        world.settle(30.0)
        assert bound(world, ("lodges", "others")) == [left]
