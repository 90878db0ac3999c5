"""What each namespace uses, is guaranteed, borrows, may use, and waits for."""

import pytest

from scheduler.ledger import share_amounts
from scheduler.ledger.share_amounts import ShareAmount
from scheduler.model.decision import Reason
from scheduler.model.policy import Policy
from scheduler.model.queueing import Share
from tests.engine.support.cast import a_gang_of_pods, a_pod
from tests.ledger.support.desk import Desk
from tests.support.builders import GPU, a_node

SHARES = {
    "research": Share(guaranteed=((GPU, 4),), ceiling=((GPU, 8),)),
    "students": Share(ceiling=((GPU, 2),)),
    "idle": Share(guaranteed=(("cpu", 4000),)),
}


@pytest.fixture
def desk() -> Desk:
    return Desk(a_node("n1", gpu=8), a_node("n2", gpu=8), policy=Policy(shares=SHARES))


def of(desk: Desk, namespace: str, resource: str = GPU) -> ShareAmount | None:
    return share_amounts.amounts(desk.ledger, namespace).get(resource)


def key_of(desk: Desk, name: str) -> str:
    return desk.ledger.registry.gang_of[desk.pods[name].uid].name


def test_what_is_used_beyond_the_guarantee_is_borrowed(desk: Desk) -> None:
    """Of a resource that some namespace is guaranteed; bound pods and kept seats count."""
    desk.see(
        a_pod("big", namespace="research", gpu=6, node="n1"),
        a_pod("own", namespace="students", gpu=1, node="n2"),
    )

    assert of(desk, "research") == ShareAmount(6, 4, 2, 8, 0)
    assert of(desk, "students") == ShareAmount(1, 0, 1, 2, 0)
    assert of(desk, "idle", "cpu") == ShareAmount(0, 4000, 0, None, 0)
    assert of(desk, "idle") is None


def test_what_waits_is_what_gangs_lack_that_could_start(desk: Desk) -> None:
    """With the whole quorum there; of one that gathers its members nothing waits, nor of one that has its seats."""
    desk.see(*a_gang_of_pods("train", 2, namespace="research", gpu=3))
    desk.see(*a_gang_of_pods("half", 1, quorum=2, namespace="students", gpu=1))
    assert of(desk, "research") == ShareAmount(0, 4, 0, 8, 6)
    assert of(desk, "students") == ShareAmount(0, 0, 0, 2, 0)

    desk.lose("train-0", "train-1")
    assert of(desk, "research") == ShareAmount(0, 4, 0, 8, 0)
    assert desk.ledger.wanted() == {}


def test_a_gang_that_is_refused_waits_on(desk: Desk) -> None:
    """Its verdict changes nothing about what it asks for."""
    desk.see(a_pod("alone", gpu=3))
    desk.refuse(key_of(desk, "alone"), Reason.QUOTA_EXCEEDED)

    assert of(desk, "default") == ShareAmount(0, 0, 0, None, 3)


def test_a_seat_turns_what_waits_into_what_is_used(desk: Desk) -> None:
    """Before the pod is bound."""
    desk.see(a_pod("alone", gpu=3))
    desk.place(key_of(desk, "alone"), alone="n1")

    assert of(desk, "default") == ShareAmount(3, 0, 3, None, 0)


def test_namespaces_without_a_share_are_told_where_they_use_devices(desk: Desk) -> None:
    """Or wait for some; one that only uses processors is of no interest to shares."""
    desk.see(
        a_pod("one", namespace="uses", gpu=1, node="n1"),
        a_pod("two", namespace="waits", gpu=1),
        a_pod("three", namespace="computes", cpu=1, node="n1"),
    )

    assert share_amounts.namespaces(desk.ledger) == ["idle", "research", "students", "uses", "waits"]
