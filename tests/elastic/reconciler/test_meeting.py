"""The round in which nobody can meet any more: which it is, from which end on, and until when."""

import pytest

from scheduler.elastic.reconciler import job_effects, job_events
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.test_ranks import Talk

ENDS = (
    job_events.Exited("b", None, 9),
    job_events.Exited("b", 1),
    job_events.WorkerGone("b"),
    job_events.WorkerSeen("b", "b", "nb", "core", "Failed", number=2),
)


@pytest.mark.parametrize("end", ENDS, ids=["killed", "failed", "gone", "pod failed"])
def test_a_member_ends_before_all_had_met(end: job_events.Event) -> None:
    """Nobody meets in the round that it belongs to, from then on until another round stands."""
    talk = Talk("abc", trained=False)
    number = talk.round.number
    talk.say(job_events.Beat("a", "Ready", number))
    assert talk.job.broken == 0

    talk.say(end)
    assert talk.job.broken == number
    talk.say(job_events.Arrived("c", number, 0, 0, "failure"))
    assert talk.job.broken == number
    talk.say(job_events.Arrived("a", number, 0, 0, "failure"))
    assert (talk.round.number, talk.job.broken) == (number + 1, 0)


@pytest.mark.parametrize("end", ENDS, ids=["killed", "failed", "gone", "pod failed"])
def test_a_member_ends_after_all_had_met(end: job_events.Event) -> None:
    """They are out of `init`, all of them, and nobody waits there for it."""
    talk = Talk("abc")
    talk.say(end)

    assert talk.job.broken == 0


def test_a_newcomer_ends_while_others_train() -> None:
    """It belongs to no round."""
    talk = Talk("abc")
    talk.change(workers=4)
    talk.come("d", 20, cores=0)
    talk.say(job_events.Exited("d", None, 9))

    assert talk.job.broken == 0


def test_a_member_that_is_only_silent_may_meet_the_others_yet() -> None:
    """It may be the master that it does not reach: it is given up, and what the others do in `init` is not ended for
    that.
    """
    talk = Talk("abc", trained=False)
    talk.wait(15.0, "ac")

    assert any(isinstance(one, job_effects.StopWorker) and one.uid == "b" for one in talk.said)
    assert talk.job.broken == 0


def test_a_restarted_master_finds_a_member_missing() -> None:
    """Once it knows every pod, and not before; of one that it has not heard of yet it does not say so."""
    world = a_job(3)
    world.begin()
    assert world.membership.broken == 0
    gone = world.members()[1]
    del world.pods[gone.uid]
    world.begin()

    assert world.membership.broken == world.status.round
