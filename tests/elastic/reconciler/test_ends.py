"""How a job ends: well, when all have come to the end of its training, and badly."""

import re

import msgspec
import pytest

from scheduler.elastic.job import Phase, Spec, encode_status
from scheduler.elastic.job.spec import EarlyExit
from scheduler.elastic.reconciler import Timeouts
from scheduler.elastic.reconciler.job_effects import Tell
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import TEMPLATE, World


def test_what_comes_after_the_training_is_waited_for() -> None:
    """One rank exports for longer than any limit of a training, the others have ended: nobody is killed, and the job has
    succeeded when it has ended too.
    """
    world = a_job(3)
    first, *others = world.members()
    world.export(first)
    world.finish(*others)
    world.run(2 * max(world.limits.hang, world.limits.save))

    assert (world.phase, first.child) == (Phase.FINISHING, "exporting")
    assert world.status.reason == f"Training finished; still running: {first.name}"
    world.end(first, 0, None)
    assert world.run(10, lambda: world.phase is Phase.SUCCEEDED)


def test_one_that_exports_and_is_not_heard_any_more_is_not_waited_for() -> None:
    """Its node is lost for good, and nobody takes its pod away."""
    world = a_job(3)
    first, *others = world.members()
    world.export(first)
    world.finish(*others)
    world.run(10)
    world.lose_node(first)
    first.evicted_at = None

    assert world.run(world.limits.save + 60, lambda: world.phase is Phase.SUCCEEDED), world.status.reason


def test_all_may_do_something_else_after_the_training() -> None:
    """Nobody hangs who has come to the end."""
    world = a_job(3)
    members = world.members()
    for pod in members:
        world.export(pod)
    world.run(2 * world.limits.hang)

    assert {pod.child for pod in members} == {"exporting"}
    world.finish()
    assert world.run(10, lambda: world.phase is Phase.SUCCEEDED)


def test_members_that_wait_for_one_that_has_ended_are_waited_for_shortly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rank whose training function returns before the others' lets them wait in a collective: the job was cut short."""
    monkeypatch.setattr(World, "limits", Timeouts(start=120.0, hang=60.0, save=30.0))
    world = a_job(3)
    first, *others = world.members()
    for pod in others:
        world.hang(pod)
    world.finish(first)

    assert world.run(world.limits.save + 60, lambda: world.phase is Phase.FAILED)
    assert world.status.reason.startswith(f"{first.name} exited with code 0 while the training continued in ")


def test_a_member_that_ends_before_its_training_function_returns_fails_the_job() -> None:
    """Though with code 0: the others cannot finish, so the job has not succeeded. It is told at once."""
    world = a_job(3)
    first = world.members()[1]
    world.end(first, 0, None)

    assert world.run(2, lambda: world.phase is Phase.FAILED), world.status.reason
    said = f"{first.name} exited with code 0 at step 2., before .* returned. Set spec.earlyExit to allow .*"
    assert re.fullmatch(said, world.status.reason)
    assert [one.reason for one in world.status.conditions if one.type == "Failed"] == ["EarlyExit"]


def test_a_rank_that_returns_some_steps_before_the_others_fails_the_job() -> None:
    """Ranks with fewer steps than others are a fault of the script that a success would hide."""
    world = a_job(2)
    first, other = world.members()
    world.finish(first)

    assert world.run(10, lambda: world.phase is Phase.FAILED), world.status.reason
    said = f"{first.name} exited with code 0 while the training continued in {other.name}. Set spec.earlyExit to allow "
    assert world.status.reason.startswith(said)


@pytest.mark.parametrize("returned", [True, False])
def test_an_early_end_may_be_allowed(returned: bool) -> None:
    """A script that stops early on one rank says so in its spec: then that is the end of the training for all."""
    world = a_job(2, early_exit=EarlyExit.ALLOW)
    first = world.members()[0]
    if returned:
        world.finish(first)
    else:
        world.end(first, 0, None)

    assert world.run(60, lambda: world.phase is Phase.SUCCEEDED), world.status.reason


@pytest.mark.parametrize("before", [True, False])
def test_an_export_that_fails_fails_the_job(before: bool) -> None:
    """At once, with the script's last word, and whether the other has ended well before or not: nothing is trained
    again for it.
    """
    world = a_job(2)
    first, other = world.members()
    world.export(first)
    if before:
        world.finish(other)
        world.run(3)
    else:
        world.export(other)
    world.end(first, 1, None, why="OSError: no space left on the device")

    assert world.run(2, lambda: world.phase is Phase.FAILED), world.status.reason
    said = f"{first.name} failed after the training with code 1: OSError: no space left on the device"
    assert (world.status.reason, world.status.restarts) == (said, 0)


def test_a_member_lost_after_its_return_changes_nothing() -> None:
    """Its node is lost, or it is killed, while it exports: another has ended well."""
    world = a_job(3)
    first, second, third = world.members()
    for pod in (first, second):
        world.export(pod)
    world.finish(third)
    world.run(3)
    world.kill(first)
    world.run(3)
    world.end(second, 0, None)

    assert world.run(60, lambda: world.phase is Phase.SUCCEEDED), world.status.reason
    assert world.status.restarts == 0


def test_a_job_whose_last_member_is_lost_after_its_return_begins_again() -> None:
    """None has ended, so what came after the training was not done: the gang begins again, and that is counted."""
    world = a_job(1, min_workers=1)
    (only,) = world.members()
    world.export(only)
    world.run(2)
    world.kill(only)

    assert world.run(60, lambda: world.trains(1)), world.status.reason
    assert world.status.restarts == 1


def test_a_job_that_fails_too_often_ends() -> None:
    """A script that ends badly in every process ends the job after spec.maxRestarts, with its last words; the next
    master says the same.
    """
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE, max_restarts=2))

    def crash_all() -> bool:
        for pod in world.pods.values():
            pod.crashes = True
        return world.phase is Phase.FAILED

    assert world.run(300, crash_all), world.status.reason
    assert "spec.maxRestarts" in world.status.reason
    assert "exited with code 1: the end" in world.status.reason
    assert world.run(40, lambda: not world.pods)
    before = {one.type: one for one in world.status.conditions}
    assert before["Failed"].reason == "TooManyRestarts"

    world.stored = encode_status(world.status)
    world.begin()
    assert {one.type: one for one in world.status.conditions} == before


def test_a_job_that_has_failed_begins_nothing_again() -> None:
    """Its last members end with code 1: the gang is lost once for each restart and no more, no round is opened for
    those that are gone, and the job is at rest.
    """
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE, max_restarts=0))
    assert world.run(60, lambda: world.trains(2))
    number = world.status.round
    for pod in world.members():
        world.end(pod, 1, None)

    assert world.run(60, lambda: world.phase is Phase.FAILED and not world.pods), world.status.reason
    world.run(30)
    assert world.status.restarts == 1
    assert [one.reason for one in world.sentences(Tell)].count("GangLost") <= 1
    assert world.status.round <= number + 1
    assert world.membership.next_deadline(world.now) > world.now + 10


def test_a_job_that_is_over_is_over_for_the_next_master() -> None:
    """When its pods have been taken away meanwhile, nobody is lost any more."""
    world = a_job(2)
    world.finish()
    assert world.run(60, lambda: world.phase is Phase.SUCCEEDED)
    for pod in list(world.pods.values()):
        world.delete(pod)
        world.remove(pod)
    world.stored = encode_status(world.status)
    before, told = world.status, len(world.told)
    world.begin()
    world.run(30)

    assert (world.status.round, world.status.restarts) == (before.round, before.restarts)
    assert [one for one in world.told[told:] if isinstance(one, Tell)] == []


def test_a_training_that_has_ended_is_not_repeated_for_a_deletion() -> None:
    """Its pod was told to go while its script exported what was trained: that it ended of its own accord counts, with or
    without others.
    """
    world = a_job(1, min_workers=1)
    (only,) = world.members()
    world.export(only)
    world.run(2)
    world.delete(only, grace_s=30.0)
    world.run(3)
    assert world.phase is not Phase.SUCCEEDED
    world.end(only, 0, None)

    assert world.run(20, lambda: world.phase is Phase.SUCCEEDED), world.status.reason
    assert world.status.restarts == 0


def test_a_script_that_is_not_elastic_fails_its_job_at_once() -> None:
    """It comes to its end and never meets anybody: it is not run again for that, and people hear what to do."""
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE))
    assert world.run(20, lambda: any(pod.child == "starting" for pod in world.pods.values()))
    first = next(pod for pod in world.pods.values() if pod.child == "starting")
    world.end(first, 0, None)

    assert world.run(2, lambda: world.phase is Phase.FAILED), world.status.reason
    assert world.status.reason.startswith(
        f"{first.name} exited with code 0 and never called a function decorated with hvd."
    )
    assert world.status.restarts == 0


@pytest.mark.parametrize("code", [0, 1, 134])
def test_a_script_that_shows_that_it_is_of_another_kind_fails_its_job_at_once(code: int) -> None:
    """Whatever its code: nothing is started again for it, and its node is not blamed."""
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE))
    assert world.run(20, lambda: any(pod.child == "starting" for pod in world.pods.values()))
    first = next(pod for pod in world.pods.values() if pod.child == "starting")
    world.end(first, code, None)
    assert first.report is not None
    first.report = msgspec.structs.replace(first.report, foreign="torchrun runs it")

    assert world.run(2, lambda: world.phase is Phase.FAILED), world.status.reason
    assert world.status.reason.startswith(
        f"{first.name} has a script that is not elastic: torchrun runs it. "
    )
    assert [one.reason for one in world.status.conditions if one.type == "Failed"] == ["NotElastic"]
    assert (world.status.restarts, world.made, world.status.barred) == (0, 2, ())


def test_a_newcomer_of_another_kind_fails_no_job_that_trains() -> None:
    """Its template may have been edited since. As surplus it counts for nothing."""
    world = a_job(2, max_restarts=0)
    world.size(3)
    assert world.run(20, lambda: any(pod.child == "starting" for pod in world.pods.values()))
    first = next(pod for pod in world.pods.values() if pod.child == "starting")
    world.end(first, 1, None)
    assert first.report is not None
    first.report = msgspec.structs.replace(first.report, foreign="torchrun runs it")

    assert world.run(60, lambda: world.trains(3)), world.status.reason


def test_a_worker_that_is_told_to_go_before_it_trains_fails_no_job() -> None:
    """Its pod is deleted while it starts, and its script ends with code 0 for that: another takes its place."""
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE))
    assert world.run(20, lambda: any(pod.child == "starting" for pod in world.pods.values()))
    first = next(pod for pod in world.pods.values() if pod.child == "starting")
    world.delete(first)
    world.end(first, 0, None)

    assert world.run(60, lambda: world.trains(2)), world.status.reason


def test_a_newcomer_that_finds_nothing_to_do_fails_no_job() -> None:
    """Its script looks at what is done before it trains, and ends: the others are at work."""
    world = a_job(2)
    world.size(3)
    assert world.run(20, lambda: any(pod.child == "starting" for pod in world.pods.values()))
    world.end(next(pod for pod in world.pods.values() if pod.child == "starting"), 0, None)
    world.run(20)

    assert world.phase is not Phase.FAILED
