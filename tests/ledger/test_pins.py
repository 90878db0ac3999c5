"""Seats that were given and are lost: seen from the watches alone, evicted where somebody makes the pod again."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.decision import Place, Reason
from scheduler.model.demand import Toleration
from scheduler.model.effects import Evict, Nominate, Ungate, WritePlan
from scheduler.model.events import FailureKind
from scheduler.model.policy import Policy
from scheduler.model.workload import Pending, Phase, Pin
from tests.engine.support.cast import a_gang_of_pods, a_pod, an_owner
from tests.ledger.support.desk import POLICY, Desk, names, told
from tests.ledger.support.invariants import broken
from tests.support.builders import a_demand, a_node, a_taint

SEATS = {"train_0": "n1", "train_1": "n2"}
NODES = tuple(a_node(f"n{number}", gpu=16, labels={"pool": "a"}) for number in range(1, 5))


def a_desk(
    *,
    soft: bool = False,
    count: int = 2,
    policy: Policy = POLICY,
    selector: Sequence[tuple[str, str]] = (),
    tolerations: Sequence[Toleration] = (),
    **seats: str,
) -> Desk:
    """A gang on its way to its seats: ungated, pinned or nominated, not bound."""
    desk = Desk(*NODES, policy=policy)
    demand = replace(a_demand(gpu=1), selector=tuple(selector), tolerations=tuple(tolerations))
    pods = a_gang_of_pods(
        "train", count, owner=an_owner("Job" if soft else "ReplicaSet", "set"), demand=demand
    )
    desk.own(pods[0], freely=not soft)
    desk.see(*pods)
    desk.bring_on_its_way("train", **(seats or SEATS))
    return desk


# ── what breaks a pin ───────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_is_gone_breaks_the_pins_on_it_at_once() -> None:
    """The pod is evicted, so that its owner makes it again; its seat stays on the books until it is gone."""
    desk = a_desk()
    (evicted,) = told(desk.tell(ev.NodeGone("n2")))
    assert isinstance(evicted, Evict)
    assert (evicted.key.name, evicted.reason) == ("train-1", Reason.PIN_BROKEN)
    assert desk.ledger.counters.pins_broken == {"node-gone": 1}
    assert desk.seat("train-1") == "n2"
    desk.lose("train-1")
    assert desk.ledger.holds() == 1


def test_who_was_bound_to_its_seat_after_all_is_not_evicted_once_more() -> None:
    """kube-scheduler was quicker than the eviction, which nobody heard of again: the pod runs, and counts."""
    desk = a_desk()
    assert names(desk.tell(ev.NodeSeen(a_node("n2", gpu=16, schedulable=False)))) == ["train-1"]
    desk.bind("train-1")
    assert names(desk.wait(2 * POLICY.outcome_limit)) == []
    assert desk.member("train-1").live


def test_a_cordon_breaks_the_pins_on_the_node() -> None:
    """kube-scheduler does not ask us about a cordoned node: the watch alone tells."""
    desk = a_desk()
    effects = desk.tell(ev.NodeSeen(a_node("n2", gpu=16, schedulable=False)))
    assert names(effects) == ["train-1"]
    assert desk.ledger.counters.pins_broken == {"node-unschedulable": 1}


CLOSED = {
    "cordon": a_node("n2", gpu=16, schedulable=False),
    "taint": a_node("n2", gpu=16, taints=[a_taint("maintenance")]),
    "label": a_node("n2", gpu=16),
}
"""What a node that was open to the gang becomes."""
SLOW = (("pool", "a"),)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("now", CLOSED.values(), ids=CLOSED.keys())
def test_a_node_that_is_closed_to_its_pod_breaks_a_pin_at_once(now: Node, *, soft: bool) -> None:
    """It is asked by all that the planner looks at: another seat, or another pod, is had without waiting."""
    desk = a_desk(soft=soft, selector=SLOW)
    effects = desk.tell(ev.NodeSeen(now))
    assert (desk.seat("train-1") is None) is soft
    assert names(effects) == ([] if soft else ["train-1"])
    assert desk.seat("train-0") == "n1"
    assert desk.ledger.counters.pins_broken == {"node-unschedulable": 1}


def test_a_taint_that_the_pod_tolerates_breaks_nothing() -> None:
    """Nor does one that only says where pods had better not go, which is not kept."""
    desk = a_desk(tolerations=[Toleration("maintenance", exists=True)])
    changed = a_node("n2", gpu=16, taints=[a_taint("maintenance")], labels=dict(SLOW))
    assert told(desk.tell(ev.NodeSeen(changed))) == []
    assert desk.seat("train-1") == "n2"


def test_stolen_room_breaks_a_pin_after_a_grace() -> None:
    """PodScheduled=False for 5 s, and our picture agrees that there is no room."""
    desk = a_desk()
    desk.see(a_pod("thief", scheduler="other", node="n2", gpu=16, gated=False))
    desk.fail_to_bind("train-1")
    assert names(desk.wait(POLICY.pin_grace - 0.1)) == []
    assert names(desk.wait(0.2)) == ["train-1"]
    assert desk.ledger.counters.pins_broken == {"room-taken": 1}


def test_a_refusal_that_nobody_understands_breaks_a_pin_after_the_limit() -> None:
    """There is room by our picture, kube-scheduler says no for 20 s: whatever it is, the pin is broken."""
    desk = a_desk()
    desk.fail_to_bind("train-1")
    assert names(desk.wait(POLICY.pin_limit - 0.1)) == []
    assert names(desk.wait(0.2)) == ["train-1"]
    assert desk.ledger.counters.pins_broken == {"refused": 1}


def test_a_pod_that_gets_over_it_keeps_its_pin() -> None:
    """Bound in time, or no longer failing: the clock of the failure starts anew."""
    desk = a_desk()
    desk.fail_to_bind("train-0", "train-1")
    desk.wait(15)
    desk.bind("train-1")
    desk.change("train-0", pending=None)
    assert names(desk.wait(15)) == []
    desk.fail_to_bind("train-0")
    assert names(desk.wait(POLICY.pin_limit - 0.1)) == []


def test_a_gate_is_no_failure() -> None:
    """SchedulingGated is said of every pod of ours before it goes."""
    desk = a_desk()
    desk.change("train-0", pending=Pending("SchedulingGated", 0.0))
    assert names(desk.wait(100)) == []


def test_bound_members_have_no_pin_to_break() -> None:
    """A cordon, a taint, and even the loss of the node, is the node's controller's business then."""
    desk = a_desk()
    desk.bind("train-0", "train-1")
    assert told(desk.tell(ev.NodeSeen(CLOSED["taint"]))) == []
    assert told(desk.tell(ev.NodeSeen(a_node("n2", gpu=16, schedulable=False)))) == []
    assert told(desk.tell(ev.NodeGone("n2"))) == []


# ── what follows ────────────────────────────────────────────────────────────────────────────────────────


def test_a_pod_that_nobody_makes_again_is_never_deleted() -> None:
    """Its owner let go of it after it was pinned: its room is given up, and the pod is left alone."""
    desk = a_desk()
    desk.bind("train-0")
    desk.change("train-1", owner=None)
    effects = desk.tell(ev.NodeSeen(a_node("n2", gpu=16, schedulable=False)))
    assert told(effects) == []
    assert desk.seat("train-1") is None
    broken = dict(desk.ledger.counters.pins_broken)
    assert names(desk.wait(POLICY.timeout - 1)) == []
    assert dict(desk.ledger.counters.pins_broken) == broken


@pytest.mark.parametrize("pin", [None, Pin.HARD])
def test_a_pod_of_the_clusters_own_is_never_pinned(pin: Pin | None) -> None:
    """Whatever was asked for: a pin would break by an eviction alone. It is nominated, and loses a bad seat so."""
    desk = Desk(*NODES)
    owner = an_owner("ReplicaSet", "dns")
    pods = a_gang_of_pods("dns", 2, namespace="kube-system", owner=owner, gpu=1, wish={"pin": pin})
    desk.own(pods[0])
    desk.see(*pods)
    wanted = desk.record("dns", "kube-system").wanted
    assert wanted is not None
    seats = Place({pods[0].uid: "n1", pods[1].uid: "n2"})
    effects = desk.tell(
        ev.Decided(wanted, seats, desk.ledger.nodes.generation, desk.ledger.nodes.room_version)
    )
    while sent := told(effects, WritePlan, Nominate, Ungate):
        assert not any(own.pin for own in sent if isinstance(own, Ungate))
        desk.carry_out(*sent)
        effects = desk.done(*sent)
    effects = [*desk.tell(ev.NodeGone("n2")), *desk.wait(POLICY.timeout + 1)]
    assert [own for own in effects if isinstance(own, Evict)] == []
    assert desk.seat("dns-1") is None


def test_a_soft_member_is_given_another_seat() -> None:
    """Its nomination is cleared, and it is asked about with its gang as anchor; the bad node is barred."""
    desk = a_desk(soft=True)
    effects = told(desk.tell(ev.NodeGone("n2")))
    assert [(type(e), e.key.name, e.node) for e in effects if isinstance(e, Nominate)] == [
        (Nominate, "train-1", "")
    ]
    wanted = desk.wanted("train")
    assert wanted is not None
    assert (wanted.quorum, wanted.anchors, wanted.barred) == (1, ("n1",), frozenset({"n2"}))
    assert desk.ledger.counters.reseats == 1
    desk.carry_out(*effects)
    assert names(desk.place("train", train_1="n3"), Nominate) == ["train-1"]


def test_a_wiped_nomination_is_written_again_once_a_second() -> None:
    """kube-scheduler wipes it at every failed attempt; each write wakes the pod, so it must not be a hot loop."""
    desk = a_desk(soft=True)
    effects = desk.fail_to_bind("train-1")
    assert names(effects, Nominate) == ["train-1"]
    written = 0
    for _ in range(10):
        desk.change("train-1", nominated="n2")
        written += len(names(desk.change("train-1", nominated=None), Nominate))
    assert written == 0
    assert names(desk.wait(1.0), Nominate) == ["train-1"]


def test_a_lost_node_is_one_breaking_however_many_sat_on_it() -> None:
    """Eight members on one node bar it once, for its plain time, and the gang does not go soft for it."""
    desk = a_desk(count=4, train_0="n2", train_1="n2", train_2="n2", train_3="n2")
    desk.tell(ev.NodeGone("n2"))
    record = desk.record("train")
    assert record.pinning.barred["n2"] == (POLICY.barred, POLICY.barred)
    assert (record.pinning.broken, record.pinning.soft) == (1, False)
    assert desk.ledger.counters.pins_broken == {"node-gone": 4}


def test_a_bar_ends_and_doubles_when_it_broke_there_again() -> None:
    """300 s the first time; 600 s when the same node breaks a pin of the gang soon after."""
    desk = a_desk(soft=True)
    desk.tell(ev.NodeGone("n2"))
    desk.place("train", train_1="n3")
    assert desk.record("train").pinning.barred_nodes == {"n2"}
    desk.wait(POLICY.barred + 1)
    assert desk.record("train").pinning.barred_nodes == frozenset()
    desk.tell(ev.NodeSeen(a_node("n2", gpu=16)))
    record = desk.record("train")
    for member in record.live():
        desk.ledger.release(member)
    record.seen_by_kube_scheduler = True
    desk.tell(
        ev.NodeSeen(a_node("n9")), ev.OwnerSeen(replace(next(iter(desk.ledger.owners.values())), warnings=()))
    )
    desk.ledger.mark(record.key)
    desk.tell()
    desk.bring_on_its_way("train", train_0="n1", train_1="n2")
    desk.tell(ev.NodeGone("n2"))
    until, span = desk.record("train").pinning.barred["n2"]
    assert span == 2 * POLICY.barred
    assert until == desk.now + span


def test_after_two_broken_pins_a_gang_goes_soft() -> None:
    """Its members are nominated from then on: nothing more is evicted for it."""
    desk = a_desk()
    desk.tell(ev.NodeGone("n1"))
    assert not desk.record("train").pinning.soft
    desk.tell(ev.NodeGone("n2"))
    assert desk.record("train").pinning.soft
    membership = desk.pods["train-0"].membership
    desk.see(
        *(a_pod(f"next-{n}", membership=membership, owner=an_owner("ReplicaSet", "set")) for n in range(2))
    )
    desk.lose("train-0", "train-1")
    effects = desk.done(*desk.place("train", next_0="n3", next_1="n4"))
    assert names(effects, Nominate) == ["next-0", "next-1"]


def test_evictions_of_one_gang_are_budgeted() -> None:
    """Eight at a time; the others when those are gone."""
    desk = a_desk(count=12, **{f"train_{number}": "n2" for number in range(12)})
    first = names(desk.tell(ev.NodeGone("n2")))
    assert len(first) == POLICY.evictions_per_gang
    assert names(desk.wait(3)) == []
    assert len(names(desk.lose(*first))) == 4


def test_by_shipped_settings_refused_seats_are_given_up_within_half_a_minute() -> None:
    """kube-scheduler refuses all 64 members of a gang: after 25 s none is left, so there is time to make them again
    and plan anew.
    """
    desk = a_desk(count=64, **{f"train_{number}": f"n{number // 16 + 1}" for number in range(64)})
    everybody = set(desk.pods)
    desk.fail_to_bind(*everybody)
    for _ in range(25):
        evicted = names(desk.wait(1.0))
        while evicted:
            evicted = names(desk.lose(*evicted))
    assert {name for name in everybody if desk.ledger.registry.knows(desk.pods[name].uid)} == set()


# ── evictions that do not come true ─────────────────────────────────────────────────────────────────────


def test_an_eviction_without_an_outcome_is_asked_for_again() -> None:
    """Until the pod is on its way out."""
    desk = a_desk()
    desk.tell(ev.NodeGone("n2"))
    assert names(desk.wait(POLICY.outcome_limit + 1)) == ["train-1"]
    desk.change("train-1", deleting=True)
    assert "train-1" not in names(desk.wait(5 * POLICY.outcome_limit))


@pytest.mark.parametrize("kind", [FailureKind.UNAVAILABLE, FailureKind.CONFLICT, FailureKind.BUDGET])
def test_a_refused_eviction_is_asked_for_again(kind: FailureKind) -> None:
    """Soon; the member does not count meanwhile, and keeps its seat."""
    desk = a_desk()
    (evicted,) = told(desk.tell(ev.NodeGone("n2")))
    assert told(desk.failed(evicted, kind)) == []
    assert not desk.member("train-1").live
    assert told(desk.wait(6.0))[:1] == [evicted]


def test_a_pod_that_was_bound_after_all_is_left_alone() -> None:
    """The room came back in the last moment: what runs is not evicted for a pin that broke."""
    desk = a_desk()
    desk.fail_to_bind("train-1")
    (evicted,) = told(desk.wait(POLICY.pin_limit + 0.1))
    desk.bind("train-0", "train-1")
    assert told(desk.failed(evicted, FailureKind.BUDGET)) == []
    assert desk.member("train-1").live
    assert desk.record("train").state == "running"
    assert told(desk.wait(100)) == []


def test_an_evicted_pod_that_is_gone_is_forgotten() -> None:
    """404 from the eviction is as good as the watch."""
    desk = a_desk()
    (evicted,) = told(desk.tell(ev.NodeGone("n2")))
    desk.failed(evicted, FailureKind.NOT_FOUND)
    assert not desk.ledger.registry.knows(desk.pods["train-1"].uid)
    assert broken(desk.ledger) == []


def test_a_late_patch_of_an_earlier_run_takes_the_seat_along() -> None:
    """Two of us tied the pod to different nodes: the API server let one through, and the seat follows it."""
    desk = Desk(*NODES)
    pods = a_gang_of_pods("train", 2, owner=an_owner(), gpu=1)
    desk.own(pods[0])
    desk.see(*pods)
    ungatings = told(desk.done(*desk.place("train", **SEATS)))
    desk.carry_out(replace(ungatings[1], node="n3", plan="earlier"))
    assert desk.seat("train-1") == "n3"
    assert broken(desk.ledger) == []
    desk.bind("train-1")
    assert desk.pods["train-1"].node == "n3"


def test_a_member_that_failed_is_not_evicted() -> None:
    """It is over; its owner makes the next one."""
    desk = a_desk()
    desk.change("train-1", phase=Phase.FAILED)
    assert told(desk.tell(ev.NodeGone("n2"))) == []
    assert desk.ledger.holds() == 1
