"""The elastic master as a process on the real API server: what the small fake claims is so."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from bench.plane.client import Client, where
from bench.plane.control_plane import Plane
from bench.plane.errors import ApiError
from tests.elastic.controller.support.house import TEMPLATE
from tests.elastic.controller.support.process import Process

pytestmark = pytest.mark.plane

MANIFESTS = Path(__file__).parents[3] / "manifests" / "elastic"
CRD, CLASSES = MANIFESTS / "crd.yaml", MANIFESTS / "priorityclasses.yaml"
JOBS = "gangwright.io/v1alpha1/elasticjobs"


@pytest.fixture
async def api(plane: Plane):
    """The real one, for the plane's own fixtures."""
    async with plane.client() as client:
        yield client


@pytest.fixture
async def kind(api: Client) -> None:
    """The cluster knows ElasticJobs, and the class of surplus."""
    for kind, place in (("customresourcedefinitions", CRD), ("priorityclasses", CLASSES)):
        for body in yaml.safe_load_all(place.read_text(encoding="utf-8")):
            with suppress(ApiError):  # it is there from another test
                await api.create(where(kind), body)
    name = "elasticjobs.gangwright.io"
    path = where("customresourcedefinitions", name=name)
    await api.until(path, lambda own: "Established" in str(own.get("status", {}).get("conditions")))
    async with asyncio.timeout(20):
        while True:
            try:
                await api.items("/apis/gangwright.io/v1alpha1/elasticjobs")
            except ApiError:
                await asyncio.sleep(0.05)
            else:
                return


@pytest.fixture
def made(plane: Plane, namespace: str, tmp_path: Path, kind: None):
    """Makes masters that look after the test's own namespace; whatever runs is ended."""
    running: list[Process] = []

    def make(name: str = "master", **settings: Any) -> Process:
        own = {"elastic.leaseNamespace": namespace, "elastic.namespaces": f"[{namespace}]"}
        process = Process(name, plane.kubeconfig(), tmp_path, **own, **settings)
        running.append(process)
        return process

    yield make
    for process in running:
        process.stop()


@pytest.fixture
async def master(made: Callable[..., Process]) -> Process:
    return await asyncio.to_thread(made().start)


async def submit(api: Client, namespace: str, name: str = "train", **spec: Any) -> str:
    body = {
        "apiVersion": "gangwright.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {"minWorkers": 2, "maxWorkers": 4, "template": TEMPLATE, **spec},
    }
    await api.create(where(JOBS, namespace), body)
    return where(JOBS, namespace, name)


async def workers(api: Client, namespace: str, count: int) -> list[dict[str, Any]]:
    """The job's pods, as soon as there are so many. The garbage collector looks for new kinds of owners every 30 s."""
    async with asyncio.timeout(75):
        while True:
            found = await api.items(where("pods", namespace), labels="gangwright.io/elastic-job=train")
            if len(found) == count:
                return found
            await asyncio.sleep(0.05)


async def test_a_job_gets_its_quorum(api: Client, namespace: str, master: Process) -> None:
    """The API server takes the pods, the policy, the status and the events as they are written."""
    job = await submit(api, namespace)

    pods = await workers(api, namespace, 2)
    found = await api.until(job, lambda own: own.get("status", {}).get("phase") == "Queued")

    for pod in pods:
        assert {"name": "gangwright.io/planned"} in pod["spec"]["schedulingGates"]
        assert pod["spec"]["schedulerName"] == "gangwright"
        assert pod["metadata"]["labels"]["gangwright.io/gang"] == "train"
        assert pod["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
        assert pod["spec"]["initContainers"][0]["name"] == "gangwright-agent"
    assert found["status"]["selector"] == "gangwright.io/elastic-job=train"
    policy = await api.get(where("networking.k8s.io/v1/networkpolicies", namespace, "train-workers"))
    assert policy["spec"]["policyTypes"] == ["Ingress"]


async def test_it_says_how_it_is(api: Client, namespace: str, master: Process) -> None:
    """Ready while it holds the Lease and has read everything; its metrics count the job."""
    await submit(api, namespace)
    await workers(api, namespace, 2)
    async with aiohttp.ClientSession(master.places["probes"]) as session:
        async with session.get("/readyz") as answer:
            ready = await answer.json()
        async with asyncio.timeout(20):
            while 'gangwright_elastic_jobs{phase="Queued"} 1.0' not in (
                text := await _text(session, "/metrics")
            ):
                await asyncio.sleep(0.1)

    assert [check["ok"] for check in ready["checks"]] == [True, True, True]
    assert "gangwright_elastic_leading 1.0" in text
    assert 'gangwright_elastic_writes_total{result="done",what="start"} 2.0' in text
    assert 'gangwright_elastic_writes_total{result="forbidden",what="start"} 0.0' in text


async def _text(session: aiohttp.ClientSession, path: str) -> str:
    async with session.get(path) as answer:
        return await answer.text()


async def test_kubectl_scale(api: Client, namespace: str, plane: Plane, master: Process) -> None:
    """It writes the size, reads the actual one, and surplus pods follow; a number beyond the bounds is taken for the
    nearest.
    """
    job = await submit(api, namespace)
    await workers(api, namespace, 2)

    await asyncio.to_thread(plane.kubectl, "scale", "ej/train", "--replicas=9", "-n", namespace)

    found = await api.until(job, lambda own: own.get("status", {}).get("wanted") == 4)
    assert (found["spec"]["workers"], found["status"]["wantedBy"]) == (9, "user")
    assert (await api.get(f"{job}/scale"))["status"]["selector"] == "gangwright.io/elastic-job=train"
    shown = await asyncio.to_thread(plane.kubectl, "get", "ej", "-n", namespace)
    assert "train" in shown

    await asyncio.to_thread(plane.kubectl, "scale", "ej/train", "--replicas=0", "-n", namespace)

    found = await api.until(job, lambda own: own.get("status", {}).get("wanted") == 2)
    assert (found["spec"]["workers"], found["status"]["wantedBy"]) == (0, "user")


async def test_a_spec_that_only_we_can_refuse(api: Client, namespace: str, master: Process) -> None:
    """What passes the schema and makes no worker stands in a condition, with field and value."""
    crooked = {"spec": {**TEMPLATE["spec"], "volumes": "none"}}
    job = await submit(api, namespace, template=crooked)

    found = await api.until(job, lambda own: "spec.template" in str(own.get("status", {}).get("conditions")))

    assert found["status"]["workers"] == 0
    assert await api.items(where("pods", namespace), labels="gangwright.io/elastic-job=train") == []


async def test_killed_and_started_again(api: Client, namespace: str, made: Callable[..., Process]) -> None:
    """Under the same name it acts again at once, and makes no second set of pods."""
    first = await asyncio.to_thread(made().start)
    job = await submit(api, namespace)
    before = {pod["metadata"]["uid"] for pod in await workers(api, namespace, 2)}

    await asyncio.to_thread(first.kill)
    await api.patch(job, {"metadata": {"labels": {"seen": "no"}}}, how="merge")
    await asyncio.to_thread(made().start)
    await api.patch(job, {"spec": {"workers": 3}}, how="merge")
    await api.until(job, lambda own: own.get("status", {}).get("wanted") == 3)

    after = await workers(api, namespace, 3)
    cores = [pod for pod in after if pod["metadata"]["labels"]["gangwright.io/elastic-role"] == "core"]
    assert {pod["metadata"]["uid"] for pod in cores} == before


async def test_one_acts_at_a_time(api: Client, namespace: str, made: Callable[..., Process]) -> None:
    """The second waits for the Lease; it is given back by the first, and the second goes on."""
    first = await asyncio.to_thread(made("first").start)
    second = await asyncio.to_thread(made("second").begin)
    lease = where("leases", namespace, "gangwright-elastic")
    await asyncio.sleep(0.1)
    assert (await api.get(lease))["spec"]["holderIdentity"] == "first"
    assert second.places == {}

    await asyncio.to_thread(first.stop)

    await api.until(lease, lambda own: own["spec"]["holderIdentity"] == "second")
    await submit(api, namespace)
    await workers(api, namespace, 2)
    assert second.alive


async def test_a_job_that_is_deleted_takes_its_pods_along(
    api: Client, namespace: str, master: Process
) -> None:
    """Pods and policy are the job's own: the cluster's garbage collection removes them."""
    job = await submit(api, namespace)
    await workers(api, namespace, 2)

    await api.delete(job, propagation="Background")

    await workers(api, namespace, 0)
    await api.gone(where("networking.k8s.io/v1/networkpolicies", namespace, "train-workers"))
