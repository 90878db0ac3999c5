"""Stories of the commands that need a kubelet: what a gang writes, and the way to the status service in its Pod."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest_asyncio

from bench.plane import Fleet, Plane, where
from bench.plane.client import Object
from bench.plane.installation import NAMESPACE
from bench.plane.kubelet import PLAIN, Kubelet
from bench.plane.ports import Ports
from tests.stories.support.cluster import ENDED, Cluster
from tests.stories.support.people import Person, binding, hired
from tests.stories.support.workloads import gang

FLEET = Fleet(prefix="real-", nodes_per_rack=2, gpus=2, cpu="8")
STATUS_PORT = 10272


@pytest_asyncio.fixture
async def kubelet(cluster: Cluster, plane: Plane) -> AsyncIterator[Kubelet]:
    """Two nodes whose pods are processes."""
    running = Kubelet(plane, FLEET, images={"plain": PLAIN})
    await asyncio.to_thread(running.start)
    yield running
    await asyncio.to_thread(running.stop)


@pytest_asyncio.fixture
async def jane(cluster: Cluster, plane: Plane, tmp_path: Path) -> Person:
    """She may look at everything in the story's namespace."""
    person = await hired(cluster.api, plane, cluster.namespace, "jane", tmp_path)
    plane.apply([binding("jane", "view", "jane", cluster.namespace, inside=cluster.namespace)])
    return person


def writing(script: str) -> dict[str, Any]:
    """What is said of a gang whose members run this."""
    main = {"name": "main", "image": "plain", "command": ["sh", "-c", script]}
    main["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    return {"spec": {"containers": [main], "restartPolicy": "Never", "automountServiceAccountToken": False}}


async def test_the_logs_of_a_gang(cluster: Cluster, kubelet: Kubelet, jane: Person):
    """Every line of every member is there once, in its member's order, behind its member's name."""
    await cluster.submit(*gang("train", 3, **writing('for n in 1 2 3; do echo "step $n" of $HOSTNAME; done')))
    await cluster.until("train", lambda pods: all(own["status"]["phase"] in ENDED for own in pods))

    said = await jane.says("logs", "train")
    last = await jane.says("logs", "train", "--tail", "1")

    members = [f"train-{number}" for number in range(3)]
    for name in members:
        own = [line for line in said.out.splitlines() if line.startswith(name)]
        assert own == [f"{name} step {n} of {name}" for n in (1, 2, 3)]
    assert (said.code, len(said.out.splitlines())) == (0, 9), said.err
    assert sorted(last.out.splitlines()) == [f"{name} step 3 of {name}" for name in members]


async def test_the_last_seconds_of_a_gang(cluster: Cluster, kubelet: Kubelet, jane: Person):
    """With --since the lines that a member wrote before are left out."""
    await cluster.submit(
        *gang("train", 2, **writing("echo old; trap 'echo new' HUP; while :; do sleep 0.02; done"))
    )
    members = [f"{cluster.namespace}/{member}" for member in await cluster.running("train", 2)]
    for member in members:
        await until_written(kubelet, member, "old")
        await asyncio.to_thread(kubelet.until_runs, member)
    await asyncio.sleep(10)  # what is old must be older than what is asked for, however slow the machine
    told = asyncio.get_running_loop().time()
    for member in members:
        kubelet.kill(member, signal.SIGHUP)
        await until_written(kubelet, member, "new")
    said = await jane.says("logs", "train", "--since", f"{asyncio.get_running_loop().time() - told + 8:.0f}s")

    assert said.code == 0, said.err
    assert sorted(said.out.splitlines()) == ["train-0 new", "train-1 new"]


async def test_a_gang_is_followed_to_its_end(cluster: Cluster, kubelet: Kubelet, jane: Person):
    """logs -f waits for a gang that has not begun, shows what it writes until its last member has ended, and ends
    then.
    """
    script = "echo begun; trap 'echo saved; exit 0' TERM; while :; do sleep 0.02; done"
    for node in kubelet.nodes:
        await cluster.cordon(node)
    await cluster.submit(*gang("train", 2, **writing(script)))
    await cluster.told("train", "InsufficientResources")

    following = asyncio.create_task(jane.says("logs", "train", "-f"))
    for node in kubelet.nodes:
        await cluster.cordon(node, unschedulable=False)
    for member in await cluster.running("train", 2):
        await until_written(kubelet, f"{cluster.namespace}/{member}", "begun")
        await asyncio.to_thread(kubelet.until_runs, f"{cluster.namespace}/{member}")
        kubelet.kill(f"{cluster.namespace}/{member}", 15)
    said = await following

    assert said.code == 0, said.err
    assert sorted(said.out.splitlines()) == [
        "train-0 begun",
        "train-0 saved",
        "train-1 begun",
        "train-1 saved",
    ]


async def until_written(kubelet: Kubelet, pod: str, words: str) -> None:
    async with asyncio.timeout(20):
        while words not in kubelet.log(pod):
            await asyncio.sleep(0.02)


# ── the status service, from outside of the cluster ─────────────────────────────────────────────────────


def stands_in(name: str, node: str, port: int) -> Object:
    """A Pod as the Deployment's are found; its status port is that port of this machine."""
    main: dict[str, Any] = {"name": "main", "image": "plain", "command": ["sleep", "600"]}
    main["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/name": "gangwright"},
            "annotations": {f"plane.gangwright.io/port.{STATUS_PORT}": str(port)},
        },
        "spec": {
            "nodeName": node,
            "containers": [main],
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        },
    }


@pytest_asyncio.fixture
async def pods(cluster: Cluster, kubelet: Kubelet) -> AsyncIterator[list[str]]:
    """Two Pods run in Gangwright's namespace: in the first nobody listens, in the second the extender does."""
    home, served = where("pods", NAMESPACE), urlsplit(cluster.gangwright.status).port
    assert served is not None
    names = ["gangwright-0", "gangwright-1"]
    kept = Ports()
    for name, port in zip(names, (kept.take(), served), strict=True):
        await cluster.api.create(home, stands_in(name, kubelet.nodes[0], port))
    for name in names:
        await cluster.api.until(f"{home}/{name}", lambda own: own["status"].get("phase") == "Running")
    yield names
    for name in names:
        await cluster.api.delete(f"{home}/{name}", grace=0)
    kept.close()


async def test_the_service_is_reached_in_its_pod(
    cluster: Cluster, plane: Plane, pods: list[str], jane: Person
):
    """Whoever has the role gangwright-view needs no address: the port is forwarded, and the service knows who asks."""
    await cluster.submit(*gang("large", 9))
    await cluster.told("large", "ExceedsCluster")

    refused = await jane.says("list", "--server", "pod")
    plane.apply([binding("looks-on", "view", "jane", cluster.namespace, inside=NAMESPACE)])
    shut_out = await jane.says("list", "--server", "pod")
    plane.apply([binding(cluster.namespace, "gangwright-view", "jane", cluster.namespace, inside=NAMESPACE)])
    listed = await jane.says("list", "--server", "pod")
    drained = await jane.says("drain", FLEET.names()[0], "--server", "pod")
    plane.kubectl("-n", NAMESPACE, "delete", "rolebinding", cluster.namespace, "looks-on")

    for said in (refused, shut_out):
        assert (said.code, "Ask an administrator for the ClusterRole gangwright-view" in said.err) == (
            2,
            True,
        ), said
    assert (listed.code, listed.err) == (0, "")
    assert [(row["GANG"], row["REASON"]) for row in listed.rows] == [("large", "ExceedsCluster")]
    assert (drained.code, "you may not patch nodes" in drained.err) == (2, True)
