"""Members that are of a gang by name and do not count for it: later runs, and pods that cannot be read."""

from dataclasses import replace

import pytest

from scheduler.ledger import preemption
from scheduler.model import events as ev
from scheduler.model.decision import Reason
from scheduler.model.effects import Announce, Effect
from scheduler.model.workload import Complaint, GangKey, Group, Owner, OwnerTraits, Phase, Pod
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod, an_owner, with_membership
from tests.ledger.support.desk import Desk
from tests.ledger.support.invariants import broken

FIRST, SECOND = an_owner("Job", "nightly-1"), an_owner("Job", "nightly-2")


def a_run(owner: Owner, created: float, count: int = 2) -> list[Pod]:
    """The pods of one run of the gang `nightly`."""
    said = a_membership("nightly", count)
    return [
        a_pod(f"{owner.name}-{n}", membership=said, owner=owner, created=created, gpu=4) for n in range(count)
    ]


def told(effects: list[Effect], reason: Reason) -> list[Announce]:
    return [own for own in effects if isinstance(own, Announce) and own.reason is reason]


# ── one run at a time ───────────────────────────────────────────────────────────────────────────────────


def running(desk: Desk) -> None:
    """The first run has its seats, and runs."""
    desk.see(*a_run(FIRST, 1.0))
    desk.bring_on_its_way("nightly", nightly_1_0="n1", nightly_1_1="n1")
    desk.bind("nightly-1-0", "nightly-1-1")


def test_a_second_run_waits_until_the_first_has_ended() -> None:
    """A CronJob's next Job of the same gang name is seated whole or not at all, and never beside the first."""
    desk = Desk()
    running(desk)
    desk.see(*a_run(SECOND, 5.0))
    assert desk.wanted("nightly") is None
    assert desk.record("nightly").state == "running"
    desk.change("nightly-1-0", phase=Phase.SUCCEEDED)
    assert desk.wanted("nightly") is None
    desk.change("nightly-1-1", phase=Phase.SUCCEEDED)
    wanted = desk.wanted("nightly")
    assert wanted is not None
    assert wanted.quorum == 2
    assert sorted(desk.record("nightly").members) == ["default/nightly-2-0", "default/nightly-2-1"]
    assert broken(desk.ledger) == []


def test_people_are_told_which_run_goes_first_and_what_helps() -> None:
    """On a pod of the second run, though the gang of the name is well."""
    desk = Desk()
    running(desk)
    desk.see(*a_run(SECOND, 5.0))
    (said,) = told(desk.wait(10), Reason.NAME_CONFLICT)
    assert (said.key.name, said.owner, said.seated) == ("nightly-2-0", SECOND, False)
    assert "Job nightly-1;" in said.message
    assert "use two gang names" in said.message


def test_of_two_runs_that_wait_the_elder_goes_first() -> None:
    """Its pods are wanted together and none of them alone, however many runs come after it."""
    desk = Desk()
    desk.see(*a_run(SECOND, 5.0), *a_run(FIRST, 1.0))
    wanted = desk.wanted("nightly")
    assert wanted is not None
    assert [uid for role in wanted.roles for uid in role.quorum] == [
        "default/nightly-1-0",
        "default/nightly-1-1",
    ]
    assert set(desk.ledger.registry.gangs) == {GangKey("default", "nightly")}


def test_a_second_run_that_says_something_else_does_not_refuse_the_first() -> None:
    """What a run says that waits for its turn is not held against the one that runs."""
    desk = Desk()
    running(desk)
    desk.see(*a_run(SECOND, 5.0, count=3))
    assert desk.record("nightly").state == "running"


def test_a_second_run_waits_after_a_restart_too() -> None:
    """Which run goes first is read off the seats, in whatever order the pods are told."""
    desk = Desk(acting=False)
    first = [replace(pod, node="n1", gated=False, phase=Phase.RUNNING) for pod in a_run(FIRST, 9.0)]
    desk.see(*a_run(SECOND, 5.0), *first)
    desk.tell(ev.Synced(), ev.TookOver())
    assert desk.record("nightly").state == "running"
    assert desk.wanted("nightly") is None


def test_the_condition_of_a_second_run_turns_when_it_is_seated() -> None:
    """A pod that was told that it waits is told that it does not."""
    desk = Desk()
    running(desk)
    desk.see(*a_run(SECOND, 5.0))
    desk.change("nightly-2-0", told="NameConflict")
    desk.change("nightly-1-0", phase=Phase.SUCCEEDED)
    desk.change("nightly-1-1", phase=Phase.SUCCEEDED)
    effects = desk.place("nightly", nightly_2_0="n1", nightly_2_1="n1")
    desk.carry_out(*effects)
    effects = desk.bind("nightly-2-0", "nightly-2-1") + desk.wait(60)
    assert [said.key.name for said in told(effects, Reason.SEATED)] == ["nightly-2-0"]


def told_of(desk: Desk, owner: Owner, **more: bool) -> list[Effect]:
    """The watch tells of a Job."""
    return desk.tell(ev.OwnerSeen(OwnerTraits(owner.uid, remakes_freely=True, suspends=True, **more)))


def wanted_names(desk: Desk) -> list[str]:
    """Whose seats are asked about."""
    wanted = desk.wanted("nightly")
    return [] if wanted is None else sorted(uid for role in wanted.roles for uid in role.quorum)


SECONDS = ["default/nightly-2-0", "default/nightly-2-1"]


def in_the_gap(desk: Desk) -> None:
    """The first run is evicted whole, and its Job has yet to make its pods again; the second waits."""
    told_of(desk, FIRST)
    told_of(desk, SECOND)
    running(desk)
    desk.see(*a_run(SECOND, 5.0))
    for name in ("nightly-1-0", "nightly-1-1"):
        desk.change(name, deleting=True)
        assert wanted_names(desk) == []
    desk.lose("nightly-1-0", "nightly-1-1")


def test_a_run_that_is_made_again_keeps_its_turn() -> None:
    """Across the gap in which it has no pods, though the other run's are older then."""
    desk = Desk()
    in_the_gap(desk)
    assert wanted_names(desk) == []
    (said,) = told(desk.wait(10), Reason.NAME_CONFLICT)
    assert "Job nightly-1;" in said.message
    again = [
        replace(pod, key=pod.key._replace(name=pod.key.name + "b"), uid=pod.uid + "b")
        for pod in a_run(FIRST, 20.0)
    ]
    desk.see(again[0])
    assert wanted_names(desk) == []
    desk.see(again[1])
    assert wanted_names(desk) == [pod.uid for pod in again]
    assert broken(desk.ledger) == []


@pytest.mark.parametrize("how", ["ended", "suspended", "gone"])
def test_a_turn_passes_to_the_next_run(how: str) -> None:
    """The Job without pods makes none again, for now: the other run is wanted, and keeps its turn when this one is
    resumed.
    """
    desk = Desk()
    in_the_gap(desk)
    if how == "gone":
        desk.tell(ev.OwnerGone(FIRST.uid))
    else:
        told_of(desk, FIRST, **{how: True})
    assert wanted_names(desk) == SECONDS
    told_of(desk, FIRST)
    desk.see(*a_run(FIRST, 20.0))
    assert wanted_names(desk) == SECONDS


def test_a_run_that_gives_way_keeps_its_turn_and_runs_on_when_it_need_not() -> None:
    """Both are never one gang: the second has no seats while pods of the first may stay."""
    desk = Desk()
    running(desk)
    desk.see(*a_run(SECOND, 5.0))
    first = [desk.pods[name].uid for name in ("nightly-1-0", "nightly-1-1")]
    preemption.set_leaving(desk.ledger, first, Reason.PREEMPTED)
    desk.tell()
    assert wanted_names(desk) == []
    preemption.set_leaving(desk.ledger, first, None)
    desk.tell()
    assert desk.record("nightly").state == "running"
    assert [member.pod.uid for member in desk.record("nightly").live()] == first


def test_a_gang_that_is_gone_leaves_no_turn_behind() -> None:
    """What is remembered is bounded by the gangs that are there."""
    desk = Desk()
    in_the_gap(desk)
    assert desk.ledger.registry.concerned(FIRST.uid) == [GangKey("default", "nightly")]
    desk.lose("nightly-2-0", "nightly-2-1")
    assert desk.ledger.registry.concerned(FIRST.uid) == []


def test_revisions_of_a_deployment_are_one_gang() -> None:
    """The pod of a new ReplicaSet takes the place of one of the former."""
    desk = Desk()
    old, new = an_owner("ReplicaSet", "old"), an_owner("ReplicaSet", "new")
    pods = a_gang_of_pods("web", 2, owner=old, gpu=1)
    desk.see(*pods)
    desk.bring_on_its_way("web", web_0="n1", web_1="n1")
    desk.bind("web-0", "web-1")
    desk.lose("web-0")
    desk.see(replace(pods[0], uid="new", key=pods[0].key._replace(name="new"), owner=new, created=5.0))
    assert desk.seat("new") == "n1"


# ── a group object states the gang ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("late", [False, True])
def test_pods_of_several_controllers_under_one_group_are_one_gang(*, late: bool) -> None:
    """mpi-operator makes one PodGroup for a Job's launcher and an MPIJob's workers: all are wanted together."""
    desk = Desk()
    said = a_membership("pi", None, said_by="scheduler-plugins")
    launcher = a_pod("pi-launcher", membership=said, owner=an_owner("Job", "pi-launcher"), created=2.0)
    workers = [
        a_pod(f"pi-worker-{n}", membership=said, owner=an_owner("MPIJob", "pi"), created=1.0)
        for n in range(2)
    ]
    group = ev.GroupSeen(Group(GangKey("default", "pi"), "scheduler-plugins", {"": 3}))
    if not late:
        desk.tell(group)
    desk.see(*workers)
    assert late or desk.record("pi").state == "gathering"
    desk.see(launcher)
    if late:
        desk.tell(group)
    wanted = desk.wanted("pi")
    assert wanted is not None
    assert wanted.quorum == 3
    assert len(desk.ledger.registry.gangs) == 1


# ── pods that cannot be read ────────────────────────────────────────────────────────────────────────────

WRONG = (Complaint("gangwright.io/role", "a b", "write a name"),)


def spoiled(pod: Pod) -> Pod:
    return replace(with_membership(pod, refused=True), complaints=WRONG)


def test_a_gang_of_which_no_pod_can_be_read_is_one_gang() -> None:
    """It is refused whole, once, with the field named."""
    desk = Desk()
    effects = desk.see(*map(spoiled, a_gang_of_pods("train", 3)))
    assert set(desk.ledger.registry.gangs) == {GangKey("default", "train")}
    assert desk.record("train").state == "refused"
    (said,) = told(effects, Reason.INVALID_SPEC)
    assert "gangwright.io/role: 'a b'" in said.message


def test_a_pod_that_cannot_be_read_spoils_no_gang() -> None:
    """The others are wanted without it, and it is told what is wrong."""
    desk = Desk()
    pods = a_gang_of_pods("train", 3, quorum=2)
    effects = desk.see(pods[0], spoiled(pods[1]), pods[2])
    wanted = desk.wanted("train")
    assert wanted is not None
    assert wanted.quorum == 2
    assert pods[1].uid not in {uid for role in wanted.roles for uid in (*role.quorum, *role.surplus)}
    (said,) = told(effects, Reason.INVALID_SPEC)
    assert said.key.name == "train-1"


def test_a_gang_that_needs_a_pod_that_cannot_be_read_waits_for_it() -> None:
    """Until it is mended; then it is wanted with the others."""
    desk = Desk()
    pods = a_gang_of_pods("train", 3)
    desk.see(pods[0], spoiled(pods[1]), pods[2])
    assert desk.wanted("train") is None
    assert desk.record("train").state == "gathering"
    desk.see(pods[1])
    assert desk.wanted("train") is not None
