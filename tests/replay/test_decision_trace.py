"""The live code on a document: it decides as it would in life, and the same again."""

import msgspec

from scheduler.engine import Engine
from scheduler.ledger.phase import State
from scheduler.model import events as ev
from scheduler.model.decision import Reason
from scheduler.model.workload import GangKey
from scheduler.replay import decode, encode, judge, stand
from tests.ledger.support.invariants import broken
from tests.replay.scene import NOW, a_document, a_full_document, a_pod, some_gang

FIRST, SECOND = GangKey("team", "first"), GangKey("team", "second")


def test_a_document_is_decided_alike_again():
    """What was written and read again gives the same decisions with the same numbers, byte for byte."""
    full = a_full_document()

    trace = judge(full).trace()

    assert trace == judge(decode(encode(full))).trace()
    assert len(trace.splitlines()) >= 4


def test_it_decides_as_the_service_does():
    """An engine that is told the same facts and acts seats the same gangs on the same nodes."""
    document = a_document(*some_gang("first", 3, gpu=8), *some_gang("second", 2, gpu=8, created=NOW - 50))
    live = Engine(document.policy)
    live.observe([*document.events(), ev.Synced(), ev.TookOver()], NOW)
    live.plan(NOW)

    judged = judge(document)

    seats = {
        uid: member.hold.node
        for uid, member in live.ledger.registry.gangs[FIRST].members.items()
        if member.hold
    }
    assert judged.seats(FIRST).seats == seats
    assert judged.seats(SECOND) is None
    assert judged.decision(SECOND) == live.ledger.registry.gangs[SECOND].verdict.decision


def test_a_step_names_question_and_answer():
    """The trace tells who was asked about in which place, and the answer with its numbers."""
    document = a_document(*some_gang("first", 2, gpu=8), *some_gang("second", 3, gpu=8, created=NOW - 50))

    first, second, *_ = map(msgspec.json.decode, judge(document).trace().splitlines())

    assert (first["place"], first["answer"], len(first["decision"]["seats"])) == (1, "place", 2)
    assert (second["place"], second["answer"]) == (2, "wait")
    assert second["decision"]["shortfall"]["needed"] == 3


def test_standing_is_before_any_decision():
    """The engine that only stands has nobody seated who was not, and knows who waits since when."""
    engine = stand(a_document(*some_gang("first", 2, gpu=8)))

    record = engine.ledger.registry.gangs[FIRST]
    assert record.state is State.WAITING
    assert engine.ledger.holds() == 0
    assert record.waiting_since == NOW - 100


def test_seats_on_their_way_are_kept():
    """A pod that carries a seat has it, as after a restart of the service; nobody else is given the room."""
    full = a_full_document()

    engine = judge(full).engine

    assert "a0-r1-n0" in {
        m.hold.node for r in engine.ledger.registry.gangs.values() for m in r.members.values() if m.hold
    }
    assert broken(engine.ledger) == []


def test_pods_without_our_gate_are_asked_about():
    """kube-scheduler asks about them, so they are judged like everybody."""
    judged = judge(a_document(a_pod("tried", gated=False, gpu=8)))

    assert [step.answer for step in judged.steps] == ["place"]


def test_a_gang_that_is_only_thought_of():
    """Facts that are not so are judged behind those that are."""
    document = a_document(*some_gang("first", 3, gpu=8))
    more = [ev.PodSeen(pod) for pod in some_gang("second", 2, gpu=8, created=NOW)]

    judged = judge(document, more)

    assert judged.seats(FIRST) is not None
    assert judged.decision(SECOND).reason is Reason.INSUFFICIENT_RESOURCES
