"""A TrainJob of Kubeflow Trainer and its runtime: the JobSet that follows from both.

Lives here: where to find a runtime, and how Trainer 2.2 merges the two as far as placement is concerned: templates,
patches, numbers, resources, and the PodGroup. Never here: the pods of a JobSet (`operator_pods`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import msgspec

from scheduler import errors
from scheduler.cli.options import a_namespace
from scheduler.cli.template import Thing, at, count
from scheduler.errors import SettingsError
from scheduler.kube.client import Client
from scheduler.objects import labels

GROUP: Final = "/apis/trainer.kubeflow.org/v1alpha1"

CLUSTER_WIDE: Final = "ClusterTrainingRuntime"
"""The default kind of a runtime. The other kind is in the job's namespace."""

STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
"""Label of a replicated Job: the part of the TrainJob that it implements."""

NODE: Final = "node"
"""The name of the replicated Job, and of the container, that train."""

FOUND: Final = "foundRuntime"
"""The key under which a decoded TrainJob holds its runtime. It is never sent."""


@dataclass(frozen=True, slots=True)
class JobSetOfTrainJob:
    """runtime: KIND/NAME, for messages.  group: the PodGroup that is created with it, if the runtime requests one."""

    job_set: Thing
    runtime: str
    group: Thing | None


async def with_runtimes(client: Client, things: Sequence[Thing], namespace: str) -> list[Thing]:
    """The same objects, each TrainJob with its runtime from the manifests or the cluster.

    Raises SettingsError if the runtime is not found, and KubeError if it may not be read.
    """
    return [
        {**thing, FOUND: await _runtime(client, thing, things, namespace)}
        if thing["kind"] == "TrainJob"
        else thing
        for thing in things
    ]


async def _runtime(client: Client, thing: Thing, things: Iterable[Thing], namespace: str) -> Thing:
    reference, maker = at(thing.get("spec"), "runtimeRef"), f"TrainJob/{thing['metadata']['name']}"
    kind, name = str(at(reference, "kind") or CLUSTER_WIDE), str(at(reference, "name") or "")
    for other in things:
        if (other["kind"], other["metadata"]["name"]) == (kind, name):
            return other
    if kind not in {CLUSTER_WIDE, "TrainingRuntime"}:
        raise SettingsError(
            f"{maker}: spec.runtimeRef.kind", kind, f"must be {CLUSTER_WIDE} or TrainingRuntime"
        )
    inside = a_namespace(str(thing["metadata"].get("namespace") or namespace))
    place = "" if kind == CLUSTER_WIDE else f"/namespaces/{inside}"
    try:
        answer = await client.request("GET", f"{GROUP}{place}/{kind.lower()}s/{quote(name, safe='')}")
    except errors.NotFound:
        remedy = f"not found. Name an existing {kind}: kubectl get {kind.lower()}s"
        raise SettingsError(f"{maker}: spec.runtimeRef.name", name, remedy) from None
    found: Thing = msgspec.json.decode(answer)
    return {"kind": kind, **found}


def job_set_of(thing: Thing) -> JobSetOfTrainJob:
    """The JobSet that Trainer creates from a TrainJob of `with_runtimes`. Raises SettingsError, and KeyError or
    TypeError for an invalid TrainJob.
    """
    name, spec, runtime = thing["metadata"]["name"], thing["spec"], thing.get(FOUND)
    if runtime is None:
        remedy = "must be read from the cluster. Leave out --snapshot"
        raise SettingsError(f"TrainJob/{name}: spec.runtimeRef", spec["runtimeRef"].get("name"), remedy)
    if spec.get("podTemplateOverrides"):
        remedy = "is unsupported (Trainer before 2.2). Use spec.runtimePatches"
        raise SettingsError(f"TrainJob/{name}: spec.podTemplateOverrides", "…", remedy)
    made = runtime["spec"]["template"]["spec"]
    for patch in spec.get("runtimePatches") or ():
        made = merged(made, at(at(at(patch, "trainingRuntimeSpec"), "template"), "spec") or {})
    policy = runtime["spec"].get("mlPolicy")
    jobs = [_sized(own, policy, spec.get("trainer") or {}) for own in made["replicatedJobs"]]
    group, words = _pod_group(runtime["spec"].get("podGroupPolicy"), name)
    if group is not None:
        group["spec"] = {"minMember": sum(own["template"]["spec"]["parallelism"] for own in jobs)}
        jobs = [merged(own, {"template": {"spec": {"template": {"metadata": words}}}}) for own in jobs]
    job_set = {"kind": "JobSet", "metadata": {"name": name}, "spec": {**made, "replicatedJobs": jobs}}
    return JobSetOfTrainJob(job_set, f"{runtime['kind']}/{runtime['metadata']['name']}", group)


def _pod_group(policy: object, name: str) -> tuple[Thing | None, Thing]:
    """The PodGroup that the runtime requests, and the metadata by which pods name it."""
    said: Thing = {"kind": "PodGroup", "metadata": {"name": name}}
    if at(policy, "coscheduling") is not None:
        return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", **said}, {
            "labels": {labels.PLUGINS_GROUP: name}
        }
    if at(policy, "volcano") is not None:
        annotations = {labels.VOLCANO_GROUP_LEGACY: name}
        return {"apiVersion": "scheduling.volcano.sh/v1beta1", **said}, {"annotations": annotations}
    return None, {}


def _sized(job: Thing, policy: Thing | None, trainer: Thing) -> Thing:
    """The replicated Job with its number of pods, and the resources that the TrainJob requests."""
    step, name = ((job["template"].get("metadata") or {}).get("labels") or {}).get(STEP), job["name"]
    nodes, trains = trainer.get("numNodes"), step == "trainer"
    mpi = at(policy, "mpi")
    both = bool(at(mpi, "runLauncherAsNode"))
    usual = (
        policy.get("numNodes")
        if trains and policy is not None
        else job["template"]["spec"].get("parallelism")
    )
    pods = max(1, count(usual))
    if nodes is not None and mpi is None and trains:
        pods = count(nodes)
    if nodes is not None and mpi is not None and name == NODE:
        pods = max(count(nodes) - 1, 1) if both else count(nodes)
    replicas = 1 if step else count(job.get("replicas"))
    sized: Thing = {"replicas": replicas, "template": {"spec": {"parallelism": pods, "completions": pods}}}
    wanted = trainer.get("resourcesPerNode")
    if wanted and policy is not None and (trains or (both and name == NODE)):
        pod: Thing = {"containers": [{"name": NODE, "resources": wanted}]}
        if any(own.get("name") == NODE for own in job["template"]["spec"]["template"]["spec"]["containers"]):
            sized = merged(sized, {"template": {"spec": {"template": {"spec": pod}}}})
    whole: Thing = merged(job, sized)
    return whole


def merged(old: Any, patch: Any) -> Any:
    """A strategic merge: objects by key, lists of named items by name. Everything else is replaced."""
    if isinstance(old, dict) and isinstance(patch, dict):
        kept = {key: value for key, value in old.items() if key not in patch}
        given = {key: merged(old.get(key), value) for key, value in patch.items() if value is not None}
        return kept | given
    if isinstance(old, list) and isinstance(patch, list) and all(at(own, "name") for own in (*old, *patch)):
        patches = {own["name"]: own for own in patch}
        known = [merged(own, patches.pop(own["name"], {})) for own in old]
        return known + list(patches.values())
    return patch
