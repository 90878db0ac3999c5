"""Places of members that were lost, kept for their successors."""

import gc
import sys
from collections import Counter
from dataclasses import replace
from types import FrameType

import pytest

from scheduler.ledger.migration import JOB_BACKOFF, JOB_BACKOFF_LIMIT, KEPT
from scheduler.model import events as ev
from scheduler.model.demand import Demand, Operator, Requirement, Term
from scheduler.model.effects import Announce
from scheduler.model.policy import Policy
from scheduler.model.workload import Owner, OwnerTraits, Phase, Pod
from tests.engine.support.cast import a_gang_of_pods, an_owner, with_membership
from tests.ledger.support.desk import POLICY, Desk
from tests.ledger.support.invariants import broken
from tests.support.builders import HOST, a_demand, a_node, a_taint

JOB = an_owner("Job", "train")
SEATS = {"train_0": "n1", "train_1": "n2"}


def traits(owner: Owner = JOB, **said) -> ev.OwnerSeen:
    return ev.OwnerSeen(OwnerTraits(owner.uid, remakes_freely=False, suspends=True, **said))


def whole(owner: Owner = JOB, count: int = 2, quorum: int = 2, **told) -> Desk:
    """A gang of two runs, each of its members on a node of its own and filling it."""
    desk = Desk()
    if owner.kind == "Job":
        desk.tell(traits(owner, **told))
    desk.see(*a_gang_of_pods("train", count, quorum=quorum, owner=owner, gpu=8 if count == 2 else 4))
    seats = SEATS if count == 2 else {**SEATS, "train_2": "n2"}
    desk.bring_on_its_way("train", **seats)
    desk.bind(*(name.replace("_", "-") for name in seats))
    assert desk.record("train").state == "running"
    return desk


def kept(desk: Desk) -> list[str]:
    """Nodes on which a place is kept; the books and what people are told agree."""
    assert broken(desk.ledger) == []
    nodes = sorted(lease.node for move in desk.ledger.migrations for lease in move.leases)
    assert desk.record("train").kept == tuple(nodes)
    return nodes


def fail(desk: Desk, name: str = "train-1") -> None:
    desk.change(name, phase=Phase.FAILED)


def free(desk: Desk, node: str) -> float:
    picture = desk.ledger.snapshot()
    return float(picture.free[picture.index[node], picture.axis.index["nvidia.com/gpu"]])


def the_next(desk: Desk, **changes) -> Pod:
    return replace(
        desk.pods["train-1"],
        **{
            "uid": "next",
            "key": desk.pods["train-0"].key._replace(name="next"),
            "phase": Phase.PENDING,
            "node": None,
            "gated": True,
            "seat": None,
            "plan": None,
            "nominated": None,
            "created": 50.0,
            **changes,
        },
    )


@pytest.mark.parametrize("gone", [False, True])
def test_the_place_of_a_member_that_failed_is_kept_for_its_successor(*, gone: bool) -> None:
    """Nothing else fits there meanwhile; the successor takes it without any question."""
    desk = whole()
    if gone:
        desk.lose("train-1")
    else:
        fail(desk)
    assert (kept(desk), free(desk, "n2")) == (["n2"], 0)
    desk.wait(JOB_BACKOFF)
    desk.see(the_next(desk))
    assert desk.seat("next") == "n2"
    assert (kept(desk), free(desk, "n2")) == ([], 0)


def test_people_are_told_where_a_place_is_kept() -> None:
    """With the numbers of the gang that is partly bound."""
    desk = whole()
    fail(desk)
    said = [own.message for own in desk.wait(5) if isinstance(own, Announce)]
    assert any("1 of 2 are bound; reserved for missing members: n2" in text for text in said)


@pytest.mark.parametrize(
    ("owner", "failed", "seconds"),
    [
        (JOB, 0, JOB_BACKOFF + KEPT),
        (JOB, 3, 8 * JOB_BACKOFF + KEPT),
        (JOB, 1000, JOB_BACKOFF_LIMIT + KEPT),
        (an_owner("ReplicaSet"), 0, KEPT),
        (an_owner("MPIJob"), 0, KEPT),
    ],
)
def test_a_place_is_kept_for_as_long_as_the_owner_waits(owner: Owner, failed: int, seconds: float) -> None:
    """A Job waits twice as long after each failure, six minutes at most; others make the next at once."""
    desk = whole(owner, failed=failed) if owner is JOB else whole(owner)
    fail(desk)
    desk.wait(seconds - 1)
    assert kept(desk) == ["n2"]
    desk.wait(2)
    assert (kept(desk), free(desk, "n2")) == ([], 8)


def test_no_place_is_kept_beyond_the_quorum() -> None:
    """The gang does not stand idle for surplus."""
    desk = whole(count=3, quorum=2)
    fail(desk)
    assert kept(desk) == []
    fail(desk, "train-2")
    assert kept(desk) == ["n2"]


def test_no_place_is_kept_for_surplus() -> None:
    """Nor for a member that says that it is above the quorum."""
    desk = whole(count=3, quorum=2)
    desk.see(with_membership(desk.pods["train-1"], surplus=True))
    fail(desk)
    assert kept(desk) == []


ENDS = {
    "its Job ended": traits(ended=True),
    "its Job is suspended": traits(suspended=True),
    "its Job is gone": ev.OwnerGone(JOB.uid),
}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("event", ENDS.values(), ids=ENDS.keys())
def test_no_place_is_kept_where_no_successor_comes(event: ev.Event, *, before: bool) -> None:
    """Whether that is known before the member fails or later."""
    desk = whole()
    if before:
        desk.tell(event)
    fail(desk)
    if not before:
        assert kept(desk) == ["n2"]
        desk.tell(event)
    assert kept(desk) == []


@pytest.mark.parametrize(
    "node", [a_node("n2", gpu=8, schedulable=False), a_node("n2", gpu=8, taints=[a_taint("broken")]), None]
)
def test_no_place_is_kept_on_a_node_that_takes_no_pods(node) -> None:
    """It is cordoned, tainted or gone: the successor goes elsewhere."""
    desk = whole()
    desk.tell(ev.NodeSeen(node) if node is not None else ev.NodeGone("n2"))
    fail(desk)
    assert kept(desk) == []


def test_no_place_is_kept_for_a_gang_of_which_nothing_runs() -> None:
    """Nothing stands idle for want of its successor, so its successors wait in order."""
    desk = whole()
    fail(desk)
    fail(desk, "train-0")
    assert kept(desk) == []


def test_no_place_is_kept_where_the_cluster_took_the_member_away() -> None:
    """It was preempted or evicted: the room is meant for others."""
    desk = whole()
    desk.change("train-1", deleting=True, disrupted=True)
    desk.lose("train-1")
    assert kept(desk) == []


def test_no_place_is_kept_for_a_member_that_succeeded() -> None:
    """No successor comes."""
    desk = whole()
    desk.change("train-1", phase=Phase.SUCCEEDED)
    assert kept(desk) == []


@pytest.mark.parametrize(
    "demand",
    [a_demand(gpu=4), a_demand(gpu=8, constraints=[(Term((Requirement(HOST, Operator.NOT_IN, ("n2",)),)),)])],
)
def test_a_place_that_does_not_suit_the_successor_is_given_back(demand: Demand) -> None:
    """It needs something else than before, or keeps away from the node: the planner is asked."""
    desk = whole()
    fail(desk)
    desk.see(the_next(desk, demand=demand))
    assert kept(desk) == []
    assert desk.wanted("train") is not None


def test_a_place_that_a_stranger_has_taken_is_given_back() -> None:
    """Other schedulers do not ask: the successor is seated elsewhere."""
    desk = whole()
    fail(desk)
    desk.see(replace(a_gang_of_pods("s", 1, gpu=8)[0], scheduler="other", node="n2", gated=False))
    desk.see(the_next(desk))
    assert kept(desk) == []
    assert desk.wanted("train") is not None


def test_two_members_that_fail_at_once_have_both_their_places_kept() -> None:
    """Though the first has made the gang look at itself once more by then."""
    desk = whole(count=3, quorum=3)
    failed = [replace(desk.pods[name], phase=Phase.FAILED) for name in ("train-1", "train-2")]
    desk.see(*failed)
    assert kept(desk) == ["n2", "n2"]


def test_what_a_kept_place_uses_counts_for_its_namespace_once() -> None:
    """As the member before, and as the successor after."""
    desk = whole()
    used = desk.ledger.share_usage.of("default").used
    fail(desk)
    assert desk.ledger.share_usage.of("default").used == used
    desk.see(the_next(desk))
    assert desk.ledger.share_usage.of("default").used == used


def test_a_restart_forgets_kept_places() -> None:
    """As the places that a drain keeps: the successor waits in order."""
    desk = whole()
    fail(desk)
    again = Desk(policy=Policy(), acting=False)
    again.tell(traits())
    again.see(*desk.pods.values(), the_next(desk))
    again.tell(ev.Synced(), ev.TookOver())
    assert free(again, "n2") == 8
    assert again.wanted("train") is not None


def many(count: int) -> Desk:
    """So many gangs of two run, of each of which a member has failed; another gang waits for room."""
    desk = Desk(*(a_node(f"n{number}", gpu=2) for number in range(count)))
    pods: list[Pod] = []
    for number in range(count):
        owner = an_owner("Job", f"g{number}")
        desk.tell(traits(owner))
        two = a_gang_of_pods(f"g{number}", 2, gpu=1, owner=owner, created=1.0)
        pods += [
            replace(pod, gated=False, node=f"n{number}", phase=Phase.RUNNING, bound_at=2.0) for pod in two
        ]
    desk.see(*pods)
    desk.see(*(replace(pod, phase=Phase.FAILED) for pod in pods[::2]))
    assert sum(len(move.leases) for move in desk.ledger.migrations) == count
    desk.see(*a_gang_of_pods("waits", 2, gpu=2, created=50.0))
    desk.wait(1)
    return desk


def calls(desk: Desk, name: str) -> Counter[str]:
    """Functions that are called, and how often, when one pod is seen as another."""
    found: Counter[str] = Counter()

    def note(frame: FrameType, kind: str, _arg: object) -> None:
        if kind == "call":
            found[frame.f_code.co_qualname] += 1

    before = sys.getprofile()
    gc.disable()  # a collection calls what others have registered
    sys.setprofile(note)
    try:
        desk.change(name, priority=1)
    finally:
        sys.setprofile(before)
        gc.enable()
    return found


def test_places_that_are_kept_for_others_cost_a_gang_nothing() -> None:
    """An event of a gang that waits takes the same steps, however many places are kept."""
    assert calls(many(40), "waits-0") == calls(many(2), "waits-0")


def test_each_kept_place_ends_at_its_own_time() -> None:
    """One that is kept later is kept longer."""
    desk = many(2)
    desk.wait(20)
    desk.see(*a_gang_of_pods("late", 2, gpu=1, owner=an_owner("ReplicaSet", "late")))
    desk.tell(ev.NodeSeen(a_node("more", gpu=2)))
    desk.bring_on_its_way("late", late_0="more", late_1="more")
    desk.bind("late-0", "late-1")
    desk.change("late-1", phase=Phase.FAILED)
    left = []
    for seconds in (JOB_BACKOFF + KEPT - 20, KEPT - 20, 20):
        desk.wait(seconds)
        left.append(sorted(move.gang.name for move in desk.ledger.migrations))
    assert left == [["late"], [], []]


def test_no_place_is_kept_for_a_gang_that_is_gone() -> None:
    """Not even while we are blind, when no gang is looked at."""
    desk = whole()
    fail(desk)
    desk.tell(ev.LostSight())
    desk.lose("train-0", "train-1")
    assert (len(desk.ledger.migrations), free(desk, "n2"), broken(desk.ledger)) == (0, 8, [])


@pytest.mark.parametrize("before", [[], [ev.LostSight(), ev.SawAgain()]])
def test_the_place_of_a_member_that_fails_during_a_catch_up_is_kept(before) -> None:
    """After other settings, or right after the cache is current again."""
    desk = whole()
    for own in before or [ev.PolicyChanged(replace(POLICY, default_runtime=1.0))]:
        desk.ledger.take([own], desk.now)
    desk.ledger.settle(desk.now, 1)
    assert desk.ledger.catch_ups
    failed = replace(desk.pods["train-1"], phase=Phase.FAILED)
    desk.ledger.take([ev.PodSeen(failed)], desk.now)
    desk.tell()
    assert kept(desk) == ["n2"]
