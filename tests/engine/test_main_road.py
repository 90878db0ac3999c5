"""Gangs with our gate: planned, let go, bound; in order, and through what comes after."""

from dataclasses import replace

from scheduler.model.decision import Reason
from scheduler.model.effects import Nominate, Ungate, WritePlan
from scheduler.model.workload import Phase, Pin
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod, with_membership
from tests.engine.support.stage import a_set, a_world, nodes_of, seats
from tests.engine.support.world import World
from tests.support.builders import a_node, some_nodes

# ── the main road ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_gang_goes_the_main_road() -> None:
    """Written, ungated and pinned one by one, asked about on its one node each, bound, running."""
    world = a_world(4, 4)
    a_set(world, "train", 3)
    world.settle(1)
    assert nodes_of(world.bound("train")) == ["n0", "n0", "n0"]
    kinds = [type(effect) for effect in world.said]
    assert kinds == [WritePlan, Ungate, Ungate, Ungate]
    assert {call.candidates for call in world.calls} == {("n0",)}
    assert world.record("train").state == "running"


def test_pods_that_nobody_makes_again_are_nominated_and_never_pinned() -> None:
    """All nominations are there before the first gate goes."""
    world = a_world(4, 4)
    world.submit(a_gang_of_pods("train", 3, gpu=1, wish={"pin": Pin.HARD}))
    world.settle(1)
    assert seats(world, "train") == 3
    assert [type(effect) for effect in world.said] == [WritePlan, *[Nominate] * 3, *[Ungate] * 3]
    assert all(pod.pinned is None for pod in world.pods("train"))


def test_a_gang_is_seated_together_where_it_lies_closest() -> None:
    """PACK at the level of racks: four of eight GPUs each fit into one rack, not into one host."""
    world = World(some_nodes(racks=2, nodes=2, gpu=2))
    world.submit(a_gang_of_pods("train", 4, gpu=1))
    world.settle(1)
    assert nodes_of(world.bound("train")) == ["a0-r0-n0", "a0-r0-n0", "a0-r0-n1", "a0-r0-n1"]


def test_members_that_never_come_keep_the_others_waiting() -> None:
    """Three of four: nobody is let go, no seat is held, and people are told how many there are."""
    world = a_world(8)
    world.submit(a_gang_of_pods("train", 3, quorum=4, gpu=1))
    world.settle(300)
    assert seats(world, "train") == 0
    assert world.engine.ledger.holds() == 0
    assert world.announced("train")[0][1].message.endswith("3 of 4 exist")
    world.submit([a_pod("fourth", membership=a_membership("train", 4), gpu=1)])
    world.settle(1)
    assert seats(world, "train") == 4


def test_pods_beyond_the_size_are_bound_as_surplus() -> None:
    """Four of a gang of three: the gang is whole with three, the fourth goes where there is room."""
    world = a_world(3, 1)
    world.submit(a_gang_of_pods("train", 4, quorum=3, size=3, gpu=1))
    world.settle(1)
    assert seats(world, "train") == 4
    assert len(world.record("train").members) == 4


def test_two_gangs_of_one_name_in_two_namespaces_go_their_own_ways() -> None:
    """Two halves in two namespaces are no whole; each gang is completed by its own."""
    world = a_world(8)
    world.submit(
        [
            *a_gang_of_pods("train", 2, quorum=4, gpu=1),
            *a_gang_of_pods("train", 2, quorum=2, gpu=1, namespace="other"),
        ]
    )
    world.settle(5)
    assert (len(world.bound("train")), len(world.bound("train", "other"))) == (0, 2)


def test_members_that_disagree_wait_until_they_are_mended() -> None:
    """Both values are named; when the odd one is replaced, the gang starts."""
    world = a_world(8)
    pods = a_gang_of_pods("train", 3, gpu=1)
    world.submit([*pods[:2], with_membership(pods[2], quorum={"": 5})])
    world.settle(10)
    assert seats(world, "train") == 0
    assert "3 and 5" in world.announced("train")[0][1].message
    world.api.delete(pods[2].key)
    world.submit([pods[2]])
    world.settle(1)
    assert seats(world, "train") == 3


def test_a_gang_larger_than_the_cluster_is_told_so_and_stops_nobody() -> None:
    """It would not fit were everything empty; a smaller one passes it."""
    world = a_world(4)
    world.submit([*a_gang_of_pods("huge", 5, gpu=1), *a_gang_of_pods("small", 4, gpu=1)])
    world.settle(20)
    assert (seats(world, "huge"), seats(world, "small")) == (0, 4)
    assert world.announced("huge")[0][1].reason is Reason.EXCEEDS_CLUSTER
    world.api.put_node(a_node("n9", gpu=5))
    world.settle(1)
    assert seats(world, "huge") == 5


def test_gangs_that_grow_into_each_other_do_not_block_each_other() -> None:
    """A-C-B-D: the members of two gangs come in turns, and there is room for one gang only; one of them is bound
    whole.
    """
    world = a_world(4)
    first, second = a_gang_of_pods("first", 4, gpu=1), a_gang_of_pods("second", 4, gpu=1)
    for one, two in zip(first, second, strict=True):
        world.submit([one, two])
        world.quiet()
    world.settle(60)
    assert sorted((seats(world, "first"), seats(world, "second"))) == [0, 4]


# ── the order ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_most_important_gang_goes_first_then_the_oldest() -> None:
    """Room for one of three: the important one; then, as it ends, the older of the others."""
    world = a_world(2)
    world.submit(a_gang_of_pods("blocker", 2, gpu=1))
    world.settle(1)
    for name, priority in (("older", 0), ("younger", 0), ("important", 5)):
        world.submit(a_gang_of_pods(name, 2, gpu=1, priority=priority))
        world.settle(1)
    order = []
    for running in ("blocker", "important", "older"):
        for pod in world.pods(running):
            world.api.delete(pod.key)
        world.settle(1)
        order += [
            name for name in ("older", "younger", "important") if seats(world, name) and name not in order
        ]
    assert order == ["important", "older", "younger"]


def test_nothing_younger_overtakes_a_gang_that_could_be_seated() -> None:
    """Room comes back one GPU at a time; the younger pairs take none of it once the older four could have it."""
    world = a_world(4, 2)
    world.submit(a_gang_of_pods("old", 4, gpu=1, wish={"required": True, "level": "host"}))
    world.settle(1)
    world.submit(a_gang_of_pods("waits", 4, gpu=1, wish={"required": True, "level": "host"}))
    world.settle(1)
    world.submit(a_gang_of_pods("young", 2, gpu=2))
    world.settle(1)
    assert seats(world, "young") == 0
    for pod in world.pods("old"):
        world.api.delete(pod.key)
    world.settle(1)
    assert (seats(world, "waits"), seats(world, "young")) == (4, 0)


def test_a_gang_in_part_that_cannot_be_taken_down_is_served_first() -> None:
    """A bare pod is lost while its gang binds: its successor goes before everybody in the queue."""
    world = a_world(2)
    pods = world.submit(a_gang_of_pods("train", 2, gpu=1))
    world.settle(1)
    world.submit(a_gang_of_pods("important", 1, gpu=1, priority=100, preempts=False))
    world.api.delete(pods[1].key)
    world.submit([a_pod("successor", membership=pods[0].membership, gpu=1)])
    world.settle(1)
    assert seats(world, "train") == 2
    assert seats(world, "important") == 0


# ── after binding ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_successor_joins_its_gang_in_its_rack() -> None:
    """There is room everywhere; it sits down beside the others."""
    world = World(some_nodes(racks=3, nodes=2, gpu=2))
    controller = a_set(world, "train", 4)
    world.settle(1)
    racks = {node[:5] for node in nodes_of(world.bound("train"))}
    assert racks == {"a0-r0"}
    world.api.delete(world.bound("train")[0].key)
    world.settle(1)
    assert seats(world, "train") == 4
    assert {node[:5] for node in nodes_of(world.bound("train"))} == racks
    controller.replicas = 5
    world.settle(1)
    assert seats(world, "train") == 5


def test_succeeded_members_count() -> None:
    """A gang whose members end one after the other lacks nobody and is never said to be in part."""
    world = a_world(4)
    world.submit(a_gang_of_pods("train", 3, gpu=1))
    world.settle(1)
    for pod in world.pods("train"):
        world.api.write(replace(world.api.pods[pod.key], phase=Phase.SUCCEEDED))
        world.settle(30)
        assert world.engine.ledger.gang_counts().keys() <= {("running", "Bound"), ("leaving", "PodDeleted")}
    assert world.announced("train") == []


def test_a_name_is_used_again() -> None:
    """The new gang starts whole, whatever the old one left behind."""
    world = a_world(4)
    world.submit(a_gang_of_pods("train", 2, gpu=1))
    world.settle(1)
    for pod in world.pods("train"):
        world.api.write(replace(world.api.pods[pod.key], phase=Phase.SUCCEEDED))
    world.settle(1)
    world.submit([a_pod("again-0", membership=a_membership("train", 2), gpu=1)])
    world.settle(10)
    assert seats(world, "train") == 0
    world.submit([a_pod("again-1", membership=a_membership("train", 2), gpu=1)])
    world.settle(1)
    assert seats(world, "train") == 2
