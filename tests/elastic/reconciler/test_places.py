"""What a worker is told to expect of its first round is what it gets, or its process is started again."""

import pytest

from scheduler.elastic.reconciler import job_effects, job_events
from scheduler.elastic.reconciler.job_effects import Place
from tests.elastic.reconciler.test_ranks import Talk


class Gang(Talk):
    """Workers that have seats, and say for themselves when they are ready."""

    def __init__(self, names: str, least: int = 2) -> None:
        super().__init__(names, least, trained=False)

    def come(self, names: str, number: int, *, cores: int = 6) -> None:
        for place, name in enumerate(names):
            role = "core" if place < cores else "surplus"
            seen = job_events.WorkerSeen(name, name, f"n{name}", role, "Running", number=number + place)
            self.say(seen)

    def arrive(self, names: str, *, setup: bool = False) -> None:
        """At the barrier, with the place that each was told by now."""
        for name in names:
            self.say(job_events.Arrived(name, place=self.told(name), setup=setup))

    def told(self, name: str) -> tuple[int, int] | None:
        place = self.job.place(name)
        return (place.rank, place.size) if place else None

    def live(self, seconds: int, starting: str, training: str = "") -> None:
        """Seconds pass, in which these are heard of."""
        for _ in range(seconds):
            self.now += 1.0
            for name in starting:
                self.say(job_events.Beat(name))
            for name in training:
                self.say(job_events.Beat(name, "Training", 1, 20, 20))
            self.say(job_events.Elapsed())

    @property
    def aborted(self) -> str:
        """Whose processes are ended."""
        return "".join(one.uid for one in self.said if isinstance(one, job_effects.Abort))


def test_the_gang_is_told_its_first_round() -> None:
    """Members of the quorum by age, alone; a surplus worker joins them later."""
    gang = Gang("abc")

    assert [gang.job.place(name) for name in "abc"] == [
        Place(0, 2, joins=False),
        Place(1, 2, joins=False),
        Place(2, 3, joins=True),
    ]


def test_nothing_is_told_before_the_gang_has_its_seats() -> None:
    """One of two has none: it may be that another comes in its place."""
    gang = Gang("a")
    gang.say(job_events.WorkerSeen("b", "b", "", "core", gated=True))

    assert gang.job.place("a") is None


def test_a_gang_that_asked_begins_as_it_was_told() -> None:
    """A surplus worker that is ready as well joins in the second round."""
    gang = Gang("abc")
    gang.arrive("cba")
    gang.wait(2)

    assert gang.ring == "ab"
    assert gang.aborted == ""


def test_a_gang_that_did_not_ask_begins_with_all_that_are_ready() -> None:
    """Its size is nothing that a script goes by."""
    gang = Gang("abc")
    for name in "abc":
        gang.say(job_events.Arrived(name))
    gang.wait(2)

    assert gang.ring == "abc"


def test_who_comes_for_a_lost_worker_gets_its_rank() -> None:
    """The other keeps what it was told, and is not started again."""
    gang = Gang("ab")
    gang.arrive("b")
    gang.say(job_events.WorkerGone("a"))
    gang.come("c", 9)
    assert gang.told("c") == (0, 2)
    gang.arrive("c")

    assert gang.ring == "cb"
    assert gang.aborted == ""


def test_a_newcomer_is_told_the_next_round() -> None:
    """It comes behind those that train."""
    gang = Gang("ab")
    gang.arrive("ab")
    gang.train("ab")
    gang.change(workers=4)
    gang.come("cd", 9, cores=0)

    assert [gang.job.place(name) for name in "acd"] == [
        None,
        Place(2, 4, joins=True),
        Place(3, 4, joins=True),
    ]


def grown(asks: str) -> Gang:
    """Two train, and two are to join them; `c` was told before `d` had its seat."""
    gang = Gang("ab")
    gang.arrive("ab")
    gang.train("ab")
    gang.change(workers=4)
    gang.come("c", 9, cores=0)
    place = gang.told("c")
    assert place == (2, 3)
    gang.come("d", 10, cores=0)
    gang.say(job_events.Arrived("c", place=place if "c" in asks else None))
    gang.arrive("d")
    gang.wait(3, "abcd")
    return gang


def test_a_worker_that_was_told_another_place_is_started_again() -> None:
    """That interrupts no member, and is no failure: the pod stays, and nothing is counted."""
    gang = grown("c")
    assert (gang.aborted, gang.round.number) == ("c", 1)
    gang.say(job_events.Exited("c", signal=9, process=1))

    assert gang.job.restart("c")
    assert gang.told("c") == (2, 4)
    assert gang.job.status(gang.now).restarts == 0
    assert not gang.job.status(gang.now).reason.count("failures")


def test_a_worker_that_did_not_ask_or_was_started_again_trains() -> None:
    """Once in a pod: the second time it sends no place, and its script is told by a condition."""
    gang = grown("")

    assert gang.aborted == ""
    assert gang.round.number == 1
    for name in "ab":
        gang.say(job_events.Arrived(name, 1, 20, 20, "announced"))
    assert gang.ring == "abcd"


def test_a_process_that_was_started_again_is_not_once_more() -> None:
    """Its place is another than it was told once more: it trains, and its script is told by a condition."""
    gang = Gang("ab")
    gang.say(job_events.Arrived("a", place=(1, 2), again=True))
    gang.say(job_events.Arrived("b", place=(0, 3), again=True))

    assert sorted(gang.ring) == ["a", "b"]
    assert gang.aborted == ""


def test_scripts_that_set_up_meet_among_themselves() -> None:
    """The round is theirs alone and no start of the training; the next one begins when all come to it."""
    gang = Gang("abc")
    gang.arrive("ab", setup=True)
    assert (gang.ring, gang.round.setup, gang.round.restore) == ("ab", True, None)
    assert gang.job.status(gang.now).started_at is None
    for name in "ab":
        gang.say(job_events.Arrived(name, 1, why="another", another=True))

    assert (gang.ring, gang.round.number, gang.round.setup) == ("ab", 2, False)
    assert gang.job.status(gang.now).started_at is not None


@pytest.mark.parametrize("waits", [False, True])
def test_a_set_up_that_loses_a_member_begins_again(waits: bool) -> None:
    """All of it, whether the others still set up or wait at the barrier: what they exchanged, a newcomer cannot hear."""
    gang = Gang("ab")
    gang.arrive("ab", setup=True)
    if waits:
        gang.say(job_events.Arrived("a", 1, why="another", another=True))
    gang.say(job_events.Exited("b", signal=11, process=1))
    assert gang.aborted == "a"
    gang.say(job_events.Exited("a", signal=9, process=1))

    assert [gang.job.restart(name) for name in "ab"] == [True, True]
    assert [gang.job.place(name) for name in "ab"] == [Place(0, 2, joins=False), Place(1, 2, joins=False)]
    gang.arrive("ab", setup=True)
    assert (gang.ring, gang.round.setup) == ("ab", True)


def test_a_condition_names_the_line_that_asked() -> None:
    """As long as a member says that what it asked for is not true any more."""
    gang = Gang("ab")
    gang.arrive("ab")
    gang.say(job_events.Beat("a", "Training", 1, 1, 1, stale="train.py:12"))
    gang.wait(1)
    said = {one.type: one for one in gang.job.status(gang.now).conditions}["SetupRankStale"]

    assert said.status
    assert "a set up with a different rank or size than the round's, read at train.py:12" in said.message


def test_a_set_up_is_of_all_or_of_each_by_itself() -> None:
    """A core that set up beside a training is READY when the gang begins again, and the other meets in its set-up: the
    first is started again, so that they meet.
    """
    gang = Gang("ab")
    gang.say(job_events.Arrived("a", place=(1, 2)))
    gang.arrive("b", setup=True)
    assert gang.aborted == "a"
    gang.say(job_events.Exited("a", signal=9, process=1))
    gang.arrive("a", setup=True)

    assert (sorted(gang.ring), gang.round.setup) == (["a", "b"], True)


def test_a_newcomer_does_not_wait_in_a_set_up_that_is_over() -> None:
    """The others train by now, and it sets up by itself."""
    gang = Gang("ab")
    gang.arrive("ab")
    gang.train("ab")
    gang.change(workers=3)
    gang.come("c", 9)
    gang.say(job_events.Arrived("c", place=(0, 2), setup=True))

    assert gang.aborted == "c"


def test_a_place_that_is_not_known_yet_is_no_slow_start() -> None:
    """The other seat of the quorum is hours in coming; then the worker has the whole limit for its start."""
    gang = Gang("a")
    gang.say(job_events.WorkerSeen("b", "b", "", "core", gated=True))
    gang.live(700, "a")
    assert gang.aborted == ""
    gang.say(job_events.WorkerSeen("b", "b", "nb", "core", "Running"))
    gang.live(500, "ab")
    assert gang.aborted == ""
    gang.live(200, "ab")
    lost = [
        one.message for one in gang.said if isinstance(one, job_effects.Tell) and one.reason == "WorkerLost"
    ]

    assert len(lost) == 2


def test_a_late_one_is_waited_for_by_those_that_were_told_of_it() -> None:
    """They would be started again for nothing. It is given up at the limit of a start, as any other."""
    gang = Gang("ab")
    gang.arrive("ab")
    gang.train("ab")
    gang.change(workers=4)
    gang.come("cd", 9, cores=0)
    gang.arrive("c")
    gang.live(60, "cd", "ab")
    assert (gang.aborted, gang.round.number) == ("", 1)
    gang.arrive("d")
    gang.live(1, "cd", "ab")
    for name in "ab":
        gang.say(job_events.Arrived(name, 1, 20, 20, "announced"))

    assert gang.ring == "abcd"


def test_a_set_up_that_ends_for_a_suspension_fails_no_job() -> None:
    """Its members are told to leave, and end with code 0 before any training."""
    gang = Gang("ab")
    gang.arrive("ab", setup=True)
    gang.change(suspend=True)
    for name in "ab":
        gang.say(job_events.Arrived(name, 1, why="failure", setup=True))
    for name in "ab":
        gang.say(job_events.Exited(name, 0, entered=False, returned=False))

    assert gang.job.status(gang.now).phase.value not in {"Failed", "Succeeded"}


def test_evictions_while_a_gang_sets_up_are_no_restarts() -> None:
    """There is no state yet that could be lost."""
    gang = Gang("ab")
    gang.arrive("ab", setup=True)
    gang.say(job_events.WorkerGone("b"))
    gang.say(job_events.Exited("a", signal=9, process=1))
    gang.wait(2)

    assert gang.job.status(gang.now).restarts == 0
