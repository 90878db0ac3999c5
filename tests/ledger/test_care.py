"""What a look at a gang costs: it is taken for every PATCH and every bind of every member."""

from scheduler.ledger import roster
from tests.engine.cast import a_gang_of_pods
from tests.ledger.desk import Desk


def test_members_are_counted_once_a_look(monkeypatch) -> None:
    """A gang to which nothing happens but that its members are bound is counted once for each of them."""
    counted = []
    facts = roster.facts
    desk = Desk()
    names = ("train-0", "train-1", "train-2")
    desk.see(*a_gang_of_pods("train", 3))
    desk.bring_on_its_way("train", train_0="n1", train_1="n1", train_2="n1")
    monkeypatch.setattr(
        roster, "facts", lambda record, spec: counted.append(record.key) or facts(record, spec)
    )

    looks = desk.ledger.looks
    for name in names:
        desk.bind(name)

    assert len(counted) == desk.ledger.looks - looks >= len(names)
