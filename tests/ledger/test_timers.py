"""One time a gang: the next is at hand, and what is set again or forgotten never comes."""

from scheduler.ledger.timers import SPARE, Timers
from scheduler.model.workload import GangKey


def key(number: int) -> GangKey:
    return GangKey("team", f"g{number:05}")


def test_gangs_are_due_in_the_order_of_their_times() -> None:
    """Each once, and none before its time."""
    timers = Timers()
    for number, at in enumerate((5.0, 1.0, 3.0)):
        timers.set(key(number), at)

    assert (timers.next(), list(timers.due(3.0)), timers.next()) == (1.0, [key(1), key(2)], 5.0)


def test_the_last_time_that_was_set_counts() -> None:
    """Earlier or later than the one before; infinity is none."""
    timers = Timers()
    timers.set(key(0), 5.0)
    timers.set(key(0), 9.0)
    timers.set(key(1), 5.0)
    timers.set(key(1), 2.0)
    timers.set(key(2), 1.0)
    timers.set(key(2), float("inf"))

    assert (timers.next(), timers.at(key(0)), timers.at(key(2)), len(timers)) == (2.0, 9.0, float("inf"), 2)
    assert list(timers.due(5.0)) == [key(1)]
    assert list(timers.due(9.0)) == [key(0)]


def test_what_is_forgotten_takes_no_room() -> None:
    """However often a gang is given another time."""
    timers = Timers()
    for at in range(10_000):
        timers.set(key(at % 3), float(at))

    assert len(timers._heap) <= 2 * 3 + SPARE + 1
