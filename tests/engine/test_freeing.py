"""Room that others make for a gang: who leaves, in which order, who gets the room, and when it all stops."""

from dataclasses import replace

import pytest

from scheduler.engine import Question
from scheduler.ledger.backoff import RETRY_AFTER
from scheduler.ledger.gang import Step
from scheduler.ledger.preemption import SPARED
from scheduler.ledger.preemption_history import MOST_ALTERNATIONS
from scheduler.model.decision import Reason
from scheduler.model.effects import Announce, Evict, SuspendJob, Ungate
from scheduler.model.events import EffectDone, FailureKind, PolicyChanged, Tick
from scheduler.model.preemption_units import Preempt
from scheduler.model.queueing import Share
from scheduler.model.workload import GiveWay, Phase
from tests.engine.support.accountant import overdrawn
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod, an_owner
from tests.engine.support.freeing import GRACE, a_stage, evicted, important
from tests.engine.support.stage import POLICY, a_set, nodes_of, seats
from tests.engine.support.world import World
from tests.support.builders import GPU, a_node

# ── who leaves ───────────────────────────────────────────────────────────────────────────────────────────────


def test_surplus_leaves_before_anybody_is_killed() -> None:
    """Of an elastic gang and a single pod, both of lower priority, a worker above the quorum goes, and no more."""
    world = a_stage(3, 1)
    a_set(world, "elastic", 3, quorum=2)
    world.settle(1)
    world.submit([a_pod("single", gpu=1)])
    world.settle(1)
    important(world, 1)
    world.settle(1)
    assert seats(world, "important") == 1
    assert seats(world, "elastic") == 2
    assert world.api.pods[next(key for key in world.api.pods if key.name == "single")].node is not None


def test_single_pods_leave_before_gangs() -> None:
    """Where two single pods make the room, no gang is touched."""
    world = a_stage(2, 2)
    world.submit(a_gang_of_pods("pair", 2, gpu=1))
    world.settle(1)
    world.submit([a_pod("one", gpu=1), a_pod("two", gpu=1)])
    world.settle(1)
    important(world, 2)
    world.settle(1)
    assert seats(world, "important") == 2
    assert seats(world, "pair") == 2
    assert evicted(world) == ["one", "two"]


def test_of_a_gang_nobody_or_everybody_leaves() -> None:
    """One seat is needed, and a gang of two is all there is: both leave."""
    world = a_stage(2)
    world.submit(a_gang_of_pods("pair", 2, gpu=1))
    world.settle(1)
    important(world, 1)
    world.settle(1)
    assert seats(world, "important") == 1
    assert seats(world, "pair") == 0
    assert evicted(world) == ["pair-0", "pair-1"]


@pytest.mark.parametrize(
    ("priority", "preempts"), [(0, True), (100, False)], ids=["equal priority", "preemptionPolicy Never"]
)
def test_nobody_leaves_for_who_must_not_preempt(priority: int, preempts: bool) -> None:
    """An equal, and whoever must not preempt, waits for room that comes by itself."""
    world = a_stage(2)
    pair = world.submit(a_gang_of_pods("pair", 2, gpu=1))
    world.settle(1)
    important(world, 2, priority=priority, preempts=preempts)
    world.settle(300)
    assert evicted(world) == []
    for pod in pair:
        world.api.delete(pod.key)
    world.settle(1)
    assert seats(world, "important") == 2


@pytest.mark.parametrize("namespace", ["kube-system", "kube-public", "gangwright-system"])
@pytest.mark.parametrize("way", ["gang", "single", "stranger", "job"])
def test_no_pod_of_the_clusters_own_gives_way(namespace: str, way: str) -> None:
    """Neither a gang nor a single pod nor another scheduler's, nor a Job that could be suspended: not in the cluster's
    own namespaces, nor in ours. In a namespace that is nearly one of these, they leave.
    """
    for where, leaves in ((namespace, False), ("kubeflow", True)):
        world = a_stage(2)
        each = {
            "namespace": where,
            "owner": an_owner("Job" if way == "job" else "ReplicaSet", "set"),
            "gpu": 1,
        }
        if way == "gang":
            world.submit(a_gang_of_pods("pair", 2, **each))
        elif way == "job":
            world.submit(a_gang_of_pods("pair", 2, wish={"give_way": GiveWay.SUSPEND}, **each))
        else:
            foreign = {"scheduler": "other", "node": "n0", "gated": False} if way == "stranger" else {}
            world.submit([a_pod(f"pair-{number}", **each, **foreign) for number in range(2)])
        world.settle(1)
        important(world, 2)
        world.settle(60)
        assert bool(evicted(world) or suspended(world)) is leaves
        assert seats(world, "important") == (2 if leaves else 0)


def suspended(world: World) -> list[SuspendJob]:
    return [own for own in world.said if isinstance(own, SuspendJob)]


def test_nobody_leaves_for_a_gang_of_the_same_controller() -> None:
    """What is taken from a controller it makes again, and the two would go round in a circle."""
    world = a_stage(2)
    owner = an_owner("ReplicaSet", "crew")
    world.submit(a_gang_of_pods("low", 2, gpu=1, owner=owner))
    world.settle(1)
    important(world, 2, owner=owner)
    world.settle(60)
    assert (seats(world, "low"), seats(world, "important"), evicted(world)) == (2, 0, [])


def test_a_gang_stays_whose_surplus_may_not_be_taken() -> None:
    """Its core would leave alone, and what is above the quorum would stand there for nothing."""
    world = a_stage(3)
    core = a_gang_of_pods("train", 2, gpu=1)
    spare = a_membership("train", 2, surplus=True)
    world.submit([*core, a_pod("train-spare", membership=spare, gpu=1, priority=200)])
    world.settle(1)
    assert seats(world, "train") == 3
    important(world, 2)
    world.settle(60)
    assert (seats(world, "train"), seats(world, "important"), evicted(world)) == (3, 0, [])


@pytest.mark.parametrize("first", ["core", "surplus"])
def test_surplus_that_never_preempts_takes_no_right_from_its_core(first: str) -> None:
    """Whichever of them is there first, two leave for the core of two, and nobody for the surplus."""
    world = a_stage(3)
    world.submit(a_gang_of_pods("pair", 2, gpu=1))
    world.submit([a_pod("single", gpu=1)])
    world.settle(1)
    whole = a_gang_of_pods("important", 3, quorum=2, size=3, gpu=1, priority=100)
    more = a_membership("important", 2, size=3, surplus=True)
    surplus = replace(whole[2], membership=more, priority=50, preempts=False)
    parts = {"core": whole[:2], "surplus": [surplus]}
    world.submit(parts.pop(first))
    world.settle(1)
    for part in parts.values():
        world.submit(part)
    world.settle(300)
    assert {pod.key.name for pod in world.pods("important") if pod.node} == {"important-0", "important-1"}
    assert evicted(world) == ["pair-0", "pair-1"]


def test_a_member_that_is_gone_before_its_gang_is_looked_at_stops_no_pass() -> None:
    """News is taken in at once and looked at a moment later: who is asked about meanwhile may lack a pod by then."""
    world = a_stage(3)
    _, leaves, _ = world.submit(
        [a_pod("stays", gpu=1, priority=100), a_pod("leaves", gpu=1), a_pod("low", gpu=1)]
    )
    world.settle(1)
    first, _, _ = important(world, 3)
    world.settle(1)
    world.api.delete(first.key)
    world.api.delete(leaves.key)
    world.api.run_pods()
    world.watch(look=False)
    world.plan()
    world.settle(1)
    assert world.engine.ledger.gang_counts()["gathering", Reason.MISSING_MEMBERS.value] == 1


def test_a_gang_that_was_on_its_way_gives_way_once_it_is_there() -> None:
    """Whoever waits learns of those who got their places later, though no room has come back since."""
    world = a_stage(2)
    a_set(world, "pair", 2)
    while not all(pod.seat for pod in world.pods("pair")):
        world.watch()
        while world.carry_out():
            pass
        world.report()
    important(world, 2)
    world.watch()
    assert evicted(world) == []  # nobody knows yet what there is to take
    world.settle(1)
    assert seats(world, "important") == 2


# ── who gets the room ────────────────────────────────────────────────────────────────────────────────────────


def test_freed_room_is_kept_until_all_have_left() -> None:
    """While the last victim takes its time, nobody else gets the seats that are free already."""
    world = a_stage(4, grace=GRACE)
    pair = a_set(world, "four", 4)
    world.settle(1)
    important(world, 4)
    world.settle(1)
    first = min(world.pods("four"), key=lambda pod: (not pod.deleting, pod.key))
    world.api.remove(first.key)
    world.submit([a_pod("small", gpu=1)])
    world.settle(GRACE / 2)
    small = next(pod for pod in world.api.pods.values() if pod.key.name == "small")
    assert (seats(world, "important"), small.node) == (0, None)
    assert not any(pod.seat for pod in world.pods("important"))
    world.settle(GRACE)
    assert seats(world, "important") == 4
    assert pair.born > 4
    assert [pod.node for pod in world.pods("four") if pod.gated] == [None] * 4


def test_victims_that_are_made_again_do_not_come_back_into_the_room() -> None:
    """A ReplicaSet makes its pods again at once: they wait, and nobody is evicted twice."""
    world = a_stage(2, 2)
    a_set(world, "four", 4)
    world.settle(1)
    important(world, 2)
    world.settle(300)
    assert seats(world, "important") == 2
    assert seats(world, "four") == 0
    assert len(evicted(world)) == 4


def test_two_gangs_for_one_room_take_other_victims() -> None:
    """The second of two takes nobody whose room is the first one's, and both find theirs."""
    world = a_stage(2, 2, grace=GRACE)
    for name in ("left", "right"):
        world.submit(a_gang_of_pods(name, 2, gpu=1, wish={"level": "host", "required": True}))
    world.settle(1)
    for name in ("first", "second"):
        important(world, 2, name=name, wish={"level": "host", "required": True})
    world.settle(GRACE + 10)
    assert (seats(world, "first"), seats(world, "second")) == (2, 2)
    assert len(evicted(world)) == 4


def test_a_gang_without_our_gate_waits_for_those_who_leave() -> None:
    """kube-scheduler asks about it again and again, and is answered that room is being made."""
    world = a_stage(2, grace=GRACE)
    a_set(world, "pair", 2)
    world.settle(1)
    important(world, 2, gated=False)
    world.settle(GRACE / 2)
    assert seats(world, "important") == 0
    assert world.record("important").plan is not None
    world.settle(GRACE)
    assert seats(world, "important") == 2
    assert len(evicted(world)) == 2


def test_who_waited_long_for_room_is_patient_once_it_is_there() -> None:
    """That kube-scheduler found no room while the victims took their time, longer than a gang may take, breaks no
    seat.
    """
    world = a_stage(2, grace=2 * POLICY.timeout)
    a_set(world, "pair", 2)
    world.settle(1)
    important(world, 2, gated=False)
    world.settle(3 * POLICY.timeout)
    assert seats(world, "important") == 2
    assert len(evicted(world)) == 2


# ── what comes in between ────────────────────────────────────────────────────────────────────────────────────


def test_when_the_gang_vanishes_nobody_more_leaves() -> None:
    """Victims are asked one at a time; the gang is deleted after the first: the others stay."""
    world = a_stage(4, grace=GRACE, policy=replace(POLICY, evictions_per_namespace=1))
    world.submit([a_pod(f"single-{number}", gpu=1) for number in range(4)])
    world.settle(1)
    waiting = important(world, 4)
    world.settle(1)
    for pod in waiting:
        world.api.delete(pod.key)
    world.settle(300)
    assert len(evicted(world)) == 1
    assert sum(pod.phase is Phase.RUNNING for pod in world.api.pods.values()) == 3
    assert world.engine.ledger.freeing == {}


def test_only_so_many_of_a_namespace_leave_at_a_time() -> None:
    """Of four victims two are on their way out at any time."""
    world = a_stage(4, grace=GRACE, policy=replace(POLICY, evictions_per_namespace=2))
    world.submit([a_pod(f"single-{number}", gpu=1) for number in range(4)])
    world.settle(1)
    important(world, 4)
    world.settle(GRACE / 2)
    assert sum(pod.deleting for pod in world.api.pods.values()) == 2
    world.settle(2 * GRACE)
    assert seats(world, "important") == 4


def test_a_victim_that_its_owner_deletes_meanwhile_is_gone_all_the_same() -> None:
    """Its room counts, and it is not asked to leave any more."""
    world = a_stage(2, grace=GRACE, policy=replace(POLICY, evictions_per_namespace=1))
    singles = world.submit([a_pod(f"single-{number}", gpu=1) for number in range(2)])
    world.settle(1)
    important(world, 2)
    world.settle(1)
    for pod in singles:
        world.api.remove(pod.key)
    world.settle(1)
    assert seats(world, "important") == 2
    assert len(evicted(world)) == 1


def test_room_that_somebody_steals_is_made_no_further() -> None:
    """Another scheduler takes a seat that is free already: the rest of the victims stay, and the gang waits on."""
    world = a_stage(1, 1, grace=GRACE, policy=replace(POLICY, evictions_per_namespace=1))
    world.submit([a_pod(f"single-{number}", gpu=1) for number in range(2)])
    world.settle(1)
    important(world, 2)
    world.settle(1)
    leaving = next(pod for pod in world.api.pods.values() if pod.deleting)
    world.api.remove(leaving.key)
    stranger = world.steal(str(leaving.node), gpu=1, priority=1000)
    world.settle(300)
    assert len(evicted(world)) == 1
    assert world.engine.ledger.freeing == {}
    world.api.remove(stranger.key)
    world.settle(100)
    assert seats(world, "important") == 2


@pytest.mark.parametrize("gone", [0, 1])
def test_a_restart_goes_on_with_the_same_victims(gone: int) -> None:
    """The service dies between the evictions and the seats: nobody else leaves, and the gang gets the room."""
    world = a_stage(2, 2, grace=GRACE)
    for name in ("left", "right"):
        world.submit(a_gang_of_pods(name, 2, gpu=1, wish={"level": "host", "required": True}))
    world.settle(1)
    important(world, 2, wish={"level": "host", "required": True})
    world.settle(1)
    before = evicted(world)
    for pod in [pod for pod in world.api.pods.values() if pod.deleting][:gone]:
        world.api.remove(pod.key)
    world.crash()
    world.settle(GRACE + 1)
    assert seats(world, "important") == 2
    assert evicted(world) == before
    assert len(before) == 2


def test_room_that_is_not_made_after_all_is_kept_for_nobody() -> None:
    """Calls of a service that died pin both members while its successor waits for one to leave, who never does: when
    that is given up, nothing is held where the other still runs, and the pods that cannot start are made again.
    """
    world = a_stage(2, 2)
    a_set(world, "train", 2, gpu=2)
    world.watch()
    while not any(isinstance(line[0], Ungate) for line in world.lines.values()):
        world.carry_out()
        world.report()
    stays = world.steal("n1", gpu=2, priority=-1)
    world.api.protected.add(stays.uid)
    world.crash(under_way=2)
    assert world.record("train").plan.step is Step.FREE
    while world.arrive():
        pass
    world.settle(POLICY.timeout - 1)
    pinned = {pod.uid for pod in world.pods("train") if pod.pinned}
    assert len(pinned) == 2
    for _ in range(5):
        world.settle(1)
        assert overdrawn(world.api, world.engine) == {}
    assert world.engine.ledger.freeing == {}
    assert pinned.isdisjoint(pod.uid for pod in world.pods("train"))


def test_a_request_that_is_taken_at_the_last_moment_has_time_to_be_seen() -> None:
    """The pod is told to go a moment after its Job was suspended or its eviction allowed: the plan waits for that, and
    is given up only where nothing is seen of it.
    """
    world = a_stage(1)
    (single,) = world.submit([a_pod("single", gpu=1)])
    world.settle(1)
    world.api.protected.add(single.uid)
    important(world, 1)
    world.settle(1)
    record, ledger = world.record("important"), world.engine.ledger
    plan = record.plan
    (asked,) = [effect for effect in world.said if isinstance(effect, Evict)]
    last = plan.free_by - 0.1
    ledger.handle([EffectDone(asked)], last)

    ledger.handle([Tick()], last + POLICY.outcome_limit - 0.1)
    assert record.plan is plan
    ledger.handle([Tick()], last + POLICY.outcome_limit)
    assert record.plan is None


def test_a_budget_that_never_allows_spares_its_pods_and_others_are_tried() -> None:
    """The cheaper victim may not go: after the time that a gang may take it is left alone, and the dearer one goes."""
    world = a_stage(1, 1)
    singles = world.submit([a_pod("cheap", gpu=1), a_pod("dear", gpu=1, priority=10)])
    world.settle(1)
    world.api.protected.add(singles[0].uid)
    important(world, 1)
    world.settle(POLICY.timeout + POLICY.preemption_cooldown)
    assert seats(world, "important") == 1
    assert [pod.key.name for pod in world.api.pods.values() if pod.key.name in {"cheap", "dear"}] == ["cheap"]


def test_a_budget_that_never_allows_is_asked_now_and_then() -> None:
    """A victim with nobody beside it is asked every few seconds at most, then left alone for minutes, then asked
    again.
    """
    world = a_stage(1)
    (single,) = world.submit([a_pod("single", gpu=1)])
    world.settle(1)
    world.api.protected.add(single.uid)
    important(world, 1)
    world.settle(POLICY.timeout)
    asked = sum(isinstance(e, Evict) for e in world.said)
    assert 1 < asked <= POLICY.timeout / RETRY_AFTER[FailureKind.BUDGET] + 1
    world.settle(SPARED / 2)
    assert sum(isinstance(e, Evict) for e in world.said) == asked
    world.api.protected.clear()
    world.settle(SPARED)
    assert seats(world, "important") == 1


def test_two_gangs_that_throw_each_other_out_by_turns_are_stopped() -> None:
    """Each is right in its turn, by shares that are set again and again; after a turn of each the loser waits."""
    shares = [{"lab": Share((("cpu", 16_000),))}, {"default": Share(((GPU, 4),))}]
    policy = replace(POLICY, shares=shares[0], preemption_cooldown=5.0)
    world = World([a_node("n0", gpu=4, cpu=16, rack="r")], policy)
    for namespace, needs in (("default", {"gpu": 2, "cpu": 2}), ("lab", {"gpu": 1, "cpu": 8})):
        owner = an_owner("ReplicaSet", namespace)
        membership = a_membership(namespace, 2, namespace=namespace)
        world.control(
            Controller(
                owner,
                2,
                lambda pod, m=membership, o=owner, n=namespace, k=needs: a_pod(
                    pod, namespace=n, membership=m, owner=o, **k
                ),
                namespace=namespace,
            )
        )
    for number in range(30):
        world.engine.observe([PolicyChanged(replace(policy, shares=shares[number % 2]))], world.now)
        world.settle(20)
    asked = [e for e in world.said if isinstance(e, Evict)]
    assert 0 < len({e.uid for e in asked}) <= 2 * (MOST_ALTERNATIONS + 1)
    assert max(at for at, told_ in world.api.announced if told_.reason is Reason.WAITING_FOR_PREEMPTION) < 300
    assert sorted([seats(world, "default"), len(world.bound("lab", "lab"))]) == [0, 2]


def test_victims_leave_at_most_once_in_a_while_for_one_gang() -> None:
    """The room is stolen each time it is there: within the cool-down nobody else leaves for the same gang."""
    world = a_stage(1, 1, 1)
    world.submit([a_pod(f"single-{number}", gpu=1) for number in range(3)])
    world.settle(1)
    important(world, 1)
    world.step()
    world.step()
    assert nodes_of([pod for pod in world.api.pods.values() if pod.key.name.startswith("single")])
    gone = {"n0", "n1", "n2"} - {str(pod.node) for pod in world.api.pods.values()}
    for node in gone:
        world.steal(node, gpu=1, priority=1000)
    world.settle(POLICY.preemption_cooldown / 2)
    assert len(evicted(world)) == 1
    world.settle(POLICY.preemption_cooldown)
    assert len(evicted(world)) == 2
    assert seats(world, "important") == 1


def room_to_be_made(world: World) -> tuple[Question, Preempt]:
    """Who would leave for the first gang that may ask others to, answered and not settled yet."""
    engine = world.engine
    world.watch(look=False)
    engine.observe([], world.now)
    while (question := engine.ask(world.now)) is not None and question.making is None:
        engine.settle(question, engine.answer(question), world.now)
    assert question is not None
    answer = engine.answer(question)
    assert isinstance(answer, Preempt)
    return question, answer


def test_nobody_is_asked_to_leave_for_room_that_somebody_else_took_meanwhile() -> None:
    """The answer was made before: with those who would leave gone there is no room for all any more, so it is asked
    again.
    """
    world = a_stage(2, 2)
    world.submit([a_pod("single", gpu=1)])
    world.settle(1)
    engine = world.engine
    important(world, 2, gpu=2)
    question, answer = room_to_be_made(world)
    assert len(answer.victims) == 1
    for node in ("n0", "n1"):
        world.steal(node, gpu=1)
    world.watch(look=False)
    assert [e for e in engine.settle(question, answer, world.now) if not isinstance(e, Announce)] == []
    assert engine.ledger.freeing == {}
    assert engine.ledger.holds() == 0


def test_who_was_above_the_quorum_when_he_was_chosen_may_be_needed_by_now() -> None:
    """One of three could be spared; another has failed meanwhile, so the one that was chosen stays."""
    world = a_stage(3, 1)
    elastic = a_set(world, "elastic", 3, quorum=2)
    world.settle(1)
    important(world, 1, name="first")
    world.settle(1)
    engine = world.engine
    important(world, 1)
    question, answer = room_to_be_made(world)
    (chosen,) = answer.uids
    other = next(pod for pod in world.bound("elastic") if pod.uid != chosen)
    elastic.replicas = 2
    world.api.write(replace(other, phase=Phase.FAILED))
    world.watch(look=False)
    engine.observe([], world.now)
    engine.settle(question, answer, world.now)
    assert engine.ledger.freeing == {}
    assert evicted(world) == []


def test_room_that_came_by_itself_is_not_taken_while_a_victim_is_still_there() -> None:
    """One is on its way out for the gang when another ends: the gang is let go when the first has left, not before."""
    world = a_stage(2, grace=GRACE)
    world.submit([a_pod("one", gpu=1), a_pod("two", gpu=1)])
    world.settle(1)
    important(world, 1)
    world.settle(2)
    (staying,) = [
        pod for pod in world.api.pods.values() if pod.key.name in {"one", "two"} and not pod.deleting
    ]
    world.api.write(replace(staying, phase=Phase.SUCCEEDED))
    world.settle(GRACE / 2)
    assert seats(world, "important") == 0
    world.settle(GRACE)
    assert seats(world, "important") == 1
