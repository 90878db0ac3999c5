"""Seats that are lost on the way, services that die on the way: the gang gets whole all the same."""

from dataclasses import replace

import pytest

from scheduler.engine import Engine
from scheduler.ledger.healing import UNREACHABLE
from scheduler.model import events as ev
from scheduler.model.decision import Reason
from scheduler.model.demand import TaintEffect
from scheduler.model.effects import Evict
from scheduler.model.workload import OwnerTraits, Phase, Strategy
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod, an_owner
from tests.engine.support.freeing import a_stage, important
from tests.engine.support.stage import POLICY, a_gang_on_its_way, a_set, a_world, nodes_of, seats
from tests.engine.support.world import World
from tests.ledger.support.invariants import broken
from tests.support.builders import a_node, a_taint

FOREVER = 1e9
SILENT = [a_taint(UNREACHABLE, effect=effect) for effect in (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)]

# ── lost seats ───────────────────────────────────────────────────────────────────────────────────────────────


def _lose(world: World) -> None:
    world.api.delete_node("n1")


def _cordon(world: World) -> None:
    world.api.cordon("n1", off=True)


def _steal(world: World) -> None:
    world.steal("n1", gpu=2)


@pytest.mark.parametrize("accident", [_lose, _cordon, _steal])
@pytest.mark.parametrize("soft", [False, True])
def test_a_lost_seat_is_replaced_and_the_gang_gets_whole(accident, soft: bool) -> None:
    """Pinned: evicted, made again, seated elsewhere. Nominated: seated elsewhere, and never deleted."""
    world = a_world(2, 2, 2)
    a_gang_on_its_way(world, soft=soft)
    before = {pod.uid for pod in world.pods("train")}
    accident(world)
    world.settle(60)
    assert nodes_of(world.bound("train")) == ["n0", "n2"]
    evicted = [effect for effect in world.said if isinstance(effect, Evict)]
    assert len(evicted) == (0 if soft else 1)
    assert ({pod.uid for pod in world.pods("train")} == before) is soft


@pytest.mark.parametrize("kind", ["ReplicaSet", "Job"])
def test_a_gang_torn_by_a_taint_in_its_domain_moves_whole_soon_where_that_costs_nothing(kind: str) -> None:
    """One member is bound as the node of the other is tainted, and the rack has no other node; the next rack is empty.

    A Job keeps what it has: its evicted pods count as failures.
    """
    world = World([a_node(f"{rack}{n}", gpu=2, rack=rack) for rack in "ab" for n in range(2)])
    owner, membership = an_owner(kind, "train"), a_membership("train", 2, level="rack", required=True)

    def template(name: str):
        return a_pod(name, membership=membership, owner=owner, gpu=2)

    world.control(Controller(owner, 2, template))
    while not all(pod.seat and not pod.gated for pod in world.pods("train")):
        world.watch()
        while world.carry_out():
            pass
        world.report()
    assert sorted(str(pod.seat.node) for pod in world.pods("train") if pod.seat) == ["a0", "a1"]
    world.api.put_node(a_node("a1", gpu=2, rack="a", taints=[a_taint("maintenance")]))
    freely = kind == "ReplicaSet"
    world.settle(POLICY.pin_grace - 1)
    assert nodes_of(world.bound("train")) == ["a0"]
    world.settle(2)
    assert nodes_of(world.bound("train")) == ([] if freely else ["a0"])
    world.settle(2 * POLICY.backoff)
    assert nodes_of(world.bound("train")) == (["b0", "b1"] if freely else ["a0"])


def test_after_two_lost_seats_a_gang_is_nominated() -> None:
    """Whatever is wrong with its pins: it goes on without."""
    world = a_world(2, 2, 2, 2)
    a_gang_on_its_way(world)
    for node in ("n0", "n1"):
        world.api.cordon(node, off=True)
        world.watch()
    while world.carry_out():
        world.watch()
        world.api.run_controllers()
    assert world.record("train").pinning.soft
    world.settle(60)
    assert nodes_of(world.bound("train")) == ["n2", "n3"]
    assert all(pod.pinned is None for pod in world.pods("train"))


@pytest.mark.parametrize("priority", [0, 100])
def test_a_gang_does_not_wait_for_room_on_a_node_that_fell_silent(priority: int) -> None:
    """Nobody leaves such a node, neither who was asked to for the gang nor who was going anyway: other room that comes
    is the gang's.
    """
    world = a_stage(1, 1, grace=FOREVER)
    (going,) = world.submit([a_pod("going", gpu=1)])
    world.settle(1)
    (stays,) = world.submit([a_pod("stays", gpu=1, priority=50)])
    world.settle(1)
    if not priority:
        world.api.delete(going.key)
    important(world, 1, priority=priority)
    world.settle(1)
    assert "n0" in world.record("important").plan.seats.values()
    world.api.put_node(a_node("n0", gpu=1, rack="r", taints=SILENT))
    world.settle(1)
    world.api.remove(stays.key)
    world.settle(10)
    assert nodes_of(world.bound("important")) == ["n1"]
    assert world.api.pods[going.key].deleting


def test_a_gang_does_not_wait_for_who_leaves_elsewhere_on_a_node_that_fell_silent() -> None:
    """Of a gang of two that gives way one has left, from the only node that is wanted."""
    world = a_stage(2, 1)
    world.submit(a_gang_of_pods("pair", 2, gpu=1, wish={"strategy": Strategy.SPREAD, "level": "host"}))
    world.settle(1)
    assert nodes_of(world.bound("pair")) == ["n0", "n1"]
    world.api.grace = lambda pod: FOREVER if pod.node == "n1" else 0.0
    world.api.put_node(a_node("n1", gpu=1, rack="r", taints=SILENT))
    important(world, 1, gpu=2)
    world.settle(10)
    assert nodes_of(world.bound("important")) == ["n0"]


def test_a_gang_that_cannot_be_completed_is_taken_down() -> None:
    """One of three is bound, the room of the others is stolen for good: nobody stays, everybody waits."""
    world = a_world(2, 4)
    a_set(world, "train", 3, gpu=2)
    while not all(pod.seat for pod in world.pods("train")):
        world.watch()
        while world.carry_out():
            pass
        world.report()
    world.steal("n1", gpu=4)
    world.settle(2 * POLICY.timeout)
    assert seats(world, "train") == 0
    assert world.engine.ledger.holds() == 0
    assert len(world.pods("train")) == 3
    assert world.engine.ledger.counters.decisions[Reason.TIMED_OUT] >= 1


def test_a_crash_at_any_write_leaves_a_gang_that_gets_whole() -> None:
    """Killed after each of its writes in turn, the service finishes what it began, and nobody sits twice."""
    for soft in (False, True):
        for writes in range(12):
            world = a_world(3, 2)
            if soft:
                world.submit(a_gang_of_pods("train", 4, gpu=1))
            else:
                a_set(world, "train", 4)
            world.watch()
            for _ in range(writes):
                world.carry_out()
                world.report()
            world.crash()
            world.settle(5)
            assert nodes_of(world.bound("train")) == ["n0", "n0", "n0", "n1"], (soft, writes)
            assert len(world.api.binds) == 4
            assert broken(world.engine.ledger) == []


@pytest.mark.parametrize("leaves", [False, True])
def test_a_torn_gang_is_not_taken_down_while_its_room_is_on_its_way(leaves: bool) -> None:
    """The pod in the only other place of its rack leaves already, or may be asked to; the engine finds out in time."""
    engine, owner = Engine(POLICY), an_owner("ReplicaSet", "train")
    pods = a_gang_of_pods("train", 2, gpu=4, owner=owner, wish={"level": "rack", "required": True})
    pods[0] = replace(pods[0], gated=False, node="a0", phase=Phase.RUNNING, bound_at=1.0)
    other = a_pod(
        "other", gpu=4, priority=-10, gated=False, scheduler="other", owner=an_owner("ReplicaSet", "other")
    )
    other = replace(other, node="a1", phase=Phase.RUNNING, bound_at=0.5, deleting=leaves)
    nodes = [ev.NodeSeen(a_node(f"a{n}", gpu=4, rack="a")) for n in range(2)]
    known = ev.OwnerSeen(OwnerTraits(owner.uid, remakes_freely=True))
    start = [*nodes, known, *map(ev.PodSeen, [*pods, other]), ev.Synced(), ev.TookOver()]

    effects = [*engine.observe(start, 100.0), *engine.plan(100.0)]
    if leaves:
        effects += [*engine.observe([ev.PodGone(other.uid, other.key)], 102.0), *engine.plan(102.0)]

    assert not any(isinstance(effect, Evict) for effect in effects)
    assert engine.ledger.registry.gangs[pods[0].membership.gang].plan is not None
