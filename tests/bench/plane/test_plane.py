"""The real programs: do they come up, do their work, and go without a trace?"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bench.plane import Client, Plane, service_account, watches, where
from bench.plane.client import Object
from bench.plane.errors import ApiError, CommandError, DescriptionError
from bench.plane.nodes import GPU, Fleet
from tests.support.plane_fixtures import MakeNodes

pytestmark = pytest.mark.plane

EXTENDED = {
    "profiles": [{"schedulerName": "extended"}],
    "leaderElection": {"leaderElect": False},
    "extenders": [{"urlPrefix": "http://127.0.0.1:1/v1", "filterVerb": "filter", "nodeCacheCapable": True}],
}

LED = {"leaderElect": True, "resourceName": "twins", "resourceNamespace": "kube-system", "retryPeriod": "1s"}


def a_pod(name: str, *, scheduler: str = "default-scheduler", **notes: str) -> Object:
    """A pod of one GPU; `runs_for="1s"` and the like become kwok's annotations."""
    annotations = {f"plane.gangwright.io/{word.replace('_', '-')}": value for word, value in notes.items()}
    container = {"name": "main", "image": "none", "resources": {"limits": {GPU: "1"}}}
    spec = {"schedulerName": scheduler, "containers": [container], "restartPolicy": "Never"}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


def a_job(name: str, pods: int, **notes: str) -> Object:
    template = a_pod("any", **notes)
    del template["metadata"]["name"]
    return {
        "metadata": {"name": name},
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


def all_are(phase: str) -> Any:
    return lambda pods: pods and all(pod["status"]["phase"] == phase for pod in pods)


@asynccontextmanager
async def an_extender() -> AsyncIterator[tuple[str, list[str]]]:
    """An extender that takes the last node offered; its address, and the pods it was asked about."""
    asked: list[str] = []

    async def choose(request: web.Request) -> web.Response:
        call = await request.json()
        asked.append(call["Pod"]["metadata"]["name"])
        return web.json_response({"NodeNames": sorted(call["NodeNames"])[-1:]})

    app = web.Application()
    app.router.add_post("/v1/filter", choose)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()


async def test_pod_is_bound_and_runs(api: Client, namespace: str, make_nodes: MakeNodes) -> None:
    """The plain kube-scheduler binds pods to fake nodes, where kwok runs them and ends them when they say so."""
    names = await make_nodes(racks=2, nodes_per_rack=2)
    pods = where("pods", namespace)

    async with watches.binds(api, namespace) as binds:
        await api.create_all(pods, [a_pod(f"p{number}", runs_for="200ms") for number in range(8)])
        assert set((await binds.reach(8)).values()) <= set(names)

    await watches.until(api, pods, all_are("Succeeded"))


async def test_pods_bound_before_their_nodes_are_known(
    api: Client, namespace: str, make_nodes: MakeNodes
) -> None:
    """Pods that are bound by the time kwok comes to know their nodes run all the same."""
    for name in Fleet().names():
        pod = a_pod(name)
        pod["spec"]["nodeName"] = name
        await api.create(where("pods", namespace), pod)

    await make_nodes()

    await watches.until(api, where("pods", namespace), all_are("Running"))


async def test_pod_may_fail(api: Client, namespace: str, make_nodes: MakeNodes) -> None:
    """A pod with an exit code ends Failed, with that code."""
    await make_nodes()
    await api.create(where("pods", namespace), a_pod("p", runs_for="0s", exit_code="7"))

    [pod] = await watches.until(api, where("pods", namespace), all_are("Failed"))

    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7


async def test_deleted_pod_takes_its_time(api: Client, namespace: str, make_nodes: MakeNodes) -> None:
    """A deleted pod keeps running until it has stopped, ends Failed like a process ended by SIGTERM, and is gone."""
    await make_nodes()
    path = where("pods", namespace, "p")
    await api.create(where("pods", namespace), a_pod("p", stops_in="300ms"))
    await api.until(path, lambda pod: pod["status"]["phase"] == "Running")

    phases = []
    await api.delete(path)
    async for kind, pod in watches.changes(api, where("pods", namespace)):
        phases.append(pod["status"]["phase"])
        if kind == "DELETED":
            break

    assert (phases[0], phases[-1]) == ("Running", "Failed")


async def test_job_comes_to_its_end(api: Client, namespace: str, make_nodes: MakeNodes) -> None:
    """The controller-manager makes a Job's pods and counts them when kwok has run them."""
    await make_nodes()

    await api.create(where("jobs", namespace), a_job("job", 3, runs_for="100ms"))

    await api.until(where("jobs", namespace, "job"), lambda job: job["status"].get("succeeded") == 3)


async def test_scheduler_asks_its_extender(
    plane: Plane, api: Client, namespace: str, make_nodes: MakeNodes
) -> None:
    """A second kube-scheduler asks the extender at the given address and binds where it says."""
    names = await make_nodes(racks=1, nodes_per_rack=3)

    async with an_extender() as (url, asked), watches.binds(api, namespace) as binds:
        await asyncio.to_thread(plane.start_scheduler, "extended", EXTENDED, extender_url=url)
        await api.create(where("pods", namespace), a_pod("p", scheduler="extended"))
        at = await binds.reach(1)
        await asyncio.to_thread(plane.end, "extended")

    assert asked == ["p"]
    assert at == {f"{namespace}/p": names[-1]}


async def test_twins_are_told_apart(plane: Plane, api: Client) -> None:
    """Of two kube-schedulers under one lease one leads; when it ends in order, the other leads soon."""
    for host in ("castor", "pollux"):
        words: dict[str, Any] = {"changes": {"leaderElection": LED}, "hostname": host}
        await asyncio.to_thread(plane.start_scheduler, host, EXTENDED, **words)
    lease = where("leases", "kube-system", "twins")
    first = (await api.until(lease, lambda each: each["spec"].get("holderIdentity")))["spec"][
        "holderIdentity"
    ]

    leader = next((host for host in ("castor", "pollux") if first.startswith(host)), None)
    if leader is not None:  # where the machine permits a hostname of one's own
        await asyncio.to_thread(plane.end, leader)
        await api.until(lease, lambda each: each["spec"].get("holderIdentity", "") not in {"", first})

    for host in {"castor", "pollux"} & set(plane.programs):
        await asyncio.to_thread(plane.end, host)
    await api.delete(lease)


async def test_name_of_a_program_is_its_own(plane: Plane) -> None:
    """A second program of the same name is refused."""
    with pytest.raises(DescriptionError, match="kube-scheduler"):
        plane.start_scheduler("kube-scheduler")


async def test_api_server_comes_back_with_everything(plane: Plane, api: Client, namespace: str) -> None:
    """The API server restarts at its address with its data, and watches go on over it."""
    path = where("pods", namespace)
    await api.create(path, a_pod("before"))

    stream = watches.changes(api, path)
    assert (await anext(stream))[1]["metadata"]["name"] == "before"
    await asyncio.to_thread(plane.apiserver.restart)
    await api.create(path, a_pod("after"))
    async for _, pod in stream:
        if pod["metadata"]["name"] == "after":
            break
    await stream.aclose()  # type: ignore[attr-defined]

    assert {pod["metadata"]["name"] for pod in await api.items(path)} == {"before", "after"}


async def test_rights_are_those_of_the_service_account(plane: Plane, namespace: str) -> None:
    """A client under a service account may do what RBAC grants it; the audit log tells both sides."""
    nobody, mark = service_account(namespace, "nobody"), plane.audit.mark()
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    role: Object = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [rule]}
    role |= {"metadata": {"name": "reader", "namespace": namespace}}
    binding: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": role["metadata"],
    }
    binding |= {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}}
    binding |= {"subjects": [{"kind": "ServiceAccount", "name": "nobody", "namespace": namespace}]}
    await asyncio.to_thread(plane.apply, [role, binding])

    async with plane.client(nobody) as theirs:
        assert await theirs.items(where("pods", namespace)) == []
        with pytest.raises(ApiError, match="403 Forbidden"):
            await theirs.items(where("secrets", namespace))

    assert plane.audit.used(nobody.user, since=mark) == {("list", "pods")}
    assert [each.resource for each in plane.audit.refused(nobody.user, since=mark)] == ["secrets"]


async def test_kubectl_says_why(plane: Plane) -> None:
    """kubectl's complaint is the error's message."""
    with pytest.raises(CommandError, match="not found"):
        plane.kubectl("get", "pod", "nobody")


def test_stop_leaves_nothing(tmp_path: Path) -> None:
    """After `stop` no program of the plane runs and its folder is gone; without controllers namespaces need no wait."""
    with Plane(kwok=False) as plane:
        plane.programs["kube-scheduler"].signal(signal.SIGSTOP)
        pids = [program.pid for program in plane.programs.values()]
        plane.kubectl("run", "p", "--image=none")

    assert not plane.folder.exists()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists() and os.getpgid(pid) == pid]


def test_native_gangs_can_be_switched_on() -> None:
    """With native gangs the API server knows PodGroups of its own."""
    with Plane(native_gangs=True, kwok=False, scheduler=False) as plane:
        assert "podgroups" in plane.kubectl("api-resources", "--api-group=scheduling.k8s.io")
