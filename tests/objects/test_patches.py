"""Effects as calls: every body to the byte, because the trust policy and other controllers read them too."""

import json
import re

import pytest

from scheduler.model.decision import Reason
from scheduler.model.demand import Operator, Requirement, Term
from scheduler.model.effects import (
    Announce,
    Effect,
    Evict,
    Nominate,
    ResumeJob,
    SetCondition,
    SuspendJob,
    Ungate,
    WritePlan,
)
from scheduler.model.workload import GangKey, Owner, PodKey, Uid
from scheduler.objects.patches import STRATEGIC, Call, calls, let_go
from scheduler.objects.pod_annotations import read_plan, read_seat

GANG, UID, KEY = GangKey("team", "g"), Uid("u-1"), PodKey("team", "p-0")
POD = "/api/v1/namespaces/team/pods/p-0"
EVENTS = "/apis/events.k8s.io/v1/namespaces/team/events"
NOW = 1_767_225_600.25
PIN = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
ZONE = Term((Requirement("zone", Operator.IN, ("b", "a")),))


def ungate(**more: object) -> Ungate:
    return Ungate(GANG, UID, KEY, "plan-1", "n1", **more)


def pinned_with(terms: list) -> dict:
    required = {"nodeSelectorTerms": terms}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


SEAT = {"gangwright.io/seat": '{"node":"n1","plan":"plan-1"}'}
PINNED_SEAT = {"gangwright.io/seat": '{"node":"n1","plan":"plan-1","pin":true}'}
OPEN = [{"$patch": "delete", "name": "gangwright.io/planned"}]
SINGLE = {
    "write the plan": (
        WritePlan(GANG, UID, KEY, "plan-1", {Uid("b"): "n2", Uid("a"): "n1"}),
        "PATCH",
        POD,
        "application/merge-patch+json",
        {
            "metadata": {
                "uid": "u-1",
                "annotations": {"gangwright.io/plan": '{"plan":"plan-1","seats":{"n1":["a"],"n2":["b"]}}'},
            }
        },
    ),
    "take the plan away": (
        WritePlan(GANG, UID, KEY, "", {}),
        "PATCH",
        POD,
        "application/merge-patch+json",
        {"metadata": {"uid": "u-1", "annotations": {"gangwright.io/plan": None}}},
    ),
    "ungate without a pin": (
        ungate(pin=False, affinity=(ZONE,)),
        "PATCH",
        POD,
        "application/strategic-merge-patch+json",
        {"metadata": {"uid": "u-1", "annotations": SEAT}, "spec": {"schedulingGates": OPEN}},
    ),
    "ungate and pin": (
        ungate(pin=True),
        "PATCH",
        POD,
        "application/strategic-merge-patch+json",
        {
            "metadata": {"uid": "u-1", "annotations": PINNED_SEAT},
            "spec": {"schedulingGates": OPEN, "affinity": pinned_with([{"matchFields": [PIN]}])},
        },
    ),
    "ungate and narrow": (
        ungate(pin=True, affinity=(ZONE, Term())),
        "PATCH",
        POD,
        "application/strategic-merge-patch+json",
        {
            "metadata": {"uid": "u-1", "annotations": PINNED_SEAT},
            "spec": {
                "schedulingGates": OPEN,
                "affinity": pinned_with(
                    [
                        {
                            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "a"]}],
                            "matchFields": [PIN],
                        },
                        {},
                    ]
                ),
            },
        },
    ),
    "nominate": (
        Nominate(GANG, UID, KEY, "plan-1", "n1"),
        "PATCH",
        POD + "/status",
        "application/merge-patch+json",
        {"metadata": {"uid": "u-1"}, "status": {"nominatedNodeName": "n1"}},
    ),
    "clear a nomination": (
        Nominate(GANG, UID, KEY, "", ""),
        "PATCH",
        POD + "/status",
        "application/merge-patch+json",
        {"metadata": {"uid": "u-1"}, "status": {"nominatedNodeName": None}},
    ),
    "evict": (
        Evict(GANG, UID, KEY, Reason.PIN_BROKEN),
        "POST",
        POD + "/eviction",
        "application/json",
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "p-0", "namespace": "team"},
            "deleteOptions": {"preconditions": {"uid": "u-1"}},
        },
    ),
}


@pytest.mark.parametrize(("effect", "method", "path", "kind", "body"), SINGLE.values(), ids=SINGLE.keys())
def test_an_effect_is_one_call(effect: Effect, method: str, path: str, kind: str, body: dict) -> None:
    """Method, path, content type and body."""
    (call,) = calls(effect, NOW)
    assert (call.method, call.path, call.content_type) == (method, path, kind)
    assert json.loads(call.body) == body


def test_patches_name_their_manager() -> None:
    """Otherwise the API server calls us `unknown` in managedFields; evictions manage no fields."""
    assert [dict(call.params) for call in calls(ungate(pin=True), NOW)] == [{"fieldManager": "gangwright"}]
    assert [dict(call.params) for call in calls(Evict(GANG, UID, KEY, Reason.PIN_BROKEN), NOW)] == [{}]


def test_what_is_written_is_what_is_read() -> None:
    """The annotations in the bodies are those that a restart reads."""
    (seat,) = calls(ungate(pin=True), NOW)
    (plan,) = calls(WritePlan(GANG, UID, KEY, "plan-1", {UID: "n1"}), NOW)
    annotations = [json.loads(call.body)["metadata"]["annotations"] for call in (seat, plan)]
    assert read_seat(annotations[0]["gangwright.io/seat"]).node == "n1"
    assert read_plan(annotations[1]["gangwright.io/plan"]).seats == {UID: "n1"}


def announced(**more: object) -> tuple[Call, ...]:
    words: dict = {
        "reason": Reason.INSUFFICIENT_RESOURCES,
        "message": "Insufficient resources",
        "owner": None,
    } | more
    return calls(Announce(GANG, UID, KEY, words.pop("owner"), **words), NOW)


OWNER = Owner("Job", "train", "o-1", "batch/v1")
POD_REFERENCE = {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "p-0", "uid": "u-1"}


def test_a_pod_is_let_go_with_nothing_in_its_hands() -> None:
    """Our gate goes from that very pod, and neither a seat nor a pin comes, as it would with an ungating."""
    call = let_go(KEY, UID)

    assert (call.method, call.path) == ("PATCH", POD)
    assert call.content_type == "application/strategic-merge-patch+json"
    assert json.loads(call.body) == {"metadata": {"uid": "u-1"}, "spec": {"schedulingGates": OPEN}}


OWNER_REFERENCE = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "namespace": "team",
    "name": "train",
    "uid": "o-1",
}


def test_people_are_told_on_the_pod_and_on_its_owner() -> None:
    """Two events and a condition; the owner's event names the pod beside it."""
    pod, owner, condition = announced(owner=OWNER, seated=False)
    told = json.loads(pod.body)
    name = told["metadata"]["name"]
    assert (pod.method, pod.path) == ("PATCH", f"{EVENTS}/{name}")
    assert pod.content_type == "application/apply-patch+yaml"
    assert dict(pod.params) == {"fieldManager": "gangwright", "force": "true"}
    assert name.startswith("p-0-")
    assert owner.path.startswith(f"{EVENTS}/train-")
    assert told == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "team", "name": name},
        "eventTime": "2026-01-01T00:00:00.250000Z",
        "reportingController": "gangwright.io/extender",
        "reportingInstance": "gangwright.io/extender",
        "action": "Placing",
        "reason": "InsufficientResources",
        "note": "Insufficient resources",
        "type": "Warning",
        "regarding": POD_REFERENCE,
    }
    assert json.loads(owner.body)["regarding"] == OWNER_REFERENCE
    assert json.loads(owner.body)["related"] == POD_REFERENCE
    assert (condition.method, condition.path) == ("PATCH", POD + "/status")
    assert json.loads(condition.body) == {
        "metadata": {"uid": "u-1"},
        "status": {
            "conditions": [
                {
                    "type": "gangwright.io/Seated",
                    "status": "False",
                    "reason": "InsufficientResources",
                    "message": "Insufficient resources",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        },
    }


def test_a_warning_leaves_the_condition_alone() -> None:
    """Where `seated` is None only the event is written."""
    (call,) = announced(reason=Reason.IGNORED_FIELD)
    assert call.path.startswith(EVENTS)


def test_what_is_said_again_is_the_same_event() -> None:
    """Only its series changes: the API server takes no other note, and no other time of the first one."""
    first, again = [
        json.loads(
            calls(
                Announce(
                    GANG, UID, KEY, None, Reason.INSUFFICIENT_RESOURCES, "m", since=NOW - 60, count=count
                ),
                at,
            )[0].body
        )
        for count, at in [(1, NOW - 60), (3, NOW)]
    ]

    assert "series" not in first
    assert again.pop("series") == {"count": 3, "lastObservedTime": "2026-01-01T00:00:00.250000Z"}
    assert again == first


@pytest.mark.parametrize(
    "other",
    [
        {"message": "other numbers"},
        {"reason": Reason.TOPOLOGY_UNSATISFIED},
        {"since": NOW - 30},
        {"uid": Uid("u-2")},
    ],
    ids=str,
)
def test_what_is_said_otherwise_is_another_event(other: dict) -> None:
    """Other words, another pod of this name, or the same words after a restart."""
    words = {"uid": UID, "reason": Reason.INSUFFICIENT_RESOURCES, "message": "m", "since": NOW - 60}
    paths = [
        calls(Announce(GANG, key=KEY, owner=None, **(words | more)), NOW)[0].path for more in ({}, other)
    ]
    assert paths[0] != paths[1]


def test_a_condition_is_set_without_an_event() -> None:
    """What the other members of a gang say of it is written on them alone."""
    (call,) = calls(
        SetCondition(GANG, UID, KEY, Reason.INSUFFICIENT_RESOURCES, "m", seated=False, turned=True), NOW
    )

    assert (call.method, call.path, call.content_type) == ("PATCH", POD + "/status", STRATEGIC)
    (told,) = json.loads(call.body)["status"]["conditions"]
    assert (told["status"], told["reason"], told["message"]) == ("False", "InsufficientResources", "m")
    assert told["lastTransitionTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(("reason", "kind"), [(Reason.SEATED, "Normal"), (Reason.INVALID_SPEC, "Warning")])
def test_an_event_warns_when_somebody_must_act(reason: Reason, kind: str) -> None:
    """Good news and passing states are Normal."""
    assert json.loads(announced(reason=reason)[0].body)["type"] == kind


def test_every_reason_makes_an_event_that_the_api_takes() -> None:
    """A reason has at most 128 bytes and a note at most 1024, whatever the message."""
    for reason in Reason:
        told = json.loads(announced(reason=reason, message="für × " * 1000)[0].body)
        assert 0 < len(told["reason"].encode()) <= 128
        assert len(told["note"].encode()) <= 1024
        assert told["note"].endswith("…")


def test_an_events_name_can_be_made_from_any_pods_name() -> None:
    """It is short enough, and no dot or dash stands before what tells it from others."""
    key = PodKey("team", "a" * 49 + "-." + "b" * 200)
    (call,) = calls(Announce(GANG, UID, key, None, Reason.SEATED, "m"), NOW)
    assert re.fullmatch("a{49}-[0-9a-f]{16}", json.loads(call.body)["metadata"]["name"])


def test_a_condition_that_says_the_same_keeps_its_time() -> None:
    """What a gang waits for may change every few seconds; since when it waits does not."""
    again = Announce(
        GANG, UID, KEY, None, Reason.INSUFFICIENT_RESOURCES, "other numbers", seated=False, turned=False
    )

    (status,) = [call for call in calls(again, NOW) if call.path.endswith("/status")]

    (told,) = json.loads(status.body)["status"]["conditions"]
    assert "lastTransitionTime" not in told
    assert told["message"] == "other numbers"


def test_a_pod_that_is_evicted_for_a_gang_says_so_itself() -> None:
    """Kubernetes' own condition gets our reason and our words, so that a failure policy and a reader find both."""
    *events, status = announced(reason=Reason.PREEMPTED, message="for a gang", owner=OWNER, disrupted=True)

    assert [json.loads(call.body)["reason"] for call in events] == ["Preempted", "Preempted"]
    assert {json.loads(call.body)["type"] for call in events} == {"Warning"}
    assert (status.path, status.content_type) == (f"{POD}/status", "application/strategic-merge-patch+json")
    body = json.loads(status.body)
    assert body["metadata"] == {"uid": "u-1"}
    (condition,) = body["status"]["conditions"]
    assert condition.pop("lastTransitionTime").endswith("Z")
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptedByGang",
        "message": "for a gang",
    }


def test_a_job_is_suspended_and_resumed_by_its_uid() -> None:
    """That it was us, and what it has had, is written on the Job; resumed, only what it has had stays there."""
    key = PodKey("team", "train")
    (suspend,) = calls(SuspendJob(GANG, UID, key, OWNER, 1234.4), NOW)
    (resume,) = calls(ResumeJob(GANG, UID, key, OWNER), NOW)

    assert suspend.path == resume.path == "/apis/batch/v1/namespaces/team/jobs/train"
    assert json.loads(suspend.body) == {
        "metadata": {
            "uid": OWNER.uid,
            "annotations": {
                "gangwright.io/paused": "2026-01-01T00:00:00Z",
                "gangwright.io/attained": "1234",
                "gangwright.io/stay-suspended": None,
            },
        },
        "spec": {"suspend": True},
    }
    words = {"gangwright.io/paused": None, "gangwright.io/stay-suspended": None}
    assert json.loads(resume.body) == {
        "metadata": {"uid": OWNER.uid, "annotations": words},
        "spec": {"suspend": False},
    }


def test_a_job_that_is_ended_stays_suspended() -> None:
    """The reason stands on it, and not the mark of Jobs that Gangwright resumes."""
    stays = Reason.RUNTIME_EXCEEDED
    (suspend,) = calls(SuspendJob(GANG, UID, PodKey("team", "train"), OWNER, 7.0, stays=stays), NOW)

    assert json.loads(suspend.body)["metadata"]["annotations"] == {
        "gangwright.io/paused": None,
        "gangwright.io/attained": "7",
        "gangwright.io/stay-suspended": "RuntimeExceeded",
    }


@pytest.mark.parametrize(
    "effect",
    [
        SuspendJob(GANG, UID, PodKey("team", "train"), OWNER, 0.0, version="17"),
        ResumeJob(GANG, UID, PodKey("team", "train"), OWNER, version="17"),
    ],
)
def test_a_job_is_changed_as_it_was_seen(effect) -> None:
    """The version that was looked at goes along, so that the API server refuses when a person was there first."""
    (call,) = calls(effect, NOW)

    assert json.loads(call.body)["metadata"]["resourceVersion"] == "17"
