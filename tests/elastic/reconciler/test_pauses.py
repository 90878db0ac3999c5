"""Suspension, resumption, the end, and the master's own restarts."""

from collections.abc import Callable

import pytest

from scheduler.elastic.job import Phase, Spec, Stage, encode_status
from scheduler.elastic.job.spec import Checkpoint
from scheduler.elastic.reconciler import Reconciler, job_effects, job_events
from scheduler.elastic.sizing import policies
from scheduler.elastic.sizing.policy_parameters import Schedule
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.workers import Pod
from tests.elastic.reconciler.support.world import TEMPLATE, World


def test_a_job_is_suspended_and_resumed_with_another_size() -> None:
    """One saves while the others still hold the state; all go; later, elsewhere, others go on from the checkpoint."""
    world = a_job(3, checkpoint=Checkpoint(path="/ckpt"))
    steps = world.steps()
    world.change(suspend=True)
    assert world.run(30, lambda: world.phase is Phase.SUSPENDED), world.status.reason
    assert not world.pods
    assert world.disk is not None
    assert world.disk >= steps
    assert world.status.checkpoint is not None
    assert world.status.checkpoint.step == world.disk

    world.size(2)
    world.change(suspend=False)
    assert world.run(30, lambda: world.trains(2))
    assert world.steps() >= world.disk
    assert world.status.restarts == 0


def test_a_job_that_goes_on_starts_its_quorum_until_the_policy_speaks() -> None:
    """There may be less room than before the pause; the size of that time is not asked for."""
    world = a_job(4, checkpoint=Checkpoint(path="/ckpt"))
    world.change(suspend=True)
    assert world.run(30, lambda: world.phase is Phase.SUSPENDED)
    world.want = None
    before = len(world.sentences(job_effects.StartWorker))
    world.change(suspend=False)
    assert world.run(30, lambda: world.trains(2))

    assert [one.role for one in world.sentences(job_effects.StartWorker)[before:]] == ["core", "core"]


def resumed(path: str, *, restarted: bool) -> World:
    """A job in the second phase of its schedule that was suspended, and goes on before it has a round."""
    stages = (Stage(epoch=0.0, workers=2), Stage(epoch=0.5, workers=4, env={"PHASE": "2"}))
    world = a_job(
        2, schedule=stages, policy="schedule", parameters=Schedule(), checkpoint=Checkpoint(path=path)
    )
    world.size(4)
    assert world.run(60, lambda: world.trains(4) and world.steps() > 60)
    world.change(suspend=True)
    assert world.run(30, lambda: world.phase is Phase.SUSPENDED)
    world.want = None
    if restarted:
        world.die(1.0)
        world.run(2)
    world.change(suspend=False)
    return world


def asked(world: World) -> tuple[int, str]:
    """What the policy would like for the job by the epoch that it hears of."""
    view = world.membership.wishes(world.now)
    assert view is not None
    found = policies.schedule(view)
    return found.size, found.reason


@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_that_goes_on_is_in_the_phase_in_which_it_was_suspended(*, restarted: bool) -> None:
    """Before its first round the last epoch is known, to a new master too: the schedule does not begin from its
    start.
    """
    world = resumed("/ckpt", restarted=restarted)
    record = world.status.assignment

    assert record is not None
    assert record.epoch > 0.5
    assert asked(world) == (4, f"the schedule at epoch {record.epoch:g}")
    assert world.run(30, lambda: world.trains(4)), world.status.reason


@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_that_begins_anew_begins_its_schedule_anew(*, restarted: bool) -> None:
    """What was not saved is gone, its epoch too: size and rounds are those of the first phase again."""
    world = resumed("", restarted=restarted)
    assert asked(world) == (2, "the schedule at its beginning, because no epoch is reported yet")
    assert world.run(30, lambda: world.trains(2)), world.status.reason
    record = world.status.assignment

    assert record is not None
    assert (record.epoch, record.stage, record.env) == (0.0, 0, {})


def test_the_others_hold_the_state_until_it_is_saved() -> None:
    """The one that saves dies: the next one saves."""
    world = a_job(3, checkpoint=Checkpoint(path="/ckpt"))
    world.change(suspend=True)
    assert world.run(10, lambda: any(pod.child == "saving" for pod in world.pods.values()))
    world.end(next(pod for pod in world.pods.values() if pod.child == "saving"), 1, None)
    assert world.disk is None

    assert world.run(30, lambda: world.phase is Phase.SUSPENDED), world.status.reason
    assert world.disk is not None


def test_a_suspension_that_is_taken_back_loses_nothing() -> None:
    """While one saves, the others wait with their state; resumed, they go on."""
    world = a_job(3, checkpoint=Checkpoint(path="/ckpt"))
    world.change(suspend=True)
    assert world.run(10, lambda: any(pod.child == "saving" for pod in world.pods.values()))
    steps = world.steps()
    world.change(suspend=False)

    assert world.run(30, lambda: world.trains(3)), world.status.reason
    assert world.steps() >= steps


def test_the_job_succeeds_when_its_members_have_ended_well() -> None:
    """All processes end with 0: Succeeded, and nothing is started any more."""
    world = a_job(3)
    world.finish()

    assert world.run(5, lambda: world.phase is Phase.SUCCEEDED)
    assert [one.phase for one in world.sentences(job_effects.Finish)] == ["Succeeded"]
    starts = len(world.sentences(job_effects.StartWorker))
    world.run(30)
    assert len(world.sentences(job_effects.StartWorker)) == starts


@pytest.mark.parametrize("restarted", [False, True])
def test_nobody_trains_in_a_job_that_is_over(*, restarted: bool) -> None:
    """The last round stands in the assignment; of workers, throughput and batch there are none any more."""
    world = a_job(3)
    world.finish()
    assert world.run(5, lambda: world.phase is Phase.SUCCEEDED)
    if restarted:
        world.stored = encode_status(world.status)
        world.die(1.0)
        world.run(5)
    status = world.status
    quorum = next(one for one in status.conditions if one.type == "QuorumReady")

    assert status.assignment is not None
    assert len(status.assignment.ring) == 3
    assert (status.workers, status.samples_per_second, status.batch) == (0, None, None)
    assert (quorum.status, quorum.reason) == (False, "Succeeded")


def test_a_pod_that_outlives_the_training_goes_with_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container beside it that never ends would hold the room of a job that is over; pods that have ended stay."""
    over = World._pod_over
    world = a_job(2)
    beside = world.members()[1]

    def but_one(self: World, pod: Pod, code: int | None) -> None:
        if pod is not beside:
            over(self, pod, code)

    monkeypatch.setattr(World, "_pod_over", but_one)
    world.finish()
    assert world.run(5, lambda: world.phase is Phase.SUCCEEDED)
    assert world.run(120, lambda: beside.uid not in world.pods)
    world.run(120)
    assert len(world.pods) == 1


@pytest.mark.parametrize("ends", [World.finish, lambda world: world.change(suspend=True)])
def test_a_job_in_which_nobody_is_at_work_is_left_in_peace(ends: Callable[[World], None]) -> None:
    """One that is over or suspended is looked at once a minute; its pods may still be there, to be read."""
    world = a_job(2)
    ends(world)
    world.run(30)
    world.handle(job_events.Elapsed())
    assert world.phase in {Phase.SUCCEEDED, Phase.SUSPENDED}
    assert world.membership.next_deadline(world.now) - world.now == pytest.approx(60.0)

    world.change(suspend=False)
    assert world.phase is Phase.SUCCEEDED or world.run(30, lambda: world.trains(2))


def test_a_job_whose_spec_was_never_accepted_is_left_in_peace() -> None:
    """Nothing can be done for it before it is edited."""
    membership = Reconciler("ns/job")
    for event in (job_events.Restored(None), job_events.SpecRefused(()), job_events.Listed()):
        membership.handle(event, 1000.0)

    assert membership.next_deadline(1000.0) == 1060.0


def test_a_job_whose_workers_wait_for_seats_is_left_in_peace() -> None:
    """It is looked at when one gets its node, which is told."""
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE), nodes=0)
    world.run(20)
    assert rest(world) == pytest.approx(60.0)
    world.nodes = ["n0", "n1"]

    assert world.run(30, lambda: world.trains(2))


def test_a_job_that_keeps_away_from_a_node_is_looked_at_when_that_is_as_good_as_any() -> None:
    """Its pod, which waits for a seat elsewhere, is made again at that moment."""
    world = World(Spec(min_workers=1, max_workers=1, template=TEMPLATE), nodes=1)
    next(iter(world.pods.values())).crashes = True
    assert world.run(30, lambda: [pod.gated for pod in world.pods.values()] == [True] and world.made == 2)
    bar = world.status.barred[0]
    world.run(10)

    assert rest(world) == pytest.approx(bar.until - world.now)
    assert world.run(60, lambda: world.trains(1))


def kept(monkeypatch: pytest.MonkeyPatch, *pods: Pod) -> None:
    """A finalizer that nobody takes away: these pods stay, whatever has become of their containers."""
    remove, uids = World.remove, {pod.uid for pod in pods}

    def but_these(self: World, pod: Pod) -> None:
        if pod.uid not in uids:
            remove(self, pod)

    monkeypatch.setattr(World, "remove", but_these)


def rest(world: World) -> float:
    """Seconds until the next look."""
    world.handle(job_events.Elapsed())
    return world.membership.next_deadline(world.now) - world.now


def test_a_pod_that_does_not_go_costs_no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A former member whose pod a finalizer keeps: nobody waits for it, so the others are looked at as before."""
    world = a_job(3)
    leaver = world.members()[-1]
    kept(monkeypatch, leaver)
    world.delete(leaver)
    assert world.run(60, lambda: leaver not in world.members() and world.trains(3)), world.status.reason
    world.run(60)

    assert leaver.uid in world.pods
    assert rest(world) == pytest.approx(0.5)


@pytest.mark.parametrize("ends", [World.finish, lambda world: world.change(suspend=True)])
def test_pods_that_do_not_go_leave_a_job_at_rest(
    monkeypatch: pytest.MonkeyPatch, ends: Callable[[World], None]
) -> None:
    """One of a member that has ended, one of a newcomer that never had a seat: neither has a process."""
    world = a_job(2)
    world.nodes = world.nodes[:2]
    member = world.members()[-1]
    world.size(3)
    assert world.run(10, lambda: len(world.pods) == 3)
    waiting = list(world.pods.values())[-1]
    kept(monkeypatch, member, waiting)
    ends(world)
    world.delete(member)
    world.delete(waiting)
    world.run(60)

    assert {member.uid, waiting.uid} <= world.pods.keys()
    assert rest(world) == pytest.approx(60.0)


def test_the_first_that_ends_well_lets_the_others_end() -> None:
    """One comes to the end, another is killed in the last step, for which the third is back at the barrier: the training
    is complete all the same.
    """
    world = a_job(3)
    first, second, _ = world.members()
    world.finish(first)
    world.kill(second)

    assert world.run(20, lambda: world.phase is Phase.SUCCEEDED), world.status.reason


def test_training_goes_on_while_the_master_is_dead() -> None:
    """Nobody stops, nobody is given up, and the new master has the same round."""
    world = a_job(3)
    before, steps = world.status.round, world.steps()
    world.die(30.0)
    world.run(31)

    assert world.steps() > steps + 100
    assert world.trains(3) or world.run(3, lambda: world.trains(3))
    assert world.status.round == before
    assert not world.sentences(job_effects.Abort)


def test_a_worker_that_dies_while_the_master_is_dead_is_made_up_for_at_once() -> None:
    """Survivors wait at the barrier, and go on within four seconds of the master's return."""
    world = a_job(3)
    number = world.status.round
    world.die(10.0)
    world.end(world.members()[1], 1, None)
    world.run(10)
    assert world.run(4, lambda: world.up and world.status.round > number and world.trains(2)), (
        world.status.reason
    )


@pytest.mark.parametrize("kind", [job_effects.Announce, job_effects.Persist, job_effects.Publish])
def test_the_master_may_die_at_any_effect_of_a_resize(kind: type) -> None:
    """It dies just before one of them is carried out: the next master finishes what was begun, or begins it anew."""
    world = a_job(2)
    world.size(3)
    armed = [True]
    real = world.witness.saw

    def saw(effect: job_effects.Effect) -> None:
        if armed and isinstance(effect, kind):
            armed.clear()
            world.die(1.0)
            world.later(0.0, lambda: None)
        real(effect)

    world.witness.saw = saw  # type: ignore[method-assign]
    assert world.run(40, lambda: not armed and world.up and world.trains(3)), world.status.reason


def test_nobody_is_lost_for_silence_right_after_a_restart() -> None:
    """Two limits pass before a member that the new master has not heard of is given up."""
    world = a_job(3)
    world.lose_node(world.members()[2])
    world.die(0.2)
    world.run(9)
    assert not world.sentences(job_effects.Abort)
    assert world.run(10, lambda: world.trains(2)), world.status.reason


def test_a_master_that_slept_blames_nobody() -> None:
    """Its own process was stopped for a minute: what it did not hear in that time is nobody's fault."""
    world = a_job(3)
    world.now += 60
    for pod in world.pods.values():
        pod.progress = pod.beat_due = world.now
    world.handle(job_events.Elapsed())
    world.run(2)

    assert not world.sentences(job_effects.Abort)
    assert world.trains(3)


def test_the_same_is_told_again() -> None:
    """A worker that did not get its answer asks again, and gets the same; so it does from a new master."""
    world = a_job(2)
    record = world.status.assignment
    assert record is not None
    uid = record.ring[1].uid
    before = world.membership.assignment(uid, record.number - 1)
    world.begin()

    assert before is not None
    assert world.membership.assignment(uid, record.number - 1) == before
    assert world.membership.assignment(uid, record.number) is None


def test_late_words_change_nothing() -> None:
    """What is told twice or late, of former rounds or of pods that are gone, has no effect."""
    world = a_job(3)
    gone = world.members()[2]
    world.size(2)
    assert world.run(20, lambda: world.trains(2) and len(world.pods) == 2)
    member, told = world.members()[0], len(world.told)
    world.handle(job_events.Arrived(gone.uid, 1, 5, 5, "failure"))
    world.handle(job_events.Exited(gone.uid, 1))
    world.handle(job_events.WorkerGone(gone.uid))
    world.handle(job_events.WorkerSeen(gone.uid, gone.name, gone.node, phase="Running"))
    world.handle(job_events.Arrived(member.uid, 0))
    world.handle(job_events.Arrived(member.uid, 1, 5, 5, "announced"))
    world.handle(job_events.Persisted(1))
    world.handle(job_events.Beat("nobody", phase="Training", round=99))
    world.handle(job_events.Leaving("nobody"))
    world.run(1)

    assert [one for one in world.told[told:] if not isinstance(one, job_effects.Publish)] == []
    assert world.trains(2)


def test_a_stranger_is_told_so() -> None:
    """A uid that is no pod of the job gets a reason to end."""
    number, why = Reconciler("ns/job").beat_answer("nobody")

    assert (number, why) == (0, "is not a worker of this job")


def test_who_is_waited_for_stands_in_the_status() -> None:
    """At the barrier, by name."""
    world = a_job(2)
    world.size(3)
    absent = world.members()[1]
    assert world.run(20, lambda: world.status.reason.startswith("newcomers") or world.status.workers == 3)
    world.run(5)
    world.hang(absent)
    world.kill(world.members()[2])
    world.run(2)

    assert f"waiting at the barrier for {absent.name}" in world.status.reason


def test_a_spec_that_cannot_be_read_starts_nothing() -> None:
    """Its problems stand in a condition, and what ran before goes on."""
    from scheduler.elastic.job import Problem

    fresh = Reconciler("ns/job")
    problem = Problem("spec.maxWorkers", "1", "at least minWorkers, which is 2")
    told = fresh.handle(job_events.SpecRefused((problem,), 3), 100.0)

    assert [type(one) for one in told] == [job_effects.Tell]
    accepted = next(one for one in fresh.status(100.0).conditions if one.type == "Accepted")
    assert (accepted.status, accepted.message) == (
        False,
        "spec.maxWorkers = 1: at least minWorkers, which is 2",
    )
    world = World(Spec(min_workers=1, max_workers=1, template=TEMPLATE))
    assert world.run(20, lambda: world.trains(1))
    world.handle(job_events.SpecRefused((problem,), 4))
    world.run(5)
    assert world.trains(1)


def test_members_that_met_under_a_master_that_died_meet_again() -> None:
    """What they laid down for each other went with it: the next master opens another round at once."""
    world = a_job(2)
    world.faults.deep, world.meet_s = lambda: False, 0.5
    world.size(3)
    assert world.run(20, lambda: any(pod.child == "init" for pod in world.pods.values()))
    number, steps = world.status.round, world.steps()
    world.die(1.0)
    assert world.run(5.0, lambda: world.up and world.trains(3)), world.status.reason

    assert world.status.round == number + 1
    assert world.steps() >= steps


def test_who_has_not_met_yet_is_told_of_the_round_that_stands() -> None:
    """The master dies after it wrote the round and before it told anybody: no value is lost, and the round is as it
    was.
    """
    world = a_job(2)
    world.size(3)
    assert world.run(20, lambda: world.status.round > 1 and world.stored is not None)
    assert world.run(5, lambda: world.stored is not None and world.stored["round"] == 2)
    world.die(1.0)
    for pod in world.pods.values():
        pod.got = None
    assert world.run(5.0, lambda: world.up and world.trains(3)), world.status.reason

    assert world.status.round == 2


def test_a_process_that_was_started_again_meanwhile_is_a_newcomer() -> None:
    """A member was killed and started again while no master was there: nobody waits at the barrier until it is warm."""
    world = a_job(3)
    killed = world.members()[1]
    world.die(1.5)
    world.kill(killed)
    killed.start(world.now)
    killed.report = None

    assert world.run(4.0, lambda: world.up and world.trains(2)), world.status.reason
    assert world.run(20.0, lambda: world.trains(3)), world.status.reason
    assert world.status.restarts == 0
