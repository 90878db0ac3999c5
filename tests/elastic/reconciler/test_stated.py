"""The size that a person states, and what stands when he leaves it to the policy again."""

import pytest

from scheduler.elastic.job import Spec, encode_status
from scheduler.elastic.job.spec import Checkpoint
from scheduler.elastic.reconciler import job_effects
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import TEMPLATE, World


def test_the_user_goes_before_the_policy() -> None:
    """spec.workers, clamped, is the size while it is set."""
    world = a_job(3)
    world.change(workers=50)

    assert world.run(20, lambda: world.trains(6))
    assert world.status.wanted_by == "user"
    assert world.membership.wishes(world.now) is None
    world.change(workers=None)
    assert world.run(20, lambda: world.trains(3))


@pytest.mark.parametrize("before", [None, 2])
def test_a_size_that_was_stated_stands_until_the_policy_speaks(before: int | None) -> None:
    """The user leaves the size to the policy again: whatever that said hours ago, nobody goes before it has looked."""
    world = a_job(2)
    world.want = None  # it is not asked while the user says how many
    if before is None:
        world.membership._s.sizing.sized = None
    world.change(workers=6)
    assert world.run(30, lambda: world.trains(6))
    members, starts = world.members(), len(world.sentences(job_effects.StartWorker))
    world.change(workers=None)
    world.run(10)

    assert world.trains(6)
    assert (world.members(), len(world.sentences(job_effects.StartWorker))) == (members, starts)
    assert (world.status.wanted, world.status.wanted_by) == (6, "user")
    assert world.status.reason == "6 workers wanted by user: spec.workers was 6, until the policy decides"
    view = world.membership.wishes(world.now)
    assert view is not None
    assert view.want == 6
    world.size(3)
    assert world.run(10, lambda: world.trains(3))


def test_a_size_that_was_stated_stands_within_new_bounds_and_for_the_next_master() -> None:
    """What is not allowed any more is not wanted; who reads the spec after the change reads the size in the status."""
    world = a_job(2)
    world.want = None
    world.change(workers=6)
    assert world.run(30, lambda: world.trains(6))
    world.change(workers=None, max_workers=5)
    assert world.run(10, lambda: world.trains(5))
    world.change(workers=4)
    assert world.run(10, lambda: world.trains(4))
    world.stored = encode_status(world.status)
    world.die(2.0)
    world.change(workers=None)
    world.run(20)

    assert world.trains(4)
    assert (world.status.wanted, world.status.wanted_by) == (4, "user")


def test_workers_that_start_for_a_stated_size_go_on_when_it_is_left_to_the_policy() -> None:
    """Not one of them is made again, though the job has not begun."""
    world = World(Spec(min_workers=2, max_workers=6, workers=5, template=TEMPLATE))
    world.run(1)
    world.change(workers=None)

    assert world.run(20, lambda: world.trains(5))
    assert len(world.sentences(job_effects.StartWorker)) == 5


def test_a_size_that_was_stated_stands_where_a_suspension_is_taken_back() -> None:
    """Some have not gone yet: the job goes on as large as it was."""
    world = a_job(2, checkpoint=Checkpoint(path="/ckpt"))
    world.want = None
    world.change(workers=4)
    assert world.run(30, lambda: world.trains(4))
    world.change(suspend=True)
    world.run(0.3)
    world.change(workers=None)
    world.change(suspend=False)

    assert world.run(30, lambda: world.trains(4))


def test_a_size_that_was_stated_for_a_suspended_job_is_none_when_it_goes_on() -> None:
    """What there is room for by then is the policy's to say; the quorum begins."""
    world = a_job(4)
    world.want = None
    world.change(workers=6)
    assert world.run(30, lambda: world.trains(6))
    world.change(suspend=True)
    assert world.run(60, lambda: not world.pods)
    world.change(workers=None, suspend=False)

    assert world.run(30, lambda: world.trains(2))
    assert world.status.wanted_by == "quorum"
