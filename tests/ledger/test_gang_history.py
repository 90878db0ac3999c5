"""Gangs that ended: what is remembered of each, once, and in bounded memory."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from scheduler.ledger.gang_history import (
    BYTES,
    LONGEST,
    MOST,
    RESOURCES,
    EndedGang,
    GangHistory,
    Outcome,
    size,
)
from scheduler.ledger.messages import GaveWay
from scheduler.model import events as ev
from scheduler.model.decision import Reason
from scheduler.model.workload import Asleep, GangKey, Owner, OwnerTraits, Phase, Pod, gang_of_one
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod, an_owner
from tests.engine.support.freeing import a_job, a_stage, important
from tests.engine.support.stage import a_set
from tests.ledger.support.desk import Desk
from tests.support.builders import GPU, a_node

JOB = an_owner("Job", "train")


@pytest.fixture
def desk() -> Desk:
    return Desk()


def ended(desk: Desk) -> list[EndedGang]:
    return list(desk.ledger.history)


def outcomes(desk: Desk) -> list[tuple[str, str]]:
    return [(own.name, own.outcome) for own in desk.ledger.history]


def own(desk: Desk, *, over: bool) -> None:
    """The Job makes pods, or no more."""
    desk.tell(ev.OwnerSeen(OwnerTraits(JOB.uid, remakes_freely=True, ended=over)))


def run(desk: Desk, *, owner: Owner | None = None, wait: float = 0.0) -> Sequence[Pod]:
    """Two pods of two GPUs each wait so long, and are bound."""
    pods = a_gang_of_pods("train", 2, gpu=2, owner=owner, created=desk.now)
    desk.see(*pods)
    desk.wait(wait)
    desk.bring_on_its_way("train", train_0="n1", train_1="n1")
    desk.bind("train-0", "train-1")
    return pods


def end(desk: Desk, *phases: Phase) -> None:
    for number, phase in enumerate(phases):
        desk.change(f"train-{number}", phase=phase)


def test_a_gang_that_succeeded(desk: Desk) -> None:
    """What it waited, ran and used, which controller made it, and when it ended."""
    own(desk, over=False)
    run(desk, owner=JOB, wait=30)
    desk.wait(100)
    end(desk, Phase.SUCCEEDED)
    desk.wait(50)
    end(desk, Phase.SUCCEEDED, Phase.SUCCEEDED)
    desk.wait(7)
    assert ended(desk) == []  # its Job may make more of them
    own(desk, over=True)

    (found,) = ended(desk)
    assert (found.key, found.name, found.owner) == (GangKey("default", "train"), "train", "Job/train")
    assert (found.outcome, found.ended, found.winner) == (Outcome.SUCCEEDED, 187, None)
    assert (found.waited, found.ran) == (30, 157)
    assert found.used == ((GPU, 2 * 100 + 2 * 150),)


@pytest.mark.parametrize(
    ("phases", "outcome"),
    [
        ((Phase.SUCCEEDED, Phase.SUCCEEDED), Outcome.SUCCEEDED),
        ((Phase.SUCCEEDED, Phase.FAILED), Outcome.FAILED),
        ((Phase.FAILED, Phase.FAILED), Outcome.FAILED),
    ],
)
def test_it_ends_as_its_pods_do(desk: Desk, phases: tuple[Phase, ...], outcome: Outcome) -> None:
    """One pod that failed, and that nothing made again, is a gang that failed."""
    run(desk)
    end(desk, *phases)

    assert outcomes(desk) == [("train", outcome)]


def test_a_pod_that_failed_and_was_made_again_does_not_count(desk: Desk) -> None:
    """As many as the quorum needs have succeeded."""
    own(desk, over=False)
    pods = run(desk, owner=JOB)
    end(desk, Phase.FAILED)
    desk.see(replace(pods[0], uid="again", key=pods[0].key._replace(name="train-2"), node="n2", gated=False))
    for name in ("train-1", "train-2"):
        desk.change(name, phase=Phase.SUCCEEDED)
    own(desk, over=True)

    assert outcomes(desk) == [("train", Outcome.SUCCEEDED)]


def test_a_gang_is_remembered_once(desk: Desk) -> None:
    """Its pods stay for a while, and are deleted then."""
    run(desk)
    end(desk, Phase.SUCCEEDED, Phase.SUCCEEDED)
    desk.wait(1000)
    desk.lose("train-0", "train-1")

    assert outcomes(desk) == [("train", Outcome.SUCCEEDED)]


def test_a_gang_that_is_deleted(desk: Desk) -> None:
    """Whether its pods are told to go first, or end badly by that, or are just gone."""
    run(desk)
    desk.wait(60)
    desk.change("train-0", deleting=True)
    desk.change("train-0", phase=Phase.FAILED)
    desk.lose("train-0", "train-1")

    (found,) = ended(desk)
    assert (found.outcome, found.ran, found.used) == (Outcome.DELETED, 60, ((GPU, 240),))


def test_a_gang_that_never_ran(desk: Desk) -> None:
    """It waited until it was deleted, and used nothing."""
    desk.see(a_pod("alone", gpu=1))
    desk.wait(40)
    desk.lose("alone")

    (found,) = ended(desk)
    assert (found.name, found.outcome, found.waited, found.ran, found.used) == (
        "alone", Outcome.DELETED, 40, 0, (),
    )  # fmt: skip


def test_a_gang_whose_job_is_suspended(desk: Desk) -> None:
    """Its pods are deleted; it is not, and its next run is another one."""
    run(desk, owner=JOB)
    asleep = Asleep("train", "gangwright", a_membership("train", 2))
    desk.tell(ev.OwnerSeen(OwnerTraits(JOB.uid, remakes_freely=True, suspended=True, asleep=asleep)))
    desk.lose("train-0", "train-1")

    assert outcomes(desk) == [("train", Outcome.SUSPENDED)]


def test_a_gang_that_was_preempted_says_by_which() -> None:
    """Once, when its last pod leaves, although its owner makes it again at once."""
    world = a_stage(2)
    a_set(world, "low", 2)
    world.settle(100)
    important(world, 2)
    world.settle(10)

    (found,) = world.engine.ledger.history
    assert (found.name, found.owner, found.outcome) == ("low", "ReplicaSet/low", Outcome.PREEMPTED)
    assert found.winner is not None
    assert (found.winner.gang, found.winner.priority) == (GangKey("default", "important"), 100)
    assert found.ran == pytest.approx(100, abs=10)
    assert dict(found.used)[GPU] == pytest.approx(200, abs=20)


def test_a_job_that_is_suspended_for_another_gang_was_preempted() -> None:
    """It is resumed when there is room, as another run."""
    world = a_stage(2)
    a_job(world, "train", 2)
    world.settle(50)
    pods = important(world, 2)
    world.settle(50)
    for pod in pods:
        world.api.delete(pod.key)
    world.settle(50)

    assert [(own.name, own.outcome) for own in world.engine.ledger.history] == [
        ("train", Outcome.PREEMPTED),
        ("important", Outcome.DELETED),
    ]
    assert world.record("train").account is not None


@pytest.mark.parametrize("kind", ["ReplicaSet", "Job"])
def test_a_gang_that_has_run_for_its_max_runtime(kind: str) -> None:
    """Once, whether its pods are evicted or its Job is suspended. What waits beyond that has not ended."""
    world = a_stage(2)
    owner, membership = an_owner(kind, "train"), a_membership("train", 2, max_runtime=100.0)
    world.control(Controller(owner, 2, lambda pod: a_pod(pod, membership=membership, owner=owner, gpu=1)))
    world.settle(200)

    (found,) = world.engine.ledger.history
    assert (found.owner, found.outcome, found.winner) == (f"{kind}/train", Outcome.RUNTIME_EXCEEDED, None)
    assert found.ran == pytest.approx(100, abs=5)


@pytest.mark.parametrize("more_time", [False, True])
def test_what_waits_beyond_its_max_runtime_is_no_gang_of_its_own(more_time: bool) -> None:
    """Its pods may be deleted without another entry. Once they ask for more time, they are another run."""
    world = a_stage(2)
    owner, membership = an_owner("ReplicaSet", "train"), a_membership("train", 2, max_runtime=100.0)
    world.control(Controller(owner, 2, lambda pod: a_pod(pod, membership=membership, owner=owner, gpu=1)))
    world.settle(200)
    longer = replace(membership, wish=replace(membership.wish, max_runtime=1000.0))
    for pod in world.pods("train") if more_time else ():
        world.api.write(replace(pod, membership=longer))
    world.settle(50)
    world.api.uncontrol(owner)
    for pod in world.pods("train"):
        world.api.delete(pod.key)
    world.settle(5)

    first, *others = world.engine.ledger.history
    assert first.outcome is Outcome.RUNTIME_EXCEEDED
    assert [own.ran for own in others] == [pytest.approx(50, abs=5)] * more_time


@pytest.mark.parametrize("owner", [None, JOB])
@pytest.mark.parametrize("why", [Reason.PREEMPTED, Reason.RUNTIME_EXCEEDED])
def test_a_gang_that_succeeds_before_it_is_evicted(desk: Desk, owner: Owner | None, why: Reason) -> None:
    """Its pods end by themselves after they were chosen, and before they are told to go."""
    own(desk, over=False)
    run(desk, owner=owner)
    for name in ("train-0", "train-1"):
        desk.member(name).set_evicting(why)
    end(desk, Phase.SUCCEEDED, Phase.SUCCEEDED)
    desk.lose("train-0", "train-1")

    assert outcomes(desk) == [("train", Outcome.SUCCEEDED)]


def test_a_gang_that_succeeds_as_it_is_told_to_go_was_preempted(desk: Desk) -> None:
    """A program may take the signal for the end of its work."""
    run(desk)
    for name in ("train-0", "train-1"):
        desk.member(name).set_evicting(Reason.PREEMPTED)
        desk.change(name, deleting=True)
    end(desk, Phase.SUCCEEDED, Phase.SUCCEEDED)

    assert outcomes(desk) == [("train", Outcome.PREEMPTED)]


def test_what_a_gang_had_before_it_was_made_again_counts() -> None:
    """All its pods are gone for a moment, because its node is drained."""
    world = a_stage(1, 1)
    owner, membership = an_owner("StatefulSet", "train"), a_membership("train", 1)
    template = partial(a_pod, membership=membership, owner=owner, gpu=1)
    world.control(Controller(owner, 1, template, keeps_names=True))
    world.settle(100)
    (before,) = world.bound("train")
    world.api.cordon(str(before.node), off=True)
    world.watch()
    world.drain(str(before.node))
    world.settle(50)
    world.api.uncontrol(owner)
    world.api.delete(before.key)
    world.settle(5)

    (found,) = world.engine.ledger.history
    assert found.outcome is Outcome.DELETED
    assert found.ran == pytest.approx(150, abs=5)
    assert dict(found.used)[GPU] == pytest.approx(150, abs=5)


def test_what_another_controller_makes_under_the_name_is_another_gang(desk: Desk) -> None:
    """The first was evicted to be made again, and never was."""
    run(desk, owner=an_owner("StatefulSet", "first"))
    desk.wait(100)
    for name in ("train-0", "train-1"):
        desk.member(name).set_evicting(Reason.MOVED)
    desk.lose("train-0", "train-1")
    run(desk, owner=an_owner("StatefulSet", "second"))
    desk.wait(10)
    desk.lose("train-0", "train-1")

    (found,) = ended(desk)
    assert (found.owner, found.arrived, found.ran) == ("StatefulSet/second", 100, 10)


def test_a_gang_that_is_to_be_made_again_has_not_ended(desk: Desk) -> None:
    """Gangwright evicted its last pod for a reason of its own, such as a node that is lost."""
    desk.see(a_pod("alone", gpu=1, owner=an_owner()))
    desk.bring_on_its_way(desk.ledger.registry.gang_of[desk.pods["alone"].uid].name, alone="n1")
    desk.bind("alone")
    desk.tell(ev.NodeGone("n1"))
    desk.wait(10)
    desk.lose("alone")

    assert ended(desk) == []


def test_the_next_run_of_a_name_is_another_entry(desk: Desk) -> None:
    """Another Job makes pods of the same name while those of the first are still there."""
    run(desk)
    desk.wait(10)
    desk.ledger.take(
        [ev.PodSeen(replace(desk.pods[f"train-{n}"], phase=Phase.SUCCEEDED)) for n in (0, 1)], 10
    )
    second = an_owner("Job", "second")
    pods = a_gang_of_pods("train", 2, gpu=2, owner=second, created=10.0)
    desk.see(
        *(replace(pod, uid=f"{pod.uid}-2", key=pod.key._replace(name=f"b-{pod.key.name}")) for pod in pods)
    )
    desk.wait(5)
    desk.lose("b-train-0", "b-train-1")

    assert [(own.outcome, own.waited, own.ran) for own in ended(desk)] == [
        (Outcome.SUCCEEDED, 0, 10),
        (Outcome.DELETED, 5, 0),
    ]


def test_pods_without_devices_are_charged_for_cores(desk: Desk) -> None:
    """In thousandths of a core, as they are counted."""
    desk.see(a_pod("alone", cpu=2, node="n1", phase=Phase.RUNNING))
    desk.wait(10)
    desk.change("alone", phase=Phase.SUCCEEDED)

    assert [own.used for own in ended(desk)] == [(("cpu", 20_000),)]


def test_a_bind_that_went_by_unseen_counts(desk: Desk) -> None:
    """The pod says when it was given its node: before this replica acted."""
    own = replace(a_pod("alone", gpu=1, node="n1", phase=Phase.RUNNING, created=-90.0), bound_at=-60.0)
    desk.see(own)
    desk.wait(40)
    desk.change("alone", phase=Phase.SUCCEEDED)

    (found,) = ended(desk)
    assert (found.waited, found.ran, found.used) == (30, 100, ((GPU, 100),))


def test_what_ended_before_is_not_told() -> None:
    """A replica that takes over finds pods that have ended: when they did it does not know."""
    desk = Desk()
    desk.see(a_pod("old", gpu=1, node="n1", phase=Phase.SUCCEEDED))
    desk.lose("old")

    assert ended(desk) == []


def test_a_replica_that_does_not_act_remembers_nothing() -> None:
    """It looks at no gang; once it acts it says since when."""
    desk = Desk(acting=False)
    desk.see(a_pod("alone", gpu=1, node="n1", phase=Phase.RUNNING))
    desk.change("alone", phase=Phase.SUCCEEDED)
    assert (ended(desk), desk.ledger.history.since) == ([], None)

    desk.now = 5.0
    desk.tell(ev.Synced(), ev.TookOver())
    assert desk.ledger.history.since == 5.0


# ── how much ────────────────────────────────────────────────────────────────────────────────────────────


def an_entry(number: int, letters: str, length: int, resources: int = RESOURCES) -> EndedGang:
    """With texts of its own, so long."""

    def text(word: str) -> str:
        return f"{word}{number}{letters * length}"[:length]

    key = GangKey(text("ns"), text("gang"))
    winner = GaveWay(
        GangKey(text("other"), text("winner")), text("winner of"), 1_000_000 + number, 0.5 + number
    )
    used = tuple((text(f"r{own}-"), 0.25 + number + own) for own in range(resources))
    return EndedGang(
        key, text("name"), text("Kind/"), 0.5 + number, 1.5 + number, 2.5 + number, used, Outcome.PREEMPTED, winner
    )  # fmt: skip


def takes(thing: object) -> int:
    """Bytes of a value and of all that it leads to, each rounded up as Python's allocator does; words are shared."""
    if isinstance(thing, Outcome) or thing is None:
        return 0
    inside = sum(map(takes, thing)) if isinstance(thing, tuple) else 0
    return -(-sys.getsizeof(thing) // 16) * 16 + inside


@pytest.mark.parametrize("letters", ["x", "é", "語", "🦄"])
@pytest.mark.parametrize("length", [1, 20, 63, 2 * LONGEST + 1])
def test_an_entry_takes_no_more_than_is_said(letters: str, length: int) -> None:
    """Its objects, the garbage collector's part of them, and its place in the queue."""
    for resources in (0, 1, RESOURCES):
        found = an_entry(7, letters, length, resources)
        assert takes(found) + 8 <= size(found)


def test_a_common_entry_leaves_room_for_as_many_as_are_kept() -> None:
    """Names of 32 characters and one device."""
    assert size(an_entry(1, "x", 32, 1)) * MOST <= BYTES


@pytest.mark.parametrize(("length", "kept"), [(20, MOST), (253, None)])
def test_the_memory_is_bounded(length: int, kept: int | None) -> None:
    """By number and by bytes; what goes first is the oldest, and since then nothing is missing."""
    history = GangHistory()
    history.begin(0.0)
    for number in range(MOST + 100):
        history._add(an_entry(number, "x", length, 1 if kept else RESOURCES))

    assert len(history) == kept if kept else 1000 < len(history) < MOST
    assert sum(map(size, history)) == history._bytes <= BYTES
    first, *_, last = history
    assert last.ended == 2.5 + MOST + 99
    assert history.since == first.ended - 1


def test_what_nothing_bounds_is_cut(desk: Desk) -> None:
    """The kind and name of an owner, and how many resources are told: those that it used most of."""
    owner = Owner("K" * 10_000, "n" * 10_000, "uid")
    more = {f"example.com/device-{number}": number + 1 for number in range(20)}
    node = a_node("n1", more=dict.fromkeys(more, 100))
    desk.tell(ev.NodeSeen(node))
    desk.see(a_pod("alone", more=more, owner=owner, node="n1", phase=Phase.RUNNING))
    desk.wait(10)
    desk.change("alone", phase=Phase.SUCCEEDED)

    (found,) = ended(desk)
    assert len(found.owner) == 2 * LONGEST + 1
    assert [amount for _, amount in found.used] == [10 * (20 - number) for number in range(RESOURCES)]


def test_a_gang_of_one_goes_by_its_pods_name(desk: Desk) -> None:
    """Its key holds a uid, which people do not know it by."""
    desk.see(pod := a_pod("alone", gpu=1))
    desk.lose("alone")

    (found,) = ended(desk)
    assert (found.key, found.name) == (gang_of_one("default", pod.uid), "alone")
