"""A script may train more than once: one elastic function after the other, in one process."""

from scheduler.elastic.job import Spec
from scheduler.elastic.job.spec import Checkpoint
from scheduler.elastic.reconciler import job_effects
from tests.elastic.reconciler.support.world import TEMPLATE, World


def a_job(size: int) -> World:
    """A job of this size that trains, with a place for checkpoints."""
    spec = Spec(min_workers=2, max_workers=6, template=TEMPLATE, checkpoint=Checkpoint(path="/ckpt"))
    world = World(spec)
    world.size(size)
    assert world.run(60, lambda: world.trains(size))
    world.run(5)
    return world


def test_the_next_training_begins_with_one_state_for_all() -> None:
    """All come back from the first one: nothing is lost, nothing is restored, and rank 0's new state is everybody's."""
    world = a_job(3)
    steps, number = world.steps(), world.status.round
    world.begin_another()

    assert world.run(5, lambda: world.status.round > number and world.trains(3))
    record = world.status.assignment
    assert record is not None
    assert (record.cause, record.sync, record.restore) == ("NextTraining", True, None)
    assert (record.step, record.samples, world.status.restarts) == (steps, steps * world.counts, 0)
    assert record.epoch > 0
    assert not [one for one in world.sentences(job_effects.Tell) if one.reason == "GangLost"]


def test_a_newcomer_comes_into_the_second_training() -> None:
    """It falls through the first one, which is over, and meets the others in theirs; they give it their state."""
    world = a_job(2)
    world.begin_another()
    assert world.run(10, lambda: world.trains(2))
    world.run(5)
    first, steps = world.members()[0], world.steps()
    world.size(3)

    assert world.run(30, lambda: world.trains(3) and len({pod.stage for pod in world.members()}) == 1)
    assert world.run(5, lambda: not any(pod.fell for pod in world.members()))
    assert world.members()[0] is first
    assert world.steps() >= steps
    assert world.status.restarts == 0


def test_a_newcomer_that_fell_through_has_another_state_though_its_round_failed() -> None:
    """It stands at the same step as a member, for it met the members once; what it holds is what its own script began
    the next training with, and a round that failed before anything was passed on has not changed that.
    """
    world = a_job(2)
    world.begin_another()
    assert world.run(10, lambda: world.trains(2))
    world.size(3)
    assert world.run(30, lambda: any(pod.fell for pod in world.members()))
    fallen = next(pod for pod in world.members() if pod.fell)
    number = world.status.round
    world.kill(next(pod for pod in world.members() if not pod.fell))
    fallen.arrive("failure", world.now)

    assert world.run(60, lambda: world.status.round > number and world.trains(3))
    assert len({pod.weights for pod in world.members()}) == 1


def test_whoever_dies_between_two_trainings_is_a_worker_less() -> None:
    """The others begin the next one, and it joins them there."""
    world = a_job(3)
    lost = world.members()[0]
    world.begin_another()
    world.kill(lost)

    assert world.run(5, lambda: world.trains(2))
    assert world.status.restarts == 0
    assert world.run(30, lambda: world.trains(3) and len({pod.stage for pod in world.members()}) == 1)
