"""Gangs and needs are counted as they are, however little is counted anew."""

from dataclasses import replace

from scheduler.model import events as ev
from scheduler.model.workload import Phase
from tests.engine.support.cast import a_gang_of_pods, a_pod
from tests.ledger.support.desk import Desk
from tests.support.builders import GPU


def test_every_gang_counts_once_where_it_is() -> None:
    """A gang that moves on is taken off where it was; who is gone counts nowhere."""
    desk = Desk()
    pods = a_gang_of_pods("train", 2, gpu=1)
    desk.see(pods[0], a_pod("alone", gpu=1))
    assert desk.ledger.gang_counts() == {("gathering", "MissingMembers"): 1, ("waiting", "Queued"): 1}
    desk.see(pods[1])
    desk.bring_on_its_way("train", train_0="n1", train_1="n1")
    desk.bind("train-0", "train-1")
    assert desk.ledger.gang_counts() == {("running", "Bound"): 1, ("waiting", "Queued"): 1}
    desk.lose("train-0", "train-1", "alone")
    assert desk.ledger.gang_counts() == {}


def test_a_count_between_what_happened_and_the_look_at_it_is_not_kept() -> None:
    """Facts are taken in first and judged later: a count between the two is no last word."""
    desk = Desk()
    desk.ledger.take([ev.PodSeen(a_pod("alone", gpu=1))], 0.0)
    assert desk.ledger.gang_counts().total() == 1
    desk.ledger.settle(0.0)
    assert desk.ledger.gang_counts() == {("waiting", "Queued"): 1}


def test_needs_are_counted_by_member() -> None:
    """Also of a replica that does not act, which judges no gang; a changed need is counted as it is now."""
    for acting in (True, False):
        desk = Desk(acting=acting)
        pods = a_gang_of_pods("train", 3, gpu=1)
        desk.see(*pods, a_pod("alone", gpu=2), a_pod("foreign", gpu=4, scheduler="another"))
        one, two = pods[0].demand, desk.pods["alone"].demand
        assert desk.ledger.demands() == {one: 3, two: 1}
        desk.see(replace(pods[0], demand=two))
        desk.lose("train-1", "alone")
        assert desk.ledger.demands() == {one: 1, two: 1}


def test_what_gangs_want_that_wait_is_counted_by_namespace() -> None:
    """With the whole quorum there, and as long as they have no seat; nothing is left of those that are gone."""
    desk = Desk()
    desk.see(*a_gang_of_pods("train", 2, gpu=2), a_pod("alone", namespace="team", gpu=1))
    assert {namespace: own[GPU] for namespace, own in desk.ledger.wanted().items()} == {
        "default": 4,
        "team": 1,
    }
    desk.place("train", train_0="n1", train_1="n1")
    assert {namespace: own[GPU] for namespace, own in desk.ledger.wanted().items()} == {"team": 1}
    desk.lose("train-0", "train-1", "alone")
    assert desk.ledger.wanted() == {}


def test_what_is_handed_out_is_a_copy() -> None:
    """Who reads may do with it as he likes."""
    desk = Desk()
    desk.see(a_pod("alone"))
    desk.ledger.gang_counts().clear()
    desk.ledger.demands().clear()
    assert desk.ledger.gang_counts().total() == desk.ledger.demands().total() == 1


def test_the_oldest_wait_is_of_those_who_wait_now() -> None:
    """Nobody waits: none. Who was bound, or ended, waits no more."""
    desk = Desk()
    assert desk.ledger.oldest_wait(5.0) == 0.0
    desk.see(a_pod("first", gpu=1))
    desk.wait(10)
    desk.see(a_pod("second", gpu=1))
    assert desk.ledger.oldest_wait(12.0) == 12.0
    desk.change("first", node="n1", gated=False, phase=Phase.RUNNING)
    assert desk.ledger.oldest_wait(12.0) == 2.0
