"""Pods without our gate, and what every question of kube-scheduler is answered."""

from dataclasses import replace

from scheduler.model.decision import TEXT, Reason
from scheduler.model.effects import Announce, Nominate, Ungate, WritePlan
from scheduler.model.verbs import Allowed, Failed, PreemptCall, PrioritizeCall, Refused, Victims
from scheduler.model.workload import Phase, PodKey, Uid
from tests.engine.support.cast import a_gang_of_pods, a_pod, an_owner
from tests.engine.support.stage import POLICY, a_gang_on_its_way, a_set, a_world, asked, nodes_of, seats

# ── the side road ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_gang_without_our_gate_is_nominated_once_it_was_asked_about() -> None:
    """Until all are there the answer is a constant no; then each is answered with its own seat."""
    world = a_world(2, 2)
    pods = a_gang_of_pods("train", 4, gpu=1, gated=False)
    world.submit(pods[:3])
    world.settle(5)
    assert seats(world, "train") == 0
    world.submit(pods[3:])
    world.settle(1)
    assert nodes_of(world.bound("train")) == ["n0", "n0", "n1", "n1"]
    assert not any(isinstance(effect, WritePlan | Ungate) for effect in world.said)


def test_a_later_run_without_our_gate_is_told_whose_name_it_has() -> None:
    """It is there, and waits; when the first run has ended it is seated."""
    world = a_world(4)
    first, second = an_owner("Job", "first"), an_owner("Job", "second")
    pods = a_gang_of_pods("train", 4, quorum=2, gpu=1, gated=False)
    runs = world.submit([replace(pod, owner=first) for pod in pods[:2]])
    world.settle(5)
    later = world.submit([replace(pod, owner=second, created=5.0) for pod in pods[2:]])
    world.settle(5)
    assert seats(world, "train") == 2
    assert asked(world, later[0], "n0") == Refused(Reason.NAME_CONFLICT)
    for pod in runs:
        world.api.write(replace(world.api.pods[pod.key], phase=Phase.SUCCEEDED))
    world.settle(600)
    assert {world.member(pod).bound for pod in later} == {True}


def test_what_kube_scheduler_leaves_out_is_not_given() -> None:
    """A node that is no more in its list, though there is room by our books, costs the seat; another one is found."""
    world = a_world(2, 2, 2)
    (pod, other) = world.submit(a_gang_of_pods("train", 2, gpu=2, gated=False))
    world.watch()
    first = asked(world, pod, "n0", "n1", "n2")
    assert isinstance(first, Allowed)
    (seat,) = first.nodes
    while world.carry_out():
        world.report()
        world.watch()
    rest = tuple(name for name in ("n0", "n1", "n2") if name != seat)
    again = asked(world, pod, *rest)
    assert isinstance(again, Allowed)
    assert set(again.nodes) < set(rest)
    assert asked(world, pod, *rest) == again
    assert world.engine.ledger.counters.reseats == 1
    assert world.member(other).hold is not None


def test_the_nominated_node_alone_is_no_picture_of_what_is_allowed() -> None:
    """kube-scheduler tries it before all others: a seat elsewhere is not lost for it."""
    world = a_world(2, 2, 2)
    (pod, _) = world.submit(a_gang_of_pods("train", 2, gpu=2, gated=False))
    world.watch()
    (seat,) = asked(world, pod, "n0", "n1", "n2").nodes
    other = "n2" if seat != "n2" else "n1"
    world.api.write(replace(world.api.pods[pod.key], nominated=other))
    world.watch()
    assert asked(world, pod, other) == Refused(Reason.NODE_EXCLUDED)
    assert asked(world, pod, "n0", "n1", "n2") == Allowed((seat,), Reason.SEATED)


def test_a_pod_alone_is_offered_every_node_that_fits_and_the_best_is_held() -> None:
    """Held for five seconds: room for a gang that comes meanwhile is elsewhere; and free again when it was not used."""
    world = a_world(2, 4)
    (pod,) = world.submit([a_pod("alone", gpu=2, gated=False)])
    world.watch()
    answer = asked(world, pod, "n0", "n1")
    assert isinstance(answer, Allowed)
    assert set(answer.nodes) == {"n0", "n1"}
    scores = world.prioritize(PrioritizeCall(pod.uid, pod.key, "gangwright", False, ("n1", "n0", "n7")))
    assert scores[2] == 0
    assert sorted(scores) == [0, 0, 10]
    best = ("n1", "n0")[scores.index(10)]
    assert world.member(pod).hold is not None
    assert world.member(pod).hold.node == best
    world.submit(a_gang_of_pods("rival", 3, gpu=2))
    world.watch()
    assert world.engine.ledger.holds() == 1
    world.api.delete(pod.key)
    world.settle(1)
    assert seats(world, "rival") == 3


def test_a_score_that_came_to_nothing_ends_by_itself() -> None:
    """After five seconds the pod waits like everybody else, with a seat that is nominated."""
    world = a_world(2)
    (pod,) = world.submit([a_pod("alone", gpu=1, gated=False)])
    world.watch()
    asked(world, pod, "n0")
    hold = world.member(pod).hold
    assert hold is not None
    assert hold.until == world.now + POLICY.score_hold
    world.advance(POLICY.score_hold + 0.1)
    assert [effect.node for effect in world.said if isinstance(effect, Nominate)] == ["n0"]


def test_kube_schedulers_own_nomination_is_no_obstacle_to_its_pod() -> None:
    """It made room for a pod by preemption, which the pod then gets; others of no higher priority do not."""
    world = a_world(2)
    world.submit([a_pod("small", gpu=2, gated=False)])
    world.settle(1)
    world.submit([a_pod("big", gpu=2, gated=False, priority=10)])
    world.settle(10)
    world.submit(a_gang_of_pods("rival", 1, gpu=2))
    world.settle(10)
    bound = {pod.key.name for pod in world.api.pods.values() if pod.node is not None}
    assert bound == {"big"}


def test_a_pod_alone_is_answered_alike_on_its_nominated_node() -> None:
    """kube-scheduler tries the node that it made free, and may do so twice."""
    world = a_world(2, 2)
    (pod,) = world.submit([a_pod("alone", gpu=2, gated=False)])
    world.api.write(replace(pod, nominated="n1"))
    world.watch()
    first = asked(world, pod, "n1")
    assert first == Allowed(("n1",), Reason.SCORED)
    assert asked(world, pod, "n1") == first


def test_preemption_that_would_be_in_vain_is_not_let_pass() -> None:
    """kube-scheduler knows nothing of the room that a gang holds: by its books the pod would fit, by ours it does
    not.
    """
    world = a_world(4)
    (victim,) = world.submit([a_pod("victim", gpu=2, gated=False)])
    world.settle(1)
    a_set(world, "train", 2)
    world.watch()
    assert world.engine.ledger.holds() == 2
    (pod,) = world.submit(
        [a_pod("big", gpu=4, gated=False, priority=10), a_pod("fits", gpu=2, gated=False, priority=10)][:1]
    )
    (fits,) = world.submit([a_pod("fits", gpu=2, gated=False, priority=10)])
    world.watch()
    offer = {"n0": Victims((victim.uid,))}
    assert world.preempt(PreemptCall(pod.uid, pod.key, "gangwright", False, offer)) == {}
    assert world.preempt(PreemptCall(fits.uid, fits.key, "gangwright", False, offer)) == offer
    barred = world.engine.ledger.registry.gangs[world.engine.ledger.registry.gang_of[fits.uid]]
    barred.pinning.barred["n0"] = (world.now + 100, 100)
    world.engine.ledger.mark(barred.key)
    world.look()
    assert world.preempt(PreemptCall(fits.uid, fits.key, "gangwright", False, offer)) == {}


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_refusals_are_constant() -> None:
    """A text that varies makes kube-scheduler ask again without end: one text a reason, whatever the numbers."""
    world = a_world(2)
    (first, second) = world.submit(a_gang_of_pods("train", 2, gpu=2, gated=False))
    world.watch()
    answers = {asked(world, pod, "n0") for pod in (first, second)}
    world.advance(30)
    answers |= {asked(world, pod, "n0") for pod in (first, second)}
    assert answers == {Refused(Reason.EXCEEDS_CLUSTER)}
    assert set(TEXT) == set(Reason)


def test_pods_that_we_cannot_judge_are_answered_with_an_error() -> None:
    """A pod that no watch told of, and any pod while the lists are read: kube-scheduler asks again by its own clock."""
    world = a_world(2)
    (pod,) = [a_pod("unseen", gated=False)]
    assert asked(world, pod, "n0") == Failed(Reason.POD_NOT_CACHED)
    world.engine.ledger.synced = False
    assert asked(world, pod, "n0") == Failed(Reason.CACHE_NOT_SYNCED)


def test_pods_of_others_are_echoed() -> None:
    """Foreign schedulers' pods and native groups get their list back, unknown nodes and all."""
    world = a_world(2)
    for changes, reason in (
        ({"scheduler": "other"}, Reason.OTHER_SCHEDULER),
        ({"native_group": True}, Reason.NATIVE_GROUP),
    ):
        pod = a_pod("p", **changes)
        assert asked(world, pod, "n0", "unknown") == Allowed(("n0", "unknown"), reason)
        assert asked(world, pod) == Allowed((), reason)


def test_a_bound_pod_is_answered_with_its_node() -> None:
    """A late or doubled call changes nothing."""
    world = a_world(2, 2)
    world.submit([a_pod("alone", gpu=1)])
    world.settle(1)
    (pod,) = world.api.pods.values()
    assert asked(world, pod, "n0", "n1") == Allowed(("n0",), Reason.BOUND)
    assert asked(world, pod, "n1") == Refused(Reason.NODE_EXCLUDED)


def test_a_pod_that_we_still_see_gated_is_answered_by_its_seat_alone() -> None:
    """kube-scheduler's watch is ahead of ours: the seat is said, and without one we wait for our own watch."""
    world = a_world(2)
    (pod,) = world.submit([a_pod("alone", gpu=1)])
    world.watch()
    for _ in range(2):
        world.carry_out()
        world.report()
    assert not world.api.pods[pod.key].gated
    assert world.member(pod).pod.gated
    assert asked(world, pod, "n0") == Allowed(("n0",), Reason.SEATED)
    world.engine.ledger.release(world.member(pod))
    assert asked(world, pod, "n0") == Refused(Reason.GATED)


def test_a_member_under_eviction_is_refused() -> None:
    """Its pin is broken: should kube-scheduler find room after all, it must not be bound now."""
    world = a_world(2, 2, 2)
    a_gang_on_its_way(world)
    world.api.cordon("n1", off=True)
    world.watch()
    pod = next(pod for pod in world.pods("train") if pod.pinned == "n1")
    assert asked(world, pod, "n1") == Refused(Reason.PIN_BROKEN)


def test_a_pinned_pod_without_a_hold_goes_to_its_node_only_if_nobody_holds_the_room() -> None:
    """The pin cannot be taken back: the room is its own if it is free, and somebody else's otherwise."""
    world = a_world(2)
    a_set(world, "train", 1, gpu=2)
    while not all(pod.seat for pod in world.pods("train")):
        world.watch()
        world.carry_out()
        world.report()
    world.watch()
    (pod,) = world.pods("train")
    member = world.member(pod)
    world.engine.ledger.release(member)
    assert asked(world, pod, "n0") == Allowed(("n0",), Reason.SEATED)
    assert member.hold is not None
    world.engine.ledger.release(member)
    world.steal("n0", gpu=1)
    world.watch()
    assert asked(world, pod, "n0") == Refused(Reason.NODE_RESERVED)


def test_nobody_is_asked_about_while_an_answer_is_worked_out() -> None:
    """And an answer that comes late is worth what it still is."""
    world = a_world(4)
    world.submit(a_gang_of_pods("train", 2, gpu=1))
    world.api.feed, told = [], world.api.feed[world.seen :]
    world.seen = 0
    for event in told:
        world.engines.take([event], world.now)
    world._do(world.engines.look(world.now))
    world.think()
    assert world.thinking
    assert world.engine.ask(world.now) is None
    world.steal("n0", gpu=3)
    world.watch()
    world.conclude()
    assert world.engine.ledger.holds() == 0
    world.settle(20)
    assert world.announced("train")[0][1].reason is Reason.INSUFFICIENT_RESOURCES


def test_equal_gangs_are_thought_about_once() -> None:
    """Of a hundred gangs of one shape that do not fit, one is worked out, and the others get its answer."""
    world = a_world(2)
    for number in range(100):
        world.submit(a_gang_of_pods(f"g{number}", 3, gpu=1))
    world.watch()
    assert len(world.engine.cycle.standing.told(0)[0].alike) == 1
    assert {
        record.verdict.decision.reason
        for record in world.engine.ledger.registry.gangs.values()
        if record.verdict.decision
    } == {Reason.EXCEEDS_CLUSTER}


def test_at_most_one_event_a_gang_and_reason_in_ten_seconds() -> None:
    """Also through accidents, restarts of kube-scheduler and thefts."""
    world = a_world(2, 2)
    a_set(world, "train", 3, gpu=2)
    for second in range(60):
        thief = world.steal("n0", gpu=1)
        world.settle(0.5)
        world.api.remove(thief.key)
        world.settle(0.5)
        assert second >= 0
    last: dict[Reason, float] = {}
    for at, told in world.announced("train"):
        assert isinstance(told, Announce)
        assert at - last.get(told.reason, -100.0) >= POLICY.announce_every
        last[told.reason] = at
    assert last


def test_a_late_call_for_a_pod_that_is_gone_leaves_nothing_behind() -> None:
    """It is answered, and the memory is as empty as before."""
    world = a_world(2)
    (pod,) = world.submit([a_pod("alone", gpu=1, gated=False)])
    world.settle(1)
    world.api.remove(pod.key)
    world.watch()
    assert asked(world, pod, "n0") == Failed(Reason.POD_NOT_CACHED)
    gone = PreemptCall(Uid("gone"), PodKey("default", "gone"), "gangwright", False, {"n0": Victims(())})
    assert world.preempt(gone) == {}
    assert world.engine.ledger.registry.count == 0
    assert world.engine.ledger.next_deadline() == float("inf")
