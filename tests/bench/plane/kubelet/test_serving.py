"""What the stand-in kubelet answers to the API server: `kubectl logs`, and ports that are forwarded."""

import asyncio
import struct

import aiohttp
import pytest
import pytest_asyncio

from bench.plane import Fleet, where
from bench.plane.errors import CommandError
from bench.plane.kubelet import PLAIN, Kubelet

pytestmark = [pytest.mark.plane, pytest.mark.extended]

FLEET = Fleet(prefix="served-", nodes_per_rack=1, cpu="8")


@pytest.fixture(scope="module")
def kubelet(plane):
    with Kubelet(plane, FLEET, images={"plain": PLAIN}) as running:
        yield running


@pytest_asyncio.fixture
async def run(api, kubelet, namespace):
    """Runs a script as a pod's only container, and waits until the pod is in one of these phases."""

    async def ran(name, script, *phases, policy="Never", **annotations):
        body = {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "nodeName": kubelet.nodes[0],
                "containers": [{"name": "main", "image": "plain", "command": ["sh", "-c", script]}],
                "restartPolicy": policy,
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
            },
        }
        await api.create(where("pods", namespace), body)
        return await api.until(
            where("pods", namespace, name), lambda own: own["status"].get("phase") in phases
        )

    return ran


@pytest.fixture
def logs(plane, namespace):
    async def asked(*words):
        return await asyncio.to_thread(plane.kubectl, "logs", "-n", namespace, *words)

    return asked


async def test_kubectl_shows_a_log(run, logs):
    """All of it, or its last lines; output and errors in the order in which they were written."""
    await run("a", "echo one; echo two >&2; printf three", "Succeeded")

    assert await logs("a") == "one\ntwo\nthree"
    assert await logs("a", "--tail", "2") == "two\nthree"
    assert await logs("a", "--tail", "0") == ""


async def test_the_last_seconds_of_a_log(run, logs, kubelet, namespace):
    """With --since what was written before is left out, also of a container that has ended; it goes with --tail."""
    await run(
        "a", "echo one; trap 'echo two; echo three; exit 0' TERM; while :; do sleep 0.02; done", "Running"
    )
    await asyncio.to_thread(kubelet.until_runs, f"{namespace}/a")
    await asyncio.sleep(6)  # what is old must be older than what is asked for, however slow the machine
    kubelet.kill(f"{namespace}/a", 15)
    told = asyncio.get_running_loop().time()
    while "three" not in kubelet.log(f"{namespace}/a"):
        await asyncio.sleep(0.02)

    def since():
        return f"{int(asyncio.get_running_loop().time() - told) + 4}s"

    assert await logs("a", "--since", since()) == "two\nthree\n"
    assert await logs("a", "--since", since(), "--tail", "1") == "three\n"
    assert await logs("a", "--since", "1h") == "one\ntwo\nthree\n"


async def test_a_log_is_followed_to_its_end(run, logs, kubelet, namespace):
    """What is written while kubectl looks on is shown, and it ends with the container."""
    await run("a", "echo one; trap 'echo last; exit 0' TERM; while :; do sleep 0.02; done", "Running")
    following = asyncio.create_task(logs("a", "-f"))
    while "one" not in kubelet.log(f"{namespace}/a"):
        await asyncio.sleep(0.02)
    await asyncio.to_thread(kubelet.until_runs, f"{namespace}/a")
    kubelet.kill(f"{namespace}/a", 15)

    assert await following == "one\nlast\n"


async def test_the_run_before(run, logs, api, namespace):
    """A container that was started again has the log of its last run, and with -p the one before."""
    await run("a", "date +%s%N; exit 1", "Running", policy="Always")
    path = where("pods", namespace, "a")
    await api.until(path, lambda own: own["status"]["containerStatuses"][0]["restartCount"] >= 1)

    before = await logs("a", "-p")
    assert before.strip().isdigit()
    assert before != await logs("a")


async def test_when_a_line_was_written(run, logs):
    """With --timestamps each line begins with its time, the same at every call; what is older than --since-time is left
    out.
    """
    await run("a", "echo one; sleep 2; echo two", "Succeeded")

    said = await logs("a", "--timestamps")
    (first, one), (second, two) = (line.split(" ", 1) for line in said.splitlines())
    assert (one, two) == ("one", "two")
    assert first < second
    assert said == await logs("a", "--timestamps")
    assert await logs("a", "--since-time", f"{second[:19]}Z") == "two\n"


async def test_logs_that_are_not_there(run, logs, api, namespace):
    """A container that has not begun has none yet; what the stand-in does not know, it refuses."""
    await run("a", "echo one", "Succeeded")
    (waits, side) = ({"name": name, "image": "nosuch"} for name in ("waits", "side"))
    body = {"metadata": {"name": "b"}, "spec": {"nodeName": FLEET.names()[0], "containers": [waits, side]}}
    await api.create(where("pods", namespace), body)
    await api.until(where("pods", namespace, "b"), lambda own: own["status"].get("containerStatuses"))

    for words, why in (
        (("b", "-c", "waits"), "is waiting to start"),
        (("a", "--limit-bytes", "1"), "limitBytes"),
    ):
        with pytest.raises(CommandError, match=why):
            await logs(*words)


async def forwarded(plane, namespace, pod, port, sent):
    """What comes back on the channels of a forwarded port, less the greetings."""
    address = f"{plane.url}/api/v1/namespaces/{namespace}/pods/{pod}/portforward?ports={port}"
    channels = {0: b"", 1: b""}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(address, protocols=["v4.channel.k8s.io"], ssl=plane.context()) as socket,
    ):
        await socket.send_bytes(b"\x00" + sent)
        async for message in socket:
            channels[message.data[0]] += message.data[1:]
    greeting = struct.pack("<H", port)
    assert all(came.startswith(greeting) for came in channels.values())
    return [came[len(greeting) :] for came in channels.values()]


async def test_a_port_is_forwarded(plane, run, namespace):
    """Through the API server to the port of this machine that stands for the pod's, and back."""

    async def echo(reader, writer):
        writer.write((await reader.read(100)).upper())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await run("a", "sleep 60", "Running", **{"plane.gangwright.io/port.80": str(port)})

    assert await forwarded(plane, namespace, "a", 80, b"hello") == [b"HELLO", b""]
    server.close()
    data, error = await forwarded(plane, namespace, "a", 80, b"hello")
    assert data == b""
    assert error.startswith(b"error forwarding port 80 to pod a, uid ")
