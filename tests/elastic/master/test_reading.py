"""What the master reads off pods and nodes."""

import msgspec
import pytest

from scheduler.elastic.job import Spec
from scheduler.elastic.master.reading import doom, known, moment
from scheduler.elastic.workers import SURPLUS, Owner, Worker, manifest
from scheduler.objects import api
from tests.elastic.master.house import KIT, TEMPLATE

OWNER = Owner("team", "train", "uid-job")


def pod(worker=None, status=None, **meta):
    made = manifest(OWNER, Spec(template=TEMPLATE, min_workers=2), worker or Worker("train-3-x", 3), KIT)
    made["metadata"] |= {"uid": "uid-3", "creationTimestamp": "2026-01-01T00:00:00Z", **meta}
    return msgspec.convert({**made, "status": status or {}}, api.Pod)


def test_what_was_made_is_known_again():
    """Number, role, gate and quorum of a worker as it was written."""
    found = known(pod(Worker("train-3-x", 3, SURPLUS, 0.5)))

    assert (found.owner, found.quorum) == (OWNER, "2")
    seen = found.seen
    assert (seen.uid, seen.name, seen.number, seen.role) == ("uid-3", "train-3-x", 3, "surplus")
    assert (seen.gated, seen.deleting, seen.phase, seen.node) == (True, False, "Pending", "")
    assert seen.since == moment("2026-01-01T00:00:00Z") == 1767225600.0


def test_whether_it_is_surplus_is_what_the_master_wrote():
    """The role is the master's own label; the scheduler's of the same meaning, put there by others, changes nothing."""
    made = manifest(OWNER, Spec(template=TEMPLATE, min_workers=2), Worker("train-3-x", 3), KIT)["metadata"]

    assert known(pod(labels=made["labels"] | {"gangwright.io/surplus": "true"})).seen.role == "core"


def test_a_pod_that_goes():
    """A deletion under way is seen."""
    assert known(pod(deletionTimestamp="2026-01-01T00:00:00Z")).seen.deleting


@pytest.mark.parametrize(
    "meta",
    [
        {"ownerReferences": []},
        {"ownerReferences": [{"kind": "Job", "apiVersion": "batch/v1", "name": "train", "controller": True}]},
        {
            "ownerReferences": [
                {"kind": "ElasticJob", "apiVersion": "other.io/v1", "name": "train", "controller": True}
            ]
        },
        {
            "ownerReferences": [
                {"kind": "ElasticJob", "apiVersion": "gangwright.io/v1alpha1", "name": "train"}
            ]
        },
        {"labels": {"gangwright.io/elastic-job": "other"}},
        {"labels": None},
    ],
)
def test_what_is_no_worker(meta):
    """Only a pod whose controller is the ElasticJob that its label names."""
    assert known(pod(**meta)) is None


def waiting(reason, message=""):
    return [{"name": "c", "state": {"waiting": {"reason": reason, "message": message}}}]


def test_why_it_does_not_start():
    """What a person must mend is told with kubelet's words; what passes by itself is not."""
    stuck = pod(
        status={"phase": "Pending", "containerStatuses": waiting("ImagePullBackOff", "no such image")}
    )
    agent = pod(status={"phase": "Pending", "initContainerStatuses": waiting("ErrImagePull")})
    usual = pod(status={"phase": "Pending", "containerStatuses": waiting("ContainerCreating")})

    assert known(stuck).seen.waiting == "ImagePullBackOff: no such image"
    assert known(agent).seen.waiting == "ErrImagePull"
    assert known(usual).seen.waiting == ""


@pytest.mark.parametrize("number", ["", "x", "-1", "1" * 40])
def test_a_number_that_is_none(number):
    """Somebody changed the annotation: the number is not known."""
    found = known(pod(annotations={"gangwright.io/elastic-number": number}))

    assert found.seen.number == 0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"spec": {"unschedulable": True}}, "cordoned"),
        ({"spec": {"taints": [{"key": "going"}]}}, "taint going"),
        ({"spec": {"taints": [{"key": "staying"}]}}, ""),
        (
            {"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
            "the node is being deleted",
        ),
    ],
)
def test_a_node_that_is_about_to_go(changes, why):
    """A cordon, a configured taint, a deletion; nothing else."""
    node = msgspec.convert({"metadata": {"name": "n"}, **changes}, api.Node)

    assert doom(node, ("gone", "going")) == why


@pytest.mark.parametrize("text", [None, "", "yesterday"])
def test_no_time(text):
    """What is no time is none."""
    assert moment(text) is None
