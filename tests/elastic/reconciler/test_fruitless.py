"""Rounds that fail one after the other: nobody is gone, and nothing is committed."""

import pytest

from scheduler.elastic.reconciler import round_triggers
from scheduler.elastic.reconciler.job_effects import Tell
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import World


def fail(world: World, size: int = 3) -> bool:
    """A collective of theirs cannot be finished: all are back with their last commit, as soon as they train."""
    members = world.members()
    if len(members) == size and all(pod.child == "training" for pod in members):
        for pod in members:
            pod.arrive("failure", world.now)
    return False


def rounds(world: World, seconds: float) -> int:
    """How many rounds so long a time has brought, of which each fails at its first step."""
    before = world.status.round
    world.run(seconds, lambda: fail(world))
    return world.status.round - before


@pytest.mark.slow
def test_rounds_that_fail_without_a_commit_come_ever_more_slowly() -> None:
    """A few are tried at once; then each waits longer than the one before, a minute at most, and people are told. Nobody
    is given up for it, and all keep their state.
    """
    world = a_job(3)
    members = {pod.uid for pod in world.members()}
    early = rounds(world, 60.0)
    world.run(300.0, lambda: fail(world))
    late = rounds(world, 600.0)

    assert early > round_triggers.FRUITLESS
    assert 8 <= late <= 12
    assert [one.reason for one in world.sentences(Tell)].count("NoProgress") == 1
    assert "failed without a commit" in world.status.reason
    assert {pod.uid for pod in world.members()} == members
    assert world.status.restarts == 0


def test_who_was_lost_is_no_error_of_the_script() -> None:
    """Survivors are back before anybody knows who is gone: such a round is none that failed while all lived."""
    world = a_job(4, min_workers=4, max_workers=4)

    def all_train() -> bool:
        return len(world.members()) == 4 and all(pod.child == "training" for pod in world.members())

    for _ in range(round_triggers.FRUITLESS + 1):
        assert world.run(90.0, all_train)
        *others, lost = world.members()
        world.lose_node(lost)
        for pod in others:
            pod.arrive("failure", world.now)
        world.run(1.0)

    assert "NoProgress" not in [one.reason for one in world.sentences(Tell)]


def test_a_commit_ends_the_row() -> None:
    """From then on a failure is the first again: the next round begins at once."""
    world = a_job(3)
    rounds(world, 120.0)
    assert world.run(90.0, world.trains)
    step = world.steps()
    assert world.run(60.0, lambda: min(pod.commit for pod in world.members()) > step + 5)
    fail(world)
    number = world.status.round
    assert world.run(3.0, lambda: world.status.round > number)


def test_a_row_does_not_keep_the_others_waiting() -> None:
    """Whoever is lost meanwhile is replaced, and who leaves may go, without the pause."""
    world = a_job(3)
    rounds(world, 200.0)
    assert not world.trains()
    number = world.status.round
    world.delete(world.members()[1])
    assert world.run(5.0, lambda: world.status.round > number)
    world.run(30.0, lambda: fail(world, 2))
    world.kill(world.members()[0], signal=9)
    number = world.status.round
    assert world.run(5.0, lambda: world.status.round > number)
