"""What the master reads off pods and nodes."""

import msgspec
import pytest

from scheduler.elastic.controller.decode import doom, known
from scheduler.elastic.controller.pod_template import SURPLUS, Owner, Worker, manifest
from scheduler.elastic.job import Spec
from scheduler.objects import api
from tests.elastic.controller.support.house import KIT, TEMPLATE

OWNER = Owner("team", "train", "uid-job")


def pod(worker=None, status=None, **meta):
    made = manifest(OWNER, Spec(template=TEMPLATE, min_workers=2), worker or Worker("train-3-x", 3), KIT)
    made["metadata"] |= {"uid": "uid-3", "creationTimestamp": "2026-01-01T00:00:00Z", **meta}
    return msgspec.convert({**made, "status": status or {}}, api.Pod)


def test_what_was_made_is_known_again():
    """Number, role, gate and quorum of a worker as it was written."""
    found = known(pod(Worker("train-3-x", 3, SURPLUS)))

    assert (found.owner, found.quorum) == (OWNER, "2")
    seen = found.seen
    assert (seen.uid, seen.name, seen.number, seen.role) == ("uid-3", "train-3-x", 3, "surplus")
    assert (seen.gated, seen.deleting, seen.phase, seen.node) == (True, False, "Pending", "")
    assert seen.since == 1767225600.0


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


def test_the_end_of_a_message_stands():
    """A runtime names the fault last, behind the image and every road on which it was looked for."""
    message = f'failed to pull and unpack image "{"registry.example/team/" * 9}train:1": 401 Unauthorized'
    stuck = pod(status={"phase": "Pending", "containerStatuses": waiting("ErrImagePull", message)})
    assert known(stuck).seen.waiting.startswith("ErrImagePull: failed to pull")
    assert known(stuck).seen.waiting.endswith("401 Unauthorized")


def ended(name="worker", code=1, reason="Error", message="", **more):
    return {
        "name": name,
        "state": {"terminated": {"exitCode": code, "reason": reason, "message": message}},
        **more,
    }


RUNC = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable "
    'to start container process: error during container init: exec: "python": executable file not found in $PATH: unknown'
)
"""What containerd says of an image without the command."""

LIMITED = {"resources": {"limits": {"memory": "6Gi"}}}
CAUSES = {
    "no limit": (
        {"containerStatuses": [ended(code=137, reason="OOMKilled")]},
        "OOMKilled: container worker has no memory limit, and was killed when its node ran out of memory",
    ),
    "the limit in force": (
        {"containerStatuses": [ended(code=137, reason="OOMKilled", **LIMITED)]},
        "OOMKilled: container worker exceeded its memory limit of 6Gi",
    ),
    "of an init container": (
        {"initContainerStatuses": [ended("agent", 137, "OOMKilled", **LIMITED)]},
        "OOMKilled: init container agent exceeded its memory limit of 6Gi",
    ),
    "want of memory before other reasons": (
        {"containerStatuses": [ended("a", 143), ended("b", 128, "StartError"), ended("c", 137, "OOMKilled", **LIMITED)]},
        "OOMKilled: container c exceeded its memory limit of 6Gi",
    ),
    "no command": (
        {"containerStatuses": [ended(code=128, reason="StartError", message='exec: "python": not found')]},
        'StartError: container worker: exec: "python": not found',
    ),
    "another runtime": (
        {"containerStatuses": [ended(code=127, reason="ContainerCannotRun")]},
        "ContainerCannotRun: container worker exited with code 127",
    ),
    "evicted": (
        {
            "reason": "Evicted",
            "message": "The node was low on resource: memory. ",
            "containerStatuses": [ended(code=137, reason="OOMKilled", **LIMITED)],
        },
        "Evicted: The node was low on resource: memory.",
    ),
    "preempted by its kubelet": ({"reason": "Preempting", "message": "for a critical pod"}, "Preempting: for a critical pod"),
    "a device is gone": ({"reason": "UnexpectedAdmissionError", "message": "no\n gpu"}, "UnexpectedAdmissionError: no gpu"),
    "not admitted": ({"reason": "NodeAffinity"}, "NodeAffinity"),
}  # fmt: skip


@pytest.mark.parametrize(("status", "cause"), CAUSES.values(), ids=CAUSES)
def test_why_a_pod_ended(status, cause):
    """What is wrong with the pod as a whole comes first, then want of memory, then other reasons of its containers."""
    seen = known(pod(status={"phase": "Failed", **status})).seen

    assert (seen.cause, seen.plain) == (cause, False)


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (
            {"containerStatuses": [ended()], "initContainerStatuses": [ended("proxy", 137)]},
            "Error: container worker exited with code 1",
        ),
        ({"initContainerStatuses": [ended("fetch", 3)]}, "Error: init container fetch exited with code 3"),
        ({"containerStatuses": [ended(message="bad\nwords")]}, "Error: container worker: bad words"),
        ({"containerStatuses": [ended(reason="")]}, "container worker exited with code 1"),
        (
            {"containerStatuses": [ended(code=137, reason="ContainerStatusUnknown")]},
            "ContainerStatusUnknown: container worker exited with code 137",
        ),
    ],
)
def test_an_end_that_says_no_more_than_its_code(status, cause):
    """Its agent knows better. An init container has none, and comes after those that it was there for."""
    seen = known(pod(status={"phase": "Failed", **status})).seen

    assert (seen.cause, seen.plain) == (cause, True)


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": [ended(code=0, reason="Completed")]},
        {"containerStatuses": [ended(code=0, reason="OOMKilled")]},
        {"containerStatuses": [{"name": "worker", "state": {"running": {}}}, {"name": "x"}]},
        {"containerStatuses": None, "initContainerStatuses": None},
    ],
)
def test_what_has_not_failed_has_no_cause(status):
    """A child that was killed for memory leaves its mark on a container that ended well."""
    assert known(pod(status=status)).seen.cause == ""


@pytest.mark.parametrize(
    ("where", "cause"),
    [
        ("container", "exceeded its memory limit of 4Gi"),
        ("pod", "exceeded its pod's memory limit of 8Gi"),
    ],
)
def test_which_limit_was_exceeded(where, cause):
    """The container's own, else that of its pod."""
    limits = {"container": {"memory": "4Gi"}, "pod": {"memory": "8Gi"}}
    template = {"spec": {"containers": [{"name": "train", "image": "i"}]}}
    holder = template["spec"] if where == "pod" else template["spec"]["containers"][0]
    holder["resources"] = {"limits": limits[where]}
    made = manifest(OWNER, Spec(template=template, min_workers=2), Worker("train-3-x", 3), KIT)
    status = {"phase": "Failed", "containerStatuses": [ended("train", 137, "OOMKilled")]}
    seen = known(msgspec.convert({**made, "status": status}, api.Pod)).seen

    assert seen.cause == f"OOMKilled: container train {cause}"


def test_words_of_a_runtime_are_bounded():
    """One line of some two hundred characters, with the end, where the fault is named."""
    long = known(pod(status={"containerStatuses": [ended(code=128, reason="StartError", message=RUNC)]})).seen
    evil = known(pod(status={"reason": "x" * 9999, "message": "y\n" * 9999})).seen

    assert long.cause.endswith('exec: "python": executable file not found in $PATH: unknown')
    assert max(len(long.cause), len(evil.cause)) < 260
    assert "\n" not in evil.cause


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
        ({"spec": {"taints": [{"key": "going"}]}}, "tainted with going"),
        ({"spec": {"taints": [{"key": "staying"}]}}, ""),
        (
            {"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
            "being deleted",
        ),
    ],
)
def test_a_node_that_is_about_to_go(changes, why):
    """A cordon, a configured taint, a deletion; nothing else."""
    node = msgspec.convert({"metadata": {"name": "n"}, **changes}, api.Node)

    assert doom(node, ("gone", "going")) == why
