"""Growth and shrinking: changes that nobody loses a step for."""

from scheduler.elastic.job import Spec
from scheduler.elastic.reconciler import job_effects
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import TEMPLATE, World


def test_the_first_round_waits_for_the_quorum() -> None:
    """Nobody trains before as many as the quorum are READY, however many more are wanted."""
    world = World(Spec(min_workers=3, max_workers=3, template=TEMPLATE))
    world.tick()
    slow = next(iter(world.pods.values()))
    slow.never_ready = True
    world.run(20)

    assert not world.sentences(job_effects.Persist)
    assert slow.name in world.status.reason
    slow.never_ready = False
    assert world.run(10, lambda: world.trains(3))


def test_the_quorum_is_core_and_started_together() -> None:
    """As many cores as the quorum, in one go; what is wanted above it is surplus."""
    world = World(Spec(min_workers=2, max_workers=4, workers=4, template=TEMPLATE))
    starts = world.sentences(job_effects.StartWorker)

    assert [one.role for one in starts] == ["core", "core", "surplus", "surplus"]


def test_members_train_while_newcomers_start() -> None:
    """Nobody is interrupted before all newcomers are READY; then one round takes them all."""
    world = a_job(2)
    first, steps = world.status.round, world.steps()
    world.size(5)
    world.run(3)

    assert world.trains(2)
    assert world.steps() > steps
    assert world.run(10, lambda: world.trains(5))
    assert world.status.round == first + 1


def test_a_late_newcomer_is_not_waited_for_longer_than_its_limit() -> None:
    """The round goes on without it, and another takes it later."""
    world = a_job(2)
    world.size(4)
    late = next(pod for pod in world.pods.values() if pod not in world.members())
    late.never_ready = True

    assert world.run(45, lambda: world.trains(3)), world.status.reason
    late.never_ready = False
    assert world.run(20, lambda: world.trains(4))


def test_old_members_come_before_newcomers() -> None:
    """Rank 0 stays who it was, newcomers come last, and all take over its state."""
    world = a_job(2)
    old = [pod.name for pod in world.members()]
    world.size(4)
    assert world.run(20, lambda: world.trains(4))

    last = world.sentences(job_effects.Publish)[-1].assignments
    assert [pod.name for pod in world.members()][:2] == old
    assert all(one.sync for one in last.values())


def test_a_shrink_needs_no_sync_and_tells_the_leavers() -> None:
    """Surplus goes first, the youngest of it; who leaves is told so, and who stays skips the broadcast."""
    world = a_job(4)
    names = [pod.name for pod in world.members()]
    world.size(2)
    assert world.run(10, lambda: world.trains(2))

    last = world.sentences(job_effects.Publish)[-1].assignments
    assert [pod.name for pod in world.members()] == names[:2]
    assert sorted(one.removed for one in last.values()) == [False, False, True, True]
    assert not any(one.sync for one in last.values())
    assert world.run(10, lambda: len(world.pods) == 2)


def test_changes_in_a_row_are_one_round() -> None:
    """What is wanted changes three times within a second: members are interrupted once."""
    world = a_job(4)
    before = world.status.round
    for size in (3, 4, 2):
        world.size(size)
        world.run(0.3)
    assert world.run(10, lambda: world.trains(2))

    assert world.status.round == before + 1


def test_bounds_that_tighten_are_obeyed() -> None:
    """maxWorkers below the present size shrinks the job."""
    world = a_job(4)
    world.change(max_workers=3)

    assert world.run(10, lambda: world.trains(3))
