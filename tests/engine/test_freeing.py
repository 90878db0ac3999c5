"""Room that others make for a gang: who leaves, in which order, who gets the room, and when it all stops."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from scheduler.ledger.freeing import ASK_AGAIN, SPARED
from scheduler.ledger.records import Step
from scheduler.ledger.resuming import EVERY
from scheduler.ledger.rivals import TURNS
from scheduler.model.decision import Reason
from scheduler.model.effects import Evict, ResumeJob, SuspendJob, Ungate
from scheduler.model.events import FailureKind
from scheduler.model.policy import Policy
from scheduler.model.queueing import Share
from scheduler.model.workload import GiveWay, Phase, Pod
from tests.builders import GPU, a_node
from tests.engine.accountant import overdrawn
from tests.engine.api import Controller
from tests.engine.cast import a_gang_of_pods, a_membership, a_pod, an_owner
from tests.engine.stage import POLICY, a_set, a_world, nodes_of, seats
from tests.engine.witness import Witness
from tests.engine.world import World

GRACE = 30.0


def a_stage(*gpus: int, grace: float = 0.0, policy: Policy = POLICY) -> World:
    """A small cluster with a witness, in which pods that are told to go take `grace` seconds for it."""
    world = a_world(*gpus, policy=policy)
    Witness(world)
    world.api.grace = lambda _pod: grace
    return world


def important(world: World, count: int, *, name: str = "important", **each) -> list[Pod]:
    return world.submit(a_gang_of_pods(name, count, **{"gpu": 1, "priority": 100, **each}))


def a_job(world: World, name: str, count: int, *, gpu: int = 1, priority: int = 0, **said) -> Controller:
    """A Job that is suspended when it gives way."""
    owner = an_owner("Job", name)
    membership = a_membership(name, count, give_way=GiveWay.SUSPEND, **said)
    job = Controller(
        owner,
        count,
        lambda pod: a_pod(pod, membership=membership, owner=owner, gpu=gpu, priority=priority),
    )
    world.control(job)
    return job


def evicted(world: World) -> list[str]:
    """Gangs that were asked to leave, once for each pod."""
    own = [e for e in world.said if isinstance(e, Evict) and e.reason is Reason.PREEMPTED]
    return sorted({(e.key.name, e.uid) for e in own} and {e.key.name for e in own})


def told(world: World, gang: str) -> str:
    return world.announced(gang)[-1][1].message


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
    assert 1 < asked <= POLICY.timeout / ASK_AGAIN[FailureKind.BUDGET] + 1
    world.settle(SPARED / 2)
    assert sum(isinstance(e, Evict) for e in world.said) == asked
    world.api.protected.clear()
    world.settle(SPARED)
    assert seats(world, "important") == 1


# ── Jobs that are suspended ──────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_suspended_and_comes_back() -> None:
    """No pod of it is evicted; when the other has ended, it is resumed, gated, and seated like everybody."""
    world = a_stage(2, grace=GRACE)
    a_job(world, "job", 2)
    world.settle(1)
    first = important(world, 2)
    world.settle(GRACE + 1)
    assert (seats(world, "important"), seats(world, "job")) == (2, 0)
    assert evicted(world) == []
    assert sum(isinstance(e, SuspendJob) for e in world.said) == 1
    assert all(pod.gated for pod in world.pods("job"))
    assert len(world.pods("job")) == 2
    for pod in first:
        world.api.remove(pod.key)
    world.settle(1)
    assert seats(world, "job") == 2


def test_a_restart_forgets_no_suspended_job() -> None:
    """That it was us stands on the Job: the next service resumes it."""
    world = a_stage(2, grace=GRACE)
    a_job(world, "job", 2)
    world.settle(1)
    important(world, 2)
    world.settle(GRACE / 2)
    world.crash()
    world.settle(GRACE)
    assert seats(world, "important") == 2
    assert len(world.pods("job")) == 2
    assert not any(traits.paused for traits in world.api.owners.values())


def test_a_job_is_suspended_though_its_first_pod_is_gone() -> None:
    """One pod stands for all of the Job; when it goes before the Job was suspended, another one does."""
    world = a_stage(2, grace=GRACE, policy=replace(POLICY, evictions_per_namespace=1))
    a_job(world, "job", 2)
    world.settle(1)
    important(world, 2)
    world.watch()
    asked = next(e for e in world.said if isinstance(e, SuspendJob) or e.key.name.startswith("important"))
    assert not isinstance(asked, SuspendJob)  # the plan is written first
    first = min(world.record("important").plan.victims)
    world.api.controllers["Job/job"].replicas = 1  # so that nobody takes the place of who goes
    world.api.remove(next(pod.key for pod in world.api.pods.values() if pod.uid == first))
    world.settle(GRACE + 1)
    assert seats(world, "important") == 2


def to_be_suspended() -> tuple[World, Controller]:
    """A Job whose suspension was decided and is on its way to the API server."""
    world = a_stage(2, grace=GRACE)
    job = a_job(world, "job", 2)
    world.settle(1)
    important(world, 2)
    while not any(isinstance(effect, SuspendJob) for effect in world.said):
        assert world.step()
    return world, job


def test_a_job_that_its_user_has_just_suspended_stays_so() -> None:
    """What was decided before we heard of it is refused; its room is taken, nobody asks again, and it is never
    resumed.
    """
    world, job = to_be_suspended()
    world.api.set_suspended(job.owner, suspended=True)
    world.settle(GRACE + 5)

    assert sum(isinstance(effect, SuspendJob) for effect in world.said) == 1
    assert world.api.owners[job.owner.uid].attained == 0.0
    assert (seats(world, "important"), world.pods("job")) == (2, [])


def test_a_job_that_changed_meanwhile_is_asked_again() -> None:
    """Whatever else changed on it, its suspension is decided anew on what it is now."""
    world, job = to_be_suspended()
    world.api.put_owner(replace(world.api.owners[job.owner.uid], remakes_freely=True))
    world.settle(GRACE + 5)

    assert sum(isinstance(effect, SuspendJob) for effect in world.said) == 2
    assert seats(world, "important") == 2
    assert len(world.pods("job")) == 2  # resumed, and waiting


def paused() -> tuple[World, Controller]:
    """A Job that we suspended, whose pods are still on their way out."""
    world, job = to_be_suspended()
    world.settle(GRACE / 2)
    assert world.api.owners[job.owner.uid].paused
    return world, job


def test_a_person_keeps_a_job_suspended_that_we_paused() -> None:
    """When he says so while its pods leave, they are not made again, until he resumes it."""
    world, job = paused()
    world.api.set_suspended(job.owner, suspended=True)
    world.settle(2 * GRACE)
    assert (seats(world, "important"), world.pods("job")) == (2, [])

    world.api.set_suspended(job.owner, suspended=False)
    world.settle(1)
    assert len(world.pods("job")) == 2


def test_a_person_keeps_a_job_suspended_that_we_are_about_to_resume() -> None:
    """Our resumption comes second and is refused."""
    world, job = paused()
    while not any(isinstance(effect, ResumeJob) for effect in world.said):
        if not world.step():
            world.advance(1.0)
    world.api.set_suspended(job.owner, suspended=True)
    world.settle(GRACE)

    assert world.api.controllers[job.owner.uid].suspended
    assert world.pods("job") == []


def test_what_a_person_resumed_is_no_longer_paused_by_us() -> None:
    """Our word is taken off within seconds, so that a later suspension of his, by whatever tool, is his own."""
    world, job = paused()
    world.api.set_suspended(job.owner, suspended=False)
    world.settle(EVERY + 1)
    assert world.api.owners[job.owner.uid].paused is None
    assert not world.api.owners[job.owner.uid].suspended

    world.api.set_suspended(job.owner, suspended=True, stays=False)
    world.settle(2 * GRACE)
    assert world.pods("job") == []


# ── shares ───────────────────────────────────────────────────────────────────────────────────────────────────

LENT: Mapping[str, Share] = {"default": Share(((GPU, 2),)), "lab": Share(((GPU, 2),))}


def test_borrowed_room_is_given_back() -> None:
    """A gang of equal priority within the guarantee of its namespace gets its room back from the borrower, and no
    more.
    """
    world = a_stage(4, policy=replace(POLICY, shares=LENT))
    for name in ("one", "two"):
        world.submit(a_gang_of_pods(name, 2, gpu=1))
        world.settle(1)
    world.submit(a_gang_of_pods("lender", 2, gpu=1, namespace="lab"))
    world.settle(1)
    assert len(world.bound("lender", "lab")) == 2
    assert sorted([seats(world, "one"), seats(world, "two")]) == [0, 2]


def test_a_ceiling_is_told_with_its_numbers() -> None:
    """A gang above its namespace's ceiling waits beside room, and is told what is used, needed and allowed."""
    shares = {"default": Share(ceiling=((GPU, 3),))}
    world = a_stage(8, policy=replace(POLICY, shares=shares))
    world.submit(a_gang_of_pods("one", 2, gpu=1))
    world.settle(1)
    world.submit(a_gang_of_pods("two", 2, gpu=1))
    world.settle(10)
    assert seats(world, "two") == 0
    assert "needs 2 of nvidia.com/gpu; 2 of at most 3 are in use" in told(world, "two")
    for pod in world.pods("one"):
        world.api.delete(pod.key)
    world.settle(1)
    assert seats(world, "two") == 2


def test_a_ceiling_holds_for_a_pod_without_our_gate() -> None:
    """kube-scheduler asks about a single pod whose namespace is at its ceiling: it waits, too."""
    world = a_stage(8, policy=replace(POLICY, shares={"default": Share(ceiling=((GPU, 3),))}))
    world.submit(a_gang_of_pods("one", 3, gpu=1))
    world.settle(1)
    (single,) = world.submit([a_pod("single", gpu=1, gated=False)])
    world.settle(10)
    assert world.api.pods[single.key].node is None
    world.api.delete(world.pods("one")[0].key)
    world.settle(1)
    assert world.api.pods[single.key].node is not None


def test_surplus_stays_below_the_ceiling() -> None:
    """Of an elastic gang only so many workers are seated as its namespace may use; the rest is told."""
    world = a_stage(8, policy=replace(POLICY, shares={"default": Share(ceiling=((GPU, 3),))}))
    world.submit(a_gang_of_pods("elastic", 5, quorum=2, gpu=1))
    world.settle(10)
    assert seats(world, "elastic") == 3


def test_two_gangs_that_throw_each_other_out_by_turns_are_stopped_and_it_is_said() -> None:
    """Each is right in its turn, by shares that somebody sets anew; after a turn of each the loser waits, and is
    told why.
    """
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
        world.engine.adopt(replace(policy, shares=shares[number % 2]), world.now)
        world.settle(20)
    asked = [e for e in world.said if isinstance(e, Evict)]
    assert 0 < len({e.uid for e in asked}) <= 2 * (TURNS + 1)
    assert max(at for at, told_ in world.api.announced if told_.reason is Reason.MAKING_ROOM) < 300
    loser = "default" if not world.bound("default") else "lab"
    assert "by turns" in told(world, loser)
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
