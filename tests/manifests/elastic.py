"""Elastic jobs and their pods as the real API server is asked to take them."""

import itertools

from scheduler.elastic import workers
from scheduler.elastic.job.decode import decode
from tests.manifests import TEAM
from tests.plane import service_account, where

MASTER = service_account("gangwright-system", "gangwright-elastic")
JOBS = where("gangwright.io/v1alpha1/elasticjobs", TEAM)
PODS = where("pods", TEAM)
POLICIES = where("networking.k8s.io/v1/networkpolicies", TEAM)
KIT = workers.Kit(image="gangwright:0.1.0", master="https://gangwright-elastic:10273", ca="-")
WORKER = {"name": "worker", "image": "training:1", "command": ["python", "train.py"]}
_number = itertools.count()


def template(**spec):
    return {"spec": {"serviceAccountName": "default", "containers": [WORKER]} | spec}


def a_job(**spec):
    return {
        "apiVersion": "gangwright.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": f"job-{next(_number)}", "namespace": TEAM},
        "spec": {"minWorkers": 2, "maxWorkers": 4, "template": template()} | spec,
    }


def a_pod(**spec):
    return {
        "metadata": {"name": f"pod-{next(_number)}"},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]} | spec,
    }


async def a_worker(admin, role=workers.CORE, **spec):
    """A job that stands at the API server, and a worker as the master would make it."""
    made = decode(await admin.create(JOBS, a_job(**spec)))
    owner = workers.Owner(made.namespace, made.name, made.uid)
    name = workers.worker_name(made.name, 1, "abcde")
    return owner, workers.manifest(owner, made.spec, workers.Worker(name, 1, role, 0.25), KIT)
