"""Gangs with rules that the planner does not model: what follows a refusal of kube-scheduler, and which gang waits."""

from dataclasses import replace

import pytest

from scheduler.ledger.fault_isolation import broke
from scheduler.model.decision import Reason, Wait
from scheduler.model.workload import GangKey, Pending, Phase, Pod
from tests.engine.support.cast import a_gang_of_pods, an_owner, with_membership
from tests.ledger.support.desk import POLICY, Desk, names
from tests.support.builders import a_node

NODES = tuple(a_node(f"n{number}", gpu=4) for number in range(1, 5))
RULE = "spec.affinity.podAntiAffinity"


def odd(gang: str, count: int, *, namespace: str = "default", **said) -> list[Pod]:
    """A gang of a ReplicaSet whose pods have such a rule."""
    pods = a_gang_of_pods(gang, count, namespace=namespace, owner=an_owner("ReplicaSet", gang), **said)
    return [replace(pod, unmodeled=(RULE,)) for pod in pods]


def a_torn_desk(*, freely: bool = True, **said) -> Desk:
    """train-0 is bound, train-1 was let go and has its seat on n2."""
    desk = Desk(*NODES)
    pods = odd("train", 2, gpu=4, **said)
    desk.own(pods[0], freely=freely)
    desk.see(*pods)
    desk.bring_on_its_way("train", train_0="n1", train_1="n2")
    desk.change("train-0", node="n1", phase=Phase.RUNNING, unmodeled=(), nominated=None)
    return desk


def test_a_member_that_no_node_suits_takes_its_gang_back_after_a_grace() -> None:
    """What is bound goes, the seat is free, its node is barred, and the gang backs off."""
    desk = a_torn_desk()
    desk.fail_to_bind("train-1")
    assert names(desk.wait(POLICY.pin_grace - 0.1)) == []
    assert names(desk.wait(0.2)) == ["train-0"]
    record = desk.record("train")
    assert (desk.seat("train-1"), record.pinning.barred_nodes) == (None, {"n2"})
    assert record.backoff.not_before == desk.now - 0.1 + POLICY.backoff


def test_so_does_one_that_lost_its_seat_and_has_no_other() -> None:
    """kube-scheduler asked about other nodes, and none of them has room."""
    desk = a_torn_desk()
    desk.fail_to_bind("train-1")
    desk.ledger.release(desk.member("train-1"))
    assert names(desk.wait(POLICY.pin_grace + 0.1)) == ["train-0"]


KEEPS = {
    "its pods count as failures": lambda desk: None,
    "an error is no refusal": lambda desk: desk.change("train-1", pending=Pending("SchedulerError", 0.0)),
    "it is bound after all": lambda desk: desk.bind("train-1"),
    "it has no such rule": lambda desk: desk.change("train-1", unmodeled=()),
    "it is above the quorum": lambda desk: desk.see(
        with_membership(desk.pods["train-1"], surplus=True, quorum={"": 2})
    ),
}


@pytest.mark.parametrize(("case", "change"), KEEPS.items(), ids=KEEPS.keys())
def test_what_is_bound_stays(case: str, change) -> None:
    """Until the time of the gang is up, as of any other."""
    desk = a_torn_desk(freely=case != "its pods count as failures")
    desk.fail_to_bind("train-1")
    change(desk)
    assert names(desk.wait(POLICY.pin_limit - 1)) == []


def test_a_gang_of_which_nothing_is_bound_gives_its_seats_back_and_loses_no_pod() -> None:
    """Its nodes are barred for the plain time, however often: nothing was torn."""
    desk = Desk(*NODES)
    pods = odd("train", 2, gpu=4)
    desk.own(pods[0], freely=False)
    desk.see(*pods)
    for _ in range(3):
        desk.bring_on_its_way("train", train_0="n1", train_1="n2")
        desk.fail_to_bind("train-0", "train-1")
        assert names(desk.wait(POLICY.pin_grace + 0.1)) == []
        assert desk.ledger.holds() == 0
        bars = desk.record("train").pinning.barred
        assert {node: span for node, (_, span) in bars.items()} == dict.fromkeys(("n1", "n2"), POLICY.barred)
        desk.wait(POLICY.barred + 1)


@pytest.mark.parametrize("ends", ["whole", "gone", "given back"])
def test_one_waits_until_the_other_is_whole_or_gone(ends: str) -> None:
    """Its turn is told as such; what ends it makes the question worth asking again."""
    desk = a_torn_desk()
    desk.see(*odd("next", 2, gpu=4))
    singly, waits = desk.ledger.pending.serial, desk.record("next")
    first = GangKey("default", "train")
    assert singly.before(waits) == first
    assert singly.before(desk.record("train")) is None
    desk.decide("next", Wait(Reason.QUEUED, behind=first))
    assert waits.verdict.request is waits.wanted
    if ends == "whole":
        desk.bind("train-1")
    elif ends == "gone":
        desk.lose("train-0", "train-1")
    else:
        desk.fail_to_bind("train-1")
        desk.wait(POLICY.pin_grace + 0.1)
    assert singly.before(waits) is None
    assert waits.verdict.request is None


def test_only_several_that_are_to_start_together_wait() -> None:
    """Nor does a gang of one, one without such a rule, or one that runs and asks for more."""
    desk = a_torn_desk()
    desk.see(*odd("one", 1), *a_gang_of_pods("plain", 2))
    singly = desk.ledger.pending.serial
    assert [singly.before(desk.record(gang)) for gang in ("one", "plain")] == [None, None]


def test_a_torn_gang_stays_one_while_the_pod_with_the_rule_is_made_again() -> None:
    """A bound pod tells no more what it asks of nodes."""
    desk = a_torn_desk()
    desk.see(*odd("next", 2, gpu=4))
    desk.lose("train-1")
    assert desk.ledger.pending.serial.before(desk.record("next")) == GangKey("default", "train")


def test_a_gang_on_which_we_failed_holds_up_no_other(faults) -> None:
    """It is looked at minutes later: whether it is torn still is not known until then."""
    desk = a_torn_desk(freely=False)
    desk.see(*odd("next", 2, gpu=4))
    waits, train = desk.record("next"), desk.record("train")
    desk.decide("next", Wait(Reason.QUEUED, behind=train.key))
    broke(desk.ledger, train.key, ValueError(), desk.now)
    assert (desk.ledger.pending.serial.before(waits), waits.verdict.request) == (None, None)
    desk.wait(train.rests_until - desk.now)
    assert desk.ledger.pending.serial.before(waits) == train.key
    faults.clear()
