"""Elastic jobs and their pods as the real API server is asked to take them."""

import asyncio
import itertools
from collections.abc import Awaitable, Iterator

import pytest

from bench.plane import ApiError, Plane, service_account, where
from scheduler.elastic.controller import pod_template
from scheduler.elastic.job.validation import decode_spec
from tests.manifests import TEAM

HOME = "gangwright-system"
HOST_ACCESS = "gangwright.io/elastic-host-access"

MASTER = service_account(HOME, "gangwright-elastic")
JOBS = where("gangwright.io/v1alpha1/elasticjobs", TEAM)
PODS = where("pods", TEAM)
POLICIES = where("networking.k8s.io/v1/networkpolicies", TEAM)
KIT = pod_template.Kit(master="https://gangwright-elastic:10273", ca="-")
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


async def a_worker(admin, role=pod_template.CORE, **spec):
    """A job that stands at the API server, and a worker as the master would make it."""
    made = await admin.create(JOBS, a_job(**spec))
    meta = made["metadata"]
    owner = pod_template.Owner(meta["namespace"], meta["name"], meta["uid"])
    worker = pod_template.Worker(pod_template.worker_name(owner.name, 1, "abcde"), 1, role)
    return owner, pod_template.manifest(owner, decode_spec(made["spec"])[0], worker, KIT)


def a_worker_in(namespace=TEAM, **spec):
    """A worker as the master would make it, of a job that does not exist. spec: of its template."""
    job = a_job(template=template(**spec))
    owner = pod_template.Owner(namespace, job["metadata"]["name"], "00000000-0000-0000-0000-000000000000")
    worker = pod_template.Worker(pod_template.worker_name(owner.name, 1, "abcde"), 1)
    return pod_template.manifest(owner, decode_spec(job["spec"])[0], worker, KIT)


def a_secret(name="gangwright-elastic-tls", **fields):
    return {"metadata": {"name": name}, "type": "Opaque", "data": {"tls.crt": "LS0t"}} | fields


def a_lease(name="gangwright-elastic"):
    return {"metadata": {"name": name}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}


def a_network_policy(name, owners=(), selector=None):
    spec = {"podSelector": selector or {}, "policyTypes": ["Ingress"]}
    return {"metadata": {"name": name, "ownerReferences": list(owners)}, "spec": spec}


def a_namespace(name, **labels):
    """It has its labels from the first moment: the API server may judge by older ones for a while."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def network_policies(namespace):
    return where("networking.k8s.io/v1/networkpolicies", namespace)


def _probes() -> Iterator[tuple[str, str, object]]:
    """For each policy a request that it alone refuses to the master's account: its name, a collection, an object."""
    yield "own-workers", PODS, a_pod()
    yield "own-network", POLICIES, a_network_policy("ownerless")
    yield "namespaces", where("pods", "kube-system"), a_worker_in("kube-system")
    yield "host-access", PODS, a_worker_in(hostNetwork=True)
    yield "own-secret", where("secrets", HOME), a_secret("another")
    yield "own-lease", where("leases", HOME), a_lease("another")


async def until_in_force(plane: Plane) -> None:
    """Waits until each of the master's policies counts."""
    async with plane.client(MASTER) as client, asyncio.timeout(30):
        for policy, path, body in _probes():
            while f"'gangwright-elastic-{policy}'" not in await _refusal(client, path, body):
                await asyncio.sleep(0.05)


async def _refusal(client, path, body):
    try:
        await client.request("POST", path, body=body, dryRun="All")
    except ApiError as error:
        return str(error)
    return ""


async def forbidden(call: Awaitable[object], policy: str = "") -> str:
    """What one of our policies says, which judged and did not break. policy: the one of the master's that refuses."""
    with pytest.raises(ApiError) as refused:
        await call
    said = str(refused.value)
    assert refused.value.status == 403, said
    assert f"ValidatingAdmissionPolicy 'gangwright-{policy and 'elastic-' + policy}" in said
    assert "resulted in error" not in said
    return said
