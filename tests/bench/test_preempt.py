"""What the bench of preemption measures."""

import pytest

from bench.micro import preempt, world
from scheduler.placement.victim_selection import choose
from tests.support.builders import a_gang


@pytest.mark.parametrize("priorities", preempt.PRIORITIES)
def test_cluster_is_full_of_as_many_pods_as_said(priorities):
    """1,000 pods on 100 nodes, of so many priorities, leave no device free."""
    snapshot, units = preempt.crowd(priorities)

    assert len(snapshot.names) == preempt.NODES
    assert sum(len(unit.uids) for unit in units) == preempt.PODS
    assert not snapshot.free[:, snapshot.axis.index["nvidia.com/gpu"]].any()
    assert {unit.priority for unit in units} == set(range(priorities))


@pytest.mark.parametrize(("gpu", "cpu"), preempt.WANTS)
def test_room_is_made_for_the_whole_gang(gpu, cpu):
    """What is measured is an answer, not a quick refusal."""
    snapshot, units = preempt.crowd(1)
    found = choose(snapshot, a_gang(preempt.MEMBERS, gpu=gpu, cpu=cpu, priority=100), units, world.POLICY)

    assert found is not None
    assert len(found.seats) == preempt.MEMBERS
    assert found.victims


@pytest.mark.extended
def test_worst_case_is_named():
    """The slowest case is told together with its time."""
    took, case = preempt.worst(tries=1)

    assert took > 0
    assert "GPUs" in case
