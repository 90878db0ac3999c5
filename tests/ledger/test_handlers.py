"""Blind: nothing is done by a picture that may be the past, and when we see again every limit begins anew."""

from scheduler.model import events as ev
from scheduler.model.workload import Phase
from tests.engine.support.cast import a_gang_of_pods, an_owner
from tests.ledger.support.desk import POLICY, Desk, names, told
from tests.support.builders import a_node

SEATS = {"train_0": "n1", "train_1": "n1", "train_2": "n2"}
MEMBERS = ["train-0", "train-1", "train-2"]


def a_desk() -> Desk:
    """A gang of three on its way to its seats."""
    desk = Desk(*(a_node(f"n{number}", gpu=8) for number in range(1, 4)))
    pods = a_gang_of_pods("train", 3, owner=an_owner("ReplicaSet", "set"), gpu=1)
    desk.own(pods[0])
    desk.see(*pods)
    desk.bring_on_its_way("train", **SEATS)
    return desk


def test_a_gang_that_was_bound_unseen_is_not_rolled_back() -> None:
    """Its time is up while nobody looks; seen to be bound it has its seats, as if it had been seen in time."""
    desk = a_desk()
    desk.tell(ev.LostSight())
    assert desk.ledger.next_deadline() == float("inf")
    desk.now += 3 * POLICY.timeout
    assert told(desk.tell(ev.Tick())) == []
    assert told(desk.tell(ev.SawAgain())) == []
    desk.bind(*MEMBERS)
    assert names(desk.wait(2 * POLICY.timeout)) == []
    assert desk.record("train").was_bound


def test_what_is_seen_blind_is_taken_in_and_looked_at_later() -> None:
    """Events of the other watches count, and what follows from them is done when all is seen."""
    desk = a_desk()
    desk.tell(ev.LostSight())
    assert told(desk.tell(ev.NodeGone("n2"))) == []
    assert names(desk.tell(ev.SawAgain())) == ["train-2"]


def test_a_gang_that_is_still_not_bound_is_rolled_back_a_whole_limit_later() -> None:
    """The time for which nobody looked is not its own; all of its time is, from then on."""
    desk = a_desk()
    desk.wait(POLICY.timeout - 1)
    desk.tell(ev.LostSight())
    desk.now += 60
    desk.tell(ev.SawAgain())
    assert names(desk.wait(POLICY.timeout - 1)) == []
    assert names(desk.wait(1.1)) == MEMBERS


def test_a_pin_does_not_break_for_a_time_in_which_nobody_looked() -> None:
    """kube-scheduler's refusals count from when they are seen again."""
    desk = a_desk()
    desk.fail_to_bind(*MEMBERS)
    desk.tell(ev.LostSight())
    desk.now += POLICY.pin_limit + 1
    assert names(desk.tell(ev.SawAgain())) == []
    assert names(desk.wait(POLICY.pin_limit - 1)) == []
    assert names(desk.wait(1.1)) == MEMBERS


def test_a_member_that_started_unseen_is_left_alone() -> None:
    """It was seen as starting; whether it still does is judged from when it is seen again."""
    desk = a_desk()
    desk.bind(*MEMBERS)
    desk.change("train-0", phase=Phase.PENDING)
    desk.tell(ev.LostSight())
    desk.now += POLICY.start_timeout + 1
    assert names(desk.tell(ev.SawAgain())) == []
    assert names(desk.wait(POLICY.start_timeout - 1)) == []
    assert names(desk.wait(1.1)) == ["train-0"]


def test_nobody_is_planned_blind() -> None:
    """Who comes meanwhile is asked about when all is seen."""
    desk = a_desk()
    desk.tell(ev.LostSight())
    desk.see(*a_gang_of_pods("late", 2, gpu=1))
    assert desk.wanted("late") is None
    desk.tell(ev.SawAgain())
    assert desk.wanted("late") is not None


def test_who_takes_over_has_begun_before_he_is_blind() -> None:
    """Sight that is lost before there is anything to do is no loss, and does not keep what was left behind from
    being read.
    """
    desk = Desk(a_node("n1", gpu=8), acting=False)
    desk.see(*a_gang_of_pods("train", 2, gpu=1))
    desk.tell(ev.LostSight(), ev.Synced(), ev.TookOver())
    assert desk.ledger.ready
    assert desk.wanted("train") is not None
