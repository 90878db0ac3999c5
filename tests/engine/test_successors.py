"""Conversations about gangs whose members are replaced while they run."""

from dataclasses import replace

import pytest

from scheduler.model.workload import Phase
from tests.engine.cast import a_gang_of_pods
from tests.engine.stage import a_world, nodes_of


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
    assert world.engine.ledger.check() == []
