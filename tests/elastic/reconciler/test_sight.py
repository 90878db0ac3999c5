"""The watch of pods is dead, and all else works: nothing follows from what is not seen."""

from scheduler.elastic.job import Condition, Spec
from scheduler.elastic.reconciler import Timeouts, job_effects
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import TEMPLATE, World

LONG = 400.0
"""Several times what a pod may take to be seen."""


def seen(world: World) -> Condition:
    return next(one for one in world.status.conditions if one.type == "PodWatchHealthy")


def test_a_worker_that_is_not_seen_is_started_once() -> None:
    """Who was asked for and is not seen is waited for as long as that lasts, then taken up: no second one was made."""
    world = a_job(2)
    world.lose_sight()
    world.size(4)
    world.run(LONG)
    assert world.trains(2)
    assert world.made == 4
    world.see_again()

    assert world.run(60, lambda: world.trains(4)), world.status.reason
    assert world.made == 4


def test_who_was_asked_for_before_a_suspension_is_not_asked_for_again() -> None:
    """A job that is suspended and goes on while pods are not seen counts on those that it had asked for; only those that
    left for the suspension are made anew.
    """
    world = a_job(2)
    world.lose_sight()
    world.size(4)
    world.run(15)
    assert world.made == 4
    world.change(suspend=True)
    world.run(30)
    world.change(suspend=False)
    world.run(30)
    world.see_again()

    assert world.run(120, lambda: world.trains(4)), world.status.reason
    assert world.made == 6


def test_nobody_is_started_blindly() -> None:
    """What is wanted after it was told has to wait, and is started when pods are seen again."""
    world = a_job(2)
    world.lose_sight()
    world.run(11)
    world.size(3)
    world.run(LONG)
    assert world.made == 2
    world.see_again()

    assert world.run(60, lambda: world.trains(3)), world.status.reason
    assert world.made == 3


def test_losses_are_met_without_sight() -> None:
    """Workers speak for themselves: the others train on without one that ends, and it is replaced when pods are seen
    again.
    """
    world = a_job(3)
    world.lose_sight()
    world.run(11)
    world.end(world.members()[1], 1, None)
    assert world.run(5, lambda: world.trains(2)), world.status.reason
    world.run(LONG)
    assert world.made == 3
    world.see_again()

    assert world.run(60, lambda: world.trains(3)), world.status.reason
    assert world.made == 4


def test_a_hindrance_that_may_be_over_is_held_against_nobody() -> None:
    """An image that could not be pulled when the watch broke gets its whole limit anew."""
    world = a_job(2)
    world.size(3)
    world.run(0.1)
    late = next(pod for pod in world.pods.values() if pod not in world.members())
    late.broken = "ErrImagePull: no such image"
    world.run(10)
    assert world.membership._s.workers[late.uid].waiting
    world.lose_sight()
    world.run(world.limits.trouble + 10)
    assert late.uid in world.pods
    world.see_again()
    world.run(20)
    assert late.uid in world.pods

    assert world.run(world.limits.trouble, lambda: late.uid not in world.pods)


def test_people_are_told() -> None:
    """Condition and reason say which watch, and what is not done; both take it back."""
    world = a_job(2)
    assert (seen(world).status, seen(world).reason) == (True, "WatchHealthy")
    world.lose_sight()
    world.run(15)
    said = "the watch of pods is down; no workers are started until the pod watch recovers"
    assert (seen(world).status, seen(world).reason, seen(world).message) == (False, "WatchFailed", said)
    assert world.status.reason.startswith(said + "; 2 workers wanted by test")
    world.see_again()

    assert (seen(world).status, seen(world).message) == (True, "")
    assert world.status.reason.startswith("2 workers wanted by test")


def test_a_pod_that_was_never_made_is_made_again() -> None:
    """While pods are seen, one that does not appear within the limit is asked for anew."""
    world = World(Spec(min_workers=1, max_workers=1, template=TEMPLATE))
    world.tick()
    assert world.run(20, lambda: world.trains(1))
    world._startworker = lambda _: None  # type: ignore[method-assign]
    world.remove(next(iter(world.pods.values())))
    world.run(Timeouts().unseen + 5)

    assert len(world.sentences(job_effects.StartWorker)) == 3
