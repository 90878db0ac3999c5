"""The checkpoint of a pause: who writes it, whose word counts, and what happens when it cannot be written."""

import pytest

from scheduler.elastic.job import Phase
from scheduler.elastic.job.spec import Checkpoint
from scheduler.elastic.job.status import Checkpoint as Saved
from scheduler.elastic.job.status import Condition
from scheduler.elastic.reconciler import Reconciler, Timeouts, job_effects, job_events
from scheduler.elastic.reconciler.reconciler import STEADY
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import World
from tests.elastic.reconciler.test_ranks import Talk

FULL = "CheckpointError: no space left on the device"


def a_pause(names: str = "abc") -> Talk:
    """All are at the barrier, and one of them is told to save."""
    talk = Talk(names, path="/ckpt")
    talk.change(suspend=True)
    for name in names:
        talk.say(job_events.Arrived(name, 1, 20, 20, "announced"))
    return talk


def saver(talk: Talk) -> str | None:
    return talk.round.saver


def condition(talk: Talk) -> Condition:
    return next(one for one in talk.job.status(talk.now).conditions if one.type == "SaveFailed")


@pytest.mark.parametrize("age", [900.0, 899.0])
def test_rank_0_saves(age: float) -> None:
    """Whoever is older or has the higher uid: of those with the newest state it is rank 0 of the round that ends."""
    talk = Talk("ab", path="/ckpt")
    first, other = talk.round.ring
    talk.job._s.workers[first.uid].since = 900.0
    talk.job._s.workers[other.uid].since = age
    talk.change(suspend=True)
    for name in "ab":
        talk.say(job_events.Arrived(name, 1, 20, 20, "announced"))

    assert saver(talk) == first.uid


@pytest.mark.parametrize("word", ["beat", "end"])
def test_what_the_worker_says_counts(word: str) -> None:
    """With a beat or with its end it tells the step of its file: then the others may go."""
    talk = a_pause()
    if word == "beat":
        talk.say(job_events.Beat("a", "Leaving", 1, 20, 20, values={"checkpoint_step": 20.0}))
        talk.say(job_events.Exited("a", 0))
    else:
        talk.say(job_events.Exited("a", 0, checkpoint_step=20))

    assert [seat.name for seat in talk.round.leaving] == ["b", "c"]
    assert talk.round.saver is None
    assert talk.job.status(talk.now).checkpoint == Saved("/ckpt", 20)


@pytest.mark.parametrize(
    "end",
    [
        job_events.WorkerSeen("a", "a", "na", "core", "Succeeded", number=1),
        job_events.WorkerGone("a"),
        job_events.Exited("a", 0),
        job_events.Exited("a", 0, checkpoint_step=10),
        job_events.Exited("a", signal=9),
    ],
)
def test_without_its_word_nothing_stands(end: job_events.Event) -> None:
    """That its pod has Succeeded or is gone, or an older file, says nothing: the next one that holds the state
    saves.
    """
    talk = a_pause()
    talk.say(end)

    assert saver(talk) == "b"
    assert [seat.name for seat in talk.round.holding] == ["c"]
    assert not condition(talk).status


def test_when_saving_fails_all_keep_the_state() -> None:
    """The disk is full: nobody else tries and leaves, the job stays Suspending and says why."""
    talk = a_pause()
    talk.say(job_events.Exited("a", 1, why=FULL))
    talk.say(job_events.WorkerGone("a"))
    talk.wait(30.0, "bc")
    status = talk.job.status(talk.now)

    assert status.phase is Phase.SUSPENDING
    assert [seat.name for seat in talk.round.holding] == ["b", "c"]
    assert status.checkpoint is None
    assert (condition(talk).status, FULL in condition(talk).message) == (True, True)
    assert [one.reason for one in talk.said if isinstance(one, job_effects.Tell)].count("SaveFailed") == 1
    assert not [one for one in talk.said if isinstance(one, job_effects.StopWorker) and one.uid in {"b", "c"}]


def test_what_was_kept_goes_on_or_is_saved_anew() -> None:
    """Resumed, those that kept the state train on with it; suspended once more, one of them saves."""
    talk = a_pause()
    talk.say(job_events.Exited("a", 1, why=FULL))
    talk.say(job_events.WorkerGone("a"))
    talk.change(suspend=False, workers=2)
    talk.wait(2.0, "bc")
    assert (talk.ring, talk.round.step, talk.round.sync) == ("bc", 20, False)
    assert not condition(talk).status

    talk.train("bc", 30)
    talk.change(suspend=True)
    for name in "bc":
        talk.say(job_events.Arrived(name, talk.round.number, 35, 35, "announced"))
    assert saver(talk) == "b"


def test_who_keeps_the_state_begins_no_round_while_the_job_is_suspended() -> None:
    """However long the state is kept: no number of a round is used up, and looks are as seldom as at a job that trains."""
    world = a_job(4, checkpoint=Checkpoint(path="/ckpt"))
    for pod in world.members():
        pod.disk_full = True
    world.change(suspend=True)
    world.run(60)
    kept = world.status
    assert (len(kept.assignment.holding if kept.assignment else ()), kept.phase) == (3, Phase.SUSPENDING)
    world.handle(job_events.Elapsed())
    assert world.due == world.now + STEADY

    world.change(suspend=False)
    assert world.run(30, world.trains)
    assert world.status.round == kept.round + 1


def test_who_has_to_go_tries_to_save() -> None:
    """Its pod is taken away, so it has nothing to lose; the other one keeps the state."""
    talk = a_pause()
    talk.say(job_events.Exited("a", 1, why=FULL))
    talk.say(job_events.Leaving("c", "SIGTERM", 30.0))

    assert saver(talk) == "c"
    assert [seat.name for seat in talk.round.holding] == ["b"]


def test_a_restarted_master_does_not_try_again() -> None:
    """That saving failed stands in the status."""
    world = a_job(3, checkpoint=Checkpoint(path="/ckpt"))
    for pod in world.pods.values():
        pod.disk_full = True
    world.change(suspend=True)
    assert world.run(
        30, lambda: any(one.type == "SaveFailed" and one.status for one in world.status.conditions)
    )
    world.run(5)
    _written(world)
    world.die(1.0)
    world.run(20)

    assert (len(world.pods), world.phase, world.disk) == (2, Phase.SUSPENDING, None)


def _written(world: World) -> None:
    """The figures of the status are written now and then."""
    from scheduler.elastic.job import encode_status

    world.stored = encode_status(world.status)


@pytest.mark.parametrize("restarted", [False, True])
def test_who_saves_has_his_time_however_long_he_was_there(*, restarted: bool) -> None:
    """A worker that has trained for hours is no newcomer that is late: it is waited for until the limit of a save,
    which begins anew with a master that did not release it.
    """
    talk = a_pause()
    if restarted:
        status = talk.job.status(talk.now)
        talk.job = Reconciler("ns/job")
        talk.say(job_events.Restored(status))
        talk.say(job_events.SpecSeen(talk.spec))
        for name in "abc":
            talk.say(job_events.WorkerSeen(name, name, f"n{name}", "core", "Running"))
        talk.say(job_events.Listed())
        for name in "bc":
            talk.say(job_events.Arrived(name, 1, 20, 20, "announced"))
    talk.job._s.workers["a"].seated_at = talk.now - 7200.0
    talk.wait(Timeouts().save - 5.0, "abc")
    assert not [one for one in talk.said if isinstance(one, job_effects.StopWorker)]
    assert saver(talk) == "a"

    talk.wait(10.0, "abc")
    assert [one.why for one in talk.said if isinstance(one, job_effects.StopWorker)] == [
        "it was released but did not exit"
    ]
