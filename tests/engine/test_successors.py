"""Conversations about gangs whose members are replaced while they run."""

from dataclasses import replace

import pytest

from scheduler.model.workload import Phase
from tests.engine.support.cast import a_gang_of_pods, an_owner, traits_of
from tests.engine.support.stage import a_world, nodes_of
from tests.ledger.support.invariants import broken


def run(world) -> None:
    world.settle(1)
    for pod in world.pods("train"):
        if pod.node and pod.phase is Phase.PENDING:
            world.api.write(replace(pod, phase=Phase.RUNNING))
    world.settle(1)


@pytest.mark.parametrize("room", [4, 3])
@pytest.mark.parametrize("crash", [False, True])
def test_a_rolling_update_leaves_nobody_short(room: int, *, crash: bool) -> None:
    """Each new pod is made before an old one goes, with room for both or not: in the end the gang is whole again."""
    world = a_world(room)
    old = a_gang_of_pods("train", 3, gpu=1, size=3)
    world.submit(old)
    run(world)
    for number, gone in enumerate(old):
        world.submit([replace(gone, uid=f"new-{number}", key=gone.key._replace(name=f"train-new-{number}"))])
        run(world)
        if crash:
            world.crash()
        world.api.delete(gone.key)
        run(world)
        record = world.record("train")
        assert len([m for m in record.members.values() if m.bound]) == 3
        assert record.state == "running"
    assert nodes_of(world.bound("train")) == ["n0"] * 3
    assert broken(world.engine.ledger) == []


def a_gang_that_lost_a_member(world) -> list:
    """A Job's gang of three runs on all nodes and one of it fails, while a pod waits that would fit in its place."""
    job = an_owner("Job", "train")
    world.api.put_owner(traits_of(job))
    pods = a_gang_of_pods("train", 3, gpu=8, owner=job)
    world.submit(pods)
    run(world)
    world.submit(a_gang_of_pods("wait", 1, gpu=8))
    world.settle(1)
    world.api.write(replace(world.api.pods[pods[2].key], phase=Phase.FAILED))
    return pods


def test_a_gang_that_waits_does_not_take_the_place_of_a_member_that_failed() -> None:
    """The Job makes the successor ten seconds later, and the gang is whole again at once."""
    world = a_world(8, 8, 8)
    pods = a_gang_that_lost_a_member(world)
    world.settle(10)
    assert world.bound("wait") == []
    world.submit([replace(pods[2], uid="next", key=pods[2].key._replace(name="next"), created=world.now)])
    run(world)
    assert len([pod for pod in world.bound("train") if not pod.phase.ended]) == 3
    assert world.record("train").state == "running"
    assert world.bound("wait") == []


def test_a_gang_that_waits_takes_the_place_for_which_no_successor_comes() -> None:
    """It is kept for as long as the Job may wait after its first failure, and a margin."""
    world = a_world(8, 8, 8)
    a_gang_that_lost_a_member(world)
    world.settle(60)
    assert len(world.bound("wait")) == 1
    assert broken(world.engine.ledger) == []
