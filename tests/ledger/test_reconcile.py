"""What a look at a gang costs: it is taken for every PATCH and every bind of every member."""

from dataclasses import replace

import pytest

from scheduler.ledger import quorum, reconcile
from scheduler.model import events as ev
from tests.engine.support.cast import a_gang_of_pods, an_owner, with_membership
from tests.ledger.support.desk import Desk


def test_members_are_counted_once_a_look(monkeypatch) -> None:
    """A gang to which nothing happens but that its members are bound is counted once for each of them."""
    counted = []
    facts = quorum.facts
    desk = Desk()
    names = ("train-0", "train-1", "train-2")
    desk.see(*a_gang_of_pods("train", 3))
    desk.bring_on_its_way("train", train_0="n1", train_1="n1", train_2="n1")
    monkeypatch.setattr(
        quorum, "facts", lambda record, spec: counted.append(record.key) or facts(record, spec)
    )

    looks = desk.ledger.looks
    for name in names:
        desk.bind(name)

    assert len(counted) == desk.ledger.looks - looks >= len(names)


def test_who_waits_whole_is_not_asked_once_more_who_of_it_is_bound(monkeypatch) -> None:
    """The count of the members tells: a gang of thousands that waits is looked at whenever anybody of it is seen."""
    desk = Desk()
    desk.see(*a_gang_of_pods("train", 3))
    record = desk.record("train")
    facts = quorum.facts(record, record.spec)

    monkeypatch.setattr(type(record), "live", lambda _: pytest.fail("its members are looked at one by one"))
    assert not reconcile._stands_short(record, facts)


def test_surplus_alone_at_its_place_gives_way() -> None:
    """The quorum is gone and waits, so nobody of it is bound; what is left of the gang can still be asked to leave."""
    desk = Desk()
    core = a_gang_of_pods("train", 3, quorum=2)
    desk.see(*core[:2], with_membership(core[2], surplus=True))
    desk.bring_on_its_way("train", train_0="n1", train_1="n1", train_2="n2")
    desk.bind("train-0", "train-1", "train-2")
    assert desk.record("train").gives_way

    desk.lose("train-0", "train-1")
    desk.see(*a_gang_of_pods("train", 2))
    assert desk.record("train").gives_way
    desk.lose("train-2")
    assert not desk.record("train").gives_way


def test_a_review_in_parts_is_the_same_review() -> None:
    """Gangs keep their turn, and each is looked at once, however many members are looked at in one part."""
    pods = [pod for n in range(5) for pod in a_gang_of_pods(f"g{n}", 2, owner=an_owner("Job", f"g{n}"))]
    whole, parts = Desk(acting=False), Desk(acting=False)
    told = []
    for desk in (whole, parts):
        desk.see(*pods)
        desk.ledger.take([ev.Synced(), ev.TookOver()], desk.now)
    while parts.ledger.marked:
        told += parts.ledger.settle(parts.now, 3)

    assert told == whole.ledger.settle(whole.now)
    assert not whole.ledger.unsettled
    assert [r.pulse for r in parts.ledger.registry.gangs.values()] == [1] * 5
    assert len(parts.ledger.pending) == len(whole.ledger.pending) == 5


def test_events_do_not_prolong_a_review_in_parts() -> None:
    """A gang that changes during a review waits for the next one, so an endless stream of events ends no later."""
    gangs = [a_gang_of_pods(f"g{n}", 2, owner=an_owner("Job", f"g{n}")) for n in range(3)]
    desk = Desk(acting=False)
    desk.see(*(pod for pods in gangs for pod in pods))
    desk.ledger.take([ev.Synced(), ev.TookOver()], desk.now)

    while desk.ledger.catch_ups:
        desk.ledger.settle(desk.now, 1)
    parts = 1
    while desk.ledger.unsettled:
        first = replace(gangs[0][0], labels=f"part={parts}")
        desk.ledger.take([ev.PodSeen(first)], desk.now)
        desk.ledger.settle(desk.now, 2)
        parts += 1

    assert parts == 3
    assert desk.ledger.marked


def test_a_review_in_parts_counts_gangs_in_parts() -> None:
    """What metrics are read from is counted meanwhile, and is what would be counted at once."""
    pods = [pod for n in range(99) for pod in a_gang_of_pods(f"g{n}", 2, gpu=1)]
    whole, parts = Desk(acting=False), Desk(acting=False)
    for desk in (whole, parts):
        desk.see(*pods)
        desk.ledger.take([ev.Synced(), ev.TookOver()], desk.now)
    whole.ledger.settle(whole.now)
    while parts.ledger.unsettled or parts.ledger.marked:
        parts.ledger.settle(parts.now, 40)
    assert len(parts.ledger._uncounted) <= 32
    assert parts.ledger.gang_counts() == whole.ledger.gang_counts()
    assert parts.ledger.demands() == whole.ledger.demands()
