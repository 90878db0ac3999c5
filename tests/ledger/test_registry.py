"""Which pod is in which gang, kept both ways round."""

import gc
import weakref
from dataclasses import replace

import pytest

from scheduler.ledger import registry as roll_module
from scheduler.ledger.gang import Plan
from scheduler.ledger.registry import Registry
from scheduler.model.workload import GangKey, Phase, Uid
from tests.engine.support.cast import a_pod, an_owner
from tests.ledger.support.invariants import of_registry

KEY = GangKey("default", "train")


def test_who_enters_is_found_and_who_leaves_is_not() -> None:
    """A pod is in one gang; the last one to leave takes the gang along."""
    roll = Registry()
    one, two = a_pod("one"), a_pod("two")
    record, member = roll.enter(one, KEY)
    roll.enter(two, KEY)
    assert roll.member(one.uid) is member
    assert roll.pod(two.uid) == two
    assert roll.knows(one.uid)
    assert roll.count == 2
    assert roll.leave(one.uid) == KEY
    assert roll.gangs[KEY] is record
    roll.leave(two.uid)
    assert roll.gangs == {}
    assert roll.leave(two.uid) is None
    assert list(of_registry(roll)) == []


def test_a_pod_is_gone_as_soon_as_it_is_on_its_way() -> None:
    """Deleted, being deleted, or never seen; not where it has ended, for then it is still there to be read."""
    roll = Registry()
    pods = {"there": {}, "deleting": {"deleting": True}, "ended": {"phase": Phase.SUCCEEDED}}
    for name, more in pods.items():
        roll.enter(replace(a_pod(name), **more), KEY)
    gone = {name for name in [*pods, "unseen"] if roll.is_gone(a_pod(name).uid)}
    assert gone == {"deleting", "unseen"}


def test_gangs_are_found_by_their_owner() -> None:
    """As long as one member has the controller, and by the new one when the pod was adopted."""
    roll = Registry()
    first, second = an_owner(name="first"), an_owner(name="second")
    pods = [a_pod(f"p{number}", owner=first) for number in range(2)]
    for pod in pods:
        roll.enter(pod, KEY)
    roll.leave(pods[0].uid)
    assert list(roll.owned_by(first.uid)) == [KEY]
    member = roll.member(pods[1].uid)
    assert member is not None
    roll.renew(member, replace(pods[1], owner=second))
    assert list(roll.owned_by(first.uid)) == []
    assert list(roll.owned_by(second.uid)) == [KEY]
    roll.leave(pods[1].uid)
    assert roll._owned == {}


def test_gangs_are_numbered_as_they_are_met() -> None:
    """Creation times have whole seconds; the number keeps the order within one."""
    roll = Registry()
    numbers = [roll.enter(a_pod(name), GangKey("default", name))[0].number for name in ("b", "a", "c")]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == 3


def test_a_gang_without_members_is_found_out() -> None:
    """check names what must never be."""
    roll = Registry()
    roll.enter(a_pod("one"), KEY)
    roll.gangs[KEY].members.clear()
    assert len(list(of_registry(roll))) == 2
    assert not roll.knows(Uid("two"))


def test_the_scars_that_were_made_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang whose pins break each time it is made again is not forgotten for one whose broke once, long after its
    first.
    """
    monkeypatch.setattr(roll_module, "SCARS_KEPT", 2)
    roll = Registry()
    for name in ("again", "once", "again", "new"):
        record, _ = roll.enter(a_pod(name), GangKey("default", name))
        record.pinning.broken += 1
        roll.leave(a_pod(name).uid)
    marks = {
        name: roll.enter(a_pod(name), GangKey("default", name))[0].pinning.broken
        for name in ("again", "once", "new")
    }
    assert marks == {"again": 2, "once": 0, "new": 1}


class Seats(dict[Uid, str]):
    """Seats of which one can tell whether anybody still has them."""


def test_scars_are_all_that_is_kept_of_a_gang() -> None:
    """A plan of hundreds of seats, and everybody who left for it, go with the gang."""
    roll = Registry()
    pod = a_pod("one")
    record, _ = roll.enter(pod, KEY)
    record.preemption.at = 7.0
    seats = Seats({pod.uid: "n0"})
    record.plan, gone = Plan("plan", seats), weakref.ref(seats)
    roll.leave(pod.uid)
    del record, seats
    gc.collect()
    assert gone() is None
    assert roll.enter(pod, KEY)[0].preemption.at == 7.0
