"""Keys under our prefix that nobody reads: what was meant is said, and the pod counts all the same."""

import pytest
import yaml

from scheduler.model.workload import Complaint
from scheduler.objects import labels
from scheduler.objects.parsing import KNOWN, MOST_KEYS, REMOVED, slips
from tests.objects.reading import pod_of

OURS = labels.OURS
GANG = {labels.GANG: "g"}
TWO = {labels.MIN_MEMBERS: "2"}

SLIPS = {
    "a letter is missing": (
        {},
        {OURS + "stratgy": "spread"},
        OURS + "stratgy",
        "annotation " + labels.STRATEGY,
    ),
    "one of many": ({}, {OURS + "min-member": "2"}, OURS + "min-member", "annotation " + labels.MIN_MEMBERS),
    "an annotation as a label": (TWO, {}, labels.MIN_MEMBERS, "annotation " + labels.MIN_MEMBERS),
    "a label as an annotation": ({}, {labels.SURPLUS: "true"}, labels.SURPLUS, "label " + labels.SURPLUS),
    "the training's own": ({}, {OURS + "checkpoint-at": "x"}, OURS + "checkpoint-at", labels.CHECKPOINTED_AT),
}


def a_pod(own, annotations):
    meta = {"name": "p", "namespace": "team", "uid": "u", "labels": own, "annotations": annotations}
    return pod_of(yaml.safe_dump({"metadata": meta, "spec": {"schedulerName": "gangwright"}}))


@pytest.mark.parametrize(("own", "annotations", "key", "meant"), SLIPS.values(), ids=SLIPS.keys())
def test_a_slip_is_said_and_refuses_nothing(own, annotations, key, meant):
    """The member of a gang that has a misspelt or misplaced key counts, and the complaint names the right one."""
    pod = a_pod(GANG | own, TWO | annotations)

    assert pod.membership is not None
    (complaint,) = pod.complaints
    assert (complaint.field, complaint.fatal) == (key, False)
    assert f"{meant}; this key is ignored" in complaint.remedy


@pytest.mark.parametrize("key", REMOVED)
def test_a_removed_key_is_said_and_refuses_nothing(key):
    """What the version before this one read is not read, and the complaint says what to write instead."""
    pod = a_pod(GANG, {**TWO, key: "0.25"})

    assert pod.membership is not None
    assert pod.complaints == (Complaint(key, "0.25", REMOVED[key], fatal=False),)
    assert REMOVED[key].startswith("remove it")
    assert key not in KNOWN


def test_a_pod_without_a_gang_is_told_too():
    """A pod whose only word of ours is misspelt is a plain pod with a complaint."""
    pod = a_pod({OURS + "gnag": "g"}, {})

    remedy = f"use the label {labels.GANG}; this key is ignored"
    assert (pod.membership, pod.complaints) == (None, (Complaint(OURS + "gnag", "g", remedy, fatal=False),))


def test_words_of_others_are_left_alone():
    """A key under our prefix that resembles none of ours, and every key of ours in its place, is no slip."""
    mine = dict.fromkeys((labels.PLAN, labels.SEAT, labels.CHECKPOINTED_AT, labels.STRATEGY), "")

    assert slips(None, {OURS + "port": "1", OURS + "runs-for": "3", **mine}) == []
    assert slips({**GANG, labels.SURPLUS: "true", "app": "x"}, None) == []


def test_thousands_of_keys_cost_no_more_than_a_few():
    """Only the first of many are looked at."""
    many = {f"{OURS}strateg{number}": "x" for number in range(1000)}

    assert len(slips(None, many)) == MOST_KEYS
