"""What the maker of an ElasticJob is told when a policy refuses its workers: the program itself, under its own account,
on the real API server.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest

from bench.plane import where
from tests.elastic.controller.support.process import Process
from tests.manifests.support.elastic import HOME, HOST_ACCESS, MASTER, a_job, a_namespace, template

pytestmark = pytest.mark.plane

ENFORCED = "pod-security.kubernetes.io/enforce"
HOST_PATH = {"volumes": [{"name": "dev", "hostPath": {"path": "/dev/infiniband"}}]}


@pytest.fixture(scope="module", autouse=True)
def working(elastic, tmp_path_factory):
    """The master at work, for all jobs of this module."""
    program = Process("elastic-refused", elastic.kubeconfig(MASTER), tmp_path_factory.mktemp("master"))
    try:
        yield program.start()
    finally:
        program.stop()


@asynccontextmanager
async def submitted(admin, namespace, **spec):
    """A job of this namespace, for as long as the block runs. Gives its path."""
    job = a_job(template=template(**spec))
    job["metadata"]["namespace"] = namespace
    path = where("gangwright.io/v1alpha1/elasticjobs", namespace)
    await admin.create(path, job)
    try:
        yield f"{path}/{job['metadata']['name']}"
    finally:
        await admin.delete(f"{path}/{job['metadata']['name']}")


async def refusal(admin, namespace, job):
    """The note of the first event FailedCreate of this job."""
    async with asyncio.timeout(60):
        while True:
            for event in await admin.items(where("events", namespace)):
                if event["reason"] == "FailedCreate" and job.endswith(event["regarding"]["name"]):
                    return event["note"]
            await asyncio.sleep(0.1)


async def test_a_job_with_host_access_starts_when_the_namespace_is_labelled(admin):
    """The event names the label and who sets it, however long names are. After the administrator has set it the quorum
    is made, by itself.
    """
    namespace = "n" * 63
    await admin.create(where("namespaces"), a_namespace(namespace))
    async with submitted(admin, namespace, hostNetwork=True) as job:
        said = await refusal(admin, namespace, job)
        assert said.startswith("Pod creation failed: ")
        wanted = "hostNetwork: an administrator of the cluster must label the Namespace with"
        assert said.endswith(f'{wanted} {HOST_ACCESS}: "true"')

        label = {"metadata": {"labels": {HOST_ACCESS: "true"}}}
        await admin.patch(where("namespaces", name=namespace), label, how="merge")
        await admin.until(job, lambda own: len(own.get("status", {}).get("members", [])) == 2, within=60)
        pods = await admin.items(where("pods", namespace))
        assert [pod["spec"]["hostNetwork"] for pod in pods] == [True, True]


async def test_pod_security_is_told_too(admin):
    """The label opens nothing that Pod Security closes: a job is refused where its maker's own pod would be."""
    namespace = "restricted"
    labels = {ENFORCED: "restricted", HOST_ACCESS: "true"}
    await admin.create(where("namespaces"), a_namespace(namespace, **labels))
    async with submitted(admin, namespace, **HOST_PATH) as job:
        said = await refusal(admin, namespace, job)
        assert 'violates PodSecurity "restricted:latest"' in said
        assert await admin.items(where("pods", namespace)) == []


@pytest.mark.parametrize("namespace", ["kube-system", HOME])
async def test_a_job_among_the_clusters_own(admin, namespace):
    """No worker starts there, and the event says where to make the job instead."""
    async with submitted(admin, namespace) as job:
        said = await refusal(admin, namespace, job)
        assert "the job's NetworkPolicy could not be written" in said
        assert said.endswith("make the ElasticJob in another one")
