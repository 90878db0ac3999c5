"""Who may pass the first gang that waits, and that nobody who keeps his word delays it."""

import numpy as np
import pytest

from scheduler.ledger import conditions
from scheduler.ledger.runtimes import Reach
from scheduler.model.decision import Reason, Wait
from scheduler.model.queueing import Backfill, Reservation
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.honest import Coming, Day, a_day
from tests.engine.support.stage import a_world, seats

HALF = Coming(0, 2, 1, 100, 100)
WHOLE = Coming(1, 4, 1, 50, 50)
"""The first gang leaves two of four GPUs free; the second needs all four, and waits for the first to end at 100."""


def a_story(*comings: Coming, backfill: Backfill = Backfill.RESERVE) -> Day:
    return Day((4,), [HALF, WHOLE, *comings], backfill).run()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_promises_to_the_first_in_line_are_kept(part: int) -> None:
    """On random days, with restarts, each gang that was first begins no later than it was first promised."""
    kept = 0
    for seed in range(part, 30, 5):
        day = a_day(seed).run()
        assert day.broken() == [], f"a_day({seed})"
        kept += len(day.promises)
    assert kept > 5


def test_a_short_gang_passes_and_a_long_one_is_kept_back() -> None:
    """Who is gone before the first can begin uses the room meanwhile; who is not waits, and is told why."""
    day = a_story(Coming(2, 2, 1, 40, 40), Coming(3, 2, 1, 80, 80))
    assert day.began_at(2) == 2
    assert day.began_at(1) == 100
    assert day.began_at(3) == 150


def test_a_long_gang_passes_beside_the_reservation() -> None:
    """Of what the first does not need when it begins a long gang may have as much, and no more."""
    long = (2, 1, 500, 500)
    day = Day((8,), [Coming(0, 4, 1, 100, 100), Coming(1, 6, 1, 50, 50), Coming(2, *long), Coming(3, *long)])
    day.run()
    assert day.began_at(2) == 2
    assert day.began_at(1) == 100
    assert day.began_at(3) == 150


def test_short_is_who_has_left_when_the_reservation_begins() -> None:
    """To the very second, and not a moment after it."""
    world = a_world(4)
    world.submit(a_gang_of_pods("late", 2, gpu=8))
    world.settle(1)
    front, record = world.engine.cycle.head, world.record("late")
    front.reserved = Reservation(record.key, 100.0, np.zeros((1, 1)), np.zeros((1, 1)))
    record.observed.reach = Reach(60.0)
    assert front.is_short(record, 40.0)
    assert not front.is_short(record, 40.1)


def test_who_waits_for_reserved_room_is_told_so() -> None:
    """The reason is the reservation, not want of room."""
    world = a_world(4)
    for name, count, runtime in (("half", 2, 100.0), ("whole", 4, 50.0), ("long", 2, 500.0)):
        world.submit(a_gang_of_pods(name, count, gpu=1, wish={"runtime": runtime}))
        world.settle(3)
    told = world.record("long").verdict.decision
    assert isinstance(told, Wait)
    assert told.reason is Reason.CAPACITY_RESERVED
    assert seats(world, "long") == 0


@pytest.mark.parametrize(
    ("namespace", "holder"),
    [("default", "default/whole"), ("other", "a gang in another namespace")],
)
def test_who_waits_for_reserved_room_is_told_for_which_gang_it_is_held(namespace: str, holder: str) -> None:
    """By name inside its own namespace; what others call their gangs is not in its events."""
    world = a_world(4)
    for name, count, runtime in (("half", 2, 100.0), ("whole", 4, 50.0)):
        world.submit(a_gang_of_pods(name, count, gpu=1, wish={"runtime": runtime}))
        world.settle(3)
    world.submit(a_gang_of_pods("long", 2, gpu=1, namespace=namespace, wish={"runtime": 500.0}))
    world.settle(3)

    record = world.record("long", namespace)

    assert conditions.reason(record) is Reason.CAPACITY_RESERVED
    assert conditions.sentence(record, Reason.CAPACITY_RESERVED).endswith(
        f"; the remaining free capacity is reserved for {holder}"
    )


def test_who_becomes_first_has_its_room_reserved_at_once() -> None:
    """However young the reservation of the one before it was: nobody slips past in between."""
    world = a_world(4)
    for name, count, runtime in (("half", 2, 100.0), ("gone", 4, 50.0)):
        world.submit(a_gang_of_pods(name, count, gpu=1, wish={"runtime": runtime}))
        world.quiet()
    for pod in world.pods("gone"):
        world.api.delete(pod.key)
    world.submit(a_gang_of_pods("whole", 4, gpu=1, wish={"runtime": 50.0}))
    world.quiet()
    world.submit(a_gang_of_pods("young", 2, gpu=1, wish={"runtime": 500.0}))
    world.quiet()
    told = world.record("young").verdict.decision
    assert isinstance(told, Wait)
    assert told.reason is Reason.CAPACITY_RESERVED


def test_in_strict_order_nobody_passes() -> None:
    """However short: who came later begins later."""
    day = a_story(Coming(2, 1, 1, 5, 5), backfill=Backfill.NONE)
    assert day.began_at(1) == 100
    assert day.began_at(2) == 150


def test_without_a_reservation_everybody_passes() -> None:
    """A long gang begins at once, and the one that needs all waits for it."""
    day = a_story(Coming(2, 2, 1, 300, 300), backfill=Backfill.FREE)
    assert day.began_at(2) == 2
    assert day.began_at(1) == 302


def test_a_lie_delays_the_first_by_no_more_than_itself() -> None:
    """A gang that says 40 seconds and takes 400 passes; the first begins when it is gone, and no other liar passes."""
    liars = [Coming(2 + number, 2, 1, 40, 400) for number in range(3)]
    day = a_story(*liars)
    assert day.began_at(2) == 2
    assert day.began_at(1) == day.ended["g002"] == 402
    assert min(day.began_at(3), day.began_at(4)) >= day.ended["g001"]


def test_room_is_not_made_from_those_whose_end_is_waited_for() -> None:
    """A long gang behind the first may make room, but not where the first is to begin when somebody ends."""
    world = a_world(4, 4)
    for name, runtime in (("left", 100.0), ("right", 100.0)):
        world.submit(a_gang_of_pods(name, 4, gpu=1, wish={"runtime": runtime}))
    world.settle(1)
    world.submit(a_gang_of_pods("first", 8, gpu=1, priority=10, preempts=False, wish={"runtime": 50.0}))
    world.settle(2)
    world.submit(a_gang_of_pods("long", 4, gpu=1, priority=5, wish={"runtime": 1000.0}))
    world.settle(60)
    assert (seats(world, "left"), seats(world, "right")) == (4, 4)
    world.submit(a_gang_of_pods("short", 4, gpu=1, priority=5, wish={"runtime": 10.0}))
    world.settle(5)
    assert seats(world, "short") == 4
