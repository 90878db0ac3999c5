"""Which gang a pod says it is of, in every format's own strings."""

import pytest

from scheduler.model.workload import GangKey, Membership, OnMemberLoss, Pin, Strategy, Wish
from scheduler.objects.gangs import FORMATS
from tests.objects.reading import said

OURS = "gangwright.io/"
KOORDINATOR = "gang.scheduling.koordinator.sh/"
LIGHT = "pod-group.scheduling.sigs.k8s.io"
KUEUE = "kueue.x-k8s.io/"
YUNIKORN = "yunikorn.apache.org/"
TASK_GROUPS = (
    '[{"name":"ps","minMember":1,"minResource":{"cpu":1}},{"name":"worker","minMember":4,"minResource":{}}]'
)


def member(form: str, **more: object) -> Membership:
    """A membership of the gang `team/g`."""
    return Membership(GangKey("team", "g"), form, **more)


MEMBERS = {
    "ours": ({OURS + "gang": "g"}, {OURS + "min-members": "5"}, member("gangwright", quorum={"": 5})),
    "ours, with roles": (
        {OURS + "gang": "g"},
        {OURS + "min-members": "ps=1, worker=4", OURS + "role": "worker", OURS + "members": "6"},
        member("gangwright", quorum={"ps": 1, "worker": 4}, role="worker", size=6),
    ),
    "ours, surplus": (
        {OURS + "gang": "g", OURS + "surplus": "true"},
        {OURS + "min-members": "2"},
        member("gangwright", quorum={"": 2}, surplus=True),
    ),
    "ours, with every wish": (
        {OURS + "gang": "g"},
        {
            OURS + "min-members": "2",
            OURS + "strategy": "spread",
            OURS + "level": "area",
            OURS + "level-required": "true",
            OURS + "timeout": "90s",
            OURS + "expected-runtime": "1h30m",
            OURS + "pin": "soft",
            OURS + "on-member-loss": "restart",
            OURS + "start-timeout": "20m",
            OURS + "max-runtime": "2h",
        },
        member(
            "gangwright",
            quorum={"": 2},
            wish=Wish(
                Strategy.SPREAD,
                "area",
                True,
                90.0,
                5400.0,
                Pin.SOFT,
                OnMemberLoss.RESTART,
                start_timeout=1200.0,
                max_runtime=7200.0,
            ),
        ),
    ),
    "scheduler-plugins": ({"scheduling.x-k8s.io/pod-group": "g"}, {}, member("scheduler-plugins")),
    "Volcano": ({}, {"scheduling.volcano.sh/group-name": "g"}, member("volcano")),
    "Volcano, as its jobs write it": (
        {"volcano.sh/task-spec": "worker"},
        {"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": "worker"},
        member("volcano", role="worker"),
    ),
    "Volcano, without a PodGroup": (
        {},
        {"scheduling.volcano.sh/group-name": "g", "scheduling.volcano.sh/group-min-member": "3"},
        member("volcano", quorum={"": 3}),
    ),
    "Volcano, hard topology": (
        {},
        {"scheduling.volcano.sh/group-name": "g", "volcano.sh/network-topology-mode": "hard"},
        member("volcano", wish=Wish(strategy=Strategy.PACK, required=True)),
    ),
    "Volcano, soft topology": (
        {},
        {"scheduling.volcano.sh/group-name": "g", "volcano.sh/network-topology-mode": "soft"},
        member("volcano", wish=Wish(strategy=Strategy.PACK, required=False)),
    ),
    "Koordinator, PodGroup": ({LIGHT: "g"}, {}, member("koordinator")),
    "Koordinator, two labels": (
        {LIGHT + "/name": "g", LIGHT + "/min-available": "3"},
        {},
        member("koordinator", quorum={"": 3}),
    ),
    "Koordinator, annotations": (
        {},
        {
            KOORDINATOR + "name": "g",
            KOORDINATOR + "min-available": "3",
            KOORDINATOR + "total-number": "5",
            KOORDINATOR + "waiting-time": "30s",
            KOORDINATOR + "mode": "Strict",
            KOORDINATOR + "groups": '["team/g"]',
            KOORDINATOR
            + "network-topology-spec": '{"gatherStrategy":[{"layer":"rack","strategy":"MustGather"}]}',
        },
        member(
            "koordinator",
            quorum={"": 3},
            size=5,
            wish=Wish(strategy=Strategy.PACK, level="rack", required=True, timeout=30.0),
        ),
    ),
    "Kueue, label": (
        {KUEUE + "pod-group-name": "g"},
        {KUEUE + "pod-group-total-count": "3"},
        member("kueue", quorum={"": 3}, size=3),
    ),
    "Kueue, annotation, required topology": (
        {},
        {
            KUEUE + "pod-group-name": "g",
            KUEUE + "pod-group-total-count": "3",
            KUEUE + "podset-required-topology": "topology.kubernetes.io/zone",
        },
        member(
            "kueue", quorum={"": 3}, size=3, wish=Wish(strategy=Strategy.PACK, level="area", required=True)
        ),
    ),
    "Kueue, preferred topology": (
        {KUEUE + "pod-group-name": "g"},
        {KUEUE + "pod-group-total-count": "3", KUEUE + "podset-preferred-topology": "gangwright.io/rack"},
        member(
            "kueue", quorum={"": 3}, size=3, wish=Wish(strategy=Strategy.PACK, level="rack", required=False)
        ),
    ),
    "YuniKorn": (
        {"applicationId": "g"},
        {YUNIKORN + "task-group-name": "worker", YUNIKORN + "task-groups": TASK_GROUPS},
        member("yunikorn", role="worker", quorum={"ps": 1, "worker": 4}),
    ),
    "YuniKorn, canonical label, timeout": (
        {YUNIKORN + "app-id": "g", "applicationId": "old"},
        {
            YUNIKORN + "task-group-name": "ps",
            YUNIKORN + "task-groups": TASK_GROUPS,
            YUNIKORN
            + "schedulingPolicyParameters": "placeholderTimeoutInSeconds=30 gangSchedulingStyle=Hard",
        },
        member("yunikorn", role="ps", quorum={"ps": 1, "worker": 4}, wish=Wish(timeout=30.0)),
    ),
    "YuniKorn, a later pod of the application": (
        {"applicationId": "g"},
        {YUNIKORN + "task-group-name": "worker"},
        member("yunikorn", role="worker"),
    ),
    "KAI": ({"kai.scheduler/subgroup-name": "leader"}, {"pod-group-name": "g"}, member("kai", role="leader")),
    "KAI, minimum and topology": (
        {},
        {
            "pod-group-name": "g",
            "kai.scheduler/batch-min-member": "4",
            "kai.scheduler/topology-required-placement": "rack",
        },
        member("kai", quorum={"": 4}, wish=Wish(strategy=Strategy.PACK, level="rack", required=True)),
    ),
}


@pytest.mark.parametrize(("labels", "annotations", "expected"), MEMBERS.values(), ids=MEMBERS.keys())
def test_a_member_is_read(labels: dict, annotations: dict, expected: Membership) -> None:
    """Every format in its own words, without any complaint."""
    reading = said(labels, annotations)
    assert reading.complaints == ()
    assert reading.membership == expected


PLAIN = {
    "nothing at all": ({}, {}),
    "somebody's application, without task groups": ({"applicationId": "g"}, {}),
    "a Volcano role, without a group": ({"volcano.sh/task-spec": "worker"}, {}),
    "a Kueue queue": ({"kueue.x-k8s.io/queue-name": "q"}, {}),
    "an empty name": ({"scheduling.x-k8s.io/pod-group": ""}, {}),
}


@pytest.mark.parametrize(("labels", "annotations"), PLAIN.values(), ids=PLAIN.keys())
def test_a_plain_pod_is_left_alone(labels: dict, annotations: dict) -> None:
    """No gang, and nothing to complain of."""
    assert said(labels, annotations) == (None, (), None)


GANG = {OURS + "gang": "g"}
FIVE = {OURS + "min-members": "5"}

REFUSED = {
    "no minimum": (GANG, {}, OURS + "min-members"),
    "zero": (GANG, {OURS + "min-members": "0"}, OURS + "min-members"),
    "negative": (GANG, {OURS + "min-members": "-5"}, OURS + "min-members"),
    "huge": (GANG, {OURS + "min-members": "1000000000"}, OURS + "min-members"),
    "exponent": (GANG, {OURS + "min-members": "1e9"}, OURS + "min-members"),
    "not a number": (GANG, {OURS + "min-members": "NaN"}, OURS + "min-members"),
    "200 KB": (GANG, {OURS + "min-members": "5" * 200_000}, OURS + "min-members"),
    "a line break": (GANG, {OURS + "min-members": "5\n"}, OURS + "min-members"),
    "other digits": (GANG, {OURS + "min-members": "٥"}, OURS + "min-members"),
    "a role twice": (GANG, {OURS + "min-members": "a=1,a=2", OURS + "role": "a"}, OURS + "min-members"),
    "a role of none": (GANG, {OURS + "min-members": "a=0", OURS + "role": "a"}, OURS + "min-members"),
    "a nameless role": (GANG, {OURS + "min-members": "=5"}, OURS + "min-members"),
    "roles together beyond any cluster": (
        GANG,
        {OURS + "min-members": "a=100000,b=100000", OURS + "role": "a"},
        OURS + "min-members",
    ),
    "no role among roles": (GANG, {OURS + "min-members": "ps=1,worker=4"}, OURS + "role"),
    "a role that has no minimum": (
        GANG,
        {OURS + "min-members": "ps=1", OURS + "role": "worker"},
        OURS + "role",
    ),
    "a quorum above the size": (GANG, {**FIVE, OURS + "members": "4"}, OURS + "min-members"),
    "a wrong name": ({OURS + "gang": "uid:1"}, FIVE, OURS + "gang"),
    "an empty name": ({OURS + "gang": ""}, FIVE, OURS + "gang"),
    "a wrong strategy": (GANG, {**FIVE, OURS + "strategy": "Pack"}, OURS + "strategy"),
    "a wrong flag": (GANG, {**FIVE, OURS + "level-required": "yes"}, OURS + "level-required"),
    "an endless timeout": (GANG, {**FIVE, OURS + "timeout": "inf"}, OURS + "timeout"),
    "a wrong surplus": ({**GANG, OURS + "surplus": "maybe"}, FIVE, OURS + "surplus"),
    "a minimum without a gang": ({}, FIVE, OURS + "min-members"),
    "a role beside another format": (
        {"scheduling.x-k8s.io/pod-group": "g"},
        {OURS + "role": "ps"},
        OURS + "role",
    ),
    "Volcano, no number": (
        {},
        {"scheduling.volcano.sh/group-name": "g", "scheduling.volcano.sh/group-min-member": "all"},
        "scheduling.volcano.sh/group-min-member",
    ),
    "Koordinator without a minimum": ({}, {KOORDINATOR + "name": "g"}, KOORDINATOR + "min-available"),
    "Koordinator's labels without a minimum": ({LIGHT + "/name": "g"}, {}, LIGHT + "/min-available"),
    "Kueue without a count": ({KUEUE + "pod-group-name": "g"}, {}, KUEUE + "pod-group-total-count"),
    "KAI's fraction": ({}, {"pod-group-name": "g", "gpu-fraction": "0.5"}, "gpu-fraction"),
    "KAI's memory of a GPU, without a gang": ({}, {"gpu-memory": "2000"}, "gpu-memory"),
    "KAI's fractions of several GPUs": ({}, {"gpu-fraction-num-devices": "2"}, "gpu-fraction-num-devices"),
    "KAI's memory for one container, in another format": (
        GANG,
        {**FIVE, "nvidia.com/container.main.gpu-memory.request": "1Gi"},
        "nvidia.com/container.main.gpu-memory.request",
    ),
    "YuniKorn, broken JSON": (
        {"applicationId": "g"},
        {YUNIKORN + "task-group-name": "a", YUNIKORN + "task-groups": "[{"},
        YUNIKORN + "task-groups",
    ),
    "YuniKorn, a group of none": (
        {"applicationId": "g"},
        {YUNIKORN + "task-group-name": "a", YUNIKORN + "task-groups": '[{"name":"a","minMember":0}]'},
        YUNIKORN + "task-groups",
    ),
    "YuniKorn, nested without end": (
        {"applicationId": "g"},
        {YUNIKORN + "task-group-name": "a", YUNIKORN + "task-groups": "[" * 10_000},
        YUNIKORN + "task-groups",
    ),
    "YuniKorn, another task group": (
        {"applicationId": "g"},
        {YUNIKORN + "task-group-name": "chief", YUNIKORN + "task-groups": TASK_GROUPS},
        YUNIKORN + "task-group-name",
    ),
}


@pytest.mark.parametrize(("labels", "annotations", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_wrong_is_refused(labels: dict, annotations: dict, field: str) -> None:
    """The pod is of the gang that it names, if it names one; one complaint that refuses it names the field."""
    reading = said(labels, annotations)
    assert reading.membership is None or reading.membership.refused
    assert reading.alone is None
    fatal = [complaint for complaint in reading.complaints if complaint.fatal]
    assert [complaint.field for complaint in fatal] == [field]
    assert all(len(complaint.value) <= 700 for complaint in fatal)


OVERLOOKED = {
    "Volcano's tiers": (
        {},
        {"scheduling.volcano.sh/group-name": "g", "volcano.sh/network-topology-highest-tier": "2"},
        "volcano.sh/network-topology-highest-tier",
    ),
    "Volcano, an unknown mode": (
        {},
        {"scheduling.volcano.sh/group-name": "g", "volcano.sh/network-topology-mode": "firm"},
        "volcano.sh/network-topology-mode",
    ),
    "Koordinator's NonStrict": ({LIGHT: "g"}, {KOORDINATOR + "mode": "NonStrict"}, KOORDINATOR + "mode"),
    "Koordinator's bundles": (
        {LIGHT: "g"},
        {KOORDINATOR + "groups": '["a/g","a/h"]'},
        KOORDINATOR + "groups",
    ),
    "Koordinator, a layer of nobody's": (
        {LIGHT: "g"},
        {
            KOORDINATOR
            + "network-topology-spec": '{"gatherStrategy":[{"layer":"spine","strategy":"MustGather"}]}'
        },
        KOORDINATOR + "network-topology-spec",
    ),
    "Koordinator, a total below the minimum": (
        {},
        {
            KOORDINATOR + "name": "g",
            KOORDINATOR + "min-available": "3",
            KOORDINATOR + "total-number": "2",
        },
        KOORDINATOR + "total-number",
    ),
    "Kueue, a level of nobody's": (
        {KUEUE + "pod-group-name": "g"},
        {KUEUE + "pod-group-total-count": "2", KUEUE + "podset-required-topology": "cloud/block"},
        KUEUE + "podset-required-topology",
    ),
    "Kueue's slices": (
        {KUEUE + "pod-group-name": "g"},
        {
            KUEUE + "pod-group-total-count": "2",
            KUEUE + "podset-slice-required-topology": "gangwright.io/rack",
        },
        KUEUE + "podset-slice-required-topology",
    ),
    "YuniKorn's Soft": (
        {"applicationId": "g"},
        {
            YUNIKORN + "task-group-name": "a",
            YUNIKORN + "schedulingPolicyParameters": "gangSchedulingStyle=Soft",
        },
        YUNIKORN + "schedulingPolicyParameters",
    ),
    "Spark's executors as a task group": (
        {"spark-app-selector": "g"},
        {YUNIKORN + "task-group-name": "ps", YUNIKORN + "task-groups": TASK_GROUPS},
        YUNIKORN + "task-groups",
    ),
    "KAI's segments": (
        {},
        {"pod-group-name": "g", "kai.scheduler/segment-size": "4"},
        "kai.scheduler/segment-size",
    ),
}


@pytest.mark.parametrize(("labels", "annotations", "field"), OVERLOOKED.values(), ids=OVERLOOKED.keys())
def test_what_is_not_honoured_is_said(labels: dict, annotations: dict, field: str) -> None:
    """The member counts all the same; the complaint is for people."""
    reading = said(labels, annotations)
    assert reading.membership is not None
    assert [(complaint.field, complaint.fatal) for complaint in reading.complaints] == [(field, False)]


def test_the_formats_are_tried_in_the_order_that_is_documented() -> None:
    """Ours first, KAI last."""
    names = [form.name for form in FORMATS]
    assert names == ["gangwright", "scheduler-plugins", "volcano", "koordinator", "kueue", "yunikorn", "kai"]


def test_of_two_formats_that_name_the_same_gang_the_first_counts() -> None:
    """And the second does not complete it: the quorum stays with the first one's PodGroup."""
    reading = said(
        {"scheduling.x-k8s.io/pod-group": "g", KUEUE + "pod-group-name": "g"},
        {KUEUE + "pod-group-total-count": "3"},
    )
    assert reading == (member("scheduler-plugins"), (), None)


def test_of_two_formats_that_name_different_gangs_neither_counts() -> None:
    """The complaint names both gangs and both fields."""
    reading = said({OURS + "gang": "g", "scheduling.x-k8s.io/pod-group": "h"}, FIVE)
    assert reading.membership is not None
    assert reading.membership.refused
    (complaint,) = reading.complaints
    assert complaint.fatal
    assert (complaint.field, complaint.value) == (OURS + "gang", "g and h")
    assert "scheduling.x-k8s.io/pod-group" in complaint.remedy


def test_our_wishes_count_for_the_gangs_of_others() -> None:
    """And above what the other format wishes; what we do not say stays theirs."""
    reading = said(
        {"kueue.x-k8s.io/pod-group-name": "g", OURS + "surplus": "true"},
        {
            KUEUE + "pod-group-total-count": "3",
            KUEUE + "podset-required-topology": "gangwright.io/rack",
            OURS + "level": "host",
            OURS + "pin": "soft",
        },
    )
    assert reading.membership is not None
    assert reading.membership.surplus
    assert reading.membership.wish == Wish(Strategy.PACK, "host", True, pin=Pin.SOFT)


def test_a_pod_without_a_gang_may_have_wishes() -> None:
    """They are told apart from a membership, which has a gang's name."""
    reading = said({}, {OURS + "expected-runtime": "2h"})
    assert reading.membership is None
    assert reading.alone == Wish(expected_runtime=7200.0)


def test_a_removed_strategy_is_read_as_its_nearest() -> None:
    """The strategy `dot` is taken as `cosine`, and a complaint that refuses nothing says so."""
    reading = said(GANG, {**FIVE, OURS + "strategy": "dot"})

    assert reading.membership is not None
    assert (reading.membership.wish.strategy, reading.membership.refused) == (Strategy.COSINE, False)
    assert [(own.field, own.value, own.fatal) for own in reading.complaints] == [
        (OURS + "strategy", "dot", False)
    ]
    assert reading.complaints[0].remedy.startswith("use cosine")


def test_an_unfit_value_is_shown_shortened_and_escaped() -> None:
    """Nobody's terminal is written to by a stranger's annotation."""
    (complaint,) = said(GANG, {OURS + "min-members": "\x1b[2J\n" + "x" * 100}).complaints
    assert complaint.value.isprintable()
    assert len(complaint.value) < 100
