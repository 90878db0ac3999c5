"""Kinds of operators, as people write them."""

from copy import deepcopy
from typing import Any

from tests.cli.support.manifests import a_job
from tests.cli.support.speaking import DISCOVERY

RAY = "ray.io/v1"
TRAINER = "trainer.kubeflow.org/v1alpha1"
LWS = "leaderworkerset.x-k8s.io/v1"

RUNTIMES = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes"

KINDS = {
    **DISCOVERY,
    f"/apis/{RAY}": [("RayCluster", "rayclusters"), ("RayJob", "rayjobs")],
    f"/apis/{TRAINER}": [("TrainJob", "trainjobs")],
    f"/apis/{LWS}": [("LeaderWorkerSet", "leaderworkersets")],
}
"""What a cluster with these operators has."""


def a_template(*, gang: str = "", quorum: Any = "", gpus: int = 8, **said: str) -> dict[str, Any]:
    """A pod template with these further annotations."""
    made = deepcopy(a_job(size=1, gang=gang, quorum=quorum, gpus=gpus)["spec"]["template"])
    made["metadata"]["annotations"] |= {f"gangwright.io/{key}": value for key, value in said.items()}
    return made


def a_ray_cluster(
    *, gang: str = "", quorum: Any = "", workers: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """A head without devices, and a group of three workers unless other words say otherwise."""
    group = {"groupName": "gpu", "replicas": 3, **(workers or {})}
    return {
        "apiVersion": RAY,
        "kind": "RayCluster",
        "metadata": {"name": "ray"},
        "spec": {
            "headGroupSpec": {"template": a_template(gang=gang, quorum=quorum, gpus=0)},
            "workerGroupSpecs": [{**group, "template": a_template(gang=gang, quorum=quorum)}],
            **spec,
        },
    }


def a_ray_job(**words: Any) -> dict[str, Any]:
    """A RayJob of such a cluster."""
    submitter = {"submitterPodTemplate": words.pop("submitter")} if "submitter" in words else {}
    mode = {"submissionMode": words.pop("mode")} if "mode" in words else {}
    spec = {
        "entrypoint": "python train.py",
        **submitter,
        **mode,
        "rayClusterSpec": a_ray_cluster(**words)["spec"],
    }
    return {"apiVersion": RAY, "kind": "RayJob", "metadata": {"name": "job"}, "spec": spec}


def a_leader_worker_set(
    *, gang: str = "", quorum: Any = "", replicas: int = 1, size: int = 4, said: Any = None, **spec: Any
) -> dict[str, Any]:
    """Groups of one leader and its workers, all from one template."""
    members = {"members": str(size)} if gang else {}
    template = a_template(gang=gang, quorum=quorum, **members)
    return {
        "apiVersion": LWS,
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve", "annotations": said or {}},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {"size": size, "workerTemplate": template},
            **spec,
        },
    }


def a_runtime(*jobs: dict[str, Any], policy: Any = None, **spec: Any) -> dict[str, Any]:
    """A ClusterTrainingRuntime of these replicated Jobs; of one that trains by default."""
    template = {"spec": {"replicatedJobs": list(jobs) or [a_step("node", "trainer")]}}
    return {
        "apiVersion": TRAINER,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch"},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}} if policy is None else policy,
            "template": template,
            **spec,
        },
    }


def a_step(name: str, step: str = "", **words: Any) -> dict[str, Any]:
    """A replicated Job of a runtime, with a container that trains."""
    template = a_template(gpus=1)
    template["spec"]["containers"][0]["name"] = "node"
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": step} if step else {}
    return {
        "name": name,
        "template": {"metadata": {"labels": labels}, "spec": {"template": template}},
        **words,
    }


def a_train_job(*, patch: Any = None, **trainer: Any) -> dict[str, Any]:
    """A TrainJob of that runtime. patch: of the pod template of the replicated Job that trains."""
    patched = {
        "manager": "person",
        "trainingRuntimeSpec": {
            "template": {
                "spec": {
                    "replicatedJobs": [{"name": "node", "template": {"spec": {"template": patch}}}],
                }
            }
        },
    }
    return {
        "apiVersion": TRAINER,
        "kind": "TrainJob",
        "metadata": {"name": "tune"},
        "spec": {
            "runtimeRef": {"name": "torch"},
            "trainer": trainer,
            **({"runtimePatches": [patched]} if patch else {}),
        },
    }
