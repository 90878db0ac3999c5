"""What members of a gang must say alike, and what one may leave to the others, in the words of every format."""

from dataclasses import replace

import pytest

from scheduler.ledger import conditions, gang_spec
from scheduler.ledger.gang import Spec
from scheduler.model.decision import Reason, Refuse
from scheduler.model.workload import Membership, Strategy
from tests.engine.support.cast import a_pod
from tests.ledger.support.desk import Desk
from tests.objects.reading import said

OURS = "gangwright.io/"
KUEUE = "kueue.x-k8s.io/"
YUNIKORN = "yunikorn.apache.org/"
KOORDINATOR = "gang.scheduling.koordinator.sh/"
VOLCANO = "scheduling.volcano.sh/"
KAI = "kai.scheduler/"
GROUPS = '[{"name":"driver","minMember":1},{"name":"executor","minMember":2}]'
GATHER = '{"gatherStrategy":[{"layer":"rack","strategy":"%s"}]}'

BASE: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "ours": ({OURS + "gang": "g"}, {OURS + "min-members": "2"}),
    "scheduler-plugins": ({"scheduling.x-k8s.io/pod-group": "g"}, {}),
    "kueue": ({KUEUE + "pod-group-name": "g"}, {KUEUE + "pod-group-total-count": "2"}),
    "yunikorn": ({"applicationId": "g"}, {YUNIKORN + "task-group-name": "driver"}),
    "koordinator": ({}, {KOORDINATOR + "name": "g", KOORDINATOR + "min-available": "2"}),
    "volcano": ({}, {VOLCANO + "group-name": "g"}),
    "kai": ({}, {"pod-group-name": "g"}),
}
"""What every member says, by format."""


def a_member(form: str, annotations: dict[str, str]) -> Membership:
    labels, always = BASE[form]
    membership = said(labels, always | annotations).membership
    assert membership is not None
    return membership


def told_by(*members: Membership) -> Spec | Refuse | Reason | None:
    """What becomes of a gang of these members."""
    desk = Desk()
    desk.see(
        *(
            a_pod(f"g-{number}", namespace="team", membership=own, created=float(number))
            for number, own in enumerate(members)
        )
    )
    return desk.record("g", "team").spec


LEFT_TO_OTHERS = {
    "YuniKorn's parameters": (
        "yunikorn",
        {
            YUNIKORN + "task-groups": GROUPS,
            YUNIKORN
            + "schedulingPolicyParameters": "placeholderTimeoutInSeconds=30 gangSchedulingStyle=Hard",
        },
        {"timeout": 30.0},
    ),
    "Kueue's required topology": (
        "kueue",
        {KUEUE + "podset-required-topology": "gangwright.io/rack"},
        {"strategy": Strategy.PACK, "level": "rack", "required": True},
    ),
    "Kueue's preferred topology": (
        "kueue",
        {KUEUE + "podset-preferred-topology": "gangwright.io/rack"},
        {"strategy": Strategy.PACK, "level": "rack", "required": False},
    ),
    "Koordinator's waiting time": ("koordinator", {KOORDINATOR + "waiting-time": "30s"}, {"timeout": 30.0}),
    "Koordinator's topology": (
        "koordinator",
        {KOORDINATOR + "network-topology-spec": GATHER % "MustGather"},
        {"strategy": Strategy.PACK, "level": "rack", "required": True},
    ),
    "Volcano's topology": (
        "volcano",
        {VOLCANO + "group-min-member": "2", "volcano.sh/network-topology-mode": "hard"},
        {"strategy": Strategy.PACK, "required": True},
    ),
    "KAI's topology": (
        "kai",
        {KAI + "batch-min-member": "2", KAI + "topology-preferred-placement": "gangwright.io/rack"},
        {"strategy": Strategy.PACK, "level": "rack", "required": False},
    ),
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("form", "annotations", "wish"), LEFT_TO_OTHERS.values(), ids=LEFT_TO_OTHERS.keys())
def test_one_member_speaks_for_those_that_are_silent(form, annotations, wish, first: bool) -> None:
    """Whether it came first or last: what it says in its format's words counts for the gang."""
    speaker, silent = a_member(form, annotations), a_member(form, {})
    spec = told_by(*((speaker, silent) if first else (silent, speaker)))
    assert isinstance(spec, Spec)
    assert {name: getattr(spec.wish, name) for name in wish} == wish


def test_a_size_may_be_left_to_others() -> None:
    """Koordinator's total number, on one of its pods."""
    spec = told_by(a_member("koordinator", {}), a_member("koordinator", {KOORDINATOR + "total-number": "4"}))
    assert isinstance(spec, Spec)
    assert spec.size == 4


AT_ODDS = {
    "Kueue's total": (
        "kueue",
        {KUEUE + "pod-group-total-count": "3"},
        {KUEUE + "pod-group-total-count": "4"},
        (KUEUE + "pod-group-total-count", "3 and 4"),
    ),
    "Kueue's topologies": (
        "kueue",
        {KUEUE + "podset-required-topology": "gangwright.io/rack"},
        {KUEUE + "podset-required-topology": "area"},
        (KUEUE + "podset-required-topology", "area and rack"),
    ),
    "Kueue's required and preferred": (
        "kueue",
        {KUEUE + "podset-required-topology": "gangwright.io/rack"},
        {KUEUE + "podset-preferred-topology": "gangwright.io/rack"},
        (f"{KUEUE}podset-preferred-topology and {KUEUE}podset-required-topology", "false and true"),
    ),
    "YuniKorn's task groups": (
        "yunikorn",
        {YUNIKORN + "task-groups": GROUPS},
        {YUNIKORN + "task-groups": '[{"name":"driver","minMember":1}]'},
        (YUNIKORN + "task-groups", "driver=1 and driver=1,executor=2"),
    ),
    "YuniKorn's parameters": (
        "yunikorn",
        {YUNIKORN + "schedulingPolicyParameters": "placeholderTimeoutInSeconds=30"},
        {YUNIKORN + "schedulingPolicyParameters": "placeholderTimeoutInSeconds=60"},
        (YUNIKORN + "schedulingPolicyParameters: placeholderTimeoutInSeconds", "30 and 60"),
    ),
    "Koordinator's minimum": (
        "koordinator",
        {},
        {KOORDINATOR + "min-available": "3"},
        (KOORDINATOR + "min-available", "2 and 3"),
    ),
    "Koordinator's size": (
        "koordinator",
        {KOORDINATOR + "total-number": "3"},
        {KOORDINATOR + "total-number": "4"},
        (KOORDINATOR + "total-number", "3 and 4"),
    ),
    "Volcano's topology": (
        "volcano",
        {"volcano.sh/network-topology-mode": "hard"},
        {"volcano.sh/network-topology-mode": "soft"},
        ("volcano.sh/network-topology-mode", "false and true"),
    ),
    "KAI's minimum": (
        "kai",
        {KAI + "batch-min-member": "2"},
        {KAI + "batch-min-member": "3"},
        (KAI + "batch-min-member", "2 and 3"),
    ),
    "ours beside Kueue's": (
        "kueue",
        {KUEUE + "podset-required-topology": "gangwright.io/rack"},
        {OURS + "level": "area"},
        (f"{OURS}level and {KUEUE}podset-required-topology", "area and rack"),
    ),
    "ours alone on a gang of another format": (
        "scheduler-plugins",
        {OURS + "timeout": "30s"},
        {},
        (OURS + "timeout", "30 and unset"),
    ),
    "ours over Kueue's": (
        "kueue",
        {KUEUE + "podset-required-topology": "gangwright.io/rack", OURS + "strategy": "spread"},
        {},
        (OURS + "strategy", "spread and unset"),
    ),
    "ours": ("ours", {OURS + "members": "4"}, {}, (OURS + "members", "4 and unset")),
}


@pytest.mark.parametrize(("form", "one", "other", "complaint"), AT_ODDS.values(), ids=AT_ODDS.keys())
def test_a_disagreement_names_the_key_that_the_user_wrote(form, one, other, complaint) -> None:
    """Nobody is told of an annotation of ours that none of his pods has."""
    spec = told_by(a_member(form, one), a_member(form, other))
    assert isinstance(spec, Refuse)
    assert (spec.reason, (spec.field, spec.value)) == (Reason.CONFLICT, complaint)


@pytest.mark.parametrize(
    ("form", "minima", "role", "key"),
    [
        (
            "yunikorn",
            {YUNIKORN + "task-groups": GROUPS},
            {YUNIKORN + "task-group-name": "boss"},
            YUNIKORN + "task-group-name",
        ),
        (
            "ours",
            {OURS + "min-members": "driver=2", OURS + "role": "driver"},
            {OURS + "min-members": "boss=2", OURS + "role": "boss"},
            OURS + "role",
        ),
    ],
)
def test_a_role_without_a_minimum_is_named_in_the_words_of_its_format(form, minima, role, key: str) -> None:
    """The key of the label or annotation that states the role."""
    stranger = replace(a_member(form, role), quorum=None)
    spec = told_by(a_member(form, minima), stranger)
    assert isinstance(spec, Refuse)
    assert (spec.field, spec.value) == (key, "boss")


def test_a_declared_runtime_is_the_first_members() -> None:
    """It need not be said alike, so nobody speaks for others."""
    silent, speaker = a_member("ours", {}), a_member("ours", {OURS + "expected-runtime": "1h"})
    assert gang_spec.together([silent, speaker]).wish.expected_runtime is None
    assert gang_spec.together([speaker, silent]).wish.expected_runtime == 3600.0


def test_a_max_runtime_is_said_alike() -> None:
    """It ends all members, so one that says nothing and one that says something disagree."""
    spec = told_by(a_member("ours", {}), a_member("ours", {OURS + "max-runtime": "1h"}))
    assert isinstance(spec, Refuse)
    assert (spec.reason, spec.field) == (Reason.CONFLICT, OURS + "max-runtime")


def test_a_spark_driver_whose_task_groups_name_executors_waits_for_them() -> None:
    """No placeholders are placed: who alone could make the executors is not let go before they are there."""
    desk = Desk()
    driver = a_member("yunikorn", {YUNIKORN + "task-groups": GROUPS})
    desk.see(a_pod("g-0", namespace="team", membership=driver))
    desk.wait(3600)
    record = desk.record("g", "team")
    assert record.wanted is None
    assert conditions.sentence(record, conditions.reason(record)).endswith("1 of 3 exist")
