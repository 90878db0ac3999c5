"""Moves that would make room for a gang: found where there are any, proven to leave no pod without a seat. Made, they give
the room to that gang and no other.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from scheduler.engine import defragmentation
from scheduler.ledger import Ledger, conditions
from scheduler.ledger.gang import GangRecord, Member
from scheduler.ledger.healing import UNREACHABLE
from scheduler.model.decision import Reason
from scheduler.model.demand import TaintEffect
from scheduler.model.departures import Defrag
from scheduler.model.effects import Evict
from scheduler.model.events import BudgetSeen, Tick
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill
from scheduler.model.workload import Budget, GangKey
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod, an_owner
from tests.engine.support.stage import a_set, a_world, seats
from tests.engine.support.world import World
from tests.ledger.support.invariants import broken
from tests.support.builders import a_node, a_taint

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
    assert sorted(found.pods[uid].key.name for uid in found.seats) == ["big-0", "big-1"]
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
    assert "no other nodes fit" in found.told


def test_what_nobody_makes_again_does_not_move() -> None:
    """Pods of a plain Job are left where they are."""
    world = a_world(2, 2, 2, 2)
    singles(world, "n0", "n1", "n2", "n3", kind="Job")
    world.submit(a_gang_of_pods("big", 2, gpu=2))
    world.settle(5)
    assert "no controller would recreate it" in world.engine.defrag(BIG).told


def test_a_gang_that_waits_for_nothing_needs_no_moves() -> None:
    """It has its seats, or nobody knows it."""
    world = a_world(2)
    world.submit(a_gang_of_pods("big", 2, gpu=1))
    world.settle(5)
    for key in (BIG, GangKey("default", "nobody")):
        assert "is not waiting" in world.engine.defrag(key).told


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
    assert ("is not waiting" if of_it == "all" else "retry") in found.told


# ── made ────────────────────────────────────────────────────────────────────────────────────────────────


def made(world: World, found: Defrag) -> bool:
    """A person has these moves made. Whether they have begun."""
    begun, effects = world.engine.make_moves(found, world.now)
    world._do(effects)
    return begun


def evicted(world: World) -> list[str]:
    return [effect.key.name for effect in world.said if isinstance(effect, Evict)]


def leases(world: World) -> int:
    return len(world.engine.ledger.migrations.names())


def scattered(backfill: Backfill = Backfill.RESERVE) -> World:
    """Every node is half full, by a pod that could be elsewhere; a gang waits that needs two whole nodes."""
    world = a_world(2, 2, 2, 2, policy=Policy(backfill=backfill))
    singles(world, "n0", "n1", "n2", "n3")
    world.submit(a_gang_of_pods("big", 2, gpu=2))
    world.settle(5)
    return world


@pytest.mark.parametrize("backfill", Backfill)
def test_the_room_that_is_made_goes_to_the_gang_that_it_is_made_for(backfill: Backfill) -> None:
    """One of the pods takes its time to leave. A small gang that would fit on the node of the other waits meanwhile,
    whatever the backfill, and the large one gets both nodes.
    """
    world = scattered(backfill)
    found = world.engine.defrag(BIG)
    slow = found.moves[0].leaving[0]
    world.api.grace = lambda pod: 20.0 if pod.uid == slow else 0.0
    assert made(world, found)
    world.submit(a_gang_of_pods("late", 1, gpu=2))
    world.settle(10)
    assert (len(evicted(world)), seats(world, "big"), seats(world, "late")) == (2, 0, 0)
    assert conditions.reason(world.record("big")) is Reason.WAITING_FOR_PREEMPTION
    assert broken(world.engine.ledger) == []
    world.settle(10.1)  # it is seated as soon as the last has left, whatever else happens
    assert (seats(world, "big"), seats(world, "late"), leases(world)) == (2, 0, 0)
    running = [pod for pod in world.api.pods.values() if pod.owner is not None and pod.node is not None]
    assert len(running) == 4
    assert broken(world.engine.ledger) == []


def test_a_gang_that_moves_is_led_to_the_seats_that_were_found() -> None:
    """All of it leaves, and what its owner makes in its place sits where the answer said."""
    world = World([a_node(f"{rack}{n}", gpu=2, rack=rack) for rack in "ab" for n in range(2)])
    a_set(world, "small", 2, gpu=1, required=True, level="rack")
    world.settle(5)
    rack = str(next(iter(world.bound("small"))).node)[0]
    world.submit(a_gang_of_pods("big", 4, gpu=1, wish={"required": True, "level": "rack"}))
    world.steal(("b0" if rack == "a" else "a0"), gpu=2)
    world.settle(5)
    found = world.engine.defrag(BIG)
    (move,) = found.moves
    assert made(world, found)
    world.settle(10)
    assert sorted(str(pod.node) for pod in world.bound("small")) == sorted(move.seats.values())
    assert {str(pod.node)[0] for pod in world.bound("big")} == {rack}
    assert seats(world, "big") == 4


def test_a_gang_on_its_way_keeps_its_seats_beside_those_that_are_kept() -> None:
    """Until the pods have left, their node has less room than is promised. A gang that was seated there before, and is not
    bound yet, loses nothing by it.
    """
    world = a_world(5, 5, 1)
    singles(world, "n0", "n1")
    world.submit(a_gang_of_pods("near", 1, gpu=2))
    world.watch()
    plan = world.record("near").plan
    world.submit(a_gang_of_pods("big", 2, gpu=3))
    world.watch()
    found = world.engine.defrag(BIG)
    assert len(found.moves) == 1
    assert made(world, found)
    world.engine.ledger.mark(GangKey("default", "near"))
    world.tell([Tick()])
    assert plan is not None
    assert world.record("near").plan is plan
    world.settle(10)
    assert (seats(world, "near"), seats(world, "big")) == (1, 2)


def test_what_a_disruption_budget_keeps_is_not_moved() -> None:
    """A budget that allows no eviction leaves nothing that could move; once it allows one, one is not enough."""
    world = scattered()
    for allowed in (0, 1):
        world.tell([BudgetSeen(Budget("default", "web", (), allowed))])
        assert world.engine.defrag(BIG).seats == {}
    world.tell([BudgetSeen(Budget("default", "web", (), 2))])
    assert len(world.engine.defrag(BIG).moves) == 2


@pytest.mark.parametrize("change", ["room", "head", "mover", "node", "budget", "twice"])
def test_moves_that_no_longer_hold_are_not_made(change: str) -> None:
    """Another took the room, a pod of either gang is gone, a node is cordoned, or the moves have begun: no more pods are
    evicted.
    """
    world = scattered()
    found = world.engine.defrag(BIG)
    target = next(iter(found.moves[0].seats.values()))
    match change:
        case "room":
            world.steal(target, gpu=1)
        case "head":
            world.api.remove(world.pods("big")[0].key)
        case "mover":
            world.api.remove(found.pods[found.moves[0].leaving[0]].key)
        case "node":
            world.api.cordon(target, off=True)
        case "budget":
            world.tell([BudgetSeen(Budget("default", "web", (), 1))])
        case "twice":
            assert made(world, found)
    world.watch(look=False)
    before = evicted(world)
    assert not made(world, found)
    assert evicted(world) == before


def test_seats_that_do_not_come_free_are_given_back() -> None:
    """The evictions are refused, though no budget was known: after the time that a gang may take, it waits as before."""
    world = scattered()
    world.api.protected |= {pod.uid for pod in world.api.pods.values() if pod.node is not None}
    assert made(world, world.engine.defrag(BIG))
    world.settle(world.policy.timeout + 5)
    assert (leases(world), seats(world, "big")) == (0, 0)
    assert conditions.reason(world.record("big")) is Reason.INSUFFICIENT_RESOURCES


@pytest.mark.parametrize("heard", [True, False])
def test_the_room_is_kept_as_long_as_pods_take_to_leave(heard: bool) -> None:
    """Longer than a gang may take: no other gang gets the room meanwhile. On nodes that are not heard of, pods may never
    leave, so no room is kept.
    """
    world = scattered()
    world.api.grace = lambda _pod: 3 * world.policy.timeout
    found = world.engine.defrag(BIG)
    assert made(world, found)
    world.settle(1)
    for node in () if heard else found.seats.values():
        taint = a_taint(UNREACHABLE, effect=TaintEffect.NO_EXECUTE)
        world.api.put_node(replace(world.api.nodes[node], taints=(taint,)))
    world.submit(a_gang_of_pods("late", 1, gpu=1))
    world.settle(2 * world.policy.timeout)
    assert leases(world) == (2 if heard else 0)
    world.settle(1.5 * world.policy.timeout)
    assert (leases(world), seats(world, "big")) == (0, 2 if heard else 0)
    assert not heard or seats(world, "late") == 0
    assert broken(world.engine.ledger) == []


def test_the_room_of_a_gang_that_is_deleted_is_given_back() -> None:
    """At once: another gang gets it as soon as the pods that were evicted have left."""
    world = scattered()
    world.api.grace = lambda _pod: 20.0
    assert made(world, world.engine.defrag(BIG))
    world.settle(1)
    for pod in world.pods("big"):
        world.api.remove(pod.key)
    world.submit(a_gang_of_pods("late", 2, gpu=2))
    world.settle(30)
    assert (leases(world), seats(world, "late")) == (0, 2)
    assert broken(world.engine.ledger) == []


def test_only_the_gangs_that_would_move_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last look is taken while all else waits, so its cost does not grow with the cluster."""
    world = scattered()
    found = world.engine.defrag(BIG)
    looked_at: list[GangKey] = []
    obstacle = defragmentation.obstacle

    def noted(ledger: Ledger, record: GangRecord, going: Sequence[Member]) -> str:
        looked_at.append(record.key)
        return obstacle(ledger, record, going)

    monkeypatch.setattr(defragmentation, "obstacle", noted)
    assert made(world, found)
    assert looked_at == [move.gang for move in found.moves]
    assert len(looked_at) == 2


# ── in random clusters ──────────────────────────────────────────────────────────────────────────────────


def broken_up(chance: Random) -> tuple[World, int, int]:
    """A few nodes with small gangs and single pods all over them, and a gang that waits, or not. How many pods run, and
    how many the gang has.
    """
    free = {f"n{number}": chance.randint(2, 4) for number in range(chance.randint(3, 6))}
    world = a_world(*free.values(), policy=Policy(backfill=chance.choice(list(Backfill)), timeout=60.0))
    running = 0
    for number in range(chance.randint(2, 6)):
        kind, size = chance.choice(["ReplicaSet", "StatefulSet"]), chance.randint(1, 3)
        room = [node for node, count in free.items() for _ in range(count)]
        if len(room) < size:
            break
        owner = an_owner(kind, f"s{number}")
        said = a_membership(f"s{number}", size) if chance.random() < 0.6 else None
        template = partial(a_pod, membership=said, owner=owner, gpu=1)
        for place, node in enumerate(chance.sample(room, size)):
            world.submit([template(f"s{number}-{place}", node=node)])
            free[node] -= 1
        world.control(Controller(owner, size, template, kind == "StatefulSet"))
        running += size
    world.settle(2)
    wanted = chance.randint(1, 3)
    world.submit(a_gang_of_pods("big", wanted, gpu=chance.randint(2, 4)))
    world.settle(5)
    return world, running, wanted


def upset(world: World, chance: Random) -> None:
    """What may happen while gangs move: a restart, budgets, strangers, a second wish for room, pods that are deleted."""
    world.settle(chance.choice([0.5, 3.0, 20.0]))
    match chance.randrange(5):
        case 0:
            world.crash()
        case 1:
            world.api.protected |= {pod.uid for pod in world.api.pods.values() if chance.random() < 0.5}
        case 2:
            world.steal(chance.choice(sorted(world.api.nodes)), gpu=1)
        case 3:
            world.defrag()
        case _:
            world.api.remove(chance.choice(sorted(world.api.pods)))


@pytest.mark.parametrize("calm", [True, False])
def test_moves_in_random_clusters(calm: bool) -> None:
    """Left alone, the gang gets its seats, and so does every pod that made room, though a small gang comes meanwhile.
    Whatever else happens, the books are right, and no seat is kept without end.
    """
    moved = 0
    for seed in range(60):
        chance = Random(seed)
        world, running, wanted = broken_up(chance)
        key = world.engine.first_waiting()
        found = world.engine.defrag(key) if key is not None else None
        if found is None or not found.seats:
            continue
        moved += 1
        world.api.grace = lambda pod, seed=seed: Random(f"{seed} {pod.uid}").choice([0.0, 3.0, 30.0])
        assert made(world, found), seed
        world.submit(a_gang_of_pods("late", 1, gpu=chance.randint(1, 2)))
        for _ in range(0 if calm else 3):
            upset(world, chance)
            assert broken(world.engine.ledger) == [], seed
        world.api.protected.clear()
        world.settle(300)
        assert (broken(world.engine.ledger), leases(world)) == ([], 0), seed
        there = [pod for pod in world.api.pods.values() if pod.owner is not None and pod.node is not None]
        assert not calm or (seats(world, "big"), len(there)) == (wanted, running), seed
    assert moved > 5
