"""The order in which gangs are asked about."""

from dataclasses import replace

from tests.engine.support.cast import a_gang_of_pods, a_pod
from tests.ledger.support.desk import Desk


def queue(desk: Desk) -> list[str]:
    return [record.key.name for record in desk.ledger.pending.queue()]


def test_priority_counts_before_arrival() -> None:
    """The most important first; of equals the oldest; of those of one second by name."""
    desk = Desk()
    for name, priority, created in (("b", 0, 5.0), ("late", 0, 6.0), ("a", 0, 5.0), ("high", 9, 9.0)):
        desk.see(*a_gang_of_pods(name, 1, priority=priority, created=created))
    assert queue(desk) == ["high", "a", "b", "late"]


def test_a_gang_is_as_important_as_its_least_important_member() -> None:
    """One pod of high priority does not carry the others past the queue."""
    desk = Desk()
    mixed = a_gang_of_pods("mixed", 2, priority=9)
    desk.see(*a_gang_of_pods("plain", 1, priority=5), mixed[0], replace(mixed[1], priority=1))
    assert queue(desk) == ["plain", "mixed"]


def test_only_who_can_be_seated_is_in_the_queue() -> None:
    """Gangs that lack members, that wait between tries or that are refused are not asked about."""
    desk = Desk()
    desk.see(*a_gang_of_pods("short", 1, quorum=2), *a_gang_of_pods("whole", 2))
    assert queue(desk) == ["whole"]
    desk.place("whole", whole_0="n1", whole_1="n1")
    assert queue(desk) == []


def test_a_gang_that_is_gone_is_struck_off() -> None:
    """Nothing of it remains: neither in the queue nor among the deadlines."""
    desk = Desk()
    desk.see(a_pod("alone"), *a_gang_of_pods("train", 2))
    desk.refuse("train")
    desk.lose("alone", "train-0", "train-1")
    assert queue(desk) == []
    assert desk.ledger.next_deadline() == float("inf")
