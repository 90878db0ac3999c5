"""A dry run comes true: whatever is foretold to pods that are not there happens when they come."""

from collections import Counter
from dataclasses import replace
from math import inf

import pytest

from scheduler.engine import Engine
from scheduler.ledger import conditions
from scheduler.ledger.gang import Step
from scheduler.model.decision import Place, Reason, Refuse, Wait
from scheduler.model.preemption_units import Preempt
from scheduler.model.queueing import Backfill, Reservation, Share
from scheduler.model.workload import Pod, PodKey, Uid
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod
from tests.engine.support.situations import a_situation, newcomers, thought_of
from tests.engine.support.stage import POLICY, a_world
from tests.engine.support.world import World
from tests.ledger.support.invariants import broken
from tests.support.builders import GPU

CASES = 200
EACH = 100


def foretold(world: World, pods: list[Pod]) -> tuple[object, ...]:
    """In short: how it ends, the seats by the pods' names, who leaves, the ceiling, and when room is reserved from."""
    names = {pod.uid: pod.key.name for pod in pods}
    seat, room = world.engine.trial(world.engine.sketch(pods), world.now).answer(world.policy)
    match seat, room:
        case Place(), None:
            return ("seated", seats_of(names, seat.seats))
        case _, Preempt():
            return ("makes room", seats_of(names, room.seats), sorted(room.uids))
        case Refuse(), None:
            return (seat.reason, seat.field)
        case _:
            start = room.start if isinstance(room, Reservation) else None
            return (seat.reason, seat.ceiling, start)


def happened(world: World, pods: list[Pod]) -> tuple[object, ...]:
    """The same of what the engine does, as soon as it sees the pods."""
    came = world.submit(pods)
    names = {pod.uid: pod.key.name for pod in came}
    world.watch()
    record = world.record(str(pods[0].membership.gang.name), pods[0].key.namespace)
    plan = record.plan
    if plan is not None and plan.step is Step.FREE:
        leaving = sorted(uid for unit in plan.units for uid in unit.uids)
        return ("makes room", seats_of(names, plan.seats), leaving)
    if plan is not None:
        return ("seated", seats_of(names, plan.seats))
    verdict, reason = record.verdict.decision, conditions.reason(record)
    if isinstance(verdict, Refuse):
        return (reason, verdict.field)
    reserved = world.engine.cycle.head.reserved
    start = reserved.start if reserved is not None and reserved.key == record.key else None
    return (reason, verdict and verdict.ceiling, start)


def _is_cut(world: World) -> bool:
    """Its namespace may not use what all of the newcomer would."""
    (record,) = (own for key, own in world.engine.ledger.registry.gangs.items() if key.name == "newcomer")
    rest = record.waiting()
    ceiling = dict(world.policy.shares.get(record.key.namespace, Share()).ceiling)
    used = world.engine.ledger.share_usage.of(record.key.namespace).used
    return any(
        used.get(GPU, 0) + dict(m.pod.demand.requests).get(GPU, 0) > ceiling.get(GPU, inf) for m in rest
    )


def seats_of(names: dict[Uid, str], seats) -> list[tuple[str, str]]:
    return sorted((names[uid], node) for uid, node in seats.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.extended) for n in range(EACH, CASES, EACH))]
)
def test_it_agrees_with_what_happens(first):
    """Seats, victims, reasons, ceilings and reservations: in a hundred of a hundred random cases."""
    wrong, ends = [], Counter()
    for seed in range(first, first + EACH):
        world = a_situation(seed)
        world.plan()
        said = foretold(world, thought_of(newcomers(seed), world.now))
        came = happened(world, newcomers(seed))
        ends[came[0]] += 1
        ends["in part"] += came[0] == "seated" and _is_cut(world)
        if said != came:
            wrong.append((seed, said, came))

    assert wrong == []
    often = ("seated", "in part", "makes room", Reason.INSUFFICIENT_RESOURCES, Reason.QUOTA_EXCEEDED)
    assert min(ends[how] for how in often) >= 3, ends


def test_it_changes_nothing():
    """The engine does the same after a dry run as without one."""
    told, untold = a_situation(7), a_situation(7)
    pods = thought_of(newcomers(7), told.now)

    for _ in range(3):
        told.engine.trial(told.engine.sketch(pods), told.now).answer(told.policy)

    assert broken(told.engine.ledger) == []
    assert told.engine.ledger.registry.gangs.keys() == untold.engine.ledger.registry.gangs.keys()
    for world in (told, untold):
        world.submit(newcomers(8))
        world.settle(50.0)
    assert told.said == untold.said


def test_a_gang_of_that_name_is_joined():
    """Pods that name a gang that runs are seated as its members would be: its quorum is there, so they need no more."""
    world = a_world(4, 4)
    first = a_gang_of_pods("train", 2, gpu=1)
    world.submit(first)
    world.settle(5.0)

    late = [replace(pod, uid=Uid("late"), key=PodKey("default", "late")) for pod in first[:1]]
    seat, room = world.engine.trial(world.engine.sketch(thought_of(late, world.now)), world.now).answer(
        world.policy
    )

    assert room is None
    assert set(seat.seats.values()) == {pod.node for pod in world.bound("train")}


def test_a_gang_that_is_complete_takes_nobody():
    """Beyond the stated size of a gang that is there, a dry run says so instead of seating strangers in it."""
    world = a_world(4)
    first = a_gang_of_pods("train", 2, size=2, gpu=1)
    world.submit(first)
    world.settle(5.0)

    late = [replace(pod, uid=Uid("late"), key=PodKey("default", "late")) for pod in first[:1]]
    seat, _ = world.engine.trial(world.engine.sketch(late), world.now).answer(world.policy)

    assert (seat.reason, seat.field, seat.value) == (Reason.CONFLICT, "gangwright.io/members", "2")


def test_a_gang_that_is_complete_takes_surplus():
    """A pod that says that it is surplus gets a seat beside a gang of which all members are there."""
    world = a_world(4)
    first = a_gang_of_pods("train", 2, size=2, gpu=1)
    world.submit(first)
    world.settle(5.0)

    surplus = replace(first[0].membership, surplus=True)
    late = [replace(first[0], uid=Uid("late"), key=PodKey("default", "late"), membership=surplus)]
    seat, _ = world.engine.trial(world.engine.sketch(thought_of(late, world.now)), world.now).answer(
        world.policy
    )

    assert isinstance(seat, Place)


def test_whom_the_quorum_lacks_joins_a_gang_that_has_a_pod_too_many():
    """A second server is surplus: the worker that is added completes the quorum, and all four are seated."""
    world = a_world(4)
    roles = {"ps": 1, "worker": 2}
    first, spare, worker, last = (
        a_pod(f"train-{i}", membership=a_membership("train", roles, role=role, size=3), gpu=1, created=i)
        for i, role in enumerate(("ps", "ps", "worker", "worker"))
    )
    world.submit([first, spare, worker])
    world.settle(5.0)

    seat, room = world.engine.trial(world.engine.sketch(thought_of([last], world.now)), world.now).answer(
        world.policy
    )

    assert isinstance(seat, Place)
    assert (len(seat.seats), room) == (4, None)
    world.submit([last])
    world.settle(5.0)
    members = world.record("train").members.values()
    assert sorted(m.pod.key.name for m in members if m.bound) == ["train-0", "train-1", "train-2", "train-3"]


def test_pods_of_two_gangs_are_refused():
    """Both names are in the answer."""
    world = a_world(4)

    pods = [*a_gang_of_pods("one", 1), *a_gang_of_pods("two", 1)]
    seat, _ = world.engine.trial(world.engine.sketch(pods), world.now).answer(world.policy)

    assert (seat.reason, seat.value) == (Reason.CONFLICT, "one and two")


def test_too_few_pods_lack_members():
    """A gang whose quorum is not there is told that it waits for its members."""
    world = a_world(4)

    seat, _ = world.engine.trial(world.engine.sketch(a_gang_of_pods("few", 1, quorum=3)), 0.0).answer(
        world.policy
    )

    assert seat == Wait(Reason.MISSING_MEMBERS)


def test_nobody_is_foretold_anything_before_the_cluster_is_read():
    """An engine that has not read the cluster says so."""
    engine = Engine(POLICY)

    seat, _ = engine.trial(engine.sketch(a_gang_of_pods("early", 1)), 0.0).answer(POLICY)

    assert seat == Wait(Reason.CACHE_NOT_SYNCED)


def test_under_strict_order_nobody_is_foretold_a_seat_out_of_turn():
    """With backfill `none` a gang behind one that waits is told that it waits for its turn, though it would fit."""
    policy = replace(POLICY, backfill=Backfill.NONE)
    world = a_world(4, policy=policy)
    world.submit(a_gang_of_pods("runs", 1, gpu=2))
    world.submit(a_gang_of_pods("waits", 2, gpu=2))
    world.settle(5.0)

    seat, room = world.engine.trial(
        world.engine.sketch(a_gang_of_pods("small", 1, gpu=1, created=world.now)), world.now
    ).answer(policy)

    assert (seat, room) == (Wait(Reason.QUEUED), None)


@pytest.mark.parametrize("there", [0, 2], ids=["unknown", "known"])
def test_a_sketch_that_the_ledger_has_overtaken_is_made_again(there):
    """Between sketch and question all pods of that gang came: it is complete now, and the answer says so."""
    world = a_world(4, 4)
    gang = a_gang_of_pods("late", 4, size=4, gpu=1)
    world.submit(gang[:there])
    world.settle(1.0)
    pods = thought_of([replace(pod, uid=Uid(f"more-{pod.uid}")) for pod in gang[2:]], world.now)
    sketched = world.engine.sketch(pods)
    sketched.form()
    world.submit(gang[there:])
    world.settle(5.0)

    told = world.engine.trial(sketched, world.now).told

    assert isinstance(told, Refuse)
    assert (told.reason, told.value) == (Reason.CONFLICT, "4")


def test_a_sketch_shares_nothing_with_the_ledger():
    """A thread forms it while the ledger goes on: members are copies, and the ledger's gang is as it was."""
    world = a_world(4, 4)
    gang = a_gang_of_pods("late", 4, gpu=1)
    world.submit(gang[:2])
    world.settle(1.0)
    known = world.record("late")

    sketched = world.engine.sketch(thought_of(gang[2:], world.now))
    sketched.form()

    assert len(known.members) == 2
    assert len(sketched.record.members) == 4
    assert not {id(own) for own in known.members.values()} & {
        id(own) for own in sketched.record.members.values()
    }
