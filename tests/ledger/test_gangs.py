"""Who belongs to which gang, and what the gang says of itself."""

from dataclasses import fields, is_dataclass, replace

import pytest

from scheduler.ledger.gang import Spec
from scheduler.model import events as ev
from scheduler.model.decision import Reason, Refuse
from scheduler.model.effects import Announce
from scheduler.model.policy import Policy
from scheduler.model.workload import Complaint, GangKey, Group, Phase, Pin, Strategy, gang_of_one
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod, an_owner, with_membership
from tests.ledger.support.desk import Desk, told
from tests.ledger.support.invariants import broken


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
    ({"size": 8}, "gangwright.io/members", "8 and unset"),
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
    for text in ("gangwright.io/min-members", "2 and 7", "must be the same on all members"):
        assert text in announced.message


def test_a_quorum_above_the_size_is_refused() -> None:
    """Five of four can never be there."""
    desk = Desk()
    desk.see(*a_gang_of_pods("train", 4, quorum=5, size=4))
    spec = the_spec(desk)
    assert isinstance(spec, Refuse)
    assert (spec.reason, spec.value) == (Reason.INVALID_SPEC, "5")
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
    assert (spec.reason, spec.value) == (Reason.INVALID_SPEC, "many")


def test_a_mild_complaint_is_only_said() -> None:
    """The rest is honoured."""
    desk = Desk()
    mild = Complaint("gangwright.io/stratgy", "pack", "a key", fatal=False)
    effects = desk.see(a_pod("alone", complaints=(mild,)))
    warnings = [e for e in effects if isinstance(e, Announce) and e.reason is Reason.IGNORED_FIELD]
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
    assert the_spec(desk) is Reason.QUORUM_UNKNOWN
    desk.tell(ev.GroupSeen(Group(GangKey("default", "train"), "volcano", {"": 3})))
    assert desk.wanted("train") is not None
    desk.tell(ev.GroupSeen(Group(GangKey("default", "train"), "volcano", {"": 4})))
    assert desk.wanted("train") is None
    desk.tell(ev.GroupGone("volcano", GangKey("default", "train")))
    assert the_spec(desk) is Reason.QUORUM_UNKNOWN


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


def test_pods_beyond_the_stated_size_are_surplus() -> None:
    """The quorum is seated whole, and the others beside it; people are told that there are more than are stated."""
    desk = Desk()
    effects = desk.see(*a_gang_of_pods("train", 4, quorum=2, size=2))
    gang = desk.wanted("train")
    assert gang is not None
    assert [(len(role.quorum), len(role.surplus)) for role in gang.roles] == [(2, 2)]
    assert [
        own.message for own in effects if isinstance(own, Announce) and own.reason is Reason.IGNORED_FIELD
    ] == ["gangwright.io/members: 2 members are stated, but 4 exist; the rest are surplus"]


def test_too_many_pods_are_told_in_the_words_of_their_format() -> None:
    """A Kueue group states its size by an annotation of Kueue's."""
    desk = Desk()
    pods = a_gang_of_pods("train", 3, quorum=2, size=2)
    said = replace(pods[0].membership, keys={"size": "kueue.x-k8s.io/pod-group-total-count"})
    effects = desk.see(*(replace(pod, membership=said) for pod in pods))
    told = [
        own.message for own in effects if isinstance(own, Announce) and own.reason is Reason.IGNORED_FIELD
    ]
    assert told == [
        "kueue.x-k8s.io/pod-group-total-count: 2 members are stated, but 3 exist; the rest are surplus"
    ]


def test_a_pod_beyond_the_size_counts_where_the_quorum_lacks_it() -> None:
    """A rolling update makes the new pod first: it is of the quorum as soon as the old one goes."""
    desk = Desk()
    pods = a_gang_of_pods("train", 3, quorum=2, size=2)
    desk.see(*pods)
    desk.lose("train-0")
    gang = desk.wanted("train")
    assert gang is not None
    assert [len(role.quorum) for role in gang.roles] == [2]


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
    assert broken(desk.ledger) == []
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
