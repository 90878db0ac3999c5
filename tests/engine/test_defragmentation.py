"""Moves that would make room for a gang: found where there are any, proven to leave nobody without a seat, never
made.
"""

import pytest

from scheduler.model.workload import GangKey
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_gang_of_pods, a_pod, an_owner
from tests.engine.support.stage import a_set, a_world, seats
from tests.engine.support.world import World
from tests.support.builders import a_node

BIG = GangKey("default", "big")


def singles(world: World, *nodes: str, kind: str = "ReplicaSet", gpu: int = 1) -> None:
    """One single pod on each of these nodes."""
    owner = an_owner(kind, "web")
    for number, node in enumerate(nodes):
        pod = a_pod(f"web-{number}", owner=owner, gpu=gpu, node=node)
        world.submit([pod])
    world.control(Controller(owner, len(nodes), lambda name: a_pod(name, owner=owner, gpu=gpu)))
    world.settle(1)


def test_scattered_pods_would_make_room_together() -> None:
    """Every node is half full: two pods on one node would empty the others for a gang that needs whole ones."""
    world = a_world(2, 2, 2, 2)
    singles(world, "n0", "n1", "n2", "n3")
    world.submit(a_gang_of_pods("big", 2, gpu=2))
    world.settle(5)
    found = world.engine.defrag(BIG)
    assert sorted(pod.name for pod in found.seats) == ["big-0", "big-1"]
    assert len(found.moves) == 2
    taken = set(found.seats.values())
    assert len(taken) == 2
    targets = [node for move in found.moves for node in move.seats.values()]
    assert not taken & set(targets)
    assert seats(world, "big") == 0
    assert world.engine.ledger.migrations.names() == set()


def test_gangs_move_whole_and_within_what_they_ask() -> None:
    """A gang of two that requires one rack goes to the other rack with both members, so that the large gang has its
    own.
    """
    world = World([a_node(f"{rack}{n}", gpu=2, rack=rack) for rack in "ab" for n in range(2)])
    a_set(world, "small", 2, gpu=1, required=True, level="rack")
    world.settle(5)
    home = next(iter(world.bound("small"))).node
    assert home is not None
    rack = home[0]
    other = {"a": "b", "b": "a"}[rack]
    world.steal(f"{other}0", gpu=2)
    world.settle(1)
    world.submit(a_gang_of_pods("big", 4, gpu=1, wish={"required": True, "level": "rack"}))
    world.settle(5)
    found = world.engine.defrag(BIG)
    assert {node[0] for node in found.seats.values()} == {rack}
    (move,) = found.moves
    assert (move.gang.name, sorted(move.seats.values())) == ("small", [f"{other}1", f"{other}1"])


def test_nobody_is_moved_who_would_have_no_seat() -> None:
    """The cluster is full: whoever made room would have none himself, and that is said."""
    world = a_world(2, 2)
    singles(world, "n0", "n0", "n1", "n1")
    world.submit(a_gang_of_pods("big", 2, gpu=1))
    world.settle(5)
    found = world.engine.defrag(BIG)
    assert (found.seats, found.moves) == ({}, ())
    assert "no other room" in found.told


def test_what_nobody_makes_again_does_not_move() -> None:
    """Pods of a plain Job are left where they are."""
    world = a_world(2, 2, 2, 2)
    singles(world, "n0", "n1", "n2", "n3", kind="Job")
    world.submit(a_gang_of_pods("big", 2, gpu=2))
    world.settle(5)
    assert "nobody would make it again" in world.engine.defrag(BIG).told


def test_a_gang_that_waits_for_nothing_needs_no_moves() -> None:
    """It has its seats, or nobody knows it."""
    world = a_world(2)
    world.submit(a_gang_of_pods("big", 2, gpu=1))
    world.settle(5)
    for key in (BIG, GangKey("default", "nobody")):
        assert "does not wait" in world.engine.defrag(key).told


@pytest.mark.parametrize("of_it", ["all", "one"])
def test_a_gang_whose_pods_went_a_moment_ago_is_asked_about_later(of_it: str) -> None:
    """Its pods are taken in as gone and it was not looked at since: what it asked for then is asked for no more."""
    world = a_world(2, 2, 2, 2)
    singles(world, "n0", "n1", "n2", "n3")
    world.submit(a_gang_of_pods("big", 2, gpu=2))
    world.settle(5)
    for pod in world.pods("big")[: None if of_it == "all" else 1]:
        world.api.remove(pod.key)
    world.watch(look=False)
    found = world.engine.defrag(BIG)
    assert (found.seats, found.moves) == ({}, ())
    assert ("does not wait" if of_it == "all" else "ask again") in found.told
