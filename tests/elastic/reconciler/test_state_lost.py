"""A state that goes with its last holder, for want of a place to save it in: that is told, and nothing else is."""

import pytest

from scheduler.elastic.reconciler import job_effects, job_events
from tests.elastic.reconciler.test_ranks import Talk


def leave(talk: Talk, name: str) -> None:
    """SIGTERM, and its way to the barrier."""
    talk.say(job_events.Leaving(name, "SIGTERM", 60.0))
    talk.wait(1.0, name, "Training")
    talk.say(job_events.Arrived(name, talk.round.number, 20, 20, "announced"))


def told(talk: Talk) -> list[str]:
    return [
        one.message for one in talk.said if isinstance(one, job_effects.Tell) and one.reason == "StateLost"
    ]


def test_the_only_worker_is_drained() -> None:
    """The job begins again from the start; who, from which step and what would have helped is told as a warning."""
    talk = Talk("a", least=1)
    leave(talk, "a")

    (message,) = told(talk)
    assert message.startswith("Training state of step 20 is lost with a: ")
    assert "spec.checkpoint.path" in message
    talk.come("b", 2)
    assert [seat.name for seat in talk.round.ring] == ["b"]
    assert talk.round.restore is None


def test_all_are_suspended() -> None:
    """A suspension without a place to save in forgets what was trained, too."""
    talk = Talk("ab")
    talk.change(suspend=True)
    for name in "ab":
        talk.say(job_events.Arrived(name, 1, 20, 20, "announced"))

    assert len(told(talk)) == 1


@pytest.mark.parametrize(
    "talk",
    [Talk("a", least=1, path="/ckpt"), Talk("ab", least=1), Talk("a", least=1, trained=False)],
    ids=["it is saved", "another stays", "nothing was trained"],
)
def test_nothing_is_lost(talk: Talk) -> None:
    """With a checkpoint, with another member that stays, or before the first commit, there is nothing to tell."""
    talk.say(job_events.Leaving("a", "SIGTERM", 60.0))
    for seat in talk.round.ring:
        steps = 20 if talk.job._s.rounds.reached else 0
        talk.say(job_events.Arrived(seat.name, 1, steps, steps, "announced"))
    talk.wait(1.0)

    assert "a" not in [seat.name for seat in talk.round.ring]
    assert told(talk) == []
