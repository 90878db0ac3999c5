"""How long a size must have been wanted before a worker is started for it."""

from collections.abc import Callable

import pytest

from scheduler.elastic.job import Spec
from scheduler.elastic.job.spec import Stage
from scheduler.elastic.reconciler import job_effects, job_events
from tests.elastic.reconciler.support.world import TEMPLATE, Patient, World


def a_job(size: int = 1, **fields: object) -> World:
    """A job whose quorum is one, and which trains at this size."""
    wanted = {"min_workers": 1, "max_workers": 4, "workers": size, "template": TEMPLATE, **fields}
    world = Patient(Spec(**wanted))  # type: ignore[arg-type]
    assert world.run(60, lambda: world.trains(size))
    world.run(5)
    return world


def starts(world: World) -> int:
    return len(world.sentences(job_effects.StartWorker))


def by_hand(world: World, size: int) -> None:
    world.change(workers=size)


def by_policy(world: World, size: int) -> None:
    world.size(size)


@pytest.mark.parametrize(("wish", "workers"), [(by_hand, 1), (by_policy, None)])
def test_a_wish_of_a_second_starts_no_worker(wish: Callable[[World, int], None], workers: int | None) -> None:
    """Twenty changes in twenty seconds make no pod; the last one is fulfilled."""
    world = a_job(1)
    world.change(workers=workers)
    before = starts(world)
    for turn in range(20):
        wish(world, (2, 1, 4, 3, 1)[turn % 5])
        world.run(1.0)
    assert starts(world) == before

    wish(world, 3)
    assert world.run(2.0, lambda: starts(world) == before + 2)
    assert world.run(30, lambda: len(world.pods) == 3 and world.trains(3))


def test_a_wish_is_looked_at_when_it_has_stood() -> None:
    """The worker is asked for at that moment, not at the next look of a job that trains."""
    world = a_job(1)
    world.change(workers=2)
    began, before = world.now, starts(world)

    assert world.run(5, lambda: starts(world) > before)
    assert world.now - began == pytest.approx(world.limits.stand)


def test_what_the_policy_says_again_is_no_news() -> None:
    """It says the same every few seconds, of every job; another reason is told all the same."""
    world = a_job(1, workers=None)
    world.size(1)
    looked_at = world.membership.looked_at
    world.now += 0.1
    world.size(1)
    assert world.membership.looked_at == looked_at

    world.handle(job_events.Sized(1, "test", "another reason"))
    assert world.membership.looked_at == world.now


def test_the_first_wish_is_not_waited_for() -> None:
    """Of a job that starts, and of one that goes on after a pause: all its workers are asked for in one breath."""
    world = Patient(Spec(min_workers=1, max_workers=4, workers=4, template=TEMPLATE))
    assert starts(world) == 4
    assert world.run(60, lambda: world.trains(4))
    world.change(suspend=True)
    assert world.run(60, lambda: not world.pods)
    world.change(suspend=False)

    assert starts(world) == 8


def test_a_quorum_is_not_waited_for() -> None:
    """Cores are asked for at once: the job cannot do without them."""
    world = a_job(1)
    world.change(min_workers=3, workers=3)

    assert [one.role for one in world.sentences(job_effects.StartWorker)] == ["core"] * 3


def test_a_lost_member_is_replaced_at_once() -> None:
    """What was wanted for long needs no moment; a wish that fell meanwhile makes no difference to it."""
    world = a_job(3)
    before = starts(world)
    world.end(next(pod for pod in world.members() if pod.role == "surplus"), 1, None)
    world.run(0.5)

    assert starts(world) == before + 1


def test_a_schedule_is_as_patient() -> None:
    """Its entry is a wish like any other, and is fulfilled a moment later."""
    world = a_job(1, workers=None, schedule=(Stage(epoch=0.0, workers=1), Stage(epoch=1.0, workers=3)))
    before = starts(world)
    assert world.run(60, lambda: world.status.wanted == 3)
    assert starts(world) == before

    assert world.run(2.0, lambda: starts(world) == before + 2)
    assert world.run(30, lambda: world.trains(3))
