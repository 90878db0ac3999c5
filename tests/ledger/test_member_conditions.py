"""What every member says of its gang, and how quickly it is written."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import cast

import pytest

from scheduler.ledger import member_conditions
from scheduler.model import events as ev
from scheduler.model.decision import Reason
from scheduler.model.effects import Announce, Effect, SetCondition
from scheduler.model.events import FailureKind
from scheduler.model.workload import Complaint
from tests.engine.support.cast import a_gang_of_pods, an_owner, with_membership
from tests.ledger.support.desk import Desk, told
from tests.support.builders import a_node


def conditions(effects: Iterable[Effect]) -> list[SetCondition]:
    return cast("list[SetCondition]", told(effects, SetCondition))


def said(effects: Iterable[Effect]) -> list[tuple[str, Reason, bool]]:
    return [(own.key.name, own.reason, own.seated) for own in conditions(effects)]


def write(desk: Desk, *effects: SetCondition) -> list[Effect]:
    """The conditions are written, and seen."""
    seen: list[Effect] = []
    for own in effects:
        seen += desk.change(own.key.name, told=None if own.seated else own.reason.value)
    return [*seen, *desk.done(*effects)]


def wait(desk: Desk, seconds: float) -> list[tuple[float, SetCondition]]:
    """Time goes by; all conditions come true at once. What was written, and when."""
    end, written = desk.now + seconds, []
    while desk.now < end:
        own = conditions(desk.wait(min(end, max(desk.now, desk.ledger.next_deadline())) - desk.now))
        written += [(desk.now, effect) for effect in own]
        write(desk, *own)
    return written


def a_waiting_gang(desk: Desk, name: str, size: int, **more: object) -> None:
    """It waits for room, and its first member was told."""
    desk.see(*(replace(pod, **more) for pod in a_gang_of_pods(name, size, gpu=1)))
    (first,) = told(desk.refuse(name), Announce)
    desk.change(first.key.name, told=Reason.INSUFFICIENT_RESOURCES.value)
    desk.done(first)


def test_every_member_of_a_waiting_gang_says_why() -> None:
    """Once the reason has stood for ten seconds, and each member once; the first one says it since the event."""
    desk = Desk()
    a_waiting_gang(desk, "train", 4)

    assert not wait(desk, 9.9)
    written = wait(desk, 0.2)
    assert said(own for _, own in written) == [
        (f"train-{n}", Reason.INSUFFICIENT_RESOURCES, False) for n in (1, 2, 3)
    ]
    assert all("Insufficient resources" in own.message and own.turned for _, own in written)
    assert not wait(desk, 1000)


def test_other_numbers_write_no_member() -> None:
    """For the members a reason counts, and only the first one is told of every change of its text."""
    desk = Desk()
    a_waiting_gang(desk, "train", 2)
    assert len(wait(desk, 20)) == 1

    desk.record("train").verdict.decision = replace(
        desk.record("train").verdict.decision, ceiling="other numbers"
    )  # type: ignore[arg-type]
    desk.ledger.mark_told(desk.record("train").key)
    assert not wait(desk, 60)


def test_another_reason_is_written_on_every_member_that_says_the_former() -> None:
    """After the same ten seconds; since when the gang waits stays as it was."""
    desk = Desk()
    a_waiting_gang(desk, "train", 3)
    wait(desk, 20)

    desk.refuse("train", Reason.CAPACITY_RESERVED)
    written = [own for _, own in wait(desk, 10.1)]

    assert said(written) == [
        ("train-1", Reason.CAPACITY_RESERVED, False),
        ("train-2", Reason.CAPACITY_RESERVED, False),
    ]
    assert not any(own.turned for own in written)


def test_a_reason_that_passes_is_written_on_no_other_member() -> None:
    """A gang that is told something else every five seconds costs nothing."""
    desk = Desk()
    a_waiting_gang(desk, "train", 3)
    for why in [Reason.CAPACITY_RESERVED, Reason.INSUFFICIENT_RESOURCES] * 3:
        assert not wait(desk, 5)
        desk.refuse("train", why)


def test_a_member_that_comes_later_says_it_too() -> None:
    """The reason has stood already, so it is written at once."""
    desk = Desk()
    a_waiting_gang(desk, "train", 2)
    wait(desk, 20)

    (newcomer,) = a_gang_of_pods("train", 3, gpu=1)[2:]
    effects = desk.see(replace(newcomer, membership=desk.pods["train-0"].membership))

    assert said(effects) == [("train-2", Reason.INSUFFICIENT_RESOURCES, False)]


def test_a_gang_that_gets_seats_is_written_no_more() -> None:
    """Its members go on to their nodes within the ten seconds; there is nothing to take back."""
    desk = Desk()
    a_waiting_gang(desk, "train", 3)
    wait(desk, 5)

    desk.bring_on_its_way("train", train_0="n1", train_1="n1", train_2="n1")
    desk.bind("train-0", "train-1", "train-2")

    assert not wait(desk, 100)


def test_what_members_say_is_taken_back_when_the_gang_runs() -> None:
    """A pod that runs does not say for the rest of its life that it waits."""
    desk = Desk()
    a_waiting_gang(desk, "train", 3)
    wait(desk, 20)

    desk.bring_on_its_way("train", train_0="n1", train_1="n1", train_2="n1")
    desk.bind("train-0", "train-1", "train-2")
    written = [own for _, own in wait(desk, 11)]

    assert said(written) == [("train-1", Reason.SEATED, True), ("train-2", Reason.SEATED, True)]
    assert all(own.turned for own in written)
    assert not wait(desk, 100)


def test_a_restart_writes_nothing_again() -> None:
    """What a pod says already is read from its condition."""
    desk = Desk(acting=False)
    pods = [replace(pod, told="InsufficientResources") for pod in a_gang_of_pods("train", 3, gpu=1)]
    desk.see(*pods[:2], replace(pods[2], told=None))
    desk.tell(ev.Synced(), ev.TookOver())
    desk.refuse("train")

    assert [name for name, *_ in said(own for _, own in wait(desk, 60))] == ["train-2"]


def test_at_most_fifty_are_written_in_a_second() -> None:
    """However many gangs wait; all of them are written in the end."""
    desk = Desk()
    for number in range(30):
        a_waiting_gang(desk, f"g{number}", 11)

    times = [at for at, _ in wait(desk, 30)]

    assert len(times) == 300
    assert all(sum(at <= own < at + 0.999 for own in times) <= 50 for at in times)
    assert times[-1] - times[0] == pytest.approx(300 / member_conditions.RATE, abs=0.5)


def test_a_slow_api_server_is_not_swamped() -> None:
    """Of what has no outcome yet there are never more than fifty; the next go with the outcomes."""
    desk = Desk()
    a_waiting_gang(desk, "train", 100)

    effects = conditions(desk.wait(100))
    assert len(effects) == member_conditions.UNDER_WAY
    assert len(conditions([*desk.done(*effects[:20]), *desk.wait(100)])) == 20


def test_a_write_that_fails_is_tried_again_later_and_later() -> None:
    """That of one gang, while the others go on; not where the API server calls it invalid."""
    desk = Desk()
    a_waiting_gang(desk, "train", 2)
    times = []
    while len(times) < 12:
        for own in conditions(desk.wait(desk.ledger.next_deadline() - desk.now)):
            times.append(desk.now)
            desk.failed(own, FailureKind.FORBIDDEN)
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses[:3] == pytest.approx([1, 2, 4], abs=0.3)
    assert max(pauses) == pytest.approx(300, abs=0.3)

    a_waiting_gang(desk, "other", 2)
    (own,) = [own for own in conditions(desk.wait(11)) if own.gang.name == "other"]
    desk.failed(own, FailureKind.INVALID)
    assert not [own for own in conditions(desk.wait(1000)) if own.gang.name == "other"]


def test_a_gang_that_is_gone_leaves_nothing_behind() -> None:
    """Neither a deadline nor a write without an outcome, whenever its pods go."""
    desk = Desk()
    a_waiting_gang(desk, "train", 3)
    effects = conditions(desk.wait(11))
    desk.lose("train-0", "train-1", "train-2")
    desk.tell(*(ev.EffectFailed(own, FailureKind.NOT_FOUND, "") for own in effects))

    assert not conditions(desk.wait(1000))
    assert desk.ledger.member_conditions.next_due() == float("inf")


def test_a_condition_that_is_seen_calls_for_no_look() -> None:
    """It decides nothing: fifty a second of large gangs would be looked at for nothing."""
    desk = Desk()
    a_waiting_gang(desk, "train", 3)
    effects = conditions(desk.wait(10.1))
    looks = desk.ledger.looks

    write(desk, *effects)

    assert desk.ledger.looks == looks
    assert desk.member("train-1").pod.told == "InsufficientResources"


def test_many_reasons_that_stand_at_once_are_taken_up_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settling of the ledger takes long for them; kube-scheduler's question may wait behind it."""
    monkeypatch.setattr(member_conditions, "MATURED", 5)
    monkeypatch.setattr(member_conditions, "LOOKED", 4)
    desk = Desk()
    for number in range(30):
        a_waiting_gang(desk, f"g{number}", 2)
    desk.now += 60
    looked: list[object] = []
    effects = member_conditions._effects
    monkeypatch.setattr(
        member_conditions, "_effects", lambda record, *more: looked.append(record) or effects(record, *more)
    )

    write(desk, *conditions(desk.tell(ev.Tick())))
    assert len(looked) == 2
    assert len(wait(desk, 60)) == 28


def test_gangs_that_were_told_cost_a_tick_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A settling in which nothing happens looks at no member of any of them."""
    desk = Desk(a_node("n1", gpu=8))
    for number in range(200):
        a_waiting_gang(desk, f"g{number}", 2)
    wait(desk, 60)
    asked = []
    monkeypatch.setattr(member_conditions, "_lacking", lambda record, why: asked.append(record))

    desk.tell(ev.Tick())

    assert not asked


def a_run_beside_another(desk: Desk, count: int, **more: object) -> list[SetCondition]:
    """A run of two has its seats; the pods of another run of its name wait. What is written on those."""
    first, second = an_owner("Job", "first"), an_owner("Job", "second")
    desk.see(*a_gang_of_pods("train", 2, owner=first, gpu=1))
    desk.bring_on_its_way("train", train_0="n1", train_1="n1")
    desk.bind("train-0", "train-1")
    later = a_gang_of_pods("train", 2 + count, quorum=2, owner=second, gpu=1, created=5.0)[2:]
    desk.see(*(replace(pod, **more) for pod in later))
    return [own for _, own in wait(desk, 20.0)]


def test_every_pod_of_a_run_that_waits_says_why() -> None:
    """The gang of its name is well, and has nothing to say."""
    desk = Desk()
    written = a_run_beside_another(desk, 3)
    assert said(written) == [(f"train-{n}", Reason.NAME_CONFLICT, False) for n in (3, 4)]
    assert all("Job first;" in own.message for own in written)
    assert not wait(desk, 600.0)


def test_a_run_that_waits_says_no_former_reason() -> None:
    """Each of its pods says that it lacked members, since before the other had its name."""
    desk = Desk()
    written = a_run_beside_another(desk, 2, told=Reason.MISSING_MEMBERS.value)
    assert said(written) == [("train-3", Reason.NAME_CONFLICT, False)]
    assert not written[0].turned


def test_what_a_run_said_while_it_waited_is_replaced() -> None:
    """Its turn has come, and there is no room for it."""
    desk = Desk()
    a_run_beside_another(desk, 2)
    desk.lose("train-0", "train-1")
    desk.refuse("train")
    assert said(own for _, own in wait(desk, 20.0)) == [("train-3", Reason.INSUFFICIENT_RESOURCES, False)]


def test_each_pod_that_cannot_be_read_says_its_own_fault() -> None:
    """Beside others, which wait for members."""
    desk = Desk()
    pods = a_gang_of_pods("train", 3)
    faults = [(Complaint("gangwright.io/role", value, "write a name"),) for value in ("a b", "c d")]
    spoiled = [
        replace(with_membership(pod, refused=True), complaints=own)
        for pod, own in zip(pods[1:], faults, strict=True)
    ]
    desk.see(pods[0], *spoiled)
    written = [own for _, own in wait(desk, 20.0)]
    assert said(written) == [("train-2", Reason.INVALID_SPEC, False)]
    assert "'c d'" in written[0].message
