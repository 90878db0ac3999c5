"""Who belongs to which gang, and what the gang says of itself."""

from dataclasses import fields, is_dataclass, replace

import pytest

from scheduler.ledger.gang import GangRecord, Spec
from scheduler.model import events as ev
from scheduler.model.decision import Reason, Refuse
from scheduler.model.effects import Announce
from scheduler.model.policy import Policy
from scheduler.model.workload import Complaint, GangKey, Group, Phase, Pin, Strategy, gang_of_one
from tests.engine.cast import a_gang_of_pods, a_membership, a_pod, an_owner, with_membership
from tests.ledger.desk import Desk, told


def the_spec(desk: Desk, gang: str = "train") -> Spec | Refuse | Reason | None:
    return desk.record(gang).spec


# ── what a gang says ────────────────────────────────────────────────────────────────────────────────────


def test_a_pod_without_a_gang_is_a_gang_of_one() -> None:
    """It is asked about alone, under a key that no gang's name can equal."""
    desk = Desk()
    pod = a_pod("alone")
    desk.see(pod)
    record = desk.ledger.registry.gangs[gang_of_one("default", pod.uid)]
    assert record.wanted is not None
    assert record.wanted.quorum == 1


def test_two_gangs_of_one_name_in_two_namespaces_are_two_gangs() -> None:
    """The namespace is the border of a gang: pods beyond it never complete it."""
    desk = Desk()
    desk.see(*a_gang_of_pods("train", 2, quorum=4), *a_gang_of_pods("train", 2, quorum=4, namespace="other"))
    assert len(desk.ledger.registry.gangs) == 2
    assert desk.wanted("train") is None
    assert desk.record("train", "other").wanted is None


DISAGREEMENTS = [
    ({"quorum": {"": 3}}, "gangwright.io/min-members", "3 and 4"),
    ({"size": 8}, "gangwright.io/members", "8 and nothing"),
    ({"format": "kueue"}, "the gang's format", "gangwright and kueue"),
]


@pytest.mark.parametrize(("change", "field", "values"), DISAGREEMENTS)
def test_members_that_disagree_are_refused_with_both_values(change, field: str, values: str) -> None:
    """Nothing is guessed: the field is named with what is said of it."""
    desk = Desk()
    pods = a_gang_of_pods("train", 4)
    desk.see(*pods[:3], with_membership(pods[3], **change))
    spec = the_spec(desk)
    assert isinstance(spec, Refuse)
    assert (spec.reason, spec.field, spec.value) == (Reason.CONFLICT, field, values)
    assert desk.wanted("train") is None


@pytest.mark.parametrize(
    "wish",
    [
        {"strategy": Strategy.SPREAD},
        {"level": "area"},
        {"required": True},
        {"timeout": 5.0},
        {"pin": Pin.SOFT},
    ],
)
def test_wishes_must_agree_too(wish: dict[str, object]) -> None:
    """One member that wishes something else stops the gang until it is mended."""
    desk = Desk()
    pods = a_gang_of_pods("train", 2)
    other = pods[1].membership
    assert other is not None
    desk.see(pods[0], with_membership(pods[1], wish=replace(other.wish, **wish)))
    assert isinstance(the_spec(desk), Refuse)
    desk.see(pods[1])
    assert isinstance(the_spec(desk), Spec)
    assert desk.wanted("train") is not None


def test_a_refusal_is_told_with_its_remedy() -> None:
    """The event names the field, both values and what would be right."""
    desk = Desk()
    pods = a_gang_of_pods("train", 2)
    effects = desk.see(pods[0], with_membership(pods[1], quorum={"": 7}))
    (announced,) = told(effects, Announce)
    assert isinstance(announced, Announce)
    assert announced.reason is Reason.CONFLICT
    for text in ("gangwright.io/min-members", "2 and 7", "one value on all members"):
        assert text in announced.message


def test_a_quorum_above_the_size_is_refused() -> None:
    """Five of four can never be there."""
    desk = Desk()
    desk.see(*a_gang_of_pods("train", 4, quorum=5, size=4))
    spec = the_spec(desk)
    assert isinstance(spec, Refuse)
    assert (spec.reason, spec.value) == (Reason.INVALID, "5")
    assert "4" in spec.remedy


def test_a_gang_larger_than_any_may_be_is_refused() -> None:
    """The plan of a gang must fit into one annotation."""
    desk = Desk(policy=Policy(largest_gang=3))
    desk.see(*a_gang_of_pods("train", 2, quorum=4))
    spec = the_spec(desk)
    assert isinstance(spec, Refuse)
    assert spec.value == "4"


def test_who_ended_does_not_count_against_the_largest_gang() -> None:
    """A Job that made failed members again many times is not larger for it."""
    desk = Desk(policy=Policy(largest_gang=2))
    pods = a_gang_of_pods("train", 4, quorum=2)
    desk.see(*(replace(pod, phase=Phase.FAILED) for pod in pods[:2]), *pods[2:])
    assert desk.wanted("train") is not None


def test_a_member_with_a_fatal_complaint_stops_its_gang() -> None:
    """What a user wrote wrongly is said, and nothing is planned on it."""
    desk = Desk()
    wrong = Complaint("gangwright.io/min-members", "many", "a whole number")
    pods = a_gang_of_pods("train", 2)
    desk.see(pods[0], replace(pods[1], complaints=(wrong,)))
    spec = the_spec(desk)
    assert isinstance(spec, Refuse)
    assert (spec.reason, spec.value) == (Reason.INVALID, "many")


def test_a_mild_complaint_is_only_said() -> None:
    """The rest is honoured."""
    desk = Desk()
    mild = Complaint("gangwright.io/stratgy", "pack", "a key", fatal=False)
    effects = desk.see(a_pod("alone", complaints=(mild,)))
    warnings = [e for e in effects if isinstance(e, Announce) and e.reason is Reason.WARNING]
    assert len(warnings) == 1
    assert "pack" in warnings[0].message
    assert warnings[0].seated is None


def test_the_quorum_may_be_told_by_a_group() -> None:
    """Until the group object is seen the gang waits for it; the group's word counts before the pods'."""
    desk = Desk()
    pods = [
        a_pod(f"p{number}", membership=a_membership("train", None, said_by="volcano")) for number in range(3)
    ]
    desk.see(*pods)
    assert the_spec(desk) is Reason.NO_QUORUM_KNOWN
    desk.tell(ev.GroupSeen(Group(GangKey("default", "train"), "volcano", {"": 3})))
    assert desk.wanted("train") is not None
    desk.tell(ev.GroupSeen(Group(GangKey("default", "train"), "volcano", {"": 4})))
    assert desk.wanted("train") is None
    desk.tell(ev.GroupGone("volcano", GangKey("default", "train")))
    assert the_spec(desk) is Reason.NO_QUORUM_KNOWN


def test_a_group_that_is_wrong_stops_its_gang() -> None:
    """Its complaint is told like a pod's."""
    desk = Desk()
    desk.see(a_pod("p", membership=a_membership("train", None, said_by="volcano")))
    wrong = Complaint("spec.minMember", "-1", "a number from 1 on")
    desk.tell(ev.GroupSeen(Group(GangKey("default", "train"), "volcano", {"": 1}, complaints=(wrong,))))
    spec = the_spec(desk)
    assert isinstance(spec, Refuse)
    assert spec.value == "-1"


def test_roles_have_quorums_of_their_own() -> None:
    """Two workers do not stand for a missing server."""
    desk = Desk()
    quorum = {"ps": 1, "worker": 2}
    pods = [a_pod(f"w{n}", membership=a_membership("train", quorum, role="worker")) for n in range(3)]
    desk.see(*pods)
    assert desk.wanted("train") is None
    desk.see(a_pod("ps", membership=a_membership("train", quorum, role="ps"), cpu=4))
    wanted = desk.wanted("train")
    assert wanted is not None
    assert {role.name: (len(role.quorum), len(role.surplus)) for role in wanted.roles} == {
        "ps": (1, 0),
        "worker": (2, 1),
    }


def test_a_role_without_a_minimum_is_refused() -> None:
    """It is named, with the roles that have one."""
    desk = Desk()
    desk.see(a_pod("p", membership=a_membership("train", {"ps": 1, "worker": 2}, role="boss")))
    spec = the_spec(desk)
    assert isinstance(spec, Refuse)
    assert spec.value == "boss"
    assert "ps, worker" in spec.remedy


# ── who is a member ─────────────────────────────────────────────────────────────────────────────────────


def test_members_beyond_the_stated_size_are_plain_pods() -> None:
    """The latest are counted out, and are seated like anybody who came alone."""
    desk = Desk()
    pods = a_gang_of_pods("train", 4, quorum=2, size=2)
    desk.see(*pods)
    assert sorted(desk.record("train").members) == [pods[0].uid, pods[1].uid]
    for pod in pods[2:]:
        assert desk.ledger.registry.gangs[gang_of_one("default", pod.uid)].wanted is not None


@pytest.mark.parametrize(
    ("above", "bound", "members"),
    [
        ({"role": "ps"}, False, [0, 2]),
        ({"role": "ps"}, True, [1, 2]),
        ({"role": "worker", "surplus": True}, False, [0, 2]),
        ({"role": "worker", "surplus": True}, True, [0, 1, 2]),
    ],
)
def test_whom_a_quorum_needs_is_not_counted_out(
    above: dict[str, object], members: list[int], *, bound: bool
) -> None:
    """Of a server and a worker the worker comes last, after a pod that is not needed: it is of the gang."""
    desk = Desk()
    said = [{"role": "ps"}, above, {"role": "worker"}]
    pods = [
        a_pod(
            f"train-{i}", membership=a_membership("train", {"ps": 1, "worker": 1}, size=2, **each), created=i
        )
        for i, each in enumerate(said)
    ]
    if bound:
        pods[1] = replace(pods[1], gated=False, node="n1", phase=Phase.RUNNING)
    desk.see(*pods)
    assert of_train(desk) == [f"train-{number}" for number in members]
    assert desk.record("train").state == "waiting"


def a_gang_and_its_successor(**successor) -> Desk:
    """Two of two run, and a third pod was made before the first goes."""
    desk = Desk()
    pods = a_gang_of_pods("train", 3, quorum=2, size=2, gpu=1)
    desk.see(*pods[:2])
    desk.bring_on_its_way("train", train_0="n1", train_1="n1")
    desk.bind("train-0", "train-1")
    desk.see(replace(pods[2], created=9.0, **successor))
    return desk


def of_train(desk: Desk) -> list[str]:
    return sorted(m.pod.key.name for m in desk.record("train").members.values() if m.live)


@pytest.mark.parametrize("goes", ["gone", "ended", "deleted", "all"])
@pytest.mark.parametrize("bound", [True, False])
def test_a_pod_beyond_the_size_takes_the_place_that_becomes_free(goes: str, *, bound: bool) -> None:
    """A rolling update makes the new before the old goes: the gang is whole again, whether the new one runs by then."""
    desk = a_gang_and_its_successor()
    assert of_train(desk) == ["train-0", "train-1"]
    if bound:
        alone = f"uid:{desk.pods['train-2'].uid}"
        desk.bring_on_its_way(alone, train_2="n2")
        desk.bind("train-2")
    {
        "gone": lambda: desk.lose("train-0"),
        "ended": lambda: desk.change("train-0", phase=Phase.FAILED),
        "deleted": lambda: desk.change("train-0", deleting=True),
        "all": lambda: desk.tell(
            *(ev.PodGone(desk.pods[n].uid, desk.pods[n].key) for n in ("train-0", "train-1"))
        ),
    }[goes]()
    assert of_train(desk) == (["train-2"] if goes == "all" else ["train-1", "train-2"])
    if goes != "all":
        assert (desk.wanted("train") is None) is bound
        assert desk.record("train").state == ("running" if bound else "waiting")
    assert desk.ledger.check() == []


@pytest.mark.parametrize("goes", [["train-0"], ["train-0", "train-1"]])
@pytest.mark.parametrize("lost", [True, False])
def test_who_has_a_seat_on_its_way_comes_back_when_it_is_decided(goes: list[str], *, lost: bool) -> None:
    """A PATCH under way belongs to the plan of the plain pod; bound, or with the seat lost, it takes its place."""
    desk = a_gang_and_its_successor()
    (ungate,) = desk.place(f"uid:{desk.pods['train-2'].uid}", train_2="n2")
    desk.tell(*(ev.PodGone(desk.pods[name].uid, desk.pods[name].key) for name in goes))
    assert desk.seat("train-2") == "n2"
    assert "train-2" not in [m.pod.key.name for r in gangs_named(desk, "train") for m in r.members.values()]
    if lost:
        desk.failed(ungate, ev.FailureKind.INVALID)
        desk.tell(ev.NodeGone("n2"))
    else:
        desk.carry_out(ungate)
        desk.bind("train-2")
    assert "train-2" in of_train(desk)
    assert desk.ledger.check() == []


def gangs_named(desk: Desk, name: str) -> list[GangRecord]:
    return [record for key, record in desk.ledger.registry.gangs.items() if key.name == name]


def test_places_are_given_to_those_who_run_and_then_to_the_eldest() -> None:
    """Of three plain pods that name the gang, one place goes to one; nobody who is gone is remembered."""
    desk = Desk()
    pods = a_gang_of_pods("train", 5, quorum=1, size=1, gpu=1)
    desk.see(*(replace(pod, created=float(n)) for n, pod in enumerate(pods)))
    desk.bring_on_its_way(f"uid:{pods[3].uid}", train_3="n2")
    desk.bind("train-3")
    for goes, comes in (("train-0", "train-3"), ("train-3", "train-1"), ("train-1", "train-4")):
        if comes == "train-4":
            desk.lose("train-2")
        desk.lose(goes)
        assert of_train(desk) == [comes]
        assert desk.ledger.check() == []


def test_a_size_that_grows_or_is_not_stated_any_more_takes_all_back() -> None:
    """What the members say counts, whenever they say it."""
    for size, members in ((3, 3), (None, 4)):
        desk = Desk()
        pods = a_gang_of_pods("train", 4, quorum=2, size=2, gpu=1)
        desk.see(*pods)
        desk.see(*(with_membership(pod, size=size) for pod in pods))
        assert len(of_train(desk)) == members


def test_who_is_placed_is_not_counted_out() -> None:
    """A member that has its seat stays one, whoever came before it."""
    desk = Desk()
    late = replace(a_gang_of_pods("train", 2, size=2)[1], created=100.0)
    early = a_gang_of_pods("train", 2, size=2)[0]
    desk.see(late, early)
    desk.place("train", train_0="n1", train_1="n1")
    third = a_pod("third", membership=early.membership, created=1.0)
    desk.see(third)
    assert sorted(desk.record("train").members) == [early.uid, late.uid]


def test_who_succeeded_fills_a_place() -> None:
    """A gang of four of which one Succeeded lacks nobody; of which one Failed lacks one."""
    for phase, wanted in ((Phase.SUCCEEDED, False), (Phase.FAILED, True)):
        desk = Desk()
        pods = a_gang_of_pods("train", 3, quorum=2)
        desk.see(*pods[:2])
        desk.bring_on_its_way("train", train_0="n1", train_1="n1")
        desk.bind("train-0", "train-1")
        desk.change("train-0", phase=phase)
        desk.see(pods[2])
        gang = desk.wanted("train")
        assert gang is not None
        assert (gang.quorum == 1) is wanted


def test_a_name_reused_after_all_ended_is_a_new_gang() -> None:
    """Who Succeeded before does not stand for who is missing now, also when the API tells of him once more."""
    desk = Desk()
    old = a_gang_of_pods("train", 2)
    desk.see(*old)
    desk.bring_on_its_way("train", train_0="n1", train_1="n1")
    desk.bind("train-0", "train-1")
    desk.change("train-0", phase=Phase.SUCCEEDED)
    desk.change("train-1", phase=Phase.SUCCEEDED)
    desk.see(a_pod("new-0", membership=old[0].membership))
    assert list(desk.record("train").members) == ["default/new-0"]
    desk.change("train-0", priority=1)
    assert desk.wanted("train") is None
    desk.see(a_pod("new-1", membership=old[0].membership))
    wanted = desk.wanted("train")
    assert wanted is not None
    assert wanted.quorum == 2
    desk.lose("train-0", "train-1", "new-0", "new-1")
    assert desk.ledger.registry.gangs == {}


def test_who_ended_is_not_put_out_while_the_lists_are_read() -> None:
    """Of a gang that is met Succeeded members first, the running ones complete it."""
    desk = Desk(acting=False)
    pods = [replace(pod, node="n1", gated=False) for pod in a_gang_of_pods("train", 2)]
    desk.see(replace(pods[0], phase=Phase.SUCCEEDED), replace(pods[1], phase=Phase.RUNNING))
    desk.tell(ev.Synced(), ev.TookOver())
    assert desk.record("train").state == "running"


def test_what_ended_under_an_earlier_controller_counts_for_it_alone() -> None:
    """A job made anew under the old name, with the old one's pods still there, is whole only by itself."""
    desk = Desk(acting=False)
    first, second = an_owner("Job", "first"), an_owner("Job", "second")
    membership = a_membership("train", 2)
    old = [
        a_pod(f"old-{n}", membership=membership, owner=first, node="n1", phase=Phase.SUCCEEDED)
        for n in range(2)
    ]
    new = [a_pod(f"new-{n}", membership=membership, owner=second) for n in range(2)]
    desk.see(*old, *new)
    desk.tell(ev.Synced(), ev.TookOver())
    wanted = desk.wanted("train")
    assert wanted is not None
    assert wanted.quorum == 2


OLD, NEW = an_owner("Job", "old"), an_owner("Job", "new")
SAID = {
    "a plain gang": [a_membership("train", 2)] * 2,
    "the size is stated": [a_membership("train", 2, size=2)] * 2,
    "roles": [a_membership("train", {"a": 1, "b": 1}, role=role) for role in "ab"],
}


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("owners", [(OLD, NEW), (OLD, None), (None, None), (None, NEW)])
@pytest.mark.parametrize("case", SAID)
def test_a_run_beside_an_ended_one_of_its_name_is_a_gang_of_its_own(case: str, owners, *, live: bool) -> None:
    """Whether it was watched or read at a restart: all of its members are wanted together, and none alone."""
    desk = Desk(acting=live)
    old, new = (
        [
            a_pod(f"{name}-{n}", membership=said, owner=owner, created=at, gated=name == "new")
            for n, said in enumerate(SAID[case])
        ]
        for name, owner, at in zip(("old", "new"), owners, (1.0, 9.0), strict=True)
    )
    desk.see(*(replace(pod, node="n1", phase=Phase.SUCCEEDED) for pod in old))
    desk.see(*new)
    desk.tell(ev.Synced(), ev.TookOver())
    wanted = desk.wanted("train")
    assert wanted is not None
    assert wanted.quorum == 2
    assert sorted(desk.record("train").members) == sorted(pod.uid for pod in new)


@pytest.mark.parametrize("case", ["the size is stated", "roles"])
def test_who_is_done_before_the_rest_of_a_gang_of_several_controllers_still_counts(case: str) -> None:
    """The launcher succeeded while the worker still runs: both were there when the gang began."""
    desk = Desk(acting=False)
    pods = [
        a_pod(f"p-{n}", membership=said, owner=owner, node="n1", created=1.0 + n, phase=phase)
        for n, (said, owner, phase) in enumerate(
            zip(SAID[case], (OLD, NEW), (Phase.SUCCEEDED, Phase.RUNNING), strict=True)
        )
    ]
    desk.see(replace(pods[0], bound_at=3.0), pods[1])
    desk.tell(ev.Synced(), ev.TookOver())
    assert desk.record("train").state == "running"


def test_pods_of_a_new_controller_take_the_name_over_once_nothing_runs() -> None:
    """While a member of the earlier one has a seat they are one gang; afterwards the newest is."""
    desk = Desk()
    first, second = an_owner(name="first"), an_owner(name="second")
    membership = a_membership("train", 2)
    old = a_pod("old", membership=membership, owner=first, created=1.0)
    new = a_pod("new", membership=membership, owner=second, created=2.0)
    desk.see(old, new)
    assert list(desk.record("train").members) == [new.uid]
    assert desk.wanted("train") is None


def test_launcher_and_workers_are_one_gang_when_the_size_is_stated() -> None:
    """Members of two controllers belong together when they carry roles or when `members` says how many there are."""
    desk = Desk()
    membership = a_membership("train", 2, size=2)
    desk.see(
        a_pod("launcher", membership=membership, owner=an_owner("Job", "launcher")),
        a_pod("worker", membership=membership, owner=an_owner("StatefulSet", "worker")),
    )
    assert desk.wanted("train") is not None


def test_a_pod_that_changes_its_gang_takes_no_seat_along() -> None:
    """The seat was given to it as a member of another gang; it waits again, and no hold is left behind."""
    desk = Desk()
    pods = a_gang_of_pods("train", 2)
    desk.see(*pods)
    desk.place("train", train_0="n1", train_1="n1")
    desk.see(replace(pods[1], membership=a_membership("other", 1)))
    assert desk.ledger.check() == []
    assert desk.seat("train-1") is None
    assert desk.wanted("other") is not None


def test_a_pod_pinned_by_its_owner_is_planned() -> None:
    """A node that the owner named is a demand like any other: it is no seat of ours."""
    desk = Desk()
    pod = a_pod("daemon", pinned="n1", gpu=1, owner=an_owner("DaemonSet", "daemon"))
    desk.see(pod)
    assert desk.ledger.registry.gangs[gang_of_one("default", pod.uid)].wanted is not None
    desk.see(replace(pod, gated=False))
    desk.fail_to_bind("daemon")
    assert told(desk.wait(100)) == []


def test_foreign_pods_use_room_and_nothing_else() -> None:
    """Pods of other schedulers, and kube-scheduler's own groups, are no members of anything."""
    desk = Desk()
    desk.see(
        a_pod("foreign", scheduler="default-scheduler", node="n1", gpu=3, gated=False),
        a_pod("native", native_group=True, node="n1", gpu=2),
    )
    assert desk.ledger.registry.gangs == {}
    picture = desk.ledger.snapshot()
    assert picture.free[picture.index["n1"], picture.axis.index["nvidia.com/gpu"]] == 3
    desk.change("foreign", phase=Phase.SUCCEEDED)
    desk.lose("native")
    assert desk.ledger.registry.count == 0
    picture = desk.ledger.snapshot()
    assert picture.free[picture.index["n1"], picture.axis.index["nvidia.com/gpu"]] == 8


def test_a_copy_shares_nothing_that_is_written() -> None:
    """Neither a member nor a part of a gang's record is one of its copy, so what is tried on that changes nothing."""
    desk = Desk()
    desk.see(*a_gang_of_pods("train", 2))
    record = desk.record("train")

    copy = record.copy()

    assert copy == record
    for name in (own.name for own in fields(record) if is_dataclass(getattr(record, own.name))):
        frozen = type(getattr(record, name)).__dataclass_params__.frozen
        assert frozen or getattr(copy, name) is not getattr(record, name), name
    assert not {id(own) for own in copy.members.values()} & {id(own) for own in record.members.values()}
    assert copy.pinning.barred is not record.pinning.barred
