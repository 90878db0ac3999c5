"""The stand-in kubelet and its nodes: they die and come back, are drained, and leave nothing behind."""

import asyncio

import pytest

from bench.plane import ApiError, Fleet, where
from bench.plane.kubelet import PLAIN, Kubelet
from tests.bench.plane.kubelet.running import FLEET, NODES, ended, in_phase, logged, only, processes, runs

pytestmark = pytest.mark.plane


async def test_two_pods_at_once(submit, told, kubelet):
    """Pods run side by side, on a node and under an address of its own each."""
    names = ("a", "b")
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pods = [await submit(name, "echo up; while :; do sleep 0.02; done", container=gpu) for name in names]
    for pod in pods:
        await logged(kubelet, pod, "up")
    found = [await told(name, in_phase("Running")) for name in names]
    assert {pod["spec"]["nodeName"] for pod in found} == set(NODES)
    assert len({pod["status"]["podIP"] for pod in found}) == 2
    ours, theirs = [await processes(kubelet, pod) for pod in pods]
    assert not set(ours) & set(theirs)


async def test_a_node_is_killed(submit, told, kubelet, api, namespace):
    """Nothing of it runs and nothing is heard; when it is back, what it ran has failed and it takes pods again."""
    pod = await submit("a", "trap 'echo hup' HUP; echo up; while :; do sleep 0.02; done")
    await logged(kubelet, pod, "up")
    running = await told("a", in_phase("Running"))
    node, pids = running["spec"]["nodeName"], await processes(kubelet, pod)
    before = (await api.get(where("leases", "kube-node-lease", node)))["spec"]["renewTime"]
    await asyncio.to_thread(kubelet.kill_node, node)
    assert not any(map(runs, pids))
    await api.delete(where("pods", namespace, "a"), grace=30)
    still = await api.get(where("pods", namespace, "a"))
    assert still["status"]["phase"] == "Running"
    await asyncio.to_thread(kubelet.revive_node, node)
    await api.gone(where("pods", namespace, "a"))
    await api.until(
        where("leases", "kube-node-lease", node), lambda lease: lease["spec"]["renewTime"] > before
    )
    await submit("b", "true", nodeSelector={"kubernetes.io/hostname": node})
    await told("b", in_phase("Succeeded"))


async def test_what_ran_on_a_node_that_was_off_has_failed(submit, told, kubelet):
    """A pod that is never restarted is told as failed once its node is back."""
    pod = await submit("a", "echo up; while :; do sleep 0.02; done")
    await logged(kubelet, pod, "up")
    node = (await told("a", in_phase("Running")))["spec"]["nodeName"]
    await asyncio.to_thread(kubelet.kill_node, node)
    await asyncio.to_thread(kubelet.revive_node, node)
    failed = await told("a", in_phase("Failed"))
    assert only(failed)["state"]["terminated"]["reason"] == "ContainerStatusUnknown"


async def test_a_drain(submit, kubelet, plane, api, namespace):
    """kubectl drain goes through: the evicted pod is told SIGTERM and is gone."""
    pod = await submit("a", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done")
    await logged(kubelet, pod, "up")
    node = (await api.get(where("pods", namespace, "a")))["spec"]["nodeName"]
    words = ("drain", node, "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=30s")
    await asyncio.to_thread(plane.kubectl, *words)
    assert await api.find(where("pods", namespace, "a")) is None
    assert kubelet.log(pod) == "up\nbye\n"
    await asyncio.to_thread(plane.kubectl, "uncordon", node)


@pytest.mark.extended
async def test_the_api_server_may_be_away(submit, told, kubelet, plane):
    """Pods run on while it is down, what happened meanwhile is told when it is back, and nodes that come then are used.

    It ends when kube-scheduler has found its watches again, which takes seconds: it knows the nodes of later tests.
    """
    pod = await submit("a", "echo up; while test ! -e /work/go; do sleep 0.02; done; exit 6",
                       container={"volumeMounts": [{"name": "work", "mountPath": "/work"}]},
                       volumes=[{"name": "work", "emptyDir": {}}])  # fmt: skip
    await logged(kubelet, pod, "up")
    pids = await processes(kubelet, pod)
    await asyncio.to_thread(plane.apiserver.stop)
    (kubelet.folder / "pods" / pod["metadata"]["uid"] / "volumes" / "work" / "go").touch()
    await ended(pids)
    await asyncio.to_thread(plane.apiserver.restart)
    assert only(await told("a", in_phase("Failed")))["state"]["terminated"]["exitCode"] == 6

    (late,) = await asyncio.to_thread(kubelet.add, Fleet(prefix="late-", nodes_per_rack=1))
    await submit("b", "true", nodeSelector={"kubernetes.io/hostname": late})
    await told("b", in_phase("Succeeded"), within=60)
    await asyncio.to_thread(kubelet.remove, late)


async def test_nothing_is_left_when_it_ends(plane, api, namespace):
    """Its processes, its nodes, their leases and their pods are gone; nodes of others stay."""
    fleet = Fleet(prefix="brief-", nodes_per_rack=1, gpus=1)
    (node,) = fleet.names()
    with_it = Kubelet(plane, fleet, images={"plain": PLAIN})
    await asyncio.to_thread(with_it.start)
    spec = {
        "containers": [
            {"name": "main", "image": "plain", "command": ["sh", "-c", "echo up; sleep 600 & sleep 601"]}
        ],
        "nodeName": node,
        "automountServiceAccountToken": False,
    }
    pod = await api.create(where("pods", namespace), {"metadata": {"name": "a"}, "spec": spec})
    await logged(with_it, pod, "up")
    await asyncio.to_thread(with_it.until_runs, pod)
    pids = with_it.pids(pod)
    await asyncio.to_thread(with_it.stop)
    assert len(pids) == 3
    assert not any(map(runs, pids))
    for path in (
        where("nodes", name=node),
        where("leases", "kube-node-lease", node),
        where("pods", namespace, "a"),
    ):
        assert await api.find(path) is None


async def test_without_namespaces(plane, api, namespace):
    """Where the machine permits none, a pod that is told its paths finds its volumes, and ends whole."""
    fleet = Fleet(prefix="bare-", nodes_per_rack=1)
    kubelet = Kubelet(plane, fleet, images={"plain": PLAIN}, isolation="none")
    await asyncio.to_thread(kubelet.start)
    mounts = [{"name": "shared", "mountPath": "/gangwright"}]
    script = "cat /gangwright/x; cat $FILE; sleep 602 & exit 4"
    spec = {
        "nodeName": fleet.names()[0],
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "volumes": [{"name": "shared", "emptyDir": {}}],
        "initContainers": [
            {"name": "one", "image": "plain", "command": ["sh", "-c", "echo 1 > /gangwright/x"], "volumeMounts": mounts}
        ],
        "containers": [
            {"name": "main", "image": "plain", "command": ["sh", "-c", script], "volumeMounts": mounts,
             "env": [{"name": "FILE", "value": "/gangwright/x"}]}
        ],
    }  # fmt: skip
    try:
        pod = await api.create(where("pods", namespace), {"metadata": {"name": "a"}, "spec": spec})
        done = await api.until(where("pods", namespace, "a"), in_phase("Succeeded", "Failed"))
        assert only(done)["state"]["terminated"]["exitCode"] == 4
        assert kubelet.log(pod) == "1\n1\n"
    finally:
        await asyncio.to_thread(kubelet.stop)


async def test_a_node_of_that_name_is_refused(kubelet):
    """Two nodes cannot have one name."""
    with pytest.raises(ApiError, match="already exists"):
        await asyncio.to_thread(kubelet.add, FLEET)
