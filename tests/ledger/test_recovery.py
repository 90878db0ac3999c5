"""What a restart finds: only what fits is believed, what was begun goes on, and nothing is invented."""

from dataclasses import replace

import pytest

from scheduler.ledger import recovery
from scheduler.model import events as ev
from scheduler.model.effects import Effect, Ungate, WritePlan
from scheduler.model.workload import Pending, Phase, PlanNote, Pod, PodKey, SeatNote, Uid
from tests.engine.support.api import pin
from tests.engine.support.cast import a_gang_of_pods, a_pod, an_owner
from tests.ledger.support.desk import POLICY, Desk, names, overdrawn, told
from tests.ledger.support.invariants import broken
from tests.support.builders import a_node

OWNER = an_owner("ReplicaSet", "set")


def a_gang(count: int = 3, **each) -> list[Pod]:
    return a_gang_of_pods("train", count, owner=OWNER, gpu=1, **each)


def pinned(pod: Pod, node: str) -> Pod:
    return pin(replace(pod, gated=False, seat=SeatNote(node, "plan", pin=True)), node)


def nominated(pod: Pod, node: str, *, wiped: bool = False) -> Pod:
    return replace(pod, gated=False, seat=SeatNote(node, "plan"), nominated=None if wiped else node)


def planned(pods: list[Pod], *nodes: str) -> list[Pod]:
    """The plan is written on the first."""
    note = PlanNote("plan", {pod.uid: node for pod, node in zip(pods, nodes, strict=True)})
    return [replace(pods[0], plan=note), *pods[1:]]


def restarted(*pods: Pod, gpu: int = 8, **nodes) -> tuple[Desk, list[Effect]]:
    """The ledger reads the cluster and takes over; what it does first."""
    desk = Desk(*(nodes.get("nodes") or (a_node("n1", gpu=gpu), a_node("n2", gpu=gpu))), acting=False)
    desk.tell(ev.OwnerSeen(ev.OwnerTraits(OWNER.uid, remakes_freely=True)))
    desk.see(*pods)
    return desk, [*desk.tell(ev.Synced()), *desk.tell(ev.TookOver())]


def test_nothing_is_done_before_the_lists_are_read_and_the_turn_is_ours() -> None:
    """A standby knows everything and does nothing; half a picture is none."""
    for only in (ev.Synced(), ev.TookOver()):
        desk = Desk(acting=False)
        effects = [*desk.see(*a_gang()), *desk.tell(only), *desk.wait(100)]
        assert effects == []
        assert desk.wanted("train") is None
        assert len(desk.ledger.pending) == 0


def test_pods_on_their_way_keep_their_seats() -> None:
    """Pinned and nominated ones alike; they are not asked about again."""
    pods = a_gang()
    desk, effects = restarted(
        pinned(pods[0], "n1"), nominated(pods[1], "n2"), replace(pods[2], node="n2", gated=False)
    )
    assert (desk.seat("train-0"), desk.seat("train-1"), desk.seat("train-2")) == ("n1", "n2", None)
    assert desk.wanted("train") is None
    assert told(effects) == []
    assert broken(desk.ledger) == []


def test_their_time_limit_begins_anew() -> None:
    """Whoever began it took the clock along."""
    pods = a_gang(2)
    desk, _ = restarted(pinned(pods[0], "n1"), pinned(pods[1], "n1"))
    assert names(desk.wait(POLICY.timeout - 0.1)) == []
    assert names(desk.wait(0.2)) == ["train-0", "train-1"]


def test_a_forged_seat_is_believed_only_if_it_fits() -> None:
    """A user's own annotation gets nobody room that is not there; bound pods are facts."""
    thief = a_pod("thief", node="n1", gpu=7, gated=False)
    forged = [nominated(a_pod(f"forged-{n}", gpu=1), "n1") for n in range(3)]
    desk, _ = restarted(thief, *forged)
    assert [desk.seat(pod.key.name) for pod in forged] == ["n1", None, None]
    assert overdrawn(desk.ledger.nodes) == []


def test_a_seat_on_a_node_that_is_not_there_is_nothing() -> None:
    """Nor is one that the pin contradicts."""
    pods = a_gang(2)
    desk, _ = restarted(
        nominated(pods[0], "elsewhere"), replace(pinned(pods[1], "n1"), seat=SeatNote("n2", "plan"))
    )
    assert desk.ledger.holds() == 0


def test_what_is_pinned_or_nominated_comes_before_what_is_only_noted() -> None:
    """A note outlives the seat that it tells of: it must not take the room of one that is still meant."""
    stale = [nominated(replace(a_pod(f"stale-{n}", gpu=4), created=0.0), "n1", wiped=True) for n in range(2)]
    meant = pinned(replace(a_pod("meant", gpu=4, owner=OWNER), created=50.0), "n1")
    desk, _ = restarted(*stale, meant)
    assert desk.seat("meant") == "n1"
    assert sorted(str(desk.seat(pod.key.name)) for pod in stale) == ["None", "n1"]


def test_a_pin_comes_before_a_nomination() -> None:
    """A nominated pod can be given another seat, and may just have lost this one; a pinned one has no other."""
    important = nominated(replace(a_pod("important", gpu=4), priority=10), "n1")
    tied = pinned(a_pod("tied", gpu=4, owner=OWNER), "n1")
    desk, _ = restarted(important, tied, gpu=4)
    assert (desk.seat("tied"), desk.seat("important")) == ("n1", None)


def test_wiped_seats_of_a_gang_come_back_whole_or_not_at_all() -> None:
    """kube-scheduler wipes a nomination at every failed attempt: the note alone is believed if all of it fits."""
    pods = a_gang(3)
    for room, seats in ((8, ["n1", "n1", "n1"]), (2, [None, None, None])):
        desk, _ = restarted(*(nominated(pod, "n1", wiped=True) for pod in pods), gpu=room)
        assert [desk.seat(pod.key.name) for pod in pods] == seats
        assert desk.record("train").seen_by_kube_scheduler


def test_a_written_plan_goes_on() -> None:
    """Nobody was let go yet: the seats are held, and the next step is the gates."""
    desk, effects = restarted(*planned(a_gang(), "n1", "n1", "n2"))
    assert [desk.seat(f"train-{n}") for n in range(3)] == ["n1", "n1", "n2"]
    assert [(e.key.name, e.node, e.plan) for e in effects if isinstance(e, Ungate)] == [
        ("train-0", "n1", "plan"),
        ("train-1", "n1", "plan"),
        ("train-2", "n2", "plan"),
    ]


def test_a_plan_half_carried_out_goes_on_with_the_rest() -> None:
    """Killed between two PATCHes: who is still gated is let go to the seat of the plan."""
    pods = planned(a_gang(), "n1", "n1", "n2")
    desk, effects = restarted(pinned(pods[0], "n1"), pods[1], replace(pods[2], gated=False, node="n2"))
    assert names(effects, Ungate) == ["train-1"]
    assert desk.record("train").plan is not None
    assert broken(desk.ledger) == []


DISBELIEVED = {
    "a member is gone": lambda pods: pods[:2],
    "a member is on its way out": lambda pods: [*pods[:2], replace(pods[2], deleting=True)],
    "a member ended": lambda pods: [*pods[:2], replace(pods[2], phase=Phase.FAILED)],
    "the plan names a stranger": lambda pods: [
        replace(pods[0], plan=PlanNote("plan", {**pods[0].plan.seats, "unknown": "n1"})),
        *pods[1:],
    ],
    "the plan names an unknown node": lambda pods: planned(pods, "n1", "n1", "elsewhere"),
    "its seats do not fit together": lambda pods: planned(pods, "n3", "n3", "n3"),
    "a node is cordoned": lambda pods: planned(pods, "n1", "n1", "n4"),
}


@pytest.mark.parametrize("case", DISBELIEVED)
def test_a_plan_that_cannot_be_believed_is_taken_away(case: str) -> None:
    """Forged, or overtaken by events: no seat of it is held, and the gang is asked about as if it were new."""
    nodes = (
        a_node("n1", gpu=8),
        a_node("n2", gpu=8),
        a_node("n3", gpu=2),
        a_node("n4", gpu=8, schedulable=False),
    )
    pods = DISBELIEVED[case](planned(a_gang(), "n1", "n1", "n2"))
    desk, effects = restarted(*pods, nodes=nodes)
    assert desk.ledger.holds() == 0
    assert [(e.key.name, dict(e.seats)) for e in effects if isinstance(e, WritePlan)] == [("train-0", {})]
    assert told(effects, Ungate) == []
    assert broken(desk.ledger) == []


def test_of_two_written_plans_the_one_that_can_be_believed_goes_on() -> None:
    """A removal that was lost left an old plan on another member: it is taken away."""
    pods = a_gang()
    old = PlanNote("old", {pods[0].uid: "n1", "gone": "n1"})
    new = PlanNote("new", {pod.uid: "n2" for pod in pods})
    desk, effects = restarted(replace(pods[0], plan=old), replace(pods[1], plan=new), pods[2])
    assert [e.plan for e in effects if isinstance(e, Ungate)] == ["new"] * 3
    assert [e.key.name for e in effects if isinstance(e, WritePlan)] == ["train-0"]
    assert desk.seat("train-0") == "n2"


def test_written_plans_are_believed_in_the_order_of_the_queue() -> None:
    """Two plans on one room: the more important gang's, then the older one's."""
    low = planned(a_gang_of_pods("low", 2, gpu=1, created=1.0), "n1", "n1")
    high = planned(a_gang_of_pods("high", 2, gpu=1, created=2.0, priority=5), "n1", "n1")
    desk, _ = restarted(*low, *high, nodes=(a_node("n1", gpu=3),))
    assert [desk.seat(name) for name in ("high-0", "high-1", "low-0", "low-1")] == ["n1", "n1", None, None]


def test_a_gang_found_in_part_with_nobody_on_the_way_is_not_taken_down() -> None:
    """It may have run whole before it lost a member: nothing on the pods tells, and what runs is not killed for it."""
    pods = a_gang()
    running = [replace(pod, gated=False, node="n1", phase=Phase.RUNNING) for pod in pods[:2]]
    desk, effects = restarted(*running, pods[2])
    assert desk.ledger.gang_counts() == {("waiting", "PartiallyBound"): 1}
    assert names([*effects, *desk.wait(10 * POLICY.timeout)]) == []


def test_a_gang_found_on_its_way_in_part_is_rolled_back_in_the_end() -> None:
    """Somebody was let go and others are bound: it never ran whole, and does not stay in part."""
    pods = a_gang()
    desk, _ = restarted(
        replace(pinned(pods[0], "n1"), node="n1", phase=Phase.RUNNING), pinned(pods[1], "n1"), pods[2]
    )
    desk.place("train", train_2="n2")
    assert names(desk.wait(POLICY.timeout + 0.1))[:2] == ["train-0", "train-1"]


@pytest.mark.parametrize(("reason", "asked"), [("Unschedulable", True), ("SchedulingGated", False)])
def test_who_was_asked_about_is_not_forgotten(reason: str, *, asked: bool) -> None:
    """kube-scheduler may not ask again for minutes: its word on the pod tells that it has."""
    pods = [replace(pod, gated=False, pending=Pending(reason, 0.0)) for pod in a_gang(2)]
    desk, _ = restarted(*pods)
    assert (desk.wanted("train") is not None) is asked


def torn(pods: list[Pod], bound: int, *, node: str = "n1", at: float | None = None) -> list[Pod]:
    """The first are bound and run; the rest are as they were."""
    return [
        replace(pod, gated=False, node=node, phase=Phase.RUNNING, bound_at=at) if n < bound else pod
        for n, pod in enumerate(pods)
    ]


@pytest.mark.parametrize(("writer", "order"), [(0, ["train-1", "train-0"]), (2, ["train-0", "train-1"])])
def test_a_gang_torn_by_a_crash_is_rolled_back_when_its_plan_cannot_go_on(
    writer: int, order: list[str]
) -> None:
    """The plan names who is still gated, so the quorum was never whole: it has its time limit, and no longer."""
    pods = torn(a_gang(), 2)
    note = PlanNote("plan", {pod.uid: "elsewhere" for pod in pods})
    pods[writer] = replace(pods[writer], plan=note)
    desk, effects = restarted(*pods)
    assert names([*effects, *desk.wait(POLICY.timeout - 0.1)]) == []
    assert desk.ledger.gang_counts() == {("waiting", "PartiallyBound"): 1}
    assert names(desk.wait(0.2)) == order


@pytest.mark.parametrize("rest", ["on their way", "behind the gate"])
@pytest.mark.parametrize("bound", [{0, 1}, {2, 3}, {1, 2}, {0, 3}])
def test_a_roll_back_that_was_interrupted_goes_on(bound: set[int], rest: str) -> None:
    """Killed after any of its evictions: the next start knows that the gang was never whole, and nobody of it stays
    bound.
    """
    waiting = {"on their way": lambda pod: pinned(pod, "n2"), "behind the gate": lambda pod: pod}[rest]
    pods = planned(a_gang(4), *["n1" if n in bound else "elsewhere" for n in range(4)])
    runs = {"gated": False, "node": "n1", "phase": Phase.RUNNING, "bound_at": 1.0}
    pods = [replace(pod, **runs) if n in bound else waiting(pod) for n, pod in enumerate(pods)]
    desk, _ = restarted(*pods)
    order = names(desk.wait(POLICY.timeout + 0.1))
    for evictions in range(len(order) + 1):
        gone = order[:evictions]
        left = [pod for pod in pods if pod.key.name not in gone]
        anew = [a_pod(f"next-{n}", membership=pods[0].membership, owner=OWNER) for n in range(evictions)]
        desk, _ = restarted(*left, *(replace(pod, created=9.0) for pod in anew))
        evicted = names(desk.wait(POLICY.timeout + 0.1))
        assert {pod.key.name for pod in left if pod.node} <= set(evicted)


def test_a_torn_gang_that_nobody_makes_again_is_shown_in_part() -> None:
    """It has its time limit too; afterwards it waits for room and nobody is evicted."""
    pods = torn(a_gang_of_pods("train", 3, gpu=1), 2)
    note = PlanNote("plan", {pod.uid: "elsewhere" for pod in pods})
    desk, _ = restarted(*pods[:2], replace(pods[2], plan=note))
    assert desk.record("train").bind_limit.by == POLICY.timeout
    assert names(desk.wait(2 * POLICY.timeout)) == []
    assert desk.ledger.gang_counts() == {("waiting", "PartiallyBound"): 1}


def test_a_gang_of_which_all_came_before_the_first_bind_was_never_whole() -> None:
    """No note is left to tell of the plan, but nobody can have been lost and made again."""
    desk, _ = restarted(*torn(a_gang(created=10.0), 2, at=11.0))
    assert names(desk.wait(POLICY.timeout + 0.1)) == ["train-0", "train-1"]


MAY_HAVE_RUN = {
    "one came after the first bind": lambda pods: [*pods[:2], replace(pods[2], created=12.0)],
    "one ended": lambda pods: [
        *pods,
        replace(pods[0], uid=Uid("old"), key=PodKey("default", "old"), phase=Phase.FAILED),
    ],
    "one is on its way out": lambda pods: [
        *pods,
        replace(pods[0], uid=Uid("old"), key=PodKey("default", "old"), deleting=True),
    ],
    "the moment of a bind is not known": lambda pods: [replace(pods[0], bound_at=None), *pods[1:]],
    "the plan was for those who came after": lambda pods: [
        *pods[:2],
        replace(pods[2], created=12.0, plan=PlanNote("plan", {pods[2].uid: "elsewhere", Uid("x"): "n1"})),
    ],
    "the plan was for fewer than the quorum": lambda pods: [
        replace(pods[0], plan=PlanNote("plan", {pods[0].uid: "n1", pods[1].uid: "n1"})),
        pods[1],
        replace(pods[2], created=12.0),
    ],
    "who lacks was in no plan": lambda pods: [
        replace(pods[0], plan=PlanNote("plan", {pods[0].uid: "n1", pods[1].uid: "n1", Uid("x"): "n1"})),
        pods[1],
        replace(pods[2], created=12.0),
    ],
}


@pytest.mark.parametrize("case", MAY_HAVE_RUN)
def test_a_gang_that_may_have_run_whole_is_not_taken_down(case: str) -> None:
    """What runs is not killed on a guess."""
    pods = MAY_HAVE_RUN[case](torn(a_gang(created=10.0), 2, at=11.0))
    desk, effects = restarted(*pods)
    assert names([*effects, *desk.wait(10 * POLICY.timeout)]) == []


def test_the_order_in_which_the_lists_tell_makes_no_difference() -> None:
    """The same pods, met in another order, make the same holds and the same effects."""
    pods = [
        *planned(a_gang(), "n1", "n1", "n2"),
        pinned(a_pod("pinned", owner=OWNER, gpu=1), "n2"),
        nominated(a_pod("nominated", gpu=1), "n2", wiped=True),
        a_pod("bound", node="n1", gpu=1, gated=False),
    ]
    outcomes = []
    for order in (pods, pods[::-1], pods[3:] + pods[:3]):
        desk, effects = restarted(*order)
        holds = {pod.key.name: desk.seat(pod.key.name) for pod in pods}
        outcomes.append((holds, sorted(repr(effect) for effect in told(effects))))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_how_long_a_gang_waits_is_not_forgotten() -> None:
    """It waits since its quorum was there, which its pods tell: not since we came, nor since its last pod above it."""
    ages = (100.0, 200.0, 300.0)
    pods = [replace(pod, created=at) for pod, at in zip(a_gang(quorum=2), ages, strict=True)]
    desk = Desk(a_node("n1", gpu=0), acting=False)
    desk.now = 1000.0
    desk.see(*pods)
    desk.tell(ev.Synced(), ev.TookOver())
    assert desk.ledger.oldest_wait(desk.now) == 800.0


def several() -> list[Pod]:
    """Gangs in every state: some on their way, with a plan that is believed and one that is not, bound, and waiting."""
    on_their_way, begun, wiped = (
        a_gang(),
        a_gang_of_pods("begun", 2, gpu=1),
        a_gang_of_pods("wiped", 2, gpu=1),
    )
    false, bound = a_gang_of_pods("false", 2, gpu=8), a_gang_of_pods("bound", 2, gpu=1)
    return [
        pinned(on_their_way[0], "n1"),
        nominated(on_their_way[1], "n2"),
        replace(on_their_way[2], node="n2", gated=False),
        *planned(begun, "n1", "n2"),
        *(nominated(pod, "n2", wiped=True) for pod in wiped),
        *planned(false, "n1", "n1"),
        *(replace(pod, node="n1", gated=False, phase=Phase.RUNNING, bound_at=1.0) for pod in bound),
        *a_gang_of_pods("waits", 2, gpu=1),
    ]


def adopting(*pods: Pod) -> Desk:
    desk = Desk(a_node("n1", gpu=8), a_node("n2", gpu=8), acting=False)
    desk.see(*pods)
    desk.ledger.take([ev.Synced(), ev.TookOver()], desk.now)
    return desk


def found(desk: Desk) -> object:
    """Where every pod is, and what is wanted for every gang."""
    gangs = desk.ledger.registry.gangs.values()
    pods = {m.pod.uid: (m.pod.node, m.hold) for record in gangs for m in record.members.values()}
    said = {r.key: (r.state, r.was_bound, r.told_waiting, r.plan, r.wanted) for r in gangs}
    return pods, said, desk.ledger.gang_counts()


def in_turns(desk: Desk) -> list[Effect]:
    effects: list[Effect] = []
    while desk.ledger.unsettled:
        effects += desk.ledger.settle(desk.now, 1)
        assert desk.ledger.ready or effects == []
    return effects


def test_an_adoption_in_turns_is_the_same_adoption() -> None:
    """However few members a turn adopts, seats, plans and effects are those of one step."""
    whole, parts = adopting(*several()), adopting(*several())
    effects = whole.ledger.settle(whole.now)
    assert {effect.key.name for effect in told(effects, WritePlan)} == {"false-0"}
    assert sorted(map(str, in_turns(parts))) == sorted(map(str, effects))
    assert found(parts) == found(whole)
    assert broken(parts.ledger) == broken(whole.ledger) == []


@pytest.mark.parametrize("turns", range(1, 60, 3))
def test_what_happens_between_two_turns_of_an_adoption_happens_once(turns: int) -> None:
    """A pod is bound to its seat, one is deleted, a gang comes and one goes: it is as if it had happened thereafter."""
    pods = several()
    news = [
        ev.PodSeen(replace(pods[0], node="n1", phase=Phase.RUNNING, bound_at=2.0)),
        ev.PodGone(pods[-1].uid, pods[-1].key),
        *(ev.PodGone(pod.uid, pod.key) for pod in pods if pod.key.name.startswith("wiped")),
        *(ev.PodSeen(pod) for pod in a_gang_of_pods("new", 2, gpu=1)),
    ]
    later, between = adopting(*pods), adopting(*pods)
    later.ledger.settle(later.now)
    later.tell(*news)
    for _ in range(turns):
        between.ledger.settle(between.now, 1)
    between.ledger.take(news, between.now)
    in_turns(between)
    between.tell()

    assert found(between) == found(later)
    assert broken(between.ledger) == []


def test_a_node_that_is_deleted_during_an_adoption_holds_no_seat() -> None:
    """Its seats are lost like those of a node that is deleted later."""
    for turns in range(60):
        desk = adopting(*several())
        for _ in range(turns):
            desk.ledger.settle(desk.now, 1)
        desk.ledger.take([ev.NodeGone("n2")], desk.now)
        in_turns(desk)
        desk.tell()
        assert "n2" not in {desk.seat(f"train-{n}") for n in range(2)}
        assert broken(desk.ledger) == []


def test_an_adoption_that_fails_ends(monkeypatch, faults) -> None:
    """Whatever it fails on, gangs are reconciled, and the fault is told."""
    monkeypatch.setattr(recovery, "_is_under_way", lambda _record: 1 / 0)
    desk = adopting(*several())
    in_turns(desk)
    assert desk.ledger.ready
    assert [type(fault.error) for fault in faults] == [ZeroDivisionError]
    faults.clear()
    assert desk.wanted("waits") is not None
