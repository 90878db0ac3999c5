"""The pods that operators create from JobSet, Kubeflow's jobs, TrainJob, RayCluster, RayJob and LeaderWorkerSet.

Lives here: the pod templates of each, how many pods are created from them, by which controllers, and in which order.
Additions of operators to a pod, for example Ray's autoscaler container, are not counted. Never here: what the pods say
about their gang (`objects`), or a call.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from scheduler.cli.template import LATER, MOST, Template, Thing, at, count, of_job
from scheduler.cli.training_runtimes import JobSetOfTrainJob, job_set_of
from scheduler.errors import SettingsError
from scheduler.model.cluster import DEFAULT_LEVELS
from scheduler.model.workload import Complaint
from scheduler.objects import labels
from scheduler.objects.gangs import read

APART: Final = f"give each replicated Job its own gang: {LATER}"

EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"
"""Annotation of a LeaderWorkerSet: workers are created after their leader has a node."""

VOLCANO: Final = "scheduling.volcano.sh/v1beta1"

LARGEST_GROUP: Final = 2**31 - 1
"""KubeRay's default of `maxReplicas`."""


def _job_set(thing: Thing) -> Iterator[Template]:
    """A replicated Job may be created only after others are ready: all before it, or those that it names."""
    spec = thing["spec"]
    in_order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    after: dict[str, frozenset[str]] = {}
    for own in spec["replicatedJobs"]:
        name = own["name"]
        named = [other["name"] for other in own.get("dependsOn") or ()]
        after[name] = frozenset(after if in_order else named).union(*(after.get(one, ()) for one in named))
        field, value = f"spec.replicatedJobs[{name}].dependsOn", ", ".join(named)
        remedy = f"leave it out, or {APART}"
        if in_order:
            field, value = "spec.startupPolicy.startupPolicyOrder", "InOrder"
            remedy = f"write AnyOrder, or {APART}"
        awaits = Complaint(field, value, remedy, fatal=False) if after[name] else None
        replicas = count(own.get("replicas"))
        for one in of_job(own["template"]):
            yield replace(
                one,
                count=one.count * replicas,
                name=name,
                after=after[name],
                awaits=awaits,
                controller=name,
                controllers=max(1, replicas),
                path=f"spec.replicatedJobs[{name}].template.spec.template",
            )


def has_replica_specs(thing: Thing) -> bool:
    """Whether the object is one of Kubeflow's training jobs."""
    spec = thing.get("spec")
    return isinstance(spec, dict) and any(key.endswith("ReplicaSpecs") for key in spec)


def replica_specs(thing: Thing) -> Iterator[Template]:
    """Kubeflow's training jobs: a mapping from role to replicas and template."""
    policy = thing["spec"].get("launcherCreationPolicy")
    for key, roles in thing["spec"].items():
        if key.endswith("ReplicaSpecs"):
            for role, own in roles.items():
                path = f"spec.{key}.{role}.template"
                made = Template(own["template"], count(own.get("replicas")), role.lower(), path=path)
                if role == "Launcher":
                    made = replace(made, controller="launcher")
                if policy == "WaitForWorkersReady" and role == "Launcher":
                    remedy = (
                        f"write AtStartup, or remove the gang's label from the launcher's template: {LATER}"
                    )
                    awaits = Complaint("spec.launcherCreationPolicy", policy, remedy, fatal=False)
                    made = replace(made, after=frozenset({"worker"}), awaits=awaits)
                yield made


def _train_job(thing: Thing) -> Iterator[Template]:
    """The pods of the JobSet that Kubeflow Trainer creates from the TrainJob and its runtime."""
    made: JobSetOfTrainJob = job_set_of(thing)
    group = made.group
    for own in _job_set(made.job_set):
        awaits = own.awaits and replace(own.awaits, field=f"{made.runtime}: spec.template.{own.awaits.field}")
        path = f"{made.runtime}: spec.template.{own.path}"
        words = f"spec.runtimePatches[0].trainingRuntimeSpec.template.{own.path}.metadata"
        yield replace(own, awaits=awaits, path=path, words=words, group=group)
        group = None


def _ray_cluster(thing: Thing) -> Iterator[Template]:
    yield from _ray(thing["spec"], "spec")


def _ray_job(thing: Thing) -> Iterator[Template]:
    """The pods of its cluster, and the submitter pod, which is created when the cluster is ready.

    Without a template, or without a scheduler in it, kube-scheduler places the submitter. A job for an existing cluster
    (`clusterSelector`) creates no other pod.
    """
    spec = thing["spec"]
    if spec.get("rayClusterSpec"):
        made = list(_ray(spec["rayClusterSpec"], "spec.rayClusterSpec"))
        yield from made
        submitter = spec.get("submitterPodTemplate")
        mode = spec.get("submissionMode") or "K8sJobMode"
        if mode == "K8sJobMode" and at(at(submitter, "spec"), "schedulerName"):
            path = "spec.submitterPodTemplate"
            awaits = Complaint(
                "spec.submissionMode", mode, f"remove the gang's label from {path}: {LATER}", fatal=False
            )
            after = frozenset(own.name for own in made)
            yield Template(
                submitter, 1, "submitter", after=after, awaits=awaits, controller="submitter", path=path
            )


def _ray(spec: Thing, at_path: str) -> Iterator[Template]:
    """A head, and the workers of each group. With an autoscaler only the minimum of each group is certain."""
    head = spec["headGroupSpec"]
    yield Template(_labeled(head), 1, "head", path=f"{at_path}.headGroupSpec.template")
    for own in spec.get("workerGroupSpecs") or ():
        name, hosts = own["groupName"], max(1, count(own.get("numOfHosts")))
        least, most = count(own.get("minReplicas"), 0), count(own.get("maxReplicas"), LARGEST_GROUP)
        wanted = 0 if own.get("suspend") else max(least, min(count(own.get("replicas"), 0), most))
        certain = min(least, wanted) if spec.get("enableInTreeAutoscaling") else wanted
        path = f"{at_path}.workerGroupSpecs[{name}].template"
        made = Template(_labeled(own), certain * hosts, name, path=path)
        yield made
        if wanted > certain:
            remedy = (
                f"set minReplicas of group {name} to {wanted}, or lower {labels.MIN_MEMBERS} to the pods of minReplicas: "
                "the autoscaler may remove the other workers, and the gang would wait for them"
            )
            yield replace(
                made,
                count=(wanted - certain) * hosts,
                name=f"{name}-scaled",
                after=frozenset({"head", name}),
                awaits=Complaint(f"{at_path}.enableInTreeAutoscaling", "true", remedy, fatal=False),
            )


def _labeled(group: Thing) -> Thing:
    """The template of a Ray group, with the group's labels, which Ray also adds to the pods."""
    template: Thing = group["template"]
    meta = template.get("metadata") or {}
    return {
        **template,
        "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **(group.get("labels") or {})}},
    }


def _leader_worker_set(thing: Thing) -> Iterator[Template]:
    """Groups of a leader and its workers. One StatefulSet creates all leaders, and one per group its workers.

    All groups have the same templates, so a gang that the templates name would contain all groups. With Volcano's
    integration, LWS creates a PodGroup per group, and the pods name it.
    """
    spec, meta = thing["spec"], thing["metadata"]
    inner = spec["leaderWorkerTemplate"]
    groups, size = count(spec.get("replicas")), count(inner.get("size"))
    if size < 1:
        raise SettingsError(f"LeaderWorkerSet/{meta['name']}: size", size, "must be 1 or more")
    if groups * size > MOST:
        raise SettingsError(
            f"LeaderWorkerSet/{meta['name']}", groups * size, f"must create at most {MOST} pods"
        )
    root = "spec.leaderWorkerTemplate"
    worker = Template(inner["workerTemplate"], size - 1, path=f"{root}.workerTemplate", first=1)
    leader = replace(worker, count=1)
    if inner.get("leaderTemplate"):
        leader = replace(leader, pod=inner["leaderTemplate"], path=f"{root}.leaderTemplate")
    claims = tuple(str(claim["metadata"]["name"]) for claim in inner.get("volumeClaimTemplates") or ())
    named = _names_gang(leader.pod) or _names_gang(worker.pod)
    if named and groups > 1:
        raise SettingsError(
            f"LeaderWorkerSet/{meta['name']}: spec.replicas",
            groups,
            "must be 1, because the templates name one gang for all groups. Write a LeaderWorkerSet for each group, or "
            "remove the gang from the templates and run LWS with schedulerProvider: volcano",
        )
    awaits = _leader_first(thing)
    by_volcano = not named and awaits is None and size > 1
    assumes = _assumed(meta["name"], size, groups) if by_volcano else ""
    for number in range(groups):
        gang = f"{meta['name']}-{number}"
        group = {
            "apiVersion": VOLCANO,
            "kind": "PodGroup",
            "metadata": {"name": gang},
            "spec": {"minMember": size},
        }
        pods = [_in_group(own.pod, gang) if by_volcano else own.pod for own in (leader, worker)]
        yield replace(
            leader,
            pod=pods[0],
            first=number,
            claims=claims,
            controller="leaders",
            group=group if by_volcano else None,
            assumes=assumes,
        )
        yield replace(
            worker,
            pod=pods[1],
            name=str(number),
            claims=claims,
            controller=f"workers of {gang}",
            after=frozenset({""}) if awaits else frozenset(),
            awaits=awaits,
            assumes=assumes,
        )


def _names_gang(template: Thing) -> bool:
    texts = [at(template.get("metadata"), place) for place in ("labels", "annotations")]
    words, notes = (
        {str(key): str(value) for key, value in own.items()} if isinstance(own, dict) else {} for own in texts
    )
    return read("", words, notes, DEFAULT_LEVELS).membership is not None


def _leader_first(thing: Thing) -> Complaint | None:
    """The field that makes the workers wait for their leader, with its fix."""
    said = thing["metadata"].get("annotations") or {}
    if EXCLUSIVE in said:
        field, remedy = (
            f"metadata.annotations[{EXCLUSIVE}]",
            f"remove it and set {labels.LEVEL_REQUIRED}",
        )
        return Complaint(field, str(said[EXCLUSIVE]), f"{remedy}: {LATER}", fatal=False)
    policy = thing["spec"].get("startupPolicy")
    if policy == "LeaderReady":
        remedy = f"write LeaderCreated, or remove the gang's label from the leader's template: {LATER}"
        return Complaint("spec.startupPolicy", policy, remedy, fatal=False)
    return None


def _in_group(template: Thing, gang: str) -> Thing:
    """The template with the annotation that the webhook of LWS adds with Volcano's integration."""
    meta = template.get("metadata") or {}
    said = {**(meta.get("annotations") or {}), labels.VOLCANO_GROUP_LEGACY: gang}
    return {**template, "metadata": {**meta, "annotations": said}}


def _assumed(name: str, size: int, groups: int) -> str:
    lines = (
        f'set the label {labels.GANG}: {name} and the annotations {labels.MIN_MEMBERS}: "{size}" and '
        f'{labels.MEMBERS}: "{size}" in its templates'
    )
    otherwise = lines if groups == 1 else "its pods are placed one by one"
    return (
        f"each group of {size} pods is a gang only if LWS runs with gangSchedulingManagement.schedulerProvider: "
        f"volcano; otherwise {otherwise}"
    )


RULES: Final[Mapping[str, Callable[[Thing], Iterator[Template]]]] = {
    "JobSet": _job_set,
    "TrainJob": _train_job,
    "RayCluster": _ray_cluster,
    "RayJob": _ray_job,
    "LeaderWorkerSet": _leader_worker_set,
}
"""The templates of each kind."""
