"""What nodes have free for further workers, and which of them admit one."""

import msgspec
import pytest

from scheduler.elastic.controller.node_usage import NodeUsage
from scheduler.elastic.sizing import JobView, size
from scheduler.elastic.sizing.capacity import Capacity
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


def usage(*nodes, pods=()):
    made = NodeUsage()
    for own in nodes:
        made.node_seen(own)
    for own in pods:
        made.pod_seen(own)
    return made


def fits(made, template, most=100):
    """So many further workers the policy `offer` gets."""
    free, asked = made.offer({"team/train": template})
    return size([view("team/train", asked, most)], free)["team/train"].size


def view(name, asked, most=100):
    worker = asked[name]
    return JobView(name=name, min=1, max=most, size=1, worker=worker.amounts, kind=worker.kind)


def test_what_is_allocatable_less_what_is_taken():
    """Bound pods take their room, whoever's they are; ended ones do not."""
    pods = [pod("a", on="n0", gpus=3), pod("b", on="n0", gpus=2, phase="Succeeded")]

    assert fits(usage(node(), pods=pods), written()) == 5


def test_a_worker_needs_all_of_it_on_one_node():
    """What is left over on several nodes is no room."""
    pods = [pod(f"p{n}", on=f"n{n}", gpus=6) for n in range(2)]

    assert fits(usage(node("n0"), node("n1"), pods=pods), written(gpus=2)) == 2
    assert fits(usage(node("n0"), node("n1"), node("n2"), pods=pods), written(gpus=4)) == 2


def test_a_seat_is_taken_before_it_is_bound():
    """A pod to which the scheduler gave a node takes room there."""
    seated = pod(
        "s", gpus=5, annotations={"gangwright.io/seat": pod_annotations.write_seat("n0", "plan", pin=True)}
    )

    assert fits(usage(node(), pods=[seated]), written()) == 3


def test_nodes_that_went_leave_nothing():
    """In a cluster that makes nodes anew under new names, memory stays as small as the cluster."""
    made = usage()
    for number in range(100):
        made.node_seen(node(f"n{number}"))
        made.pod_seen(pod(f"p{number}", on=f"n{number}"))
        made.pod_gone(f"p{number}")
        made.node_gone(f"n{number}")

    assert (made._nodes._nodes, made._pods, made._taken) == ({}, {}, {})


def test_pods_come_move_and_go():
    """Each counts once, where it is now."""
    made = usage(node("n0"), node("n1"))
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
    assert fits(usage(node("n0"), closed), template) == count


@pytest.mark.parametrize(
    ("operator", "values", "count"),
    [
        ("In", ["a"], 8),
        ("NotIn", ["a"], 8),
        ("Exists", None, 8),
        ("DoesNotExist", None, 8),
        ("Gt", ["1"], 0),
    ],
)
def test_required_affinity(operator, values, count):
    """Terms by labels are honored."""
    made = usage(node("n0", labels={"zone": "a"}), node("n1"))

    assert seats(made, affine("matchExpressions", "zone", operator, values)) == count


@pytest.mark.parametrize(("operator", "count"), [("Gt", 8), ("Lt", 16)])
def test_labels_are_compared_as_numbers(operator, count):
    """Gt and Lt are by number: 9 is less than 10."""
    made = usage(*(node(f"n{drives}", labels={"drives": str(drives)}) for drives in (9, 8, 11)))

    assert seats(made, affine("matchExpressions", "drives", operator, ["10"])) == count


@pytest.mark.parametrize(("operator", "count"), [("In", 8), ("NotIn", 16)])
def test_nodes_are_named_by_their_field(operator, count):
    """A term may name nodes, or leave them out."""
    made = usage(node("n0"), node("n1"), node("n2"))

    assert seats(made, affine("matchFields", "metadata.name", operator, ["n1"])) == count


def affine(kind, key, operator, values):
    """A worker with this one requirement."""
    term = {kind: [{"key": key, "operator": operator, "values": values}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return written(affinity={"nodeAffinity": required})


def seats(made, template):
    """So many further workers have a seat."""
    free, asked = made.offer({"team/train": template})
    known = Capacity(free).seats(*asked["team/train"])
    return sum(known.take(1) for _ in range(100))


def test_a_resize_in_place_counts():
    """A pod that was given more takes more, though it stays where it is; what it gave back is free."""
    made = usage(node(cpu="10"))
    for cpu, count in (("2", 4), ("8", 1), ("4", 3)):
        own = written(gpus=1, nodeName="n0")
        given = [{"name": "main", "allocatedResources": {"cpu": cpu, GPU: "1"}}]
        own["metadata"]["uid"] = "u"
        own["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
        made.pod_seen(msgspec.convert({**own, "status": {"containerStatuses": given}}, api.Pod))

        assert fits(made, written()) == count


def test_what_frees_capacity_is_told():
    """A node that comes, opens or changes, a pod that ends, goes or shrinks; and nothing else."""
    made = usage()

    def frees(change, *words):
        made.freed.clear()
        change(*words)
        return made.freed.is_set()

    assert frees(made.node_seen, node())
    assert not frees(made.node_seen, node())
    assert not frees(made.node_seen, node(cordoned=True))
    assert frees(made.node_seen, node())
    assert frees(made.node_seen, node(labels={"kind": "a100"}))
    assert not frees(made.pod_seen, pod("a"))
    assert not frees(made.pod_gone, "a")
    for uid in "ab":
        assert not frees(made.pod_seen, pod(uid, on="n0"))
        assert not frees(made.pod_seen, pod(uid, on="n0", phase="Running"))
    assert frees(made.pod_seen, pod("a", on="n0", phase="Succeeded"))
    assert not frees(made.pod_gone, "a")
    assert frees(made.pod_gone, "b")
    assert not frees(made.node_gone, "n0")


def test_jobs_of_different_kinds_share_one_room():
    """Each sees the nodes that admit it."""
    made = usage(node("n0", labels={"kind": "a"}), node("n1", labels={"kind": "b"}))
    templates = {kind: written(nodeSelector={"kind": kind}) for kind in "ab"} | {"c": written(gpus=100)}
    free, asked = made.offer(templates)
    views = [view(name, asked) for name in templates]

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
    assert fits(usage(node()), template) == 1


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

    assert fits(usage(node(), broken, pods=[odd]), written()) == 8
