"""Members that are not heard: who is given up for that, and who is not."""

import pytest

from scheduler.elastic.job import Phase
from scheduler.elastic.reconciler import job_effects, job_events
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import World


def told(world: World, reason: str) -> list[str]:
    return [one.message for one in world.sentences(job_effects.Tell) if one.reason == reason]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_when_nobody_is_heard_nobody_is_given_up(size: int) -> None:
    """The master is cut off for a minute, and the training goes on: that is told, and changes nothing else."""
    world = a_job(size)
    number, steps = world.status.round, world.steps()
    for pod in world.pods.values():
        pod.cut = True
    world.run(60)
    heard = next(one for one in world.status.conditions if one.type == "HeartbeatsReceived")
    assert (world.phase, heard.status, heard.reason) == (Phase.RUNNING, False, "HeartbeatsMissing")
    for pod in world.pods.values():
        pod.cut = False
    world.run(5)

    assert world.trains(size)
    assert (world.status.round, world.steps() > steps + 200) == (number, True)
    assert not world.sentences(job_effects.Abort)
    assert len(told(world, "HeartbeatsMissing")) == 1
    assert next(one for one in world.status.conditions if one.type == "HeartbeatsReceived").status


def test_the_last_one_that_has_the_state_is_not_given_up_for_silence() -> None:
    """A network that heals gives everything back."""
    world = a_job(2)
    gone, kept = world.members()
    world.end(gone, 1, None)
    assert world.run(10, lambda: world.status.workers == 0)
    kept.cut = True
    world.run(20)
    assert kept.uid in world.pods
    kept.cut = False

    assert world.run(30, lambda: world.trains(2)), world.status.reason
    assert kept in world.members()
    assert world.status.restarts == 0


def test_who_is_silent_and_taken_away_is_given_up() -> None:
    """The node of the last one is lost: when its pod is taken away the gang begins again."""
    world = a_job(1, min_workers=1)
    only = world.members()[0]
    world.lose_node(only)
    world.run(30)
    assert world.status.restarts == 0

    assert world.run(60, lambda: world.trains(1) and only not in world.members()), world.status.reason
    assert world.status.restarts == 1


def test_a_short_halt_is_no_end_however_old_the_last_report_is() -> None:
    """A debugger stops a member whose last report is some seconds old; what counts is how long it stands still."""
    world = a_job(2)
    pod, number = world.members()[1], world.status.round
    world.handle(
        job_events.Beat(pod.uid, "Training", number, pod.step, pod.commit, silent_s=4.0, child="stopped")
    )
    world.run(10)

    assert pod in world.members()
    assert world.status.round == number
