"""What is submitted: pods of gangs, each of one GPU, and the groups of kube-scheduler's own gangs. Pure."""

from collections.abc import Mapping
from typing import Any, Final

Object = dict[str, Any]

SCHEDULER: Final = "gangwright"
GATE: Final = "gangwright.io/planned"
GPU: Final = "nvidia.com/gpu"
NAMESPACE: Final = "default"

GROUPS: Final = "scheduling.k8s.io/v1beta1"
TEMPLATE: Final = "members"
"""Name of the one template in a Workload."""

OWNER: Final = "bench"
OWNER_VERSION, OWNER_KIND = "batch/v1", "Job"


def owner() -> Object:
    """A Job that forgives the loss of pods that never ran, so Gangwright may pin them; nobody runs that would make any.

    Not a ReplicaSet: kube-scheduler spreads the pods of one by default, which costs it half of its rate and would
    flatter every road that looks at fewer nodes.
    """
    template = {"spec": {"restartPolicy": "Never", "containers": [_container()]}}
    spec = {"suspend": True, "podReplacementPolicy": "Failed", "template": template}
    return {"apiVersion": OWNER_VERSION, "kind": OWNER_KIND, "metadata": {"name": OWNER}, "spec": spec}


def gang(name: str, size: int, owner_uid: str, *, gated: bool, native: bool = False) -> list[Object]:
    """The pods NAME-0 … of one gang whose quorum is all of them.

    owner_uid: of the Job made from `owner`. gated: with our scheduling gate. native: members of the PodGroup NAME.
    """
    spec: Object = {
        "schedulerName": SCHEDULER,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [_container()],
        **({"schedulingGates": [{"name": GATE}]} if gated else {}),
        **({"schedulingGroup": {"podGroupName": name}} if native else {}),
    }
    ours = {} if native else {"gangwright.io/gang": name}
    meta: Object = {
        "labels": {"made-by": OWNER, **ours},
        "annotations": {} if native else {"gangwright.io/min-members": str(size)},
        "ownerReferences": [_reference(owner_uid)],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**meta, "name": f"{name}-{number}"},
            "spec": spec,
        }
        for number in range(size)
    ]


def gangs(
    prefix: str, pods: int, size: int, owner_uid: str, *, gated: bool, native: bool = False
) -> list[Object]:
    """`pods` pods in gangs of `size`; the last gang has what is left over."""
    return [
        pod
        for number, first in enumerate(range(0, pods, size))
        for pod in gang(f"{prefix}{number}", min(size, pods - first), owner_uid, gated=gated, native=native)
    ]


def native_objects(name: str, size: int) -> Mapping[str, Object]:
    """By plural, what kube-scheduler's own gang needs before its pods: the Workload, then its PodGroup."""
    policy = {"gang": {"minCount": size}}
    workload = {
        "apiVersion": GROUPS,
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"podGroupTemplates": [{"name": TEMPLATE, "schedulingPolicy": policy}]},
    }
    group = {
        "apiVersion": GROUPS,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {
            "workloadRef": {"workloadName": name, "templateName": TEMPLATE},
            "schedulingPolicy": policy,
        },
    }
    return {"workloads": workload, "podgroups": group}


def _container() -> Object:
    room = {"cpu": "1", "memory": "1Gi", GPU: "1"}
    return {"name": "main", "image": "none", "resources": {"requests": room, "limits": {GPU: "1"}}}


def _reference(uid: str) -> Object:
    return {"apiVersion": OWNER_VERSION, "kind": OWNER_KIND, "name": OWNER, "uid": uid, "controller": True}
