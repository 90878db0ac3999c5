"""Newcomers ahead of what is wanted: they wait at the barrier, and interrupt nobody."""

import pytest

from scheduler.elastic.reconciler import job_effects, job_events
from tests.elastic.reconciler.training import a_job
from tests.elastic.reconciler.workers import START_S, WARM_S
from tests.elastic.reconciler.world import Pod, World


def early(world: World) -> list[Pod]:
    """Newcomers that wait at the barrier."""
    return [pod for pod in world.pods.values() if pod.round == 0 and pod.child == "asking"]


def ahead_of_time() -> World:
    """Two train, and two more are warm."""
    world = a_job(2)
    before = world.status.round
    world.size(2, ahead=4)
    assert world.run(20, lambda: len(early(world)) == 2)
    world.run(10)
    assert world.trains(2)
    assert world.status.round == before
    return world


def test_newcomers_ahead_of_what_is_wanted_interrupt_nobody() -> None:
    """They warm up, and wait at the barrier; once they are wanted, they need not start any more."""
    world = ahead_of_time()
    assert world.status.wanted == 2
    world.size(4)

    assert world.run(START_S + WARM_S + world.limits.coalesce, lambda: world.trains(4))
    assert len(world.sentences(job_effects.StartWorker)) == 4


def test_newcomers_ahead_of_what_is_wanted_cost_the_master_no_looks() -> None:
    """Nothing changes while they wait, so a look is as seldom as at any job that trains; not once they are wanted."""
    world = ahead_of_time()
    world.handle(job_events.Elapsed())
    assert world.membership.next_deadline(world.now) - world.now == pytest.approx(0.5)
    world.size(4)
    assert world.membership.next_deadline(world.now) - world.now == pytest.approx(0.1)


def test_newcomers_ahead_that_are_not_wanted_after_all_go() -> None:
    """They go as they came, without a round."""
    world = ahead_of_time()
    before = world.status.round
    world.size(2)

    assert world.run(20, lambda: len(world.pods) == 2)
    assert world.trains(2)
    assert world.status.round == before


def test_who_is_warm_takes_a_place_that_is_free() -> None:
    """A member dies: one that waits at the barrier is in the next round, and another starts ahead in its stead."""
    world = ahead_of_time()
    world.kill(world.members()[1])

    assert world.run(3, lambda: world.trains(2))
    assert world.run(20, lambda: len(early(world)) == 2)


def test_one_round_takes_who_waited_ahead_and_who_is_about_to_be_ready() -> None:
    """How long the first of them has been warm says nothing: the others are waited for since they are wanted."""
    world = a_job(2)
    world.size(2, ahead=3)
    assert world.run(60, lambda: len(early(world)) == 1)
    world.run(world.limits.newcomers + 5)
    before = world.status.round
    world.size(2, ahead=4)
    world.run(0.5)
    world.size(4)

    assert world.run(20, lambda: world.trains(4))
    assert world.status.round == before + 1


def test_who_is_ready_joins_after_the_limit_though_more_and_more_are_wanted() -> None:
    """Room comes little by little, and those who get it are slow to start: each new wish is no reason to wait anew."""
    world = a_job(2)
    world.size(4)
    ready = next(pod for pod in world.pods.values() if pod not in world.members())
    for want in (5, 6, 7, 8):
        for pod in world.pods.values():
            pod.never_ready = pod.round == 0 and pod is not ready
        world.run(world.limits.newcomers / 2)
        world.size(want)

    assert world.trains(3)


def test_newcomers_ahead_outlive_the_master() -> None:
    """The next one does not know that they were to start; it leaves them alone until the policy has spoken."""
    world = ahead_of_time()
    warm = early(world)
    world.die(3.0)

    world.run(20)
    assert world.masters == 2
    assert early(world) == warm
    assert len(world.sentences(job_effects.StartWorker)) == 4


def test_newcomers_ahead_that_nobody_wants_after_a_restart_go() -> None:
    """Once the policy has spoken, what it says counts."""
    world = ahead_of_time()
    world.ahead = 0
    world.die(3.0)

    assert world.run(20, lambda: len(world.pods) == 2 and world.trains(2))
    assert world.masters == 2


def test_of_newcomers_ahead_that_are_taken_away_none_is_made_again() -> None:
    """Their room is needed: the others go too, those that train stay as they are."""
    world = ahead_of_time()
    world.size_due = world.now + 60
    world.delete(early(world)[0])
    assert world.run(20, lambda: len(world.pods) == 2)
    world.run(10)

    assert world.trains(2)
    assert world.status.wanted == 2
    assert len(world.sentences(job_effects.StartWorker)) == 4


@pytest.mark.parametrize("words", [{"workers": 2}, {"max_workers": 2}, {"suspend": True}])
def test_nobody_starts_ahead_where_the_user_says_how_many(words: dict[str, object]) -> None:
    """A size that is set, a maximum, and a suspension hold for newcomers ahead of time, too."""
    world = ahead_of_time()
    world.change(**words)

    assert world.run(20, lambda: not early(world))
    world.run(10)
    assert len(world.sentences(job_effects.StartWorker)) == 4
