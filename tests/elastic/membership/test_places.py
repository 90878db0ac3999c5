"""What a worker is told to expect of its first round is what it gets, or its process is started again."""

import pytest

from scheduler.elastic.membership import effects, events
from scheduler.elastic.membership.effects import Place
from tests.elastic.membership.test_ranks import Talk


class Gang(Talk):
    """Workers that have seats, and say for themselves when they are ready."""

    def __init__(self, names: str, least: int = 2) -> None:
        super().__init__(names, least, trained=False)

    def come(self, names: str, number: int, *, cores: int = 6) -> None:
        for place, name in enumerate(names):
            role = "core" if place < cores else "surplus"
            seen = events.WorkerSeen(name, name, f"n{name}", role, "Running", number=number + place)
            self.say(seen)

    def arrive(self, names: str, *, setup: bool = False) -> None:
        """At the barrier, with the place that each was told by now."""
        for name in names:
            self.say(events.Arrived(name, place=self.told(name), setup=setup))

    def told(self, name: str) -> tuple[int, int] | None:
        place = self.job.place(name)
        return (place.rank, place.size) if place else None

    @property
    def aborted(self) -> str:
        """Whose processes are ended."""
        return "".join(one.uid for one in self.said if isinstance(one, effects.Abort))


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
    gang.say(events.WorkerSeen("b", "b", "", "core", gated=True))

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
        gang.say(events.Arrived(name))
    gang.wait(2)

    assert gang.ring == "abc"


def test_who_comes_for_a_lost_worker_gets_its_rank() -> None:
    """The other keeps what it was told, and is not started again."""
    gang = Gang("ab")
    gang.arrive("b")
    gang.say(events.WorkerGone("a"))
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
    gang.say(events.Arrived("c", place=place if "c" in asks else None))
    gang.arrive("d")
    gang.wait(3, "abcd")
    return gang


def test_a_worker_that_was_told_another_place_is_started_again() -> None:
    """That interrupts no member, and is no failure: the pod stays, and nothing is counted."""
    gang = grown("c")
    assert (gang.aborted, gang.round.number) == ("c", 1)
    gang.say(events.Exited("c", signal=9, process=1))

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
        gang.say(events.Arrived(name, 1, 20, 20, "announced"))
    assert gang.ring == "abcd"


def test_scripts_that_set_up_meet_among_themselves() -> None:
    """The round is theirs alone and no start of the training; the next one begins when all come to it."""
    gang = Gang("abc")
    gang.arrive("ab", setup=True)
    assert (gang.ring, gang.round.setup, gang.round.restore) == ("ab", True, None)
    assert gang.job.status(gang.now).started_at is None
    for name in "ab":
        gang.say(events.Arrived(name, 1, why="another", another=True))

    assert (gang.ring, gang.round.number, gang.round.setup) == ("ab", 2, False)
    assert gang.job.status(gang.now).started_at is not None


@pytest.mark.parametrize("waits", [False, True])
def test_a_set_up_that_loses_a_member_begins_again(waits: bool) -> None:
    """All of it, whether the others still set up or wait at the barrier: what they exchanged, a newcomer cannot hear."""
    gang = Gang("ab")
    gang.arrive("ab", setup=True)
    if waits:
        gang.say(events.Arrived("a", 1, why="another", another=True))
    gang.say(events.Exited("b", signal=11, process=1))
    assert gang.aborted == "a"
    gang.say(events.Exited("a", signal=9, process=1))

    assert [gang.job.restart(name) for name in "ab"] == [True, True]
    assert [gang.job.place(name) for name in "ab"] == [Place(0, 2, joins=False), Place(1, 2, joins=False)]
    gang.arrive("ab", setup=True)
    assert (gang.ring, gang.round.setup) == ("ab", True)


def test_a_condition_names_the_line_that_asked() -> None:
    """As long as a member says that what it asked for is not true any more."""
    gang = Gang("ab")
    gang.arrive("ab")
    gang.say(events.Beat("a", "Training", 1, 1, 1, stale="train.py:12"))
    gang.wait(1)
    said = {one.type: one for one in gang.job.status(gang.now).conditions}["SetupRankStale"]

    assert said.status
    assert "a set up for another rank or size than the round's, asked for at train.py:12" in said.message
