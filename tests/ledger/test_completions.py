"""What a Job has completed counts for its gang, whether or not the pods are still there."""

from dataclasses import replace

import pytest

from scheduler.model import events as ev
from scheduler.model.workload import Owner, OwnerTraits, Phase
from tests.engine.support.cast import a_membership, a_pod, an_owner
from tests.ledger.support.desk import Desk
from tests.ledger.support.invariants import broken

JOB = an_owner("Job", "train")


def count(desk: Desk, owner: Owner, succeeded: int, *, ended: bool = False) -> None:
    """The watch tells how many pods of this Job succeeded so far, and whether it makes more."""
    traits = OwnerTraits(owner.uid, remakes_freely=False, suspends=True, succeeded=succeeded, ended=ended)
    desk.tell(ev.OwnerSeen(traits))


def whole(desk: Desk) -> None:
    """Four members of one Job run; one has completed since."""
    count(desk, JOB, 0)
    said = a_membership("train", 4)
    desk.see(*(a_pod(f"train-{n}", membership=said, owner=JOB, gpu=1) for n in range(4)))
    desk.bring_on_its_way("train", **{f"train_{n}": "n1" for n in range(4)})
    desk.bind(*(f"train-{n}" for n in range(4)))
    desk.change("train-0", phase=Phase.SUCCEEDED)
    count(desk, JOB, 1)


def successor(desk: Desk) -> None:
    """One more member fails, is gone, and is made again."""
    desk.change("train-1", phase=Phase.FAILED)
    desk.lose("train-1")
    desk.see(a_pod("train-1b", membership=a_membership("train", 4), owner=JOB, gpu=1, created=9.0))


def test_a_completed_member_counts_when_its_pod_is_gone() -> None:
    """Its node was removed: the successor of another member is wanted, and does not wait for it."""
    desk = Desk()
    whole(desk)
    desk.lose("train-0")
    assert desk.record("train").state == "running"
    successor(desk)
    assert desk.wanted("train") is not None or desk.seat("train-1b") is not None
    assert broken(desk.ledger) == []


def test_a_completed_member_counts_once() -> None:
    """What the Job counts and what is seen are the same pods."""
    desk = Desk()
    whole(desk)
    desk.change("train-1", phase=Phase.FAILED)
    assert desk.record("train").state == "gathering"


def test_a_completed_member_counts_whatever_is_told_first() -> None:
    """The Job's count may come after its pod is gone."""
    desk = Desk()
    whole(desk)
    count(desk, JOB, 0)
    desk.lose("train-0")
    assert desk.record("train").state == "gathering"
    count(desk, JOB, 1)
    assert desk.record("train").state == "running"


def test_each_job_of_a_gang_is_counted() -> None:
    """A launcher that is done, and of which no pod is left, still counts beside the workers of another Job."""
    desk = Desk()
    launcher, workers = an_owner("Job", "launcher"), an_owner("Job", "workers")
    count(desk, launcher, 0)
    count(desk, workers, 0)
    quorum = {"launcher": 1, "worker": 2}
    pods = [a_pod("l", membership=a_membership("train", quorum, role="launcher"), owner=launcher, gpu=1)]
    said = a_membership("train", quorum, role="worker")
    pods += [a_pod(f"w-{n}", membership=said, owner=workers, gpu=1) for n in range(2)]
    desk.see(*pods)
    desk.bring_on_its_way("train", l="n1", w_0="n1", w_1="n1")
    desk.bind("l", "w-0", "w-1")
    desk.change("l", phase=Phase.SUCCEEDED)
    count(desk, launcher, 1)
    desk.lose("l")
    assert desk.record("train").state == "running"
    desk.lose("w-0")
    desk.see(a_pod("w-0b", membership=said, owner=workers, gpu=1, created=9.0))
    assert desk.wanted("train") is not None or desk.seat("w-0b") is not None


def test_an_earlier_run_completes_nothing_of_the_next() -> None:
    """A Job of the same gang name counts what it completed itself."""
    desk = Desk()
    said = a_membership("train", 2)
    first, second = an_owner("Job", "first"), an_owner("Job", "second")
    count(desk, first, 0)
    count(desk, second, 0)
    desk.see(*(a_pod(f"first-{n}", membership=said, owner=first, gpu=1) for n in range(2)))
    desk.bring_on_its_way("train", first_0="n1", first_1="n1")
    desk.bind("first-0", "first-1")
    desk.see(a_pod("second-0", membership=said, owner=second, gpu=1, created=5.0))
    for name in ("first-0", "first-1"):
        desk.change(name, phase=Phase.SUCCEEDED)
    count(desk, first, 2, ended=True)
    desk.lose("first-0", "first-1")
    assert desk.record("train").state == "gathering"
    assert desk.wanted("train") is None


@pytest.mark.parametrize("seen", [1, 2])
def test_a_run_that_ended_short_completes_nothing_of_the_next(seen: int) -> None:
    """One pod completed and is gone, the other is deleted at the Job's deadline: the next run is wanted whole or not at
    all.
    """
    desk = Desk()
    said = a_membership("train", 2)
    first, second = an_owner("Job", "first"), an_owner("Job", "second")
    count(desk, first, 0)
    count(desk, second, 0)
    desk.see(*(a_pod(f"first-{n}", membership=said, owner=first, gpu=1) for n in range(2)))
    desk.bring_on_its_way("train", first_0="n1", first_1="n1")
    desk.bind("first-0", "first-1")
    desk.change("first-0", phase=Phase.SUCCEEDED)
    count(desk, first, 1)
    desk.lose("first-0")
    desk.see(*(a_pod(f"second-{n}", membership=said, owner=second, gpu=1, created=5.0) for n in range(seen)))
    desk.change("first-1", deleting=True)
    count(desk, first, 1, ended=True)
    assert desk.wanted("train") is None
    desk.lose("first-1")
    wanted = desk.wanted("train")
    assert (wanted.quorum if wanted is not None else 0) == (2 if seen == 2 else 0)
    assert desk.record("train").jobs == {second.uid: ""}


def test_completed_members_count_after_a_restart() -> None:
    """They are read off the Job: the successor that is there takes its place among those that run."""
    desk = Desk(acting=False)
    count(desk, JOB, 1)
    said = a_membership("train", 4)
    runs = [
        a_pod(f"train-{n}", membership=said, owner=JOB, node="n1", phase=Phase.RUNNING, gpu=1) for n in (2, 3)
    ]
    desk.see(*runs, a_pod("train-1b", membership=said, owner=JOB, gpu=1, created=9.0))
    desk.tell(ev.Synced(), ev.TookOver())
    wanted = desk.wanted("train")
    assert wanted is not None
    assert wanted.quorum == 1


def restarted_without_a_launcher(*, never_whole: bool = False, completed: int = 1) -> Desk:
    """After a restart only the pods of the workers' Job are found, and the launcher's Job."""
    desk = Desk(acting=False)
    launcher, workers = an_owner("Job", "launcher"), an_owner("Job", "workers")
    count(desk, launcher, completed, ended=completed > 0)
    count(desk, workers, 0)
    said = a_membership("train", {"launcher": 1, "worker": 2}, role="worker")
    pods = [a_pod(f"w-{n}", membership=said, owner=workers, gpu=1) for n in range(2)]
    runs = [replace(pod, node="n1", gated=False, phase=Phase.RUNNING, bound_at=2.0) for pod in pods]
    desk.see(*(pods if never_whole else runs))
    desk.tell(ev.Synced(), ev.TookOver())
    return desk


def test_a_role_without_pods_counts_as_completed_after_a_restart() -> None:
    """Its gang runs, so it was whole: the successor of a worker does not wait for the launcher."""
    desk = restarted_without_a_launcher()
    assert desk.record("train").state == "running"
    pod = desk.pods["w-0"]
    desk.lose("w-0")
    desk.see(replace(pod, key=pod.key._replace(name="w-0b"), uid="w-0b", node=None, gated=True, created=9.0))
    assert desk.wanted("train") is not None or desk.seat("w-0b") is not None


def test_a_role_counts_as_completed_until_a_pod_of_it_comes() -> None:
    """It was lost rather than completed, and is made again."""
    desk = restarted_without_a_launcher(completed=0)
    assert desk.record("train").state == "running"
    said = a_membership("train", {"launcher": 1, "worker": 2}, role="launcher")
    desk.see(a_pod("l", membership=said, owner=an_owner("Job", "launcher"), gpu=1, created=9.0))
    assert desk.record("train").finished == {}
    wanted = desk.wanted("train")
    assert wanted is not None
    assert wanted.quorum == 1


def test_a_gang_that_never_ran_completed_nothing_before_a_restart() -> None:
    """Its launcher has yet to come."""
    desk = restarted_without_a_launcher(never_whole=True)
    assert desk.record("train").state == "gathering"
