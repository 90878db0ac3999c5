"""A plan on its way: persisted, nominated, ungated, and nothing of it before the step before it came true."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.model import events as ev
from scheduler.model.decision import Decision, Place, Quality, Reason, Wait
from scheduler.model.effects import Nominate, Ungate, WritePlan
from scheduler.model.events import FailureKind
from scheduler.model.workload import Phase, Pin, Uid
from tests.engine.support.cast import a_gang_of_pods, a_pod, an_owner, with_membership
from tests.ledger.support.desk import POLICY, Desk, names, told
from tests.ledger.support.invariants import broken
from tests.support.builders import a_demand, a_node, a_taint

SEATS = {"train_0": "n1", "train_1": "n2"}
SEATED = {Uid("default/train-0"): "n1", Uid("default/train-1"): "n2"}


def a_desk(kind: str = "ReplicaSet", *, pin: Pin | None = None, count: int = 2, freely: bool = True) -> Desk:
    """A gang is there and waits; its owner is known."""
    desk = Desk()
    pods = a_gang_of_pods(
        "train", count, owner=an_owner(kind, "set") if kind else None, wish={"pin": pin}, gpu=1
    )
    if kind:
        desk.own(pods[0], freely=freely)
    desk.see(*pods)
    return desk


# ── the order of the steps ──────────────────────────────────────────────────────────────────────────────


def test_the_plan_is_written_before_anything_else() -> None:
    """The first effect is the whole plan, on the first member; every seat is held from the decision on."""
    desk = a_desk()
    (written,) = told(desk.place("train", **SEATS))
    assert isinstance(written, WritePlan)
    assert written.key.name == "train-0"
    assert written.seats == {desk.pods["train-0"].uid: "n1", desk.pods["train-1"].uid: "n2"}
    assert (desk.seat("train-0"), desk.seat("train-1")) == ("n1", "n2")


def test_hard_members_are_ungated_and_pinned_in_one_patch_each() -> None:
    """Once the plan is written; there is no nomination on the way."""
    desk = a_desk()
    written = desk.place("train", **SEATS)
    effects = told(desk.done(*written))
    assert [(type(e), e.node, e.pin) for e in effects if isinstance(e, Ungate)] == [
        (Ungate, "n1", True),
        (Ungate, "n2", True),
    ]
    assert len(effects) == 2


def test_no_gate_goes_before_all_nominations_came_true() -> None:
    """Of a soft gang everybody is nominated while still gated: one outcome that is missing keeps every gate."""
    desk = a_desk("Job", freely=False)
    first, second = told(desk.done(*desk.place("train", **SEATS)))
    assert isinstance(first, Nominate)
    assert isinstance(second, Nominate)
    assert told(desk.done(first)) == []
    ungatings = told(desk.done(second))
    assert [(type(e), e.pin) for e in ungatings if isinstance(e, Ungate)] == [(Ungate, False)] * 2


def test_a_gang_of_one_has_nothing_to_persist() -> None:
    """Its one PATCH is its plan."""
    desk = Desk()
    pod = a_pod("alone", owner=an_owner())
    desk.own(pod)
    desk.see(pod)
    record = next(iter(desk.ledger.registry.gangs.values()))
    assert record.wanted is not None
    decided = ev.Decided(record.wanted, Place({pod.uid: "n1"}), desk.ledger.nodes.generation, 0)
    assert [type(e) for e in told(desk.tell(decided))] == [Ungate]


def test_outcomes_told_twice_change_nothing() -> None:
    """A doubled outcome, and that of an effect long past, are of no consequence."""
    desk = a_desk()
    written = desk.place("train", **SEATS)
    ungatings = told(desk.done(*written))
    assert told(desk.done(*written)) == []
    desk.done(*ungatings)
    assert told(desk.done(*ungatings, *written)) == []


def test_an_effect_without_an_outcome_is_done_again() -> None:
    """Every effect is idempotent, so a lost outcome costs time only."""
    desk = a_desk()
    written = told(desk.place("train", **SEATS))
    assert told(desk.wait(POLICY.outcome_limit - 0.1)) == []
    assert told(desk.wait(0.2)) == written


@pytest.mark.parametrize("kind", [FailureKind.UNAVAILABLE, FailureKind.CONFLICT, FailureKind.FORBIDDEN])
def test_a_passing_failure_is_tried_again(kind: FailureKind) -> None:
    """Until it comes true, or the gang's time is over."""
    desk = a_desk()
    (written,) = told(desk.place("train", **SEATS))
    assert told(desk.failed(written, kind)) == []
    assert told(desk.wait(5.0))[:1] == [written]
    assert len(told(desk.done(written), Ungate)) == 2


# ── hard or soft ────────────────────────────────────────────────────────────────────────────────────────

PINS = [
    ("ReplicaSet", True, None, True),
    ("ReplicaSet", True, Pin.SOFT, False),
    ("Job", False, None, False),
    ("Job", False, Pin.HARD, True),
    ("Job", True, None, True),
    ("", False, Pin.HARD, False),
]


@pytest.mark.parametrize(("kind", "freely", "wish", "pinned"), PINS)
def test_only_what_somebody_makes_again_is_pinned(
    kind: str, freely: bool, wish: Pin | None, pinned: bool
) -> None:
    """auto pins what can be made again at no cost; hard pins what anybody makes again; nobody's pod is never pinned."""
    desk = a_desk(kind, pin=wish, freely=freely)
    effects = desk.done(*desk.place("train", **SEATS))
    if not pinned:
        effects = desk.done(*told(effects, Nominate))
    ungatings = told(effects, Ungate)
    assert [e.pin for e in ungatings if isinstance(e, Ungate)] == [pinned] * 2


def test_what_the_planner_does_not_model_is_nominated() -> None:
    """A pod with a field that decides about nodes, and that we do not read, must not be tied to one."""
    desk = Desk()
    pods = a_gang_of_pods("train", 2, owner=an_owner())
    desk.own(pods[0])
    desk.see(pods[0], replace(pods[1], unmodeled=("topologySpreadConstraints",)))
    effects = desk.done(*desk.place("train", **SEATS))
    assert names(effects, Nominate) == ["train-1"]


# ── plans that lose what they were made for ─────────────────────────────────────────────────────────────


def _delete(desk: Desk) -> list[object]:
    return [*desk.lose("train-1")]


def _condemn(desk: Desk) -> list[object]:
    return [*desk.change("train-1", deleting=True)]


def _drop_the_node(desk: Desk) -> list[object]:
    return [*desk.tell(ev.NodeGone("n2"))]


def _cordon_the_node(desk: Desk) -> list[object]:
    return [*desk.tell(ev.NodeSeen(a_node("n2", gpu=8, schedulable=False)))]


def _taint_the_node(desk: Desk) -> list[object]:
    return [*desk.tell(ev.NodeSeen(a_node("n2", gpu=8, taints=[a_taint("maintenance")])))]


def _overdraw_the_node(desk: Desk) -> list[object]:
    return [*desk.see(a_pod("thief", scheduler="other", node="n2", gpu=8, gated=False))]


LOSSES = [_delete, _condemn, _drop_the_node, _cordon_the_node, _taint_the_node, _overdraw_the_node]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("nominated", [False, True])
def test_a_plan_that_lost_something_is_dropped_while_nobody_was_let_go(loss, nominated: bool) -> None:
    """The seats are free, the writing is taken off, and the gang is asked about anew."""
    desk = a_desk("Job" if nominated else "ReplicaSet", freely=not nominated)
    effects = told(desk.place("train", **SEATS))
    desk.carry_out(*effects)
    if nominated:
        effects = told(desk.done(*effects))
        desk.carry_out(*effects)
    said = [*loss(desk), *desk.done(*effects)]
    removed = [e for e in said if isinstance(e, WritePlan)]
    assert [(e.key.name, dict(e.seats)) for e in removed] == [("train-0", {})]
    assert desk.ledger.holds() == 0
    assert desk.record("train").plan is None
    assert told(said, Ungate) == []


def test_a_nomination_of_a_dropped_plan_is_taken_back() -> None:
    """A nomination of a gated pod keeps room in kube-scheduler: it must not do so for nobody."""
    desk = a_desk("Job", freely=False)
    nominations = told(desk.done(*desk.place("train", **SEATS)))
    desk.carry_out(*nominations)
    said = [*desk.lose("train-1"), *desk.wait(6)]
    cleared = [e for e in said if isinstance(e, Nominate)]
    assert {(e.key.name, e.node) for e in cleared} == {("train-0", "")}
    desk.carry_out(*cleared)
    assert told(desk.wait(60)) == []


def test_a_plan_goes_on_once_a_gate_is_gone() -> None:
    """A member that is lost while others are let go does not stop them: its successor joins them."""
    desk = a_desk(count=3)
    seats = {**SEATS, "train_2": "n2"}
    ungatings = told(desk.done(*desk.place("train", **seats)))
    desk.lose("train-2")
    assert desk.ledger.holds() == 2
    assert told(desk.done(*ungatings)) == []
    desk.see(
        a_pod("successor", membership=desk.pods["train-0"].membership, owner=an_owner("ReplicaSet", "set"))
    )
    wanted = desk.wanted("train")
    assert wanted is not None
    assert wanted.quorum == 1
    assert wanted.anchors == ("n1", "n2")


def test_a_patch_that_the_api_server_calls_invalid_makes_its_pod_soft() -> None:
    """It is of no use twice: the member is given back, and nominated next time."""
    desk = a_desk()
    first, second = told(desk.done(*desk.place("train", **SEATS)))
    desk.failed(second, FailureKind.INVALID)
    assert desk.seat("train-0") == "n1"
    assert desk.seat("train-1") is None
    assert desk.wanted("train") is None
    desk.carry_out(first)
    desk.done(first)
    desk.wait(POLICY.backoff + 1)
    assert names(desk.place("train", train_1="n2"), Nominate) == ["train-1"]


def test_a_plan_that_cannot_be_written_is_dropped() -> None:
    """Without the writing nobody is let go: the seats are given back, and the gang waits before it tries again."""
    desk = a_desk()
    (written,) = told(desk.place("train", **SEATS))
    desk.failed(written, FailureKind.INVALID)
    assert desk.ledger.holds() == 0
    assert desk.wanted("train") is None
    desk.wait(POLICY.backoff + 1)
    assert desk.wanted("train") is not None


def test_a_pod_that_is_gone_when_patched_is_forgotten() -> None:
    """404 is as good as the watch."""
    desk = a_desk()
    (written,) = told(desk.place("train", **SEATS))
    desk.failed(written, FailureKind.NOT_FOUND)
    assert not desk.ledger.registry.knows(desk.pods["train-0"].uid)
    assert desk.ledger.holds() == 0
    assert broken(desk.ledger) == []


def test_whoever_has_no_gate_may_be_bound_already_and_keeps_his_seat() -> None:
    """A plan for pods without our gate that loses one seat goes on for the others, whatever step it has come to."""
    desk = Desk()
    desk.see(*a_gang_of_pods("train", 2, gated=False))
    everywhere = np.ones(2, dtype=np.bool_)
    for pod in list(desk.pods.values()):
        desk.tell(ev.Asked(pod.uid, everywhere, desk.ledger.nodes.version))
    nominations = told(desk.place("train", **SEATS))
    assert [type(effect) for effect in nominations] == [Nominate] * 2
    desk.tell(ev.NodeGone("n1"))
    assert (desk.seat("train-0"), desk.seat("train-1")) == (None, "n2")


# ── verdicts ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_verdict_on_another_question_counts_for_nothing() -> None:
    """A member came or went while the planner thought: it is asked again."""
    desk = a_desk()
    asked = desk.wanted("train")
    assert asked is not None
    generation = desk.ledger.nodes.generation
    desk.lose("train-1")
    seats = {uid: "n1" for role in asked.roles for uid in role.quorum}
    assert told(desk.tell(ev.Decided(asked, Place(seats), generation, 0))) == []
    assert desk.ledger.holds() == 0


@pytest.mark.parametrize("decision", [Place(SEATED), Wait(Reason.INSUFFICIENT_RESOURCES)])
def test_a_verdict_on_a_smaller_quorum_counts_for_nothing(decision: Decision) -> None:
    """The gang asks for three by now: two are not seated without the third, nor is it told that there is no room."""
    desk = a_desk()
    asked, generation = desk.wanted("train"), desk.ledger.nodes.generation
    assert asked is not None
    desk.see(*a_gang_of_pods("train", 3, owner=an_owner("ReplicaSet", "set"), gpu=1))
    assert told(desk.tell(ev.Decided(asked, decision, generation, desk.ledger.nodes.room_version))) == []
    assert desk.ledger.holds() == 0
    assert desk.record("train").verdict.decision is None


def test_a_verdict_on_a_gang_that_is_gone_counts_for_nothing() -> None:
    """All its pods went while the planner thought."""
    desk = a_desk()
    asked, generation = desk.wanted("train"), desk.ledger.nodes.generation
    assert asked is not None
    desk.lose("train-0", "train-1")
    assert desk.tell(ev.Decided(asked, Place(SEATED), generation, 0)) == []
    assert desk.ledger.registry.gangs == {}


def test_the_best_node_of_a_moment_takes_nobody_off_his_seat() -> None:
    """A seat of a plan stays where it is, and does not end by itself."""
    desk = a_desk()
    desk.bring_on_its_way("train", **SEATS)
    desk.tell(ev.Scored(desk.pods["train-0"].uid, "n2"))
    hold = desk.member("train-0").hold
    assert hold is not None
    assert (hold.node, hold.until) == ("n1", None)


def test_a_late_verdict_counts_if_its_seats_are_still_there() -> None:
    """Somebody else took room elsewhere meanwhile: no reason to think again."""
    desk = a_desk()
    asked, generation = desk.wanted("train"), desk.ledger.nodes.generation
    assert asked is not None
    desk.see(a_pod("other", scheduler="other", node="n1", gpu=1, gated=False))
    seats = {Uid("default/train-0"): "n1", Uid("default/train-1"): "n1"}
    effects = desk.tell(ev.Decided(asked, Place(seats), generation, 0))
    assert len(told(effects, WritePlan)) == 1


def test_a_late_verdict_whose_room_is_gone_is_dropped_whole() -> None:
    """All seats or none: the one that would still fit is not kept either, and the question stands."""
    desk = a_desk()
    asked, generation = desk.wanted("train"), desk.ledger.nodes.generation
    assert asked is not None
    desk.see(a_pod("other", scheduler="other", node="n2", gpu=8, gated=False))
    seats = {Uid("default/train-0"): "n1", Uid("default/train-1"): "n2"}
    version = desk.ledger.pending.version
    assert told(desk.tell(ev.Decided(asked, Place(seats), generation, 0))) == []
    assert desk.ledger.holds() == 0
    assert desk.ledger.pending.version > version


def test_a_late_verdict_whose_host_port_is_taken_is_dropped_whole() -> None:
    """Amounts alone make no seat: the port of one member went to somebody else meanwhile."""
    desk = Desk()
    desk.see(*a_gang_of_pods("train", 2, demand=a_demand(gpu=1, ports=[8080])))
    asked, generation = desk.wanted("train"), desk.ledger.nodes.generation
    assert asked is not None
    taken = a_demand(ports=[8080])
    desk.see(a_pod("other", scheduler="other", node="n2", demand=taken, gated=False))
    seats = {Uid("default/train-0"): "n1", Uid("default/train-1"): "n2"}
    assert told(desk.tell(ev.Decided(asked, Place(seats), generation, 0))) == []
    assert desk.ledger.holds() == 0


@pytest.mark.parametrize("seats", [{}, {"default/train-0": "n1", "default/train-1": "nowhere"}])
def test_a_verdict_that_memory_cannot_follow_ends_the_asking(seats: dict[str, str]) -> None:
    """If the planner and the books disagree on the same picture, asking once more would go on without end."""
    desk = a_desk()
    desk.decide("train", Place({Uid(uid): node for uid, node in seats.items()}, (), Quality({}, 0.0)))
    record = desk.record("train")
    assert record.verdict.decision is not None
    assert record.verdict.decision.reason is Reason.INSUFFICIENT_RESOURCES
    assert record.verdict.request is record.wanted
    assert record.verdict.room == desk.ledger.nodes.room_version
    assert desk.ledger.holds() == 0


def test_surplus_is_asked_about_once_the_quorum_sits() -> None:
    """Whom the plan left out asks again alone, with the others as anchors."""
    desk = Desk()
    desk.see(*a_gang_of_pods("train", 3, quorum=2))
    desk.bring_on_its_way("train", **SEATS)
    desk.bind("train-0", "train-1")
    wanted = desk.wanted("train")
    assert wanted is not None
    assert (wanted.quorum, wanted.anchors) == (0, ("n1", "n2"))
    assert [role.surplus for role in wanted.roles] == [(desk.pods["train-2"].uid,)]


def test_surplus_at_its_place_stands_in_for_nobody() -> None:
    """One of a quorum of two is lost: the next one is asked about as one whom the quorum lacks."""
    desk = Desk()
    pods = a_gang_of_pods("train", 3, quorum=2)
    desk.see(*pods[:2], with_membership(pods[2], surplus=True))
    desk.bring_on_its_way("train", **SEATS, train_2="n2")
    desk.bind("train-0", "train-1", "train-2")
    desk.lose("train-1")
    desk.see(replace(pods[1], uid=Uid("default/train-1b")))
    wanted = desk.wanted("train")
    assert wanted is not None
    assert wanted.quorum == 1


def test_members_held_back_by_other_gates_count_as_missing() -> None:
    """As long as the quorum lacks them nobody is seated."""
    desk = Desk()
    pods = a_gang_of_pods("train", 2)
    desk.see(pods[0], replace(pods[1], held_back=True))
    assert desk.wanted("train") is None
    desk.see(pods[1])
    assert desk.wanted("train") is not None


def test_a_bound_gang_wants_nothing() -> None:
    """It runs; its plan is done; nothing wakes it."""
    desk = a_desk()
    desk.bring_on_its_way("train", **SEATS)
    desk.bind("train-0", "train-1")
    assert desk.record("train").state == "running"
    assert desk.wanted("train") is None
    assert desk.ledger.holds() == 0
    assert desk.ledger.next_deadline() == float("inf")
    desk.change("train-0", phase=Phase.SUCCEEDED)
    assert desk.record("train").state == "running"
