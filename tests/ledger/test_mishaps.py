"""What befalls many members of a gang is told together, and no more often than anything else."""

from dataclasses import replace
from itertools import pairwise

import pytest

from scheduler.ledger import healing
from scheduler.model import events as ev
from scheduler.model.decision import Reason
from scheduler.model.effects import Announce, Effect
from scheduler.model.workload import OnMemberLoss, Phase
from tests.engine.support.cast import a_gang_of_pods, an_owner
from tests.ledger.support.desk import POLICY, Desk, names
from tests.ledger.test_healing import said, wishing
from tests.support.builders import a_node

MANY = 40
GONE = healing.GONE_FOR + 0.1


def a_desk(*, kind: str = "ReplicaSet", freely: bool = True, **wish: object) -> Desk:
    """Forty members that run: thirty on n1, five on n2, five on n3."""
    desk = Desk(a_node("n1", gpu=30), a_node("n2", gpu=5), a_node("n3", gpu=5))
    pods = wishing(a_gang_of_pods("train", MANY, owner=an_owner(kind, "set"), gpu=1), **wish)
    desk.own(pods[0], freely=freely)
    desk.see(*pods)
    seats = [*["n1"] * 30, *["n2"] * 5, *["n3"] * 5]
    desk.bring_on_its_way(
        "train", **{p.key.name.replace("-", "_"): seat for p, seat in zip(pods, seats, strict=True)}
    )
    desk.bind(*(pod.key.name for pod in pods))
    return desk


def told(effects: list[Effect]) -> list[Announce]:
    return [effect for effect in effects if isinstance(effect, Announce)]


def lost(desk: Desk, *nodes: str) -> list[Effect]:
    """These nodes are gone, and long enough."""
    desk.tell(*(ev.NodeGone(node) for node in nodes))
    return desk.wait(GONE)


def test_a_node_with_many_members_is_told_of_once() -> None:
    """How many were lost, the first few by name, and what follows; on the first of them and their owner."""
    desk = a_desk()
    effects = lost(desk, "n1")
    (one,) = told(effects)
    assert one.message == (
        "30 members: train-0 was lost with its node n1, train-1 was lost with its node n1,"
        " train-2 was lost with its node n1 and 27 more;"
        " the replacement joins the gang if there is free capacity"
    )
    assert (one.reason, one.key.name, one.owner) == (Reason.MEMBER_LOST, "train-0", an_owner(name="set"))
    assert len(names(effects)) == desk.ledger.counters.decisions[Reason.MEMBER_LOST] == 30


def test_what_is_lost_soon_after_is_told_together_when_the_interval_is_over() -> None:
    """Two nodes more within ten seconds: one notice about both of them, and nobody is left out."""
    desk = a_desk()
    first = desk.now + GONE
    lost(desk, "n1")
    assert said(lost(desk, "n2"), Reason.MEMBER_LOST) == []
    assert said(lost(desk, "n3"), Reason.MEMBER_LOST) == []
    (later,) = said(desk.wait(POLICY.announce_every), Reason.MEMBER_LOST)
    assert later.startswith("10 members: train-30 was lost with its node n2")
    assert desk.record("train").notices[Reason.MEMBER_LOST].at >= first + POLICY.announce_every - 0.2
    assert said(desk.wait(600), Reason.MEMBER_LOST) == []


def counted(text: str) -> int:
    """How many members a notice speaks of."""
    return sum(int(part.split()[0]) if part[0].isdigit() else 1 for part in text.split(". "))


def test_notices_of_losses_keep_their_distance() -> None:
    """All but one fail, one after the other: one notice in ten seconds, and each failure is in one of them."""
    desk = a_desk(on_member_loss=OnMemberLoss.RESTART, kind="Job", freely=False)
    heard: list[tuple[float, str]] = []
    for number in range(MANY - 1):
        effects = [*desk.change(f"train-{number}", phase=Phase.FAILED), *desk.wait(0.7)]
        heard += [(desk.now, text) for text in said(effects, Reason.MEMBER_LOST)]
    heard += [(desk.now, text) for text in said(desk.wait(20), Reason.MEMBER_LOST)]
    assert len(heard) == 4
    assert all(later[0] - sooner[0] >= POLICY.announce_every - 0.7 for sooner, later in pairwise(heard[:3]))
    assert sum(counted(text) for _, text in heard) == MANY - 1


def test_a_restart_is_told_with_the_losses_that_are_its_cause() -> None:
    """One notice: who was lost, and that all begin again together."""
    desk = a_desk(on_member_loss=OnMemberLoss.RESTART)
    effects = lost(desk, "n2")
    (text,) = said(effects, Reason.MEMBER_LOST)
    assert text.startswith("5 members: train-30 was lost with its node n2")
    assert text.endswith("; the whole gang is restarted")
    assert told(desk.wait(600)) == []


@pytest.mark.parametrize(
    ("kind", "follows"),
    [("ReplicaSet", "evicted, to be recreated"), ("Job", "not evicted")],
)
def test_many_that_do_not_start_are_told_of_once(kind: str, follows: str) -> None:
    """How many, the first few with their nodes and what keeps them, and what is done."""
    desk = a_desk(kind=kind, freely=kind != "Job")
    desk.see(*(replace(pod, phase=Phase.PENDING, stuck="ErrImagePull") for pod in desk.pods.values()))
    (text,) = said(desk.wait(POLICY.start_timeout + 1), Reason.NOT_STARTED)
    assert "40 members: train-0 on n1 for 600 s: ErrImagePull, " in text
    assert f" and 37 more; {follows}" in text


def test_losses_of_two_kinds_are_told_in_one_notice() -> None:
    """What follows is said of those whom it concerns."""
    desk = a_desk()
    lost(desk, "n1")
    lost(desk, "n2")
    desk.see(*wishing(list(desk.pods.values()), on_member_loss=OnMemberLoss.NONE))
    lost(desk, "n3")
    (text,) = said(desk.wait(POLICY.announce_every), Reason.MEMBER_LOST)
    replaced, left_alone = text.split(". ")
    assert replaced.startswith("5 members: train-30 was")
    assert left_alone.startswith("5 members: train-35 was")
    assert left_alone.endswith("no action, as on-member-loss is none")


def test_who_is_lost_is_not_counted_as_bound() -> None:
    """People are told how many of the gang are left, not how many pods there still are."""
    desk = a_desk()
    lost(desk, "n1")
    (text,) = said(desk.wait(5), Reason.PARTIALLY_BOUND)
    assert text.endswith("10 of 40 are bound")
