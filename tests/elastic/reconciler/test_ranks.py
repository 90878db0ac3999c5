"""Whose state counts: told to the membership word by word, where members come to the barrier with different ones."""

from typing import Any

import msgspec
import pytest

from scheduler.elastic.job import Phase, Round, Spec
from scheduler.elastic.job.spec import Checkpoint
from scheduler.elastic.reconciler import Reconciler, job_effects, job_events
from tests.elastic.reconciler.support.world import TEMPLATE


class Talk:
    """A conversation with the membership of a job whose workers are named by letters."""

    def __init__(self, names: str, least: int = 2, *, path: str = "", trained: bool = True) -> None:
        self.now = 1000.0
        self.job = Reconciler("ns/job")
        self.said: list[job_effects.Effect] = []
        self.spec = Spec(
            min_workers=least,
            max_workers=6,
            workers=len(names),
            template=TEMPLATE,
            checkpoint=Checkpoint(path=path),
        )
        self.say(job_events.SpecSeen(self.spec))
        self.come(names, 1, cores=least)
        if trained:
            self.train(names)

    def come(self, names: str, number: int, *, cores: int = 6) -> None:
        """New workers, warm."""
        for place, name in enumerate(names):
            role = "core" if place < cores else "surplus"
            self.say(
                job_events.WorkerSeen(
                    name, name, f"n{name}", role, "Running", number=number + place, since=900.0 + place
                )
            )
        for name in names:
            self.say(job_events.Arrived(name))

    def grow(self, names: str) -> None:
        """More are wanted, they are warm, and the members are called."""
        self.change(workers=len(self.round.ring) + len(names))
        self.come(names, 20, cores=0)
        self.now += 2.0
        self.say(job_events.Elapsed())

    def change(self, **fields: Any) -> None:
        self.spec = msgspec.structs.replace(self.spec, **fields)
        self.say(job_events.SpecSeen(self.spec))

    def say(self, event: job_events.Event) -> list[job_effects.Effect]:
        self.now += 0.01
        told = self.job.handle(event, self.now)
        self.said += told
        for one in told:
            if isinstance(one, job_effects.Persist):
                self.say(job_events.Persisted(one.status.round))
        return told

    def train(self, names: str, step: int = 10) -> None:
        for name in names:
            beat = job_events.Beat(name, "Training", self.round.number, step, step)
            self.say(beat)
            self.now += 0.6
            self.say(msgspec.structs.replace(beat, step=step + 1))

    def wait(self, seconds: float, names: str = "", phase: str = "Ready") -> None:
        """Time passes; these are heard."""
        end = self.now + seconds
        while self.now < end:
            self.now += 0.1
            for name in names:
                self.say(job_events.Beat(name, phase, self.round.number, 20, 20))
            self.say(job_events.Elapsed())

    @property
    def round(self) -> Round:
        record = self.job.status(self.now).assignment
        assert record is not None
        return record

    @property
    def ring(self) -> str:
        return "".join(seat.name for seat in self.round.ring)


def test_rank_0_has_the_newest_commit_not_the_greatest_age() -> None:
    """Of the survivors of a failure, the one that had committed last leads, and the others take over its state."""
    talk = Talk("abcd")
    talk.say(job_events.Exited("d", 1))
    for name, committed in (("a", 10), ("b", 15), ("c", 15)):
        talk.say(job_events.Arrived(name, 1, 16, committed, "failure"))

    assert talk.ring == "bca"
    assert talk.round.sync


def test_equal_states_keep_their_ranks_and_need_no_sync() -> None:
    """Nobody sends anything to anybody."""
    talk = Talk("abcd")
    talk.say(job_events.Exited("a", 1))
    for name in "dcb":
        talk.say(job_events.Arrived(name, 1, 16, 15, "failure"))

    assert talk.ring == "bcd"
    assert not talk.round.sync


def test_who_alone_has_the_newest_state_leaves_one_round_later() -> None:
    """Told to end, it first hands its state on; with the round after that it goes."""
    talk = Talk("abc")
    talk.say(job_events.Leaving("c", "SIGTERM", 30.0))
    for name, committed in (("a", 10), ("b", 10), ("c", 15)):
        talk.say(job_events.Arrived(name, 1, 16, committed, "failure"))
    assert talk.ring == "cab"

    talk.train("abc", 20)
    for name in "abc":
        talk.say(job_events.Arrived(name, 2, 25, 25, "announced"))
    assert talk.ring == "ab"
    assert [seat.name for seat in talk.round.leaving] == ["c"]


def test_a_late_word_of_a_former_round_is_not_an_arrival() -> None:
    """A member that trains in the round is not at the barrier because something that it said before comes late."""
    talk = Talk("abc")
    talk.say(job_events.Exited("c", 1))
    for name in "ab":
        talk.say(job_events.Arrived(name, 1, 16, 15, "failure"))
    talk.train("ab", 20)
    assert talk.round.number == 2
    talk.say(job_events.Leaving("b", "SIGTERM", 30.0))
    talk.say(job_events.Arrived("a", 1, 16, 15, "failure"))
    talk.say(job_events.Arrived("b", 2, 25, 25, "announced"))
    assert talk.round.number == 2, "a is still at work"

    talk.say(job_events.Arrived("a", 2, 25, 25, "announced"))
    assert talk.round.number == 3


def test_a_process_that_ended_says_nothing_more() -> None:
    """What a killed process had sent is no state that anybody has: its successor is a newcomer."""
    talk = Talk("abc")
    talk.say(job_events.Exited("c", signal=9))
    talk.say(job_events.Arrived("c", 1, 16, 99, "failure"))
    for name in "ab":
        talk.say(job_events.Arrived(name, 1, 16, 15, "failure"))

    assert talk.ring == "ab"
    assert talk.job.restart("c")


@pytest.mark.parametrize("why", ["exited with code 1", "its pod was deleted"])
def test_the_round_is_not_published_when_somebody_dies_while_it_is_written(why: str) -> None:
    """Its number is given up, the survivors get the next one."""
    talk = Talk("abcd")
    talk.say(job_events.Leaving("d", "SIGTERM", 30.0))
    for name in "abc":
        talk.say(job_events.Arrived(name, 1, 20, 20, "announced"))
    told = talk.job.handle(job_events.Arrived("d", 1, 20, 20, "announced"), talk.now)
    assert [one.status.round for one in told if isinstance(one, job_effects.Persist)] == [2]
    before = len(talk.said)
    talk.say(job_events.WorkerGone("c") if "gone" in why else job_events.Exited("c", 1))
    talk.say(job_events.Persisted(2))

    published = [one for one in talk.said[before:] if isinstance(one, job_effects.Publish)]
    assert [one.round for one in published] == [3]
    assert talk.ring == "ab"


def test_a_round_that_breaks_before_its_first_commit_is_synchronised() -> None:
    """What each process began with is its own: nobody has a state, and all take over what rank 0 has."""
    talk = Talk("abc", trained=False)
    talk.say(job_events.Exited("c", 1))
    for name in "ab":
        talk.say(job_events.Arrived(name, 1, 0, 0, "failure"))

    assert (talk.round.number, talk.ring, talk.round.sync) == (2, "ab", True)
    assert talk.job.status(talk.now).restarts == 0


def test_the_loss_of_the_only_holder_is_told() -> None:
    """Newcomers met a member, which died before they had its state: what it had learnt is lost, and that counts as a
    restart.
    """
    talk = Talk("a", least=1)
    talk.grow("bc")
    talk.say(job_events.Arrived("a", 1, 21, 21, "announced"))
    assert (talk.ring, talk.round.sync) == ("abc", True)
    talk.say(job_events.Exited("a", 1))
    for name in "bc":
        talk.say(job_events.Arrived(name, 2, 0, 0, "failure"))

    assert (talk.ring, talk.round.sync, talk.round.step, talk.round.samples) == ("bc", True, 0, 0)
    assert talk.job.status(talk.now).restarts == 1
    assert [one.reason for one in talk.said if isinstance(one, job_effects.Tell)].count("GangLost") == 1


@pytest.mark.parametrize("trained", [False, True])
def test_a_checkpoint_is_looked_for_when_there_may_be_one(trained: bool) -> None:
    """Not before anything was committed; and rank 0 alone looks for it, so the others take over what it has."""
    talk = Talk("ab", path="/ckpt", trained=trained)
    for name in "ab":
        talk.say(job_events.Exited(name, 1))
        talk.say(job_events.WorkerGone(name))
    talk.come("cd", 50)

    assert talk.ring == "cd"
    assert (talk.round.restore, talk.round.sync) == ("/ckpt" if trained else None, True)


def test_a_slow_leaver_is_no_failure() -> None:
    """Two rounds later it ends well, as it was told to: nothing is held against it or its node."""
    talk = Talk("abcd")
    talk.change(workers=3)
    talk.wait(2.0, "abcd", "Training")
    for name in "abcd":
        talk.say(job_events.Arrived(name, 1, 21, 21, "announced"))
    assert [seat.name for seat in talk.round.leaving] == ["d"]
    talk.train("abc", 30)
    talk.say(job_events.Exited("b", 1))
    for name in "ac":
        talk.say(job_events.Arrived(name, 2, 31, 31, "failure"))
    talk.say(job_events.Exited("d", 0, round=1))

    lost = [
        one.message for one in talk.said if isinstance(one, job_effects.Tell) and one.reason == "WorkerLost"
    ]
    assert lost == ["b exited with code 1"]
    assert [one.node for one in talk.job.status(talk.now).barred] == ["nb"]


def test_a_newcomer_at_the_barrier_that_has_to_go_is_let_go_at_once() -> None:
    """No round will answer it: its process is ended, instead of waiting there until its time is over."""
    talk = Talk("ab")
    talk.change(workers=3)
    talk.come("c", 9, cores=0)
    before = talk.round.number
    talk.say(job_events.Leaving("c", "SIGTERM", 60.0))

    assert talk.job.beat_answer("c") == (before, "SIGTERM")
    assert [one.uid for one in talk.said if isinstance(one, job_effects.StopWorker)] == ["c"]


def restarted(talk: Talk) -> None:
    """Another master takes the job over."""
    status = talk.job.status(talk.now)
    talk.job = Reconciler("ns/job")
    talk.say(job_events.Restored(status))
    talk.say(job_events.SpecSeen(talk.spec))
    for seat in status.assignment.ring if status.assignment else ():
        talk.say(job_events.WorkerSeen(seat.uid, seat.name, seat.node, "core", "Running", number=1))
    talk.say(job_events.Listed())


def test_what_the_state_is_made_of_members_say() -> None:
    """A newcomer that comes first after a restart of the master does not: it goes when the members have said it."""
    talk = Talk("ab")
    restarted(talk)
    talk.wait(1.0, "ab", "Training")
    talk.change(workers=4)
    talk.come("xy", 30, cores=0)
    talk.say(job_events.Arrived("x", fingerprint="other"))
    talk.say(job_events.Arrived("y", fingerprint="same"))
    talk.wait(1.0, "ab", "Training")
    for name in "ab":
        talk.say(job_events.Arrived(name, 1, 25, 25, "announced", "same"))

    assert talk.ring == "aby"
    assert "other tensors" in str(talk.job.beat_answer("x")[1])


def test_nobody_works_on_for_a_job_that_is_over() -> None:
    """The master died between the end of the job and the end of its workers: the next one stops them."""
    talk = Talk("ab")
    status = msgspec.structs.replace(talk.job.status(talk.now), phase=Phase.FAILED, reason="enough")
    talk.job = Reconciler("ns/job")
    talk.said.clear()
    for event in (
        job_events.Restored(status),
        job_events.SpecSeen(talk.spec),
        job_events.WorkerSeen("a", "a", "na", "core", "Running", number=1),
        job_events.Listed(),
    ):
        talk.say(event)

    assert [one.uid for one in talk.said if isinstance(one, job_effects.StopWorker)] == ["a"]
    assert talk.job.beat_answer("a")[1] == "enough"


def test_a_late_beat_of_a_process_that_ended_is_not_its_successors() -> None:
    """It would make those of the new process look older, and nobody would see that it is frozen."""
    talk = Talk("abc")
    talk.say(job_events.Exited("c", signal=9, round=1))
    talk.say(job_events.Beat("c", "Training", 1, 12, 10))
    talk.say(job_events.Beat("c", "WarmingUp", 0, child="stopped"))
    talk.wait(6.0, "ab", "Training")

    assert "frozen" in str(talk.job.beat_answer("c")[1])


def test_an_end_that_is_told_twice_is_one() -> None:
    """The agent did not get our answer: however late it asks again, its process has died once, and is started again. Of
    the next process the same words are another end.
    """
    talk = Talk("abc")

    def die(process: int) -> int:
        before = len(talk.said)
        talk.say(job_events.Exited("c", signal=9, tail=("the end",), process=process))
        told = [one for one in talk.said[before:] if isinstance(one, job_effects.Tell)]
        return sum(one.reason == "ProcessRestarted" for one in told)

    assert die(1) == 1
    for _ in range(3):
        talk.now += 6.0
        assert die(1) == 0
        assert talk.job.restart("c")
    assert die(2) == 1


def test_a_new_process_is_not_told_its_predecessors_round() -> None:
    """The member was started again while no master was there: it has nothing that the round without a sync goes by."""
    talk = Talk("ab")
    talk.say(job_events.Exited("b", 1))
    talk.change(min_workers=1, workers=1)
    talk.say(job_events.Arrived("a", 1, 20, 20, "failure"))
    talk.train("a", 21)
    assert (talk.ring, talk.round.sync) == ("a", False)
    restarted(talk)
    talk.say(job_events.Arrived("a"))

    assert talk.job.assignment("a", 0) is None or talk.round.number > 2
    assert (talk.round.number > 2, talk.job.status(talk.now).restarts) == (True, 1)
