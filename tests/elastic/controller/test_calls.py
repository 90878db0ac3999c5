"""Requests to the API server: bodies, preconditions, and the difference of two statuses."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.elastic.controller import requests
from scheduler.elastic.controller.pod_template import Owner
from scheduler.settings import Confinement
from tests.kube.support.writable import merged

OWNER = Owner("team", "train", "uid-job")
scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
objects = st.recursive(
    scalars | st.lists(scalars, max_size=3),
    lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def without_nulls(value):
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


def body(call):
    return msgspec.json.decode(call.body)


@pytest.mark.slow
@given(*(st.dictionaries(st.text(max_size=3), objects, max_size=5).map(without_nulls) for _ in range(2)))
def test_a_difference_leads_from_one_to_the_other(old, new):
    """Merged into the old it gives the new, and between equal ones there is none."""
    assert merged(old, requests.difference(old, new)) == new
    assert requests.difference(new, new) == {}


def test_a_status_names_what_it_replaces():
    """Uid and version are compared by the API server."""
    call = requests.patch_status(OWNER, "17", {"round": 3, "batch": None})

    assert call.path == "/apis/gangwright.io/v1alpha1/namespaces/team/elasticjobs/train/status"
    assert call.content_type == "application/merge-patch+json"
    assert body(call)["metadata"] == {"uid": "uid-job", "resourceVersion": "17"}
    assert body(call)["status"] == {"round": 3, "batch": None}


def test_a_deletion_names_the_pod():
    """Another pod of the same name is not meant; the grace is whole seconds, and none below zero."""
    call = requests.delete_pod("team", "train-1-x", "uid-1", 12.6)

    assert (call.method, call.path) == ("DELETE", "/api/v1/namespaces/team/pods/train-1-x")
    assert body(call)["preconditions"] == {"uid": "uid-1"}
    assert body(call)["gracePeriodSeconds"] == 13
    assert body(requests.delete_pod("team", "p", "u", -1.0))["gracePeriodSeconds"] == 0


def test_workers_are_closed_to_others():
    """In come the job's own workers alone; out they may go anywhere, unless the settings say otherwise."""
    call = requests.confine(OWNER, Confinement.INGRESS, 10273)
    spec = body(call)["spec"]

    mine = {"podSelector": {"matchLabels": {"gangwright.io/elastic-job": "train"}}}
    assert spec["podSelector"] == mine["podSelector"]
    assert spec["ingress"] == [{"from": [mine]}]
    assert spec["policyTypes"] == ["Ingress"]
    assert call.params["force"] == "true"


def test_workers_are_confined_both_ways():
    """Out they go to each other, to the rendezvous' port and to DNS."""
    spec = body(requests.confine(OWNER, Confinement.BOTH, 443))["spec"]

    assert spec["policyTypes"] == ["Ingress", "Egress"]
    first, meeting, names = spec["egress"]
    assert first["to"] == spec["ingress"][0]["from"]
    assert meeting["ports"] == [{"port": 443, "protocol": "TCP"}]
    assert {own["port"] for own in names["ports"]} == {53}


def test_an_event_fits():
    """A note is cut at the API's limit of bytes, in the middle of no letter."""
    call = requests.tell(OWNER, "Warning", "WorkerLost", "ü" * 2000, 1_700_000_000.25)
    event = body(call)

    assert len(event["note"].encode()) <= 1024
    assert event["note"].endswith("ü…")
    assert event["eventTime"] == "2023-11-14T22:13:20.250000Z"
    assert event["regarding"]["uid"] == "uid-job"
