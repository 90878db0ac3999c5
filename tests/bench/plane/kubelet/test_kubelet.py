"""The stand-in kubelet on a real API server: pods are bound by a real kube-scheduler and run as processes."""

import asyncio
import signal

import pytest

from bench.plane import NeverCameError, where
from bench.plane.client import key
from bench.plane.errors import NotReadyError
from bench.plane.kubelet import Image
from tests.bench.plane.kubelet.running import conditions, ended, in_phase, logged, only, processes

pytestmark = pytest.mark.plane


async def test_a_pod_runs_and_succeeds(submit, told, kubelet):
    """Its whole way: Pending, bound, Running and ready, Succeeded; with its log, its code and its times."""
    pod = await submit("a", "echo hello; while test ! -e /work/go; do sleep 0.02; done",
                       container={"volumeMounts": [{"name": "work", "mountPath": "/work"}]},
                       volumes=[{"name": "work", "emptyDir": {}}])  # fmt: skip
    up = await told(
        "a", lambda own: "running" in only(own)["state"] if own["status"].get("containerStatuses") else 0
    )
    assert conditions(up).items() >= {
        "PodScheduled": "True", "Initialized": "True", "ContainersReady": "True", "Ready": "True",
    }.items()  # fmt: skip
    assert up["status"]["podIP"].startswith("127.1.")
    assert up["status"]["startTime"]
    (kubelet.folder / "pods" / up["metadata"]["uid"] / "volumes" / "work" / "go").touch()
    done = await told("a", in_phase("Succeeded", "Failed"))
    assert done["status"]["phase"] == "Succeeded"
    state = only(done)["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (0, "Completed")
    assert conditions(done)["Ready"] == "False"
    assert kubelet.log(pod) == "hello\n"


async def test_a_pod_that_fails(submit, told):
    """Its exit code is told, and the phase is Failed."""
    await submit("a", "exit 42")
    done = await told("a", in_phase("Succeeded", "Failed"))
    assert done["status"]["phase"] == "Failed"
    state = only(done)["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (42, "Error")


async def test_a_command_that_is_not_there(submit, told):
    """It fails as under a container runtime: StartError, 128, and the word that was not found."""
    await submit("a", "", container={"command": ["no-such-program"]})
    state = only(await told("a", in_phase("Failed")))["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (128, "StartError")
    assert "no-such-program" in state["message"]


async def test_failures_are_started_again_under_on_failure(submit, told, kubelet):
    """OnFailure: again after a pause until it succeeds, with restarts counted and the last state kept."""
    pod = await submit("a", "echo try >> /work/tries; test $(wc -l < /work/tries) -ge 3",
                       container={"volumeMounts": [{"name": "work", "mountPath": "/work"}]},
                       volumes=[{"name": "work", "emptyDir": {}}], restartPolicy="OnFailure")  # fmt: skip
    done = await told("a", in_phase("Succeeded", "Failed"))
    own = only(done)
    assert (done["status"]["phase"], own["restartCount"]) == ("Succeeded", 2)
    assert own["lastState"]["terminated"]["exitCode"] == 1
    assert kubelet.log(pod) == ""


async def test_a_deleted_pod_has_its_grace(submit, told, kubelet, api, namespace):
    """SIGTERM comes at once, the pod may take its time, its own exit code counts, and then it is gone."""
    pod = await submit(
        "a", "trap 'echo leaving; sleep 0.3; echo left; exit 5' TERM; echo up; while :; do sleep 0.02; done"
    )
    await logged(kubelet, pod, "up")
    path = where("pods", namespace, "a")
    seen = asyncio.create_task(told("a", in_phase("Failed")))
    await api.patch(path, {"metadata": {"finalizers": ["test.gangwright.io/look"]}}, how="merge")
    await api.delete(path)
    last = await seen
    assert only(last)["state"]["terminated"]["exitCode"] == 5
    await api.patch(path, {"metadata": {"finalizers": None}}, how="merge")
    await api.gone(path)
    assert kubelet.log(pod) == "up\nleaving\nleft\n"


async def test_a_deaf_pod_is_killed_after_its_grace(submit, kubelet, api, namespace):
    """Whoever ignores SIGTERM is killed when the time is over, with all that came from it."""
    pod = await submit("a", "trap '' TERM; echo up; sleep 600 & while :; do sleep 0.02; done")
    await logged(kubelet, pod, "up")
    pids = await processes(kubelet, pod)
    await api.delete(where("pods", namespace, "a"), grace=1)
    await api.gone(where("pods", namespace, "a"), within=15)
    await ended(pids)
    assert len(pids) >= 2


async def test_a_second_deletion_may_shorten_the_grace(submit, kubelet, api, namespace):
    """The sooner deadline counts."""
    pod = await submit(
        "a", "trap 'echo no' TERM; echo up; while :; do sleep 0.02; done", terminationGracePeriodSeconds=600
    )
    await logged(kubelet, pod, "up")
    await api.delete(where("pods", namespace, "a"))
    await logged(kubelet, pod, "no")
    await api.delete(where("pods", namespace, "a"), grace=1)
    await api.gone(where("pods", namespace, "a"), within=15)


async def test_a_pod_whose_object_vanishes_ends(submit, kubelet, api, namespace):
    """Deleted without grace, nothing of it stays behind."""
    pod = await submit("a", "trap '' TERM; echo up; while :; do sleep 0.02; done")
    await logged(kubelet, pod, "up")
    pids = await processes(kubelet, pod)
    await api.delete(where("pods", namespace, "a"), grace=0)
    await ended(pids)


async def test_an_init_container_that_fails(submit, told, kubelet):
    """The pod fails with it and its container never runs."""
    inits = [{"name": "one", "image": "plain", "command": ["sh", "-c", "exit 9"]}]
    pod = await submit("a", "echo never", initContainers=inits)
    done = await told("a", in_phase("Failed"))
    assert only(done, "initContainerStatuses")["state"]["terminated"]["exitCode"] == 9
    assert only(done)["state"]["waiting"]["reason"] == "PodInitializing"
    assert kubelet.log(pod) == ""


async def test_an_unknown_image(submit, told, kubelet, api, namespace):
    """It is told as one that cannot be pulled; the pod can be deleted; once the image exists a pod starts."""

    def reason(*wanted):
        return lambda own: any(
            state["state"].get("waiting", {}).get("reason") in wanted
            for state in own["status"].get("containerStatuses", ())
        )

    await submit("a", "true", container={"image": "no/such:1"})
    await told("a", reason("ErrImagePull", "ImagePullBackOff"))
    waiting = await told("a", reason("ImagePullBackOff"))
    assert "no/such:1" in only(waiting)["state"]["waiting"]["message"]
    assert waiting["status"]["phase"] == "Pending"
    await api.delete(where("pods", namespace, "a"))
    await api.gone(where("pods", namespace, "a"))
    await submit("b", "", container={"image": "no/such:2", "command": None})
    await told("b", reason("ErrImagePull", "ImagePullBackOff"))
    kubelet.images["no/such:2"] = Image(entrypoint=["sh", "-c", "echo pulled"])
    done = await told("b", in_phase("Succeeded"))
    assert kubelet.log(done) == "pulled\n"


async def test_signals_frost_and_memory(submit, told, kubelet):
    """A test may kill what runs, and say that it was for want of memory."""
    pod = await submit("a", "trap 'echo hup' HUP; echo up; while :; do sleep 0.02; done")
    await logged(kubelet, pod, "up")
    await asyncio.to_thread(kubelet.until_runs, pod)
    kubelet.freeze(pod)
    kubelet.kill(pod, signal.SIGHUP)
    kubelet.thaw(pod)
    await logged(kubelet, pod, "hup")
    kubelet.kill(pod, memory=True)
    state = only(await told("a", in_phase("Failed")))["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (137, "OOMKilled")


async def test_signals_to_nobody(submit, told, kubelet):
    """A signal that no process gets is an error that names the pod, and the container where one was named."""
    pod = await submit("a", "sleep 60", container={"image": "no/such:3", "command": None})
    await told("a", lambda own: own["status"].get("containerStatuses"))
    with pytest.raises(NotReadyError, match=f"no process of '{key(pod)}' runs"):
        kubelet.kill(pod)
    with pytest.raises(NeverCameError, match=f"no process of '{key(pod)}' runs within"):
        kubelet.until_runs(pod, 0.05)
    done = await submit("b", "true")
    await told("b", in_phase("Succeeded"))
    with pytest.raises(NotReadyError, match=f"no process of '{key(done)}' runs"):
        kubelet.freeze(done)
    running = await submit("c", "sleep 60")
    await asyncio.to_thread(kubelet.until_runs, running)
    with pytest.raises(NotReadyError, match=f"no process of container 'other' of '{key(running)}' runs"):
        kubelet.kill(running, container="other")
    kubelet.kill(running)


async def test_probes(submit, told, kubelet):
    """A pod is ready once its readiness probe succeeds, and what is not alive is started again."""
    probe = {"exec": {"command": ["test", "-e", "/work/ready"]}, "periodSeconds": 1}
    alive = {
        "exec": {"command": ["test", "!", "-e", "/work/dead"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
    }
    pod = await submit("a", "rm -f /work/dead; echo up; trap 'exit 3' TERM; while :; do sleep 0.02; done",
                       container={"readinessProbe": probe, "livenessProbe": alive,
                                  "volumeMounts": [{"name": "work", "mountPath": "/work"}]},
                       volumes=[{"name": "work", "emptyDir": {}}], restartPolicy="Always")  # fmt: skip
    await logged(kubelet, pod, "up")
    unready = await told("a", in_phase("Running"))
    assert conditions(unready)["Ready"] == "False"
    place = kubelet.folder / "pods" / pod["metadata"]["uid"] / "volumes" / "work"
    (place / "ready").touch()
    await told("a", lambda own: conditions(own)["Ready"] == "True")
    (place / "dead").touch()
    again = await told("a", lambda own: only(own)["restartCount"] == 1)
    assert only(again)["lastState"]["terminated"]["exitCode"] == 3
