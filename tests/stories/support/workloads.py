"""What people submit: pods of gangs, and the controllers that make them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.plane.client import Object
from bench.plane.installation import SCHEDULER_NAME
from bench.plane.nodes import GPU

OURS = "gangwright.io/"
GANG = OURS + "gang"
LABELS = {"surplus"}
"""What is said of a gang in a label; everything else is said in an annotation."""

KINDS = {
    "Job": ("batch/v1", "jobs"),
    "ReplicaSet": ("apps/v1", "replicasets"),
    "StatefulSet": ("apps/v1", "statefulsets"),
}
"""API version and plural of the controllers."""


def disk(*, shared: bool) -> dict[str, Any]:
    """The part of a pod's spec with a disk that is named directly. kube-scheduler lets pods share it on a node only if
    all of them read it: a rule that the planner does not model.
    """
    target = {"targetPortal": "127.0.0.1:3260", "iqn": "iqn.2026-01.io.gangwright:disk", "lun": 0}
    return {"volumes": [{"name": "disk", "iscsi": {**target, "readOnly": shared}}]}


QUIET = disk(shared=True)
"""Not beside a pod that writes the disk."""


def pod(
    name: str,
    *,
    gang: str = "",
    gpus: int = 1,
    cpu: str = "1",
    scheduler: str = SCHEDULER_NAME,
    spec: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **says: object,
) -> Object:
    """A pod. `says`: what it says of its gang, `min_members=4` for the annotation gangwright.io/min-members."""
    said = {OURS + word.replace("_", "-"): _text(value) for word, value in says.items()}
    in_labels = {key: value for key, value in said.items() if key.removeprefix(OURS) in LABELS}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**({GANG: gang} if gang else {}), **in_labels, **(labels or {})},
            "annotations": {
                **{key: value for key, value in said.items() if key not in in_labels},
                **(annotations or {}),
            },
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "none", "resources": _room(gpus, cpu)}],
            "terminationGracePeriodSeconds": 1,
            **(spec or {}),
        },
    }


def gang(name: str, size: int, *, min_members: object = None, **words: Any) -> list[Object]:
    """Bare pods NAME-0 … of one gang that needs all of them, or `min_members`."""
    quorum = size if min_members is None else min_members
    return [pod(f"{name}-{number}", gang=name, min_members=quorum, **words) for number in range(size)]


def made_by(kind: str, name: str, size: int, *, min_members: object = None, **words: Any) -> Object:
    """A controller of `size` members of one gang.

    kind: "Job", "ReplicaSet", "StatefulSet"; of a Job a member lost before it ran is no failure.
    """
    quorum = size if min_members is None else min_members
    template = pod(name, gang=name, min_members=quorum, **words)
    made: dict[str, Any] = {"metadata": template["metadata"], "spec": template["spec"]}
    del made["metadata"]["name"]
    made["metadata"]["labels"]["app"] = name
    made["spec"]["restartPolicy"] = "Never" if kind == "Job" else "Always"
    version, _ = KINDS[kind]
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {**_SHAPES[kind](name, size), "template": made},
    }


def plain_job(name: str, size: int, **words: Any) -> Object:
    """A Job as most people write it: every lost member counts as a failure, and it forgives none."""
    job = made_by("Job", name, size, **words)
    del job["spec"]["podReplacementPolicy"]
    return job | {"spec": job["spec"] | {"backoffLimit": 0}}


def interleaved(gangs: Sequence[Sequence[Object]]) -> list[Object]:
    """The first pod of every gang, then the second of every gang, and so on."""
    return [member for row in zip(*gangs, strict=True) for member in row]


def _job(_name: str, size: int) -> dict[str, Any]:
    return {"parallelism": size, "completions": size, "podReplacementPolicy": "Failed"}


def _replicas(name: str, size: int) -> dict[str, Any]:
    return {"replicas": size, "selector": {"matchLabels": {"app": name}}}


def _stateful(name: str, size: int) -> dict[str, Any]:
    return {**_replicas(name, size), "serviceName": name, "podManagementPolicy": "Parallel"}


_SHAPES = {"Job": _job, "ReplicaSet": _replicas, "StatefulSet": _stateful}


def _room(gpus: int, cpu: str) -> dict[str, Any]:
    gpu = {GPU: str(gpus)} if gpus else {}
    return {"requests": {"cpu": cpu, **gpu}, "limits": gpu}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
