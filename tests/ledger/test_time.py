"""Time limits: seats held in vain are given back, gangs in part are taken down or completed, waits double."""

from dataclasses import replace

import pytest

from scheduler.ledger import conditions
from scheduler.model import events as ev
from scheduler.model.decision import TEXT, Reason, Wait
from scheduler.model.effects import Announce, Effect, Evict, Nominate, Ungate, WritePlan
from scheduler.model.events import FailureKind
from scheduler.model.workload import Phase
from tests.engine.support.cast import a_gang_of_pods, a_pod, an_owner, with_membership
from tests.ledger.support.desk import POLICY, Desk, names, told
from tests.ledger.support.invariants import broken
from tests.support.builders import a_node

SEATS = {"train_0": "n1", "train_1": "n1", "train_2": "n2"}


def a_desk(*, kind: str = "ReplicaSet", timeout: float | None = None) -> Desk:
    """A gang of three waits."""
    desk = Desk(*(a_node(f"n{number}", gpu=8) for number in range(1, 4)))
    owner = an_owner(kind, "set") if kind else None
    pods = a_gang_of_pods("train", 3, owner=owner, gpu=1, wish={"timeout": timeout})
    if owner is not None:
        desk.own(pods[0], freely=kind == "ReplicaSet")
    desk.see(*pods)
    return desk


def remade(desk: Desk, *gone: str) -> list[str]:
    """The owner makes these pods again."""
    membership, owner = desk.pods["train-0"].membership, desk.pods["train-0"].owner
    new = [f"{name}x" for name in gone]
    desk.see(*(a_pod(name, membership=membership, owner=owner, gpu=1) for name in new))
    desk.lose(*gone)
    return new


def test_a_gang_that_is_not_bound_in_time_is_rolled_back() -> None:
    """Everybody who was let go is evicted, the seats are free when they are gone, and nothing is bound in part."""
    desk = a_desk()
    desk.bring_on_its_way("train", **SEATS)
    assert names(desk.wait(POLICY.timeout - 1)) == []
    assert names(desk.wait(1.1)) == ["train-0", "train-1", "train-2"]
    desk.lose("train-0", "train-1", "train-2")
    assert desk.ledger.holds() == 0
    assert desk.ledger.counters.decisions[Reason.TIMED_OUT] == 1


def test_the_time_limit_is_the_gangs_own() -> None:
    """Its annotation counts before the setting."""
    desk = a_desk(timeout=7.0)
    desk.bring_on_its_way("train", **SEATS)
    assert names(desk.wait(6.9)) == []
    assert len(names(desk.wait(0.2))) == 3


def test_the_time_begins_when_the_first_member_is_let_go() -> None:
    """What the writing of the plan took is not the gang's fault."""
    desk = a_desk()
    written = desk.place("train", **SEATS)
    desk.wait(20)
    ungatings = told(desk.done(*written), Ungate)
    desk.carry_out(*ungatings)
    desk.done(*ungatings)
    assert names(desk.wait(POLICY.timeout - 1)) == []
    assert len(names(desk.wait(1.1))) == 3


def test_a_plan_that_cannot_be_written_does_not_hold_its_seats_for_ever() -> None:
    """The API server refuses for as long as it likes; the room is given back within the limit."""
    desk = a_desk()
    (written,) = told(desk.place("train", **SEATS))
    for _ in range(60):
        desk.failed(written, FailureKind.FORBIDDEN)
        if desk.ledger.holds() == 0:
            break
        desk.wait(3.1)
    assert desk.ledger.holds() == 0
    assert desk.now <= POLICY.timeout + 4


def test_waits_between_tries_double_up_to_a_limit() -> None:
    """5, 10, 20 … 300 seconds: nothing overflows however long it goes on."""
    desk = a_desk(kind="")
    record = desk.record("train")
    spans = []
    for _ in range(9):
        desk.bring_on_its_way("train", **SEATS)
        desk.wait(POLICY.timeout)
        spans.append(record.backoff.not_before - desk.now)
        assert desk.wanted("train") is None
        assert record.verdict.decision is not None
        assert record.verdict.decision.reason is Reason.BACKING_OFF
        desk.wait(spans[-1])
        assert desk.wanted("train") is not None
    assert spans == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    record.backoff.tries = 5000
    desk.bring_on_its_way("train", **SEATS)
    desk.wait(POLICY.timeout)
    assert record.backoff.not_before - desk.now == POLICY.backoff_limit


def test_a_gang_that_was_bound_starts_small_again() -> None:
    """The memory of failed tries ends with success."""
    desk = a_desk(kind="")
    desk.bring_on_its_way("train", **SEATS)
    desk.wait(POLICY.timeout + POLICY.backoff)
    assert desk.record("train").backoff.tries == 1
    desk.bring_on_its_way("train", **SEATS)
    desk.bind("train-0", "train-1", "train-2")
    assert desk.record("train").backoff.tries == 0
    assert desk.ledger.next_deadline() == float("inf")


# ── in part ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_gang_in_part_is_taken_down_when_all_can_be_made_again() -> None:
    """Two of three were bound, the third never: the two are evicted as well, nothing of them ever ran whole."""
    desk = a_desk()
    desk.bring_on_its_way("train", **SEATS)
    desk.bind("train-0", "train-1")
    assert names(desk.wait(POLICY.timeout + 0.1)) == ["train-1", "train-0", "train-2"]
    new = remade(desk, "train-0", "train-1", "train-2")
    desk.wait(POLICY.backoff)
    wanted = desk.wanted("train")
    assert wanted is not None
    assert {uid for role in wanted.roles for uid in role.quorum} == {desk.pods[name].uid for name in new}


def test_a_gang_in_part_that_cannot_be_taken_down_has_the_first_claim() -> None:
    """Nobody is evicted; the missing member is asked about before everybody else, however important."""
    desk = a_desk(kind="")
    desk.bring_on_its_way("train", **SEATS)
    desk.bind("train-0", "train-1")
    desk.see(*a_gang_of_pods("important", 2, priority=1000, gpu=1))
    effects = desk.wait(POLICY.timeout + 0.1)
    assert names(effects) == []
    assert names(effects, Nominate) == ["train-2"]
    assert [record.key.name for record in desk.ledger.pending.queue()] == ["train", "important"]
    assert (desk.record("train").state, desk.ledger.gang_counts()["waiting", "PartiallyBound"]) == (
        "waiting",
        1,
    )


def test_who_ended_well_keeps_no_room_for_the_rest() -> None:
    """One of three is done and nobody runs, so nobody stands idle for the others: they give their seats back, and
    wait longer each time.
    """
    desk = a_desk(kind="")
    desk.bring_on_its_way("train", **SEATS)
    desk.bind("train-0")
    desk.change("train-0", phase=Phase.SUCCEEDED)
    desk.wait(POLICY.timeout + 0.1)
    record = desk.record("train")
    assert (desk.member("train-1").hold, desk.member("train-2").hold) == (None, None)
    assert (record.backoff.tries, record.verdict.decision) == (1, Wait(Reason.BACKING_OFF))
    assert desk.wanted("train") is None
    desk.wait(POLICY.backoff)
    wanted = desk.wanted("train")
    assert wanted is not None
    assert wanted.quorum == 2


def test_a_quorum_that_grew_waits_in_order() -> None:
    """Nobody gets ahead of the important by asking for more than he had."""
    desk = a_desk(kind="")
    desk.bring_on_its_way("train", **SEATS)
    desk.bind("train-0", "train-1", "train-2")
    desk.see(*a_gang_of_pods("important", 2, priority=1000, gpu=1))
    desk.see(*(with_membership(desk.pods[f"train-{n}"], quorum={"": 4}) for n in range(3)))
    desk.see(a_gang_of_pods("train", 4, gpu=1)[3])
    assert desk.record("train").partly_bound
    assert [record.key.name for record in desk.ledger.pending.queue()] == ["important", "train"]


def test_a_budget_that_protects_a_running_member_ends_the_taking_down() -> None:
    """It stays, counts again, and the rest has the first claim."""
    desk = a_desk()
    desk.bring_on_its_way("train", **SEATS)
    desk.bind("train-0")
    evictions = told(desk.wait(POLICY.timeout + 0.1), Evict)
    desk.failed(evictions[0], FailureKind.BUDGET)
    assert desk.member("train-0").live
    remade(desk, "train-1", "train-2")
    desk.wait(POLICY.backoff + 0.1)
    wanted = desk.wanted("train")
    assert wanted is not None
    assert (wanted.quorum, wanted.anchors) == (2, ("n1",))


def test_bound_surplus_that_nobody_makes_again_is_spared() -> None:
    """A gang whose quorum never came is taken down, but no pod is deleted that would be lost for good."""
    desk = Desk(*(a_node(f"n{number}", gpu=8) for number in range(1, 4)))
    owner = an_owner("ReplicaSet", "set")
    pods = a_gang_of_pods("train", 2, owner=owner, gpu=1)
    membership = pods[0].membership
    assert membership is not None
    desk.own(pods[0])
    extra = a_pod("extra", membership=replace(membership, surplus=True), gpu=1)
    desk.see(*pods, extra)
    desk.bring_on_its_way("train", train_0="n1", train_1="n1", extra="n2")
    desk.bind("extra")
    assert names(desk.wait(POLICY.timeout + 0.1)) == ["train-0", "train-1"]
    assert desk.member("extra").live


def test_a_gang_that_ran_whole_is_not_taken_down_for_a_lost_member() -> None:
    """Its successor is seated with the others as anchors, and may take as long as it takes."""
    desk = a_desk()
    desk.bring_on_its_way("train", **SEATS)
    desk.bind("train-0", "train-1", "train-2")
    desk.change("train-2", deleting=True, disrupted=True)
    (new,) = remade(desk, "train-2")
    desk.bring_on_its_way("train", **{new.replace("-", "_"): "n3"})
    effects = desk.wait(POLICY.timeout + 0.1)
    assert names(effects) == [new]
    assert desk.member("train-0").live


def test_a_late_member_keeps_its_seat_while_the_quorum_runs() -> None:
    """No time limit is on a seat beside a running quorum."""
    desk = a_desk()
    desk.bring_on_its_way("train", **SEATS)
    desk.bind("train-0", "train-1", "train-2")
    desk.see(
        a_pod("late", membership=desk.pods["train-0"].membership, owner=an_owner("ReplicaSet", "set"), gpu=1)
    )
    desk.bring_on_its_way("train", late="n3")
    assert names(desk.wait(10 * POLICY.timeout)) == []
    assert desk.seat("late") == "n3"


def test_a_patch_whose_outcome_nobody_knows_counts_as_done() -> None:
    """We still see the gate when the time is over, but it may be gone: the pod is evicted, and keeps its seat till
    then.
    """
    desk = a_desk()
    ungatings = told(desk.done(*desk.place("train", **SEATS)), Ungate)
    assert names(desk.wait(POLICY.timeout + 0.1)) == ["train-0", "train-1", "train-2"]
    assert desk.ledger.holds() == 3
    desk.carry_out(*ungatings)
    desk.bind("train-0")
    assert broken(desk.ledger) == []


def test_a_seat_lost_on_the_way_does_not_begin_the_time_anew() -> None:
    """One seat after the other is one try: in the end the gang waits before the next."""
    desk = Desk(*(a_node(f"n{number}", gpu=8) for number in range(1, 9)))
    desk.see(a_pod("alone", gpu=1, membership=a_gang_of_pods("train", 1)[0].membership))
    desk.bring_on_its_way("train", alone="n1")
    for number in range(2, 9):
        desk.fail_to_bind("alone")
        desk.wait(POLICY.pin_limit + 0.1)
        if desk.wanted("train") is None:
            break
        desk.bring_on_its_way("train", alone=f"n{number}")
    assert desk.record("train").backoff.tries == 1
    assert desk.now <= POLICY.timeout + POLICY.pin_limit


def test_refused_gangs_do_not_hold_what_was_begun() -> None:
    """A member that contradicts the others after the gates are gone: the seats end with the time all the same."""
    desk = a_desk()
    ungatings = told(desk.done(*desk.place("train", **SEATS)), Ungate)
    other = replace(desk.pods["train-0"].membership, quorum={"": 9})
    desk.see(a_pod("contrary", membership=other))
    assert desk.record("train").state == "refused"
    desk.carry_out(*ungatings)
    desk.done(*ungatings)
    assert len(names(desk.wait(POLICY.timeout + 0.1))) == 3


def test_how_long_gangs_waited_is_counted_once() -> None:
    """From the quorum being there to its being bound; the oldest wait is of those that still do."""
    desk = a_desk()
    desk.wait(10)
    assert desk.ledger.oldest_wait(desk.now) == 10
    desk.bring_on_its_way("train", **SEATS)
    desk.wait(5)
    desk.bind("train-0", "train-1", "train-2")
    assert desk.ledger.counters.drain()[0] == [15]
    assert desk.ledger.oldest_wait(desk.now) == 0
    desk.change("train-0", phase=Phase.SUCCEEDED)
    assert desk.ledger.counters.drain()[0] == []


def test_a_gang_that_ended_without_ever_running_waits_no_more() -> None:
    """All its members failed: nobody waits for anything."""
    desk = a_desk()
    desk.wait(10)
    for name in ("train-0", "train-1", "train-2"):
        desk.change(name, phase=Phase.FAILED)
    assert desk.record("train").state == "leaving"
    assert desk.ledger.oldest_wait(desk.now + 100) == 0


@pytest.mark.parametrize("kind", ["ReplicaSet", ""])
def test_time_alone_wakes_the_ledger_only_when_it_matters(kind: str) -> None:
    """Whatever a gang goes through, deadlines come one after the other and end."""
    desk = a_desk(kind=kind)
    desk.bring_on_its_way("train", **SEATS)
    desk.fail_to_bind("train-0")
    desk.wait(3600)
    for name in ("train-0", "train-1", "train-2"):
        desk.lose(name)
    assert desk.ledger.next_deadline() == float("inf")
    assert desk.tell(ev.Tick()) == []
    assert told([], WritePlan) == []


# ── writes that fail ────────────────────────────────────────────────────────────────────────────────────

DENIED = "403 Forbidden: admission webhook denied the request"


def refused(desk: Desk, effects: list[Effect], message: str = DENIED) -> list[Effect]:
    """The API server refuses every write until the gang's time is over; gives what is done then."""
    record = desk.record("train")
    while record.plan is not None and record.backoff.tries == 0:
        for effect in told(effects, WritePlan, Ungate):
            desk.failed(effect, FailureKind.FORBIDDEN, f"{message}: {effect.key.name}")
        effects = desk.wait(3.1)
    return effects


def spoken(desk: Desk) -> str:
    """What people are told of the gang who ask now."""
    record = desk.record("train")
    return conditions.sentence(record, conditions.reason(record))


def test_what_refused_the_writes_of_a_gang_is_told_with_its_time_out() -> None:
    """Whoever asks, and whoever reads the event or the condition, learns it: a policy of the cluster is for people
    to mend.
    """
    desk = a_desk()
    effects = refused(desk, desk.place("train", **SEATS))
    (announced,) = [e for e in effects if isinstance(e, Announce) and e.reason is Reason.BACKING_OFF]
    assert (
        announced.message
        == f"{TEXT[Reason.BACKING_OFF]}; the last write for the gang failed: {DENIED}: train-0"
    )
    assert (announced.seated, spoken(desk)) == (False, announced.message)


def test_what_refused_members_is_told_of_those_that_are_made_again() -> None:
    """Members that may have been tied to their nodes are evicted, and the gang backs off for the same reason as
    before.
    """
    desk = a_desk()
    effects = desk.place("train", **SEATS)
    desk.carry_out(*effects)
    assert names(refused(desk, desk.done(*effects))) == ["train-0", "train-1", "train-2"]
    remade(desk, "train-0", "train-1", "train-2")
    assert spoken(desk).endswith(f"; the last write for the gang failed: {DENIED}: train-0")


def test_what_refuses_is_told_to_who_asks_before_the_time_is_over() -> None:
    """The gang has its seats, and cannot be let go."""
    desk = a_desk()
    (written,) = told(desk.place("train", **SEATS))
    desk.failed(written, FailureKind.INVALID, "")
    assert "last write" not in spoken(desk)
    desk = a_desk()
    (written,) = told(desk.place("train", **SEATS))
    desk.failed(written, FailureKind.FORBIDDEN, DENIED)
    assert spoken(desk) == f"{TEXT[Reason.SEATED]}; the last write for the gang failed: {DENIED}"
    desk.done(written)
    assert spoken(desk) == TEXT[Reason.SEATED]


def test_a_gang_says_that_it_backs_off_for_as_long_as_it_does() -> None:
    """When the time is over it waits for its turn like everybody, which behind others may be for hours."""
    desk = a_desk(kind="")
    desk.bring_on_its_way("train", **SEATS)
    desk.wait(POLICY.timeout)
    assert conditions.reason(desk.record("train")) is Reason.BACKING_OFF
    desk.wait(POLICY.backoff)
    assert conditions.reason(desk.record("train")) is Reason.QUEUED


def test_an_old_refusal_is_not_told_of_a_later_plan() -> None:
    """Once the writes come true, a gang that is not bound in time was not kept from it by what refused them before."""
    desk = a_desk(kind="")
    refused(desk, desk.place("train", **SEATS))
    desk.wait(POLICY.backoff)
    desk.bring_on_its_way("train", **SEATS)
    desk.wait(POLICY.timeout)
    assert spoken(desk) == TEXT[Reason.BACKING_OFF]


def test_of_many_members_that_are_refused_one_speaks() -> None:
    """A text that changed with every refusal would be told as news every ten seconds."""
    desk = a_desk()
    effects = desk.place("train", **SEATS)
    desk.carry_out(*effects)
    ungatings = told(desk.done(*effects), Ungate)
    for ungating in [*ungatings, *reversed(ungatings)]:
        desk.failed(ungating, FailureKind.FORBIDDEN, ungating.key.name)
        assert spoken(desk).endswith(": train-0")
