"""One gang's fault stops no other: whatever step fails on it, it is refused with a reason and tried again later."""

from dataclasses import replace

import pytest

from scheduler.ledger import gang_spec, handlers, leases, membership, migration, quorum, reconcile, recovery
from scheduler.ledger.fault_isolation import FAILED
from scheduler.ledger.gang import GangRecord
from scheduler.model import events as ev
from scheduler.model.decision import Reason, Refuse
from scheduler.model.effects import Announce
from scheduler.model.workload import PlanNote, SeatNote
from tests.engine.support.api import pin
from tests.engine.support.cast import a_gang_of_pods, an_owner
from tests.ledger.support.desk import Desk
from tests.ledger.support.invariants import broken

POISON = "poison"


def fails_on_poison(monkeypatch, module, name: str) -> None:
    """This function fails where any of its arguments is of the gang `poison`."""
    real = getattr(module, name)

    def poisoned(*args, **named):
        if any(_name(arg) == POISON for arg in args):
            raise ZeroDivisionError(name)
        return real(*args, **named)

    monkeypatch.setattr(module, name, poisoned)


def _name(arg: object) -> str:
    return arg.key.name if isinstance(arg, GangRecord) else ""


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (quorum, "facts"),
        (gang_spec, "spec"),
        (reconcile, "tell"),
        (reconcile, "reconcile"),
        (quorum, "request"),
    ],
)
def test_the_others_are_looked_after_whatever_fails_on_one(monkeypatch, faults, module, name) -> None:
    """The healthy gang is in the queue, the poisoned one is told why it is not."""
    fails_on_poison(monkeypatch, module, name)
    desk = Desk()

    desk.see(*a_gang_of_pods(POISON, 2), *a_gang_of_pods("well", 2))

    assert [record.key.name for record in desk.ledger.pending.queue()] == ["well"]
    verdict = desk.record(POISON).verdict.decision
    assert isinstance(verdict, Refuse)
    assert (verdict.reason, verdict.remedy) == (Reason.INVALID_SPEC, FAILED)
    assert [fault.gang for fault in faults][:1] == [desk.record(POISON).key]
    assert broken(desk.ledger)[0].startswith("a step failed on ")
    faults.clear()


def test_its_people_are_told(monkeypatch, faults) -> None:
    """The reason is announced as any other is."""
    fails_on_poison(monkeypatch, quorum, "facts")
    desk = Desk()

    effects = desk.see(*a_gang_of_pods(POISON, 2)) + desk.wait(60)

    said = [effect for effect in effects if isinstance(effect, Announce)]
    assert said[0].reason is Reason.INVALID_SPEC
    assert FAILED in said[0].message
    faults.clear()


def test_it_is_tried_again_later_and_later(monkeypatch, faults) -> None:
    """After 5 s, 10 s, 20 s … at most 300 s, however often its pods change meanwhile; only the first fault is new."""
    fails_on_poison(monkeypatch, reconcile, "reconcile")
    desk = Desk()
    gang = a_gang_of_pods(POISON, 2)
    desk.see(*gang)
    moments = []
    for _ in range(1200):
        before = len(faults)
        desk.see(*gang)
        desk.wait(1)
        moments += [desk.now] * (len(faults) > before)

    assert [round(b - a) for a, b in zip([0, *moments], moments, strict=False)][:8] == [
        5,
        10,
        20,
        40,
        80,
        160,
        300,
        300,
    ]
    assert [fault.again for fault in faults] == [False] + [True] * (len(faults) - 1)
    faults.clear()


def test_a_gang_that_is_mended_goes_on_as_if_nothing_had_been(faults) -> None:
    """The next look that succeeds puts it into the queue."""
    desk = Desk()
    with pytest.MonkeyPatch.context() as patch:
        fails_on_poison(patch, reconcile, "reconcile")
        desk.see(*a_gang_of_pods(POISON, 2))
    faults.clear()

    desk.wait(6)

    assert [record.key.name for record in desk.ledger.pending.queue()] == [POISON]
    assert desk.record(POISON).verdict.decision is None
    desk.ledger.faults.drain()
    assert broken(desk.ledger) == []


def test_it_keeps_its_seats_while_it_rests(monkeypatch, faults) -> None:
    """What is held for it is given to no other."""
    desk = Desk()
    desk.see(*a_gang_of_pods(POISON, 2, gpu=8))
    desk.place(POISON, poison_0="n1", poison_1="n2")
    held = desk.ledger.holds()
    fails_on_poison(monkeypatch, reconcile, "reconcile")

    desk.see(*a_gang_of_pods(POISON, 2, gpu=8))

    assert held == 2 == desk.ledger.holds()
    faults.clear()


def test_an_answer_that_cannot_be_taken_is_one_gangs_fault(monkeypatch, faults) -> None:
    """The answers after it are taken."""
    desk = Desk()
    desk.see(*a_gang_of_pods(POISON, 2), *a_gang_of_pods("well", 2))
    effects = desk.place(POISON, poison_0="n1", poison_1="n1")
    effects += desk.place("well", well_0="n2", well_1="n2")
    fails_on_poison(monkeypatch, handlers, "effect_done")
    assert set(desk.record("well").plan.outstanding) <= set(effects)

    desk.done(*effects)

    assert not set(desk.record("well").plan.outstanding) & set(effects)
    assert {fault.gang and fault.gang.name for fault in faults} == {POISON}
    faults.clear()


def test_a_pod_that_cannot_be_taken_in_stops_no_other(monkeypatch, faults) -> None:
    """The pods after it in the same batch are known."""
    real = membership.seen

    def seen(ledger, pod, now):
        if pod.key.name == "poison-0":
            raise ZeroDivisionError
        real(ledger, pod, now)

    monkeypatch.setattr(membership, "seen", seen)
    desk = Desk()

    desk.see(*a_gang_of_pods(POISON, 1), *a_gang_of_pods("well", 1))

    assert [record.key.name for record in desk.ledger.pending.queue()] == ["well"]
    assert [fault.gang for fault in faults] == [None]
    faults.clear()


@pytest.mark.parametrize("name", ["_adopt_seat", "_adopt_plan", "_adopt_rest", "_look_back"])
def test_a_restart_finds_the_others_whatever_it_fails_on(monkeypatch, faults, name) -> None:
    """The seats of the healthy gang are held again."""
    fails_on_poison(monkeypatch, recovery, name)
    owner = an_owner("ReplicaSet", "set")
    desk = Desk(acting=False)
    for gang, node in ((POISON, "n1"), ("well", "n2")):
        members, note = a_gang_of_pods(gang, 2, owner=owner, gpu=1), PlanNote("plan", {})
        desk.see(
            *(
                pin(replace(p, gated=False, seat=SeatNote(node, "plan", pin=True), plan=note), node)
                for p in members
            )
        )

    desk.tell(ev.Synced(), ev.TookOver())

    assert all(m.hold is not None for m in desk.record("well").live())
    assert {fault.gang.name for fault in faults} == {POISON}
    faults.clear()


def test_a_move_that_fails_stops_no_other_gang(monkeypatch, faults) -> None:
    """The healthy gang is seated while the other's move fails."""
    desk = Desk()
    desk.see(*a_gang_of_pods(POISON, 1))
    move = leases.Migration(desk.record(POISON).key, "", whole=False, leases=[], going=[], by=desk.now + 60)
    desk.ledger.migrations.put(move)
    fails_on_poison(monkeypatch, migration, "_go")

    desk.see(*a_gang_of_pods("well", 1))

    assert [record.key.name for record in desk.ledger.pending.queue()] == ["well"]
    faults.clear()
