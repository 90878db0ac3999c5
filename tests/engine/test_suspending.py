"""Jobs that are suspended to make room, and resumed: by us, by their users, and by both."""

from dataclasses import replace

import pytest

from scheduler.ledger.preemption import SPARED
from scheduler.ledger.suspended_jobs import EVERY
from scheduler.model.effects import ResumeJob, SuspendJob
from tests.engine.support.api import Controller
from tests.engine.support.freeing import GRACE, a_job, a_stage, evicted, important
from tests.engine.support.stage import POLICY, seats
from tests.engine.support.world import World


def test_a_job_is_suspended_and_comes_back() -> None:
    """No pod of it is evicted; when the other has ended, it is resumed, gated, and seated like everybody."""
    world = a_stage(2, grace=GRACE)
    a_job(world, "job", 2)
    world.settle(1)
    first = important(world, 2)
    world.settle(GRACE + 1)
    assert (seats(world, "important"), seats(world, "job")) == (2, 0)
    assert evicted(world) == []
    assert sum(isinstance(e, SuspendJob) for e in world.said) == 1
    assert all(pod.gated for pod in world.pods("job"))
    assert len(world.pods("job")) == 2
    for pod in first:
        world.api.remove(pod.key)
    world.settle(1)
    assert seats(world, "job") == 2


def test_a_restart_forgets_no_suspended_job() -> None:
    """That it was us stands on the Job: the next service resumes it."""
    world = a_stage(2, grace=GRACE)
    a_job(world, "job", 2)
    world.settle(1)
    important(world, 2)
    world.settle(GRACE / 2)
    world.crash()
    world.settle(GRACE)
    assert seats(world, "important") == 2
    assert len(world.pods("job")) == 2
    assert not any(traits.paused for traits in world.api.owners.values())


def test_a_job_is_suspended_though_its_first_pod_is_gone() -> None:
    """One pod stands for all of the Job; when it goes before the Job was suspended, another one does."""
    world = a_stage(2, grace=GRACE, policy=replace(POLICY, evictions_per_namespace=1))
    a_job(world, "job", 2)
    world.settle(1)
    important(world, 2)
    world.watch()
    asked = next(e for e in world.said if isinstance(e, SuspendJob) or e.key.name.startswith("important"))
    assert not isinstance(asked, SuspendJob)  # the plan is written first
    first = min(world.record("important").plan.victims)
    world.api.controllers["Job/job"].replicas = 1  # so that nobody takes the place of who goes
    world.api.remove(next(pod.key for pod in world.api.pods.values() if pod.uid == first))
    world.settle(GRACE + 1)
    assert seats(world, "important") == 2


def to_be_suspended() -> tuple[World, Controller]:
    """A Job whose suspension was decided and is on its way to the API server."""
    world = a_stage(2, grace=GRACE)
    job = a_job(world, "job", 2)
    world.settle(1)
    important(world, 2)
    while not any(isinstance(effect, SuspendJob) for effect in world.said):
        assert world.step()
    return world, job


def test_a_job_that_its_user_has_just_suspended_stays_so() -> None:
    """What was decided before we heard of it is refused; its room is taken, nobody asks again, and it is never
    resumed.
    """
    world, job = to_be_suspended()
    world.api.set_suspended(job.owner, suspended=True)
    world.settle(GRACE + 5)

    assert sum(isinstance(effect, SuspendJob) for effect in world.said) == 1
    assert world.api.owners[job.owner.uid].attained == 0.0
    assert (seats(world, "important"), world.pods("job")) == (2, [])


def test_a_job_that_changed_meanwhile_is_asked_again() -> None:
    """Whatever else changed on it, its suspension is decided anew on what it is now."""
    world, job = to_be_suspended()
    world.api.put_owner(replace(world.api.owners[job.owner.uid], remakes_freely=True))
    world.settle(GRACE + 5)

    assert sum(isinstance(effect, SuspendJob) for effect in world.said) == 2
    assert seats(world, "important") == 2
    assert len(world.pods("job")) == 2  # resumed, and waiting


def paused() -> tuple[World, Controller]:
    """A Job that we suspended, whose pods are still on their way out."""
    world, job = to_be_suspended()
    world.settle(GRACE / 2)
    assert world.api.owners[job.owner.uid].paused
    return world, job


def test_a_person_keeps_a_job_suspended_that_we_paused() -> None:
    """When he says so while its pods leave, they are not made again, until he resumes it."""
    world, job = paused()
    world.api.set_suspended(job.owner, suspended=True)
    world.settle(2 * GRACE)
    assert (seats(world, "important"), world.pods("job")) == (2, [])

    world.api.set_suspended(job.owner, suspended=False)
    world.settle(1)
    assert len(world.pods("job")) == 2


def test_a_person_keeps_a_job_suspended_that_we_are_about_to_resume() -> None:
    """Our resumption comes second and is refused."""
    world, job = paused()
    while not any(isinstance(effect, ResumeJob) for effect in world.said):
        if not world.step():
            world.advance(1.0)
    world.api.set_suspended(job.owner, suspended=True)
    world.settle(GRACE)

    assert world.api.controllers[job.owner.uid].suspended
    assert world.pods("job") == []


def test_what_a_person_resumed_is_no_longer_paused_by_us() -> None:
    """Our word is taken off within seconds, so that a later suspension of his, by whatever tool, is his own."""
    world, job = paused()
    world.api.set_suspended(job.owner, suspended=False)
    world.settle(EVERY + 1)
    assert world.api.owners[job.owner.uid].paused is None
    assert not world.api.owners[job.owner.uid].suspended

    world.api.set_suspended(job.owner, suspended=True, stays=False)
    world.settle(2 * GRACE)
    assert world.pods("job") == []


def resumed_at_once(*, restart: bool = False, at_once: bool = False) -> tuple[World, Controller]:
    """A Job that we suspended and a person resumed, before anybody deleted its pods.

    restart: the service begins between the two.  at_once: it hears of both in one.
    """
    world, job = to_be_suspended()
    while world.carry_out():
        pass
    if not at_once:
        world.report()
        world.watch()
    if restart:
        world.crash()
    world.api.set_suspended(job.owner, suspended=False)
    return world, job


@pytest.mark.parametrize("restart", [False, True], ids=["no restart", "restart"])
@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "at once"])
def test_a_job_that_a_person_resumed_before_its_pods_left_stays(restart: bool, at_once: bool) -> None:
    """A person's word counts more than ours: no gang waits for its room without end, and it is left alone for minutes."""
    world, _ = resumed_at_once(restart=restart, at_once=at_once)
    world.settle(POLICY.timeout + 1)
    assert (world.engine.ledger.freeing, world.engine.ledger.holds()) == ({}, 0)
    assert all(member.live for member in world.record("job").members.values())
    world.settle(SPARED / 2)

    assert (seats(world, "job"), seats(world, "important")) == (2, 0)
    assert sum(isinstance(effect, SuspendJob) for effect in world.said) == 1


def test_others_are_looked_for_when_a_job_was_resumed() -> None:
    """A dearer gang gives way instead, when the plan is given up."""
    world = a_stage(2, 2, grace=GRACE)
    job = a_job(world, "job", 2)
    a_job(world, "dear", 2, priority=10)
    world.settle(1)
    important(world, 2)
    while not any(isinstance(effect, SuspendJob) for effect in world.said):
        assert world.step()
    while world.carry_out():
        pass
    world.api.set_suspended(job.owner, suspended=False)
    world.settle(POLICY.timeout + GRACE + 5)

    assert (seats(world, "job"), seats(world, "dear"), seats(world, "important")) == (2, 0, 2)


def test_pods_that_leave_are_waited_for_though_their_job_was_resumed() -> None:
    """Who is on his way out goes, whatever is said of his Job then; so is nobody else asked."""
    world, job = paused()
    world.settle(1)
    world.api.set_suspended(job.owner, suspended=False)
    world.settle(GRACE)

    assert seats(world, "important") == 2
    assert len(world.pods("job")) == 2


def test_a_job_that_is_suspended_again_gives_way_after_all() -> None:
    """It was resumed by mistake, and that is taken back before the plan is given up."""
    world, job = resumed_at_once()
    world.watch()
    world.advance(POLICY.timeout / 2)
    world.api.set_suspended(job.owner, suspended=True)
    world.settle(GRACE + 5)

    assert seats(world, "important") == 2


def test_a_job_that_a_person_suspends_first_stays_his() -> None:
    """It was chosen, and before it is asked somebody suspends it: its pods leave without our asking, and it is not ours
    to resume.
    """
    world = a_stage(2)
    job = a_job(world, "low", 2)
    world.settle(5)
    important(world, 2)
    world.watch()
    assert world.engine.ledger.freeing
    world.api.set_suspended(job.owner, suspended=True)
    world.watch()
    world.settle(30)
    assert seats(world, "important") == 2
    assert not [effect for effect in world.said if isinstance(effect, SuspendJob)]
    assert job.suspended
