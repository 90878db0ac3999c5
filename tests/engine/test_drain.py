"""A node is drained: gangs move onto seats that were kept first, and none is taken below its quorum on the way."""

import random
from dataclasses import replace
from functools import partial

import pytest

from scheduler.ledger.gang import Spec
from scheduler.model.decision import Ceiling, Reason, Wait
from scheduler.model.departures import Departure, Drain
from scheduler.model.effects import Evict
from scheduler.model.policy import Policy
from scheduler.model.queueing import Share
from scheduler.model.workload import Phase, Strategy
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod, an_owner
from tests.engine.support.stage import a_set, a_world, nodes_of, seats
from tests.engine.support.world import World
from tests.ledger.support.invariants import broken
from tests.support.builders import GPU, a_node

CEILING = Policy(shares={"default": Share(ceiling=((GPU, 4),))})


def drained(world: World, node: str) -> Drain:
    """The node is cordoned, the watch tells of it, and somebody asks for it to be drained."""
    world.api.cordon(node, off=True)
    world.watch()
    drain, effects = world.engine.drain(node, world.now)
    world._do(effects)
    return drain


def evicted(world: World) -> list[str]:
    return [effect.key.name for effect in world.said if isinstance(effect, Evict)]


def departure(drain: Drain, gang: str) -> Departure:
    return next(own for own in drain.departures if own.gang.name == gang)


def leases(world: World) -> int:
    return len(world.engine.ledger.migrations.names())


def test_a_member_above_the_quorum_moves_alone() -> None:
    """Its new seat is kept, it is evicted, and the pod that its owner makes sits down there; nobody else is touched."""
    world = a_world(2, 2, 2)
    a_set(world, "train", 3, quorum=2)
    world.settle(5)
    before = {pod.uid for pod in world.bound("train")}
    node = next(n for n in ("n0", "n1", "n2") if nodes_of(world.bound("train")).count(n) == 1)
    own = departure(drained(world, node), "train")
    assert (len(own.seats), own.whole, own.stays) == (1, False, {})
    assert node not in own.seats.values()
    assert leases(world) == 1
    world.settle(5)
    assert len({pod.uid for pod in world.bound("train")} & before) == 2
    assert node not in nodes_of(world.bound("train"))
    assert (seats(world, "train"), leases(world), len(evicted(world))) == (3, 0, 1)
    assert broken(world.engine.ledger) == []
    assert world.engine.drain(node, world.now)[0].done


def test_a_gang_at_its_quorum_moves_whole() -> None:
    """Its quorum is never broken by half: all members leave together, and all have a seat that was kept for them."""
    world = a_world(2, 2, 2, 2)
    a_set(world, "train", 4)
    world.settle(5)
    node = nodes_of(world.bound("train"))[0]
    own = departure(drained(world, node), "train")
    assert (len(own.seats), own.whole) == (4, True)
    world.settle(5)
    assert seats(world, "train") == 4
    assert node not in nodes_of(world.bound("train"))
    assert len(evicted(world)) == 4
    assert (leases(world), broken(world.engine.ledger)) == (0, [])


def test_nobody_else_gets_the_seats_that_are_kept() -> None:
    """A gang that comes meanwhile, of higher priority too, waits: the room is that of the gang that moves."""
    world = a_world(2, 2, 2)
    a_set(world, "train", 4)
    world.settle(5)
    drained(world, nodes_of(world.bound("train"))[0])
    world.submit(a_gang_of_pods("late", 1, gpu=2))
    world.watch()
    world.plan()
    assert broken(world.engine.ledger) == []
    world.settle(5)
    assert (seats(world, "train"), seats(world, "late")) == (4, 0)


def test_seats_are_kept_until_those_who_had_the_room_have_left() -> None:
    """Its pods take a while to go, and those that come after them are there at once: they wait for these seats, and
    nobody gets one before.
    """
    world = a_world(2, 2, 2)
    world.api.grace = lambda _pod: 20.0
    a_set(world, "train", 4)
    world.settle(5)
    drained(world, nodes_of(world.bound("train"))[0])
    world.submit(a_gang_of_pods("late", 1, gpu=2))
    world.settle(10)
    assert sum(pod.deleting for pod in world.pods("train")) == 4
    assert len(world.pods("train")) == 8
    assert (leases(world), seats(world, "late")) == (4, 0)
    world.settle(60)
    assert (leases(world), seats(world, "train"), seats(world, "late")) == (0, 4, 0)


def test_seats_that_are_kept_count_for_their_namespace() -> None:
    """Between those who left and those who come in their place nobody else of it gets below its ceiling."""
    world = a_world(2, 2, 2, 2, 2, policy=CEILING)
    a_set(world, "train", 4)
    world.settle(5)
    world.submit(a_gang_of_pods("late", 2, gpu=1))
    world.settle(5)
    drained(world, nodes_of(world.bound("train"))[0])
    makes_again, world.api.run_controllers = world.api.run_controllers, lambda: False
    world.settle(3)
    assert leases(world) == 4
    assert world.record("late").verdict.decision == Wait(Reason.QUOTA_EXCEEDED, ceiling=Ceiling(GPU, 4, 2, 4))
    world.api.run_controllers = makes_again
    world.settle(60)
    assert (seats(world, "train"), seats(world, "late"), leases(world)) == (4, 0, 0)
    assert broken(world.engine.ledger) == []


def test_who_waits_above_the_ceiling_gets_no_seat_by_a_drain() -> None:
    """A gang that asks for one member more than its namespace may have stays where it is, and is told why."""
    world = a_world(2, 2, 2, 2, 2, policy=CEILING)
    pods = a_set(world, "train", 4)
    world.settle(5)
    more = a_membership("train", 5)
    pods.replicas, pods.template = 5, lambda name: a_pod(name, membership=more, owner=pods.owner, gpu=1)
    for pod in world.pods("train"):
        world.api.write(replace(pod, membership=more))
    world.settle(5)
    own = departure(drained(world, nodes_of(world.bound("train"))[0]), "train")
    assert set(own.stays.values()) == {
        "no other nodes fit: the namespace is at its ceiling: needs 1 of nvidia.com/gpu; 4 of the ceiling of 4 are in use"
    }
    world.settle(60)
    assert (seats(world, "train"), evicted(world)) == (4, [])


@pytest.mark.parametrize("count", [1, 4])
def test_without_other_seats_nobody_is_evicted(count: int) -> None:
    """What cannot be moved stays, with the reason and its numbers."""
    world = a_world(count, count - 1)
    a_set(world, "train", count)
    world.settle(5)
    drain = drained(world, "n0")
    own = departure(drain, "train")
    assert own.seats == {}
    assert next(iter(own.stays.values())).startswith(f"no other nodes fit: needs {count} × ")
    assert not drain.done
    world.settle(60)
    assert evicted(world) == []
    assert seats(world, "train") == count


def test_a_member_without_other_room_changes_nothing_for_its_gang() -> None:
    """It could leave alone and has nowhere to go: the gang runs, and is not told that room is made for it."""
    world = a_world(2, 1)
    a_set(world, "train", 3, quorum=2)
    world.settle(5)
    own = departure(drained(world, "n1"), "train")
    assert (own.seats, list(own.stays.values())) == ({}, ["no other nodes fit"])
    ledger = world.engine.ledger
    assert world.record("train").verdict.decision is None
    assert ledger.counters.decisions[Reason.WAITING_FOR_PREEMPTION] == 0


def test_a_pod_that_leaves_the_gang_by_the_drain_is_told_of_all_the_same() -> None:
    """Once the last pod of an old revision is asked to go, the newest revision is the gang, and the others are not of it."""
    world = a_world(1, 1)
    said = a_membership("train", 1)
    for name, gpu in {"old": 1, "newer": 2, "newest": 2}.items():
        owner = an_owner("ReplicaSet", name)
        world.control(Controller(owner, 1, partial(a_pod, membership=said, owner=owner, gpu=gpu)))
        world.settle(2)
    own = departure(drained(world, nodes_of(world.bound("train"))[0]), "train")
    assert (len(own.seats), own.whole) == (1, True)
    assert {key.name for key in own.stays} == {"newer-x1", "newest-x1"}


@pytest.mark.parametrize("make", ["bare", "Job"])
def test_what_nobody_makes_again_stays(make: str) -> None:
    """A bare pod, and one of a plain Job, which would count it as failed."""
    world = a_world(2, 2)
    owner = an_owner("Job", "train") if make == "Job" else None
    world.submit(a_gang_of_pods("train", 2, gpu=1, owner=owner))
    world.settle(5)
    own = departure(drained(world, nodes_of(world.bound("train"))[0]), "train")
    assert all("no controller would recreate it" in why for why in own.stays.values())
    assert len(own.stays) == 2
    world.settle(60)
    assert evicted(world) == []


def test_what_is_the_clusters_own_stays() -> None:
    """A person who drains a node is told of its pods in the cluster's own namespaces."""
    world = a_world(2, 2)
    owner = an_owner("ReplicaSet", "dns")
    world.submit(a_gang_of_pods("dns", 2, namespace="kube-system", gpu=1, owner=owner))
    world.settle(5)
    own = departure(drained(world, nodes_of(world.bound("dns", "kube-system"))[0]), "dns")
    assert all(why.endswith("Gangwright does not evict pods in this namespace") for why in own.stays.values())
    assert own.stays
    world.settle(60)
    assert evicted(world) == []


def test_a_budget_that_forbids_the_first_eviction_leaves_the_gang_whole() -> None:
    """Of a gang that moves whole one member is asked first; refused, the move is off and its seats are given back."""
    world = a_world(2, 2, 2, 2)
    a_set(world, "train", 4)
    world.settle(5)
    world.api.protected |= {pod.uid for pod in world.bound("train")}
    drained(world, nodes_of(world.bound("train"))[0])
    world.settle(60)
    assert len(evicted(world)) == 1
    assert (seats(world, "train"), leases(world)) == (4, 0)
    assert world.record("train").state == "running"


def test_a_budget_that_forbids_the_others_is_asked_again() -> None:
    """Half of the gang is gone, so the rest has to follow: it does as soon as its budget allows."""
    world = a_world(2, 2, 2, 2)
    a_set(world, "train", 4)
    world.settle(5)
    node = nodes_of(world.bound("train"))[0]
    others = {pod.uid for pod in world.bound("train") if pod.node != node}
    world.api.protected |= others
    drained(world, node)
    world.settle(20)
    world.api.protected.clear()
    world.settle(60)
    assert seats(world, "train") == 4
    assert {pod.uid for pod in world.bound("train")}.isdisjoint(others)
    assert leases(world) == 0


def test_a_required_level_is_kept() -> None:
    """No room for the member in its rack: the gang, of which it is surplus, moves to another rack with it or not at
    all.
    """
    nodes = [a_node(f"{rack}{n}", gpu=2, rack=rack) for rack in "ab" for n in range(2)]
    world = World(nodes)
    a_set(world, "train", 4, quorum=3, required=True, level="rack")
    world.settle(5)
    rack = nodes_of(world.bound("train"))[0][0]
    own = departure(drained(world, f"{rack}0"), "train")
    assert own.whole
    world.settle(5)
    other = "b" if rack == "a" else "a"
    assert nodes_of(world.bound("train")) == [f"{other}0", f"{other}0", f"{other}1", f"{other}1"]


def test_surplus_leaves_first() -> None:
    """Members above the quorum that carry the label go before those that are above it by number alone."""
    world = a_world(4, 4)
    owner = an_owner("ReplicaSet", "train")
    places = {"a": "n0", "b": "n0", "c": "n1", "d": "n0"}
    for name, node in places.items():
        membership = a_membership("train", 1, surplus=name == "d")
        pod = a_pod(name, membership=membership, owner=owner, gpu=1, node=node, phase=Phase.RUNNING)
        world.submit([pod])
    world.control(Controller(owner, 4, lambda name: a_pod(name, membership=membership, owner=owner, gpu=1)))
    world.settle(1)
    own = departure(drained(world, "n0"), "train")
    assert (evicted(world), own.whole) == (["d", "a", "b"], False)


def test_single_pods_move_onto_seats_of_their_own() -> None:
    """Pods of one ReplicaSet that are no gang: each is evicted when a seat is kept, and each newcomer takes one."""
    world = a_world(2, 2)
    owner = an_owner("ReplicaSet", "web")
    world.control(Controller(owner, 2, lambda name: a_pod(name, owner=owner, gpu=1)))
    world.settle(5)
    places = {pod.node for pod in world.api.pods.values()}
    node = sorted(str(place) for place in places)[0]
    there = [pod for pod in world.api.pods.values() if pod.node == node]
    drain = drained(world, node)
    assert sum(len(own.seats) for own in drain.departures) == len(there)
    world.settle(5)
    assert all(pod.node != node and pod.phase is Phase.RUNNING for pod in world.api.pods.values())
    assert leases(world) == 0


def test_leases_that_nobody_takes_are_given_back() -> None:
    """The owner makes no more pods: after the time that a gang may take, the room is everybody's."""
    world = a_world(2, 2, 2)
    controller = a_set(world, "train", 3, quorum=2)
    world.settle(5)
    node = next(n for n in ("n0", "n1", "n2") if nodes_of(world.bound("train")).count(n) == 1)
    drained(world, node)
    controller.replicas = 2
    world.settle(60)
    assert leases(world) == 1
    world.settle(120)
    assert leases(world) == 0
    assert broken(world.engine.ledger) == []


def test_asked_again_it_tells_what_is_under_way() -> None:
    """Nothing is done twice."""
    world = a_world(2, 2, 2, 2)
    a_set(world, "train", 4)
    world.settle(5)
    node = nodes_of(world.bound("train"))[0]
    drained(world, node)
    again, effects = world.engine.drain(node, world.now)
    assert effects == []
    assert not again.done
    own = departure(again, "train")
    assert own.seats == {}
    assert own.leaving or own.stays


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_drain_that_a_restart_interrupts_goes_on_when_asked_again(rounds: int) -> None:
    """The seats that were kept are forgotten, and the cordon is not: asked again until it is done, the node is emptied,
    and the gang is whole elsewhere.
    """
    world = a_world(2, 2, 2, 2)
    a_set(world, "train", 4)
    world.settle(5)
    node = nodes_of(world.bound("train"))[0]
    drained(world, node)
    for _ in range(rounds):
        world.step()
    world.crash()
    assert leases(world) == 0

    for _ in range(30):
        if drained(world, node).done:
            break
        world.settle(2)
    world.settle(10)
    assert (seats(world, "train"), node in nodes_of(world.bound("train"))) == (4, False)
    assert (leases(world), broken(world.engine.ledger)) == (0, [])


def test_a_gang_that_asks_for_what_it_cannot_have_is_no_obstacle() -> None:
    """A node with nothing of ours on it is done at once, and one that nobody knows."""
    world = a_world(2)
    assert drained(world, "n0").done
    assert world.engine.drain("nowhere", world.now)[0].done


def test_who_was_pinned_is_asked_about_without_the_pin() -> None:
    """Our own pin names the old node, so it is no demand of the next pod."""
    world = a_world(2, 2)
    a_set(world, "train", 2)
    world.settle(5)
    record = world.record("train")
    assert isinstance(record.spec, Spec)
    assert all(pod.pinned for pod in world.bound("train"))
    own = departure(drained(world, nodes_of(world.bound("train"))[0]), "train")
    assert len(own.seats) == 2
    assert replace(own, seats={}) == Departure(own.gang, whole=True)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_runs_no_gang_is_broken_by_a_drain(seed: int) -> None:
    """Gangs of all kinds on a half-full cluster: who does not move whole keeps its quorum, and in the end all run
    again.
    """
    chance = random.Random(seed)
    world = World([a_node(f"{rack}{n}", gpu=4, rack=rack) for rack in "abc" for n in range(3)])
    for number in range(chance.randint(1, 5)):
        size = chance.randint(1, 6)
        asks = {"level": chance.choice(["rack", "host"]), "required": chance.random() < 0.3}
        asks |= {"strategy": chance.choice([*Strategy, None]), "quorum": chance.randint(1, size)}
        a_set(world, f"g{number}", size, gpu=chance.choice([1, 1, 2]), **asks)
    world.settle(30)
    names = [gang for gang in map("g{}".format, range(5)) if world.bound(gang)]
    before = {gang: seats(world, gang) for gang in names}
    node = chance.choice(sorted(world.api.nodes))
    drain = drained(world, node)
    whole = {own.gang.name for own in drain.departures if own.whole}
    stays = {own.gang.name for own in drain.departures if own.stays}
    for _ in range(300):
        moved = world.step()
        for gang in set(names) - whole:
            spec = world.record(gang).spec
            quorum = spec.total if isinstance(spec, Spec) else 0
            assert sum(not pod.deleting for pod in world.bound(gang)) >= min(quorum, before[gang])
        assert broken(world.engine.ledger) == []
        if not moved:
            break
    world.settle(300)
    assert {gang: seats(world, gang) for gang in names if gang not in whole} == {
        gang: count for gang, count in before.items() if gang not in whole
    }
    for gang in whole:
        spec = world.record(gang).spec
        assert isinstance(spec, Spec)
        assert seats(world, gang) >= spec.total
    assert not any(pod.node == node for gang in set(names) - stays for pod in world.bound(gang))
    assert (leases(world), broken(world.engine.ledger)) == (0, [])


def test_what_was_taken_in_is_looked_at_before_a_node_is_drained() -> None:
    """A pod was seen as another a moment ago: nobody is told that its gang is not valid."""
    world = a_world(2, 2, 2)
    a_set(world, "train", 3, quorum=2)
    world.settle(5)
    pod = world.bound("train")[0]
    membership = replace(pod.membership, wish=replace(pod.membership.wish, timeout=60.0))
    for mate in world.bound("train"):
        world.api.write(replace(mate, membership=membership))
    world.api.cordon(pod.node, off=True)
    world.watch(look=False)
    drain, _ = world.engine.drain(pod.node, world.now)
    own = departure(drain, "train")
    assert own.stays == {}
    assert own.seats
