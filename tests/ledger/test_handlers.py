"""Blind: nothing is done by a picture that may be the past, and when we see again every limit begins anew."""

from dataclasses import replace

from scheduler.model import events as ev
from scheduler.model.decision import Refuse
from scheduler.model.effects import Effect
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


def in_turns(desk: Desk, *events: ev.Event) -> list[Effect]:
    """What follows from these events, as the service finds it: a few members at a time."""
    desk.ledger.take(events, desk.now)
    effects: list[Effect] = []
    while desk.ledger.unsettled or desk.ledger.marked:
        assert not (desk.ledger.ready and desk.ledger.catch_ups)
        effects += desk.ledger.settle(desk.now, 1)
    return effects


def test_limits_begin_again_in_turns_as_at_once() -> None:
    """However few gangs a turn goes through, nothing is done before the last one has all of its time."""
    for back in (lambda desk: desk.tell(ev.SawAgain()), lambda desk: in_turns(desk, ev.SawAgain())):
        desk = a_desk()
        desk.see(*a_gang_of_pods("late", 2, gpu=1))
        desk.wait(POLICY.timeout - 1)
        desk.tell(ev.LostSight())
        desk.now += 60
        assert told(back(desk)) == []
        assert desk.wanted("late") is not None
        assert names(desk.wait(POLICY.timeout - 1)) == []
        assert names(desk.wait(1.1)) == MEMBERS


def test_limits_begin_once_more_if_the_cache_is_stale_again_meanwhile() -> None:
    """The time of the second outage is not the gang's either."""
    desk = a_desk()
    desk.see(*a_gang_of_pods("late", 2, gpu=1))
    desk.tell(ev.LostSight())
    desk.ledger.take([ev.SawAgain()], desk.now)
    desk.ledger.settle(desk.now, 1)
    assert desk.ledger.catch_ups
    desk.ledger.take([ev.LostSight()], desk.now)
    desk.now += POLICY.timeout + 1
    assert told(in_turns(desk, ev.SawAgain())) == []
    assert names(desk.wait(POLICY.timeout - 1)) == []
    assert names(desk.wait(1.1)) == MEMBERS


def test_a_policy_counts_for_every_gang_in_turns() -> None:
    """Nothing is planned while some gangs still have specs of the earlier one."""
    desk = a_desk()
    for name in ("small", "late"):
        desk.see(*a_gang_of_pods(name, 4, gpu=1))
    before = [record.pulse for record in desk.ledger.registry.gangs.values()]
    desk.ledger.take([ev.PolicyChanged(replace(POLICY, largest_gang=3))], desk.now)
    assert not desk.ledger.ready
    in_turns(desk)
    assert desk.ledger.ready
    assert [record.pulse for record in desk.ledger.registry.gangs.values()] == [n + 1 for n in before]
    assert [isinstance(desk.record(name).spec, Refuse) for name in ("train", "small", "late")] == [0, 1, 1]


def test_a_standby_has_nothing_to_catch_up() -> None:
    """It reads every gang with the policy of the moment when it takes over."""
    desk = Desk(a_node("n1", gpu=8), acting=False)
    desk.see(*a_gang_of_pods("train", 2, gpu=1))
    desk.tell(ev.Synced(), ev.PolicyChanged(replace(POLICY, largest_gang=1)))
    assert not desk.ledger.unsettled


def test_a_review_that_was_interrupted_is_not_the_review_of_the_new_policy() -> None:
    """All gangs are reviewed by the new settings before the ledger counts as settled."""
    desk = a_desk()
    for name in ("a", "b", "c", "d"):
        desk.see(*a_gang_of_pods(name, 4, gpu=1))
    ledger = desk.ledger
    ledger.take([ev.OwnerGone("x")], desk.now)
    for record in list(ledger.registry.gangs.values())[:2]:
        ledger.mark(record.key)
    ledger.settle(desk.now, 1)
    assert ledger.unsettled
    before = {key: record.pulse for key, record in ledger.registry.gangs.items()}
    ledger.take([ev.PolicyChanged(replace(POLICY, largest_gang=3))], desk.now)
    while ledger.unsettled:
        ledger.settle(desk.now, 1)
    assert [key for key, record in ledger.registry.gangs.items() if record.pulse == before[key]] == []
