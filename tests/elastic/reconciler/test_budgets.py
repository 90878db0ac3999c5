"""What a job may use up before it has failed: failures in a row, and time in which it holds nodes for nothing."""

import re
from collections.abc import Callable

import pytest

from scheduler.elastic.job import Phase, Spec
from tests.elastic.reconciler.support import world as worlds
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.workers import Pod
from tests.elastic.reconciler.support.world import TEMPLATE, World

HOUR = 3600.0


def reason(world: World) -> str:
    """Why the job has failed, in one word."""
    return next(one.reason for one in world.status.conditions if one.type == "Failed" and one.status)


def raising(world: World, step: int, rank: int = 1) -> Callable[[], bool]:
    """The member of this rank ends with code 1 whenever it has come to this step; true when the job has failed."""

    def look() -> bool:
        pod = next((one for one in world.pods.values() if one.rank == rank and one.child == "training"), None)
        if pod is not None and pod.step >= step:
            world.end(pod, 1, None, why="ValueError: bad sample")
        return world.phase is Phase.FAILED

    return look


def test_a_rank_that_always_fails_at_the_same_step_fails_the_job() -> None:
    """Another keeps the state, so no gang is lost; that it is taken back to the commit each time changes nothing."""
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE, max_restarts=2))

    assert world.run(HOUR, raising(world, 43)), world.status.reason
    assert (reason(world), world.status.restarts) == ("TooManyFailures", 0)
    said = world.status.reason
    assert re.match(r"Worker processes failed 3 times in a row without progress beyond step 4[12];", said)
    assert "; spec.maxRestarts is 2: w" in said
    assert said.endswith(" exited with code 1: ValueError: bad sample: the end")
    assert world.run(60, lambda: not world.pods)


def test_a_rank_that_always_fails_before_a_commit_fails_the_job() -> None:
    """The gang begins again from the start each time, which is counted as such."""
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE, max_restarts=2))

    assert world.run(HOUR, raising(world, 3)), world.status.reason
    assert (reason(world), world.status.restarts) == ("TooManyRestarts", 3)


def test_a_rank_that_fails_further_on_each_time_fails_no_job() -> None:
    """Each time the training has got beyond where it was before."""
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE, max_restarts=1))
    for step in range(20, 140, 20):
        look = raising(world, step)
        before = len(world.told)
        assert world.run(60, lambda look=look, before=before: look() or _lost(world, before))
        assert world.run(60, lambda step=step: world.trains(2) and world.steps() > step + 5), step
    assert world.phase is Phase.RUNNING


def _lost(world: World, since: int) -> bool:
    return any(getattr(one, "reason", "") == "WorkerLost" for one in world.told[since:])


def test_a_process_that_is_always_killed_fails_the_job() -> None:
    """Also when it is started again inside its pod."""
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE, max_restarts=1))

    def look() -> bool:
        for pod in world.members()[1:]:
            if pod.child == "training" and pod.step >= 43:
                world.kill(pod)
        return world.phase is Phase.FAILED

    assert world.run(HOUR, look), world.status.reason
    assert reason(world) == "TooManyFailures"
    assert world.status.reason.endswith(" was killed by signal 9: the end")
    assert world.made == 2


def test_members_that_fail_together_are_one_failure() -> None:
    """Two of three members, within a second."""
    world = a_job(3, max_restarts=1)
    for pod in world.members()[1:]:
        world.end(pod, 1, None)
        world.run(0.5)

    assert world.run(60, lambda: world.trains(3)), world.status.reason


def test_who_dies_in_init_of_the_loss_of_another_is_not_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node of a newcomer is lost while a round meets. One member turns back, the other dies when its time is over."""
    monkeypatch.setattr(World, "meet_s", 3.0)
    world = a_job(2, max_restarts=0)
    turns = iter([False, True, True])
    world.faults.deep = lambda: next(turns, False)
    world.size(3)
    assert world.run(60, lambda: [pod.child for pod in world.members()] == ["init"] * 3)
    world.lose_node(world.members()[2])
    member = world.members()[1]

    assert world.run(20, lambda: member.process == 2), world.status.reason
    assert world.run(200, lambda: world.trains(3)), world.status.reason


def test_one_failure_ends_no_job_whose_state_lives_on() -> None:
    """spec.maxRestarts = 0: those that live train on after the first failure."""
    world = a_job(3, max_restarts=0)
    world.end(world.members()[1], 1, None, why="ValueError: bad sample")

    assert world.run(200, lambda: world.trains(3)), world.status.reason


def test_evictions_and_lost_nodes_count_for_nothing() -> None:
    """One after the other, with no restart allowed and no step between them."""
    world = a_job(3, max_restarts=0)
    for turn in range(4):
        pod = world.members()[1]
        if turn % 2:
            world.lose_node(pod)
        else:
            world.delete(pod)
        assert world.run(200, lambda: world.trains(3)), world.status.reason


def test_a_pod_that_has_merely_failed_counts_for_nothing() -> None:
    """Its agent said nothing: the kubelet may have evicted it."""
    world = a_job(3, max_restarts=0)
    pod = world.members()[1]
    pod.child, pod.phase = "none", "Failed"
    world.tell(pod)

    assert world.run(60, lambda: world.trains(3)), world.status.reason


def test_surplus_that_never_starts_fails_no_job() -> None:
    """The quorum trains on."""
    world = a_job(2, max_restarts=1)
    world.size(3)

    def crash() -> bool:
        for pod in world.pods.values():
            pod.crashes = pod.role == "surplus"
        return world.phase is Phase.FAILED

    assert not world.run(600, crash)
    assert world.made > 5
    assert world.trains(2)


def test_a_core_that_never_starts_beside_those_that_hold_the_state_fails_the_job() -> None:
    """The gang is not lost, and does not train either."""
    world = a_job(2, max_restarts=2)
    kept = {pod.uid for pod in world.members()[:1]}
    world.lose_node(world.members()[1])

    def crash() -> bool:
        for pod in world.pods.values():
            pod.crashes = pod.uid not in kept
        return world.phase is Phase.FAILED

    assert world.run(HOUR, crash), world.status.reason
    assert (reason(world), world.status.restarts) == ("TooManyFailures", 0)


def every(world: World, change: Callable[[Pod], None]) -> Callable[[], bool]:
    """Of each pod that there will be; true when the job has failed."""

    def look() -> bool:
        for pod in world.pods.values():
            change(pod)
        return world.phase is Phase.FAILED

    return look


def never_ready(pod: Pod) -> None:
    pod.never_ready = True


def test_workers_that_never_get_ready_do_not_hold_nodes_without_end() -> None:
    """A script that never enters an elastic function runs longer than the start limit, again and again; there is no end
    of it to count. Time without a node does not count.
    """
    world = World(
        Spec(min_workers=2, max_workers=2, template=TEMPLATE, max_restarts=0, progress_deadline=1800.0)
    )
    began = world.now

    assert world.run(4 * HOUR, every(world, never_ready)), world.status.reason
    assert (reason(world), world.status.restarts) == ("ProgressDeadlineExceeded", 0)
    assert world.now - began > 2400
    assert world.status.reason.startswith("The job held nodes for 1800 s without progress beyond step 0; ")
    assert " was not ready 120 s after it was assigned to a node" in world.status.reason
    assert world.run(60, lambda: not world.pods)


def test_a_job_that_waits_in_the_queue_fails_for_nothing() -> None:
    """It holds no node, however long it waits."""
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE, progress_deadline=60.0), nodes=1)

    assert not world.run(300, lambda: world.phase is Phase.FAILED)
    world.nodes.append("another")
    assert world.run(60, lambda: world.trains(2)), world.status.reason


def test_those_that_hold_the_state_do_not_wait_without_end() -> None:
    """There is no room for the quorum any more, and the job says who waits for a seat."""
    world = a_job(2, progress_deadline=900.0)
    lost = world.members()[1]
    world.nodes = [world.members()[0].node]
    world.lose_node(lost)

    assert not world.run(840, lambda: world.phase is Phase.FAILED)
    assert world.run(120, lambda: world.phase is Phase.FAILED), world.status.reason
    assert reason(world) == "ProgressDeadlineExceeded"
    assert "1 of 2 quorum workers ready" in world.status.reason
    assert " waiting to be scheduled" in world.status.reason


def test_a_rank_that_always_hangs_does_not_hold_nodes_without_end() -> None:
    """Each time the training goes on for longer than any start takes, and gets no further than before."""
    world = a_job(2, progress_deadline=1200.0)
    stop = world.steps() + 600

    def look() -> bool:
        for pod in world.members()[1:]:
            if pod.child == "training" and pod.step >= stop and not pod.hung:
                world.hang(pod)
        return world.phase is Phase.FAILED

    assert world.run(4 * HOUR, look), world.status.reason
    assert reason(world) == "ProgressDeadlineExceeded"
    assert " hangs: no progress for " in world.status.reason


def test_a_script_that_commits_rarely_fails_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows progress, and tells of a step every hour: that is longer than the deadline."""
    world = a_job(2, progress_deadline=600.0)
    monkeypatch.setattr(worlds, "STEP_S", HOUR)

    assert not world.run(1.5 * HOUR, lambda: world.phase is Phase.FAILED), world.status.reason
    assert world.trains(2)


def test_what_comes_after_the_training_has_limits_of_its_own() -> None:
    """An export takes longer than the deadline."""
    world = a_job(2, progress_deadline=60.0)
    for pod in world.members():
        world.export(pod)

    assert not world.run(600, lambda: world.phase is Phase.FAILED), world.status.reason


def test_the_next_master_counts_from_the_start() -> None:
    """Neither failures in a row nor the time without progress stand in the status."""
    world = a_job(2, progress_deadline=900.0)
    world.nodes = [world.members()[0].node]
    world.lose_node(world.members()[1])
    world.run(600)
    world.die(5.0)

    assert not world.run(800, lambda: world.phase is Phase.FAILED)
    assert world.run(300, lambda: world.phase is Phase.FAILED), world.status.reason
