"""What is free for further workers, by simple arithmetic over nodes and pods."""

import msgspec
import pytest

from scheduler.elastic.controller.capacity import Room
from scheduler.elastic.sizing import size
from scheduler.elastic.sizing.job_view import JobView
from scheduler.objects import api, pod_annotations

GPU = "nvidia.com/gpu"


def node(name="n0", *, gpus=8, cpu="32", labels=None, taints=(), cordoned=False):
    made = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"unschedulable": cordoned, "taints": list(taints)},
        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110", GPU: str(gpus)}},
    }
    return msgspec.convert(made, api.Node)


def written(gpus=1, **spec):
    containers = [{"name": "main", "resources": {"requests": {"cpu": "2", GPU: str(gpus)}}}]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


def pod(uid="u", *, on="", phase="Pending", gpus=1, annotations=None):
    made = written(gpus, nodeName=on)
    made["metadata"] |= {"uid": uid, "annotations": annotations or {}}
    return msgspec.convert({**made, "status": {"phase": phase}}, api.Pod)


def room(*nodes, pods=()):
    made = Room()
    for own in nodes:
        made.node_seen(own)
    for own in pods:
        made.pod_seen(own)
    return made


def fits(made, template, most=100):
    """So many further workers the policy `offer` gets."""
    free, takes = made.offer({"team/train": template})
    view = JobView(name="team/train", min=1, max=most, size=1, held=0, worker=takes["team/train"])
    return size([view], free)["team/train"].size


def test_what_is_allocatable_less_what_is_taken():
    """Bound pods take their room, whoever's they are; ended ones do not."""
    pods = [pod("a", on="n0", gpus=3), pod("b", on="n0", gpus=2, phase="Succeeded")]

    assert fits(room(node(), pods=pods), written()) == 5


def test_a_worker_needs_all_of_it_on_one_node():
    """What is left over on several nodes is no room."""
    pods = [pod(f"p{n}", on=f"n{n}", gpus=6) for n in range(2)]

    assert fits(room(node("n0"), node("n1"), pods=pods), written(gpus=2)) == 2
    assert fits(room(node("n0"), node("n1"), node("n2"), pods=pods), written(gpus=4)) == 2


def test_a_seat_is_taken_before_it_is_bound():
    """A pod to which the scheduler gave a node takes room there."""
    seated = pod(
        "s", gpus=5, annotations={"gangwright.io/seat": pod_annotations.write_seat("n0", "plan", pin=True)}
    )

    assert fits(room(node(), pods=[seated]), written()) == 3


def test_nodes_that_went_leave_nothing():
    """In a cluster that makes nodes anew under new names, memory stays as small as the cluster."""
    made = room()
    for number in range(100):
        made.node_seen(node(f"n{number}"))
        made.pod_seen(pod(f"p{number}", on=f"n{number}"))
        made.pod_gone(f"p{number}")
        made.node_gone(f"n{number}")

    assert (made._nodes, made._pods, made._taken) == ({}, {}, {})


def test_pods_come_move_and_go():
    """Each counts once, where it is now."""
    made = room(node("n0"), node("n1"))
    made.pod_seen(pod("a", gpus=8))
    assert fits(made, written()) == 16
    made.pod_seen(pod("a", on="n0", gpus=8))
    made.pod_seen(pod("a", on="n0", gpus=8, phase="Running"))
    assert fits(made, written()) == 8
    made.pod_seen(pod("a", on="n0", gpus=8, phase="Failed"))
    assert fits(made, written()) == 16
    made.pod_gone("a")
    made.pod_gone("never seen")
    assert fits(made, written()) == 16
    made.node_gone("n1")
    assert fits(made, written()) == 8


@pytest.mark.parametrize(
    ("closed", "template", "count"),
    [
        (node("n1", cordoned=True), written(), 8),
        (node("n1", taints=[{"key": "batch", "effect": "NoSchedule"}]), written(), 8),
        (node("n1", taints=[{"key": "batch", "effect": "PreferNoSchedule"}]), written(), 16),
        (
            node("n1", taints=[{"key": "batch", "value": "x", "effect": "NoSchedule"}]),
            written(tolerations=[{"key": "batch", "value": "x"}]),
            16,
        ),
        (
            node("n1", taints=[{"key": "batch", "value": "x", "effect": "NoExecute"}]),
            written(tolerations=[{"operator": "Exists"}]),
            16,
        ),
        (node("n1", labels={"kind": "a100"}), written(nodeSelector={"kind": "a100"}), 8),
    ],
)
def test_nodes_that_admit_it(closed, template, count):
    """A cordon, taints without a toleration, and a selector without its label keep a worker out."""
    assert fits(room(node("n0"), closed), template) == count


@pytest.mark.parametrize(
    ("operator", "values", "count"),
    [
        ("In", ["a"], 8),
        ("NotIn", ["a"], 8),
        ("Exists", None, 8),
        ("DoesNotExist", None, 8),
        ("Gt", ["1"], 16),
    ],
)
def test_required_affinity(operator, values, count):
    """Terms by labels are honoured; comparisons are left to the scheduler."""
    term = {"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    made = room(node("n0", labels={"zone": "a"}), node("n1"))

    assert fits(made, written(affinity={"nodeAffinity": required})) == count


def test_jobs_of_different_kinds_share_one_room():
    """Each sees the nodes that admit it."""
    made = room(node("n0", labels={"kind": "a"}), node("n1", labels={"kind": "b"}))
    templates = {kind: written(nodeSelector={"kind": kind}) for kind in "ab"} | {"c": written(gpus=100)}
    free, takes = made.offer(templates)
    views = [JobView(name=name, min=1, max=100, size=1, worker=takes[name]) for name in templates]

    assert {name: want.size for name, want in size(views, free).items()} == {"a": 8, "b": 8, "c": 1}


@pytest.mark.parametrize(
    "template",
    [
        {"metadata": {}, "spec": {"containers": "none"}},
        {"metadata": {}, "spec": {"containers": [{"resources": {"requests": {"cpu": "much"}}}]}},
    ],
)
def test_a_template_that_cannot_be_read(template):
    """It fits nowhere, and disturbs nobody."""
    assert fits(room(node()), template) == 1


def test_amounts_that_cannot_be_read():
    """A pod counts as one pod, a node as none."""
    odd = msgspec.convert(
        {
            "metadata": {"uid": "o"},
            "spec": {"nodeName": "n0", "containers": [{"resources": {"requests": {"cpu": "x"}}}]},
        },
        api.Pod,
    )
    broken = msgspec.convert({"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "x"}}}, api.Node)

    assert fits(room(node(), broken, pods=[odd]), written()) == 8
