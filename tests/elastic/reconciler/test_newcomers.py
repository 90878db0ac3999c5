"""Newcomers before their first round: how long they may take, and what keeps them out."""

from collections.abc import Callable

import pytest

from scheduler.elastic.reconciler import Timeouts, job_effects
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import World


@pytest.mark.parametrize(
    "spoil",
    [
        lambda pod: setattr(pod, "never_ready", True),
        lambda pod: setattr(pod, "crashes", True),
    ],
)
def test_a_newcomer_that_never_gets_ready_is_bounded(spoil: Callable[[object], None]) -> None:
    """Members train on, the newcomer is given up, its room released and its node avoided; the next one joins."""
    world = a_job(2)
    world.size(3)
    newcomer = next(pod for pod in world.pods.values() if pod not in world.members())
    spoil(newcomer)
    round_before = world.status.round

    assert world.run(200, lambda: newcomer.uid not in world.pods), world.status.reason
    assert world.status.round == round_before, "members were not interrupted"
    assert world.run(30, lambda: world.trains(3)), world.status.reason
    assert newcomer.node not in {pod.node for pod in world.members()}


def test_an_image_that_cannot_be_pulled_is_shown_and_given_up() -> None:
    """The reason stands in the status; after a minute the pod goes."""
    world = a_job(2)
    world.size(3)
    newcomer = next(pod for pod in world.pods.values() if pod not in world.members())
    newcomer.broken = "ErrImagePull: no such image"
    world.run(2)

    shown = next(one for one in world.status.members if one.uid == newcomer.uid)
    assert shown.reason == "ErrImagePull: no such image"
    assert world.run(75, lambda: newcomer.uid not in world.pods)
    told = [one.message for one in world.sentences(job_effects.Tell) if one.reason == "WorkerLost"]
    assert told == [f"{newcomer.name} cannot start: ErrImagePull: no such image"]


def test_a_newcomer_that_dies_before_the_round_is_left_out() -> None:
    """It was READY, members were called, it dies: the round begins without it."""
    world = a_job(2)
    world.size(3)
    newcomer = next(pod for pod in world.pods.values() if pod not in world.members())
    assert world.run(20, lambda: any(isinstance(one, job_effects.Announce) for one in world.told[-3:]))
    world.end(newcomer, 1, None)

    assert world.run(5, lambda: world.trains(2))
    assert world.run(30, lambda: world.trains(3))


def test_a_newcomer_with_other_tensors_is_refused() -> None:
    """A state of another make-up would hang everybody in the first broadcast: its worker never gets into a round."""
    world = a_job(2)
    world.size(3)
    for pod in world.pods.values():
        pod.fingerprint = "abc"
    odd = next(pod for pod in world.pods.values() if pod not in world.members())
    odd.fingerprint = "xyz"
    world.membership._s.fingerprint = "abc"

    assert world.run(20, lambda: odd.uid not in world.pods)
    assert world.trains(2)
    assert "other tensors" in next(
        one.message for one in world.sentences(job_effects.Tell) if one.reason == "WorkerLost"
    )


def test_a_newcomer_that_takes_steps_alone_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its script commits once an epoch, and to the first commit it warms up; others train meanwhile. One that takes no
    step, or comes to no commit at all, is given up.
    """
    monkeypatch.setattr(World, "limits", Timeouts(start=120.0, hang=60.0, warm=1000.0))
    world = a_job(2)
    world.size(3)
    assert world.run(20, lambda: len(world.pods) == 3)
    newcomer = list(world.pods.values())[-1]
    newcomer.never_ready = newcomer.steps_alone = True
    world.run(4 * world.limits.start)
    assert newcomer.uid in world.pods

    newcomer.never_ready = False
    assert world.run(20, lambda: world.trains(3))
    world.size(4)
    assert world.run(20, lambda: len(world.pods) == 4)
    newest = list(world.pods.values())[-1]
    newest.never_ready = newest.steps_alone = True
    assert world.run(1100, lambda: newest.uid not in world.pods)


def test_a_newcomer_that_takes_steps_has_no_less_time_than_one_that_takes_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long starts may take by the settings."""
    monkeypatch.setattr(World, "limits", Timeouts(start=400.0, hang=60.0, warm=100.0))
    world = a_job(2)
    world.size(3)
    assert world.run(20, lambda: len(world.pods) == 3)
    newcomer = list(world.pods.values())[-1]
    newcomer.never_ready = newcomer.steps_alone = True
    world.run(300)

    assert newcomer.uid in world.pods


def test_who_is_ready_joins_after_the_limit_though_more_and_more_are_wanted() -> None:
    """Room comes little by little, and those that get it start slowly: a new wish is no reason to wait longer."""
    world = a_job(2)
    world.size(4)
    ready = next(pod for pod in world.pods.values() if pod not in world.members())
    for want in (5, 6, 7, 8):
        for pod in world.pods.values():
            pod.never_ready = pod.round == 0 and pod is not ready
        world.run(world.limits.newcomers / 2)
        world.size(want)

    assert world.trains(3)
