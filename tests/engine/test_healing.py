"""Gangs whose members are lost or never start: they get whole again, where they are or elsewhere."""

from dataclasses import replace

import pytest

from scheduler.ledger import conditions
from scheduler.model.decision import TEXT, Reason
from scheduler.model.effects import Announce, Evict
from scheduler.model.policy import Policy
from scheduler.model.workload import OnMemberLoss, Phase, Pod
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_membership, a_pod, an_owner
from tests.engine.support.stage import POLICY, a_set, a_world, nodes_of, seats
from tests.engine.support.world import World
from tests.ledger.support.invariants import broken
from tests.support.builders import a_node

WHOLE = 10.0
"""Seconds after which a gang that lost a node is whole again, once that is known."""


def a_gang(world: World, count: int, *, gpu: int = 1, kind: str = "ReplicaSet", **said) -> Controller:
    """A gang whose members an owner makes again."""
    loss = said.pop("loss", None)
    owner = an_owner(kind, "train")
    membership = a_membership("train", said.pop("quorum", count), **said)
    membership = replace(membership, wish=replace(membership.wish, on_member_loss=loss))
    controller = Controller(
        owner, count, lambda name: a_pod(name, membership=membership, owner=owner, gpu=gpu)
    )
    world.control(controller)
    return controller


@pytest.mark.parametrize("kind", ["Job", "ReplicaSet"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_node_whose_kubelet_refuses_is_left_after_the_first_pod(kind: str, count: int) -> None:
    """The next pod goes to another node, and people read which node and why."""
    world = a_world(1, 1, 1)
    world.api.refuses["n0"] = "UnexpectedAdmissionError"
    a_gang(world, count, kind=kind)
    world.settle(60)
    assert nodes_of(world.bound("train")) == ["n1", "n2"][:count]
    assert len(world.api.binds) == count + 1
    (message,) = told(world, Reason.NOT_STARTED)
    assert "on n0: the kubelet rejected the pod: UnexpectedAdmissionError" in message


def test_where_every_kubelet_refuses_the_making_of_pods_ends() -> None:
    """Each node is tried once; then the gang waits until the bars end, and these double."""
    world = a_world(1, 1)
    world.api.refuses |= dict.fromkeys(["n0", "n1"], "OutOfcpu")
    a_gang(world, 1)
    world.settle(POLICY.barred - 10)
    assert len(world.api.binds) == 2
    world.settle(2 * POLICY.barred)
    assert len(world.api.binds) == 4


def test_a_gang_whose_budget_keeps_what_is_left_of_it_is_not_rolled_back() -> None:
    """It was whole: one member that a move may not evict stays at work, however long the others wait."""
    world = World([a_node(f"a{n}", gpu=1, rack="a") for n in range(3)])
    a_gang(world, 3, level="rack", required=True)
    world.settle(5)
    for number in range(4):
        world.api.put_node(a_node(f"b{number}", gpu=1, rack="b"))
    world.settle(5)
    world.api.protected |= {pod.uid for pod in world.bound("train")}
    for lost in nodes_of(world.bound("train"))[:2]:
        world.api.delete_node(lost)
    world.settle(2 * POLICY.timeout)
    reasons = {effect.reason for effect in world.said if isinstance(effect, Evict)}
    assert Reason.TIMED_OUT not in reasons
    assert seats(world, "train") == 1


def two_racks(*, nodes: int = 2, gpu: int = 2) -> World:
    return World([a_node(f"{rack}{n}", gpu=gpu, rack=rack) for rack in "ab" for n in range(nodes)])


def gone(world: World) -> set[str]:
    """Names of pods that were evicted."""
    return {effect.key.name for effect in world.said if isinstance(effect, Evict)}


def told(world: World, reason: Reason) -> list[str]:
    return [e.message for e in world.said if isinstance(e, Announce) and e.reason is reason]


def keep(world: World, pods: list[Pod]) -> None:
    """Nobody removes these when their node is gone: the garbage collector of pods takes its time."""
    clear = world.api.remove
    kept = {pod.key for pod in pods}
    world.api.remove = lambda key: None if key in kept and not world.api.pods[key].deleting else clear(key)  # type: ignore[method-assign]


def test_a_member_is_replaced_in_its_gangs_domain() -> None:
    """Its node is gone: evicted two seconds later, made again, and seated in the rack of the others."""
    world = two_racks(nodes=3)
    a_gang(world, 4, level="rack")
    world.settle(5)
    rack = nodes_of(world.bound("train"))[0][0]
    keep(world, world.bound("train"))
    lost = nodes_of(world.bound("train"))[0]
    before = {pod.uid for pod in world.bound("train") if pod.node != lost}
    world.api.delete_node(lost)
    world.settle(WHOLE)
    assert seats(world, "train") == 4
    assert {node[0] for node in nodes_of(world.bound("train"))} == {rack}
    assert before <= {pod.uid for pod in world.bound("train")}
    (text,) = told(world, Reason.MEMBER_LOST)
    assert text.startswith("2 members: ")


@pytest.mark.parametrize("required", [True, False])
def test_a_gang_without_room_in_its_domain(required: bool) -> None:
    """Where the level is required all of it moves to another; where it is only preferred the new member goes there
    alone.
    """
    world = two_racks()
    a_gang(world, 4, level="rack", required=required)
    world.settle(5)
    before = {pod.uid for pod in world.bound("train")}
    lost = nodes_of(world.bound("train"))[0]
    other = {"a": "b", "b": "a"}[lost[0]]
    world.api.delete_node(lost)
    world.settle(WHOLE)
    assert seats(world, "train") == 4
    after = {pod.uid for pod in world.bound("train")}
    assert len(before & after) == (0 if required else 2)
    assert nodes_of(world.bound("train")).count(f"{other}0") == 2
    assert broken(world.engine.ledger) == []
    assert len(world.engine.ledger.migrations) == 0


def test_a_gang_with_no_room_anywhere_stays_where_it_is() -> None:
    """Nobody is evicted for seats that are not there; when the node is back the gang gets whole where it was."""
    world = World([a_node(f"a{n}", gpu=2, rack="a") for n in range(2)])
    a_gang(world, 4, level="rack", required=True)
    world.settle(5)
    node = world.api.nodes["a0"]
    world.api.delete_node("a0")
    world.settle(300)
    assert gone(world) == set()
    assert seats(world, "train") == 2
    world.api.put_node(node)
    world.settle(WHOLE)
    assert seats(world, "train") == 4


def test_a_budget_that_protects_the_rest_is_not_pressed() -> None:
    """The gang cannot move: one eviction is tried, and the next only after minutes."""
    world = two_racks()
    a_gang(world, 4, level="rack", required=True)
    world.settle(5)
    world.api.protected |= {pod.uid for pod in world.bound("train")}
    world.api.delete_node(nodes_of(world.bound("train"))[0])
    world.settle(60)
    assert len([e for e in world.said if isinstance(e, Evict)]) == 1
    assert seats(world, "train") == 2
    assert world.engine.ledger.migrations.names() == set()


def test_a_gang_that_may_not_move_takes_none_of_the_seats() -> None:
    """Nobody sits down elsewhere before the first of those who run has been let go, not even where enough others
    wait already.
    """
    world = World([a_node(f"a{n}", gpu=1, rack="a") for n in range(3)])
    a_gang(world, 4, level="rack", required=True, quorum=3)
    world.settle(5)
    for number in range(4):
        world.api.put_node(a_node(f"b{number}", gpu=1, rack="b"))
    world.settle(5)
    world.api.protected |= {pod.uid for pod in world.bound("train")}
    for lost in nodes_of(world.bound("train"))[:2]:
        world.api.delete_node(lost)
    world.settle(60)
    assert len([e for e in world.said if isinstance(e, Evict)]) == 1
    assert seats(world, "train") == 1


def test_restart_begins_anew_with_everybody() -> None:
    """The gang asked for it: after the loss of one all are new."""
    world = a_world(2, 2, 2)
    a_gang(world, 4, loss=OnMemberLoss.RESTART)
    world.settle(5)
    before = {pod.uid for pod in world.bound("train")}
    world.api.delete_node(nodes_of(world.bound("train"))[0])
    world.settle(WHOLE)
    assert seats(world, "train") == 4
    assert {pod.uid for pod in world.bound("train")}.isdisjoint(before)


def test_none_leaves_all_to_the_owner() -> None:
    """What it makes again is seated; nothing is evicted."""
    world = a_world(2, 2, 2)
    a_gang(world, 4, loss=OnMemberLoss.NONE)
    world.settle(5)
    keep(world, world.bound("train"))
    world.api.delete_node(nodes_of(world.bound("train"))[0])
    world.settle(60)
    assert gone(world) == set()


def test_a_member_that_never_starts_goes_elsewhere() -> None:
    """One node cannot start anything: its members are made again, and no longer there."""
    world = a_world(2, 2, 2, policy=Policy(start_timeout=30.0))
    runs = world.api.write

    def write(pod: Pod) -> None:
        runs(replace(pod, phase=Phase.PENDING) if pod.node == bad and pod.phase is Phase.RUNNING else pod)

    bad = "n0"
    world.api.write = write  # type: ignore[method-assign]
    a_set(world, "train", 4)
    world.settle(90)
    assert "n0" not in nodes_of(world.bound("train"))
    assert world.record("train").state == "running"
    assert any(f"on {bad} for 30 s" in text for text in told(world, Reason.NOT_STARTED))


@pytest.mark.parametrize("loss", [OnMemberLoss.RESTART, OnMemberLoss.REPLACE])
def test_a_member_that_failed_while_nobody_looked_is_a_loss(loss: OnMemberLoss) -> None:
    """The service comes back to a gang that began as one and lacks one of it: what the gang asks for is done, once."""
    world = a_world(4)
    a_gang(world, 2, loss=loss)
    world.settle(5)
    failed, stays = world.bound("train")
    world.api.write(replace(failed, phase=Phase.FAILED))
    world.crash()
    world.settle(30)
    assert seats(world, "train") == 2
    assert gone(world) == ({stays.key.name} if loss is OnMemberLoss.RESTART else set())
    world.said.clear()
    world.crash()
    world.settle(60)
    assert gone(world) == set()


def test_a_gang_that_is_restarted_again_says_that_it_backs_off() -> None:
    """There is room, and nobody is before it: it waits for nothing else."""
    world = a_world(4)
    a_gang(world, 2, loss=OnMemberLoss.RESTART)
    for _ in range(2):
        world.settle(5)
        assert told(world, Reason.BACKING_OFF) == []
        world.api.write(replace(world.bound("train")[0], phase=Phase.FAILED))
    world.settle(1)
    assert seats(world, "train") == 0
    assert conditions.reason(world.record("train")) is Reason.BACKING_OFF
    assert told(world, Reason.BACKING_OFF) == [TEXT[Reason.BACKING_OFF]]
    world.settle(10)
    assert seats(world, "train") == 2


def test_a_gang_that_ran_well_to_its_end_leaves_no_setbacks_to_the_next_of_its_name() -> None:
    """A job of every night that is restarted once in a while does not begin each time with less of a chance."""
    world = a_world(4)
    controller = a_gang(world, 2, loss=OnMemberLoss.RESTART)
    world.settle(5)
    world.api.write(replace(world.bound("train")[0], phase=Phase.FAILED))
    world.settle(world.policy.backoff_limit + 30)
    assert seats(world, "train") == 2
    world.api.uncontrol(controller.owner)
    for pod in world.bound("train"):
        world.api.write(replace(pod, phase=Phase.SUCCEEDED))
    world.watch()
    for pod in world.pods("train"):
        world.api.remove(pod.key)
    world.watch()
    a_gang(world, 2, loss=OnMemberLoss.RESTART)
    world.watch()
    assert world.record("train").health.setbacks == 0


def test_a_gang_whose_image_is_missing_is_restarted_ever_more_slowly() -> None:
    """Nobody can ever start: 30 s, 60 s, 120 s … and not in a loop, though all its pods are new each time."""
    world = a_world(2, 2, policy=Policy(start_timeout=30.0))
    runs = world.api.write

    def write(pod: Pod) -> None:
        runs(replace(pod, phase=Phase.PENDING, stuck="ErrImagePull") if pod.phase is Phase.RUNNING else pod)

    world.api.write = write  # type: ignore[method-assign]
    a_set(world, "train", 4)
    world.settle(30 * 2**6)
    restarts = [e for e in world.said if isinstance(e, Evict)]
    assert 4 * 4 <= len(restarts) <= 4 * 6
