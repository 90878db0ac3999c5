"""One stand-in kubelet for the tests of a module, and pods that are made on it."""

import pytest
import pytest_asyncio

from bench.plane import where
from bench.plane.kubelet import OURS, PLAIN, Kubelet
from tests.bench.plane.kubelet.running import FLEET, NODES


@pytest.fixture(scope="module")
def running(plane):
    """One kubelet with two nodes for all tests here."""
    with Kubelet(plane, FLEET, images={"plain": PLAIN, "ours": OURS}) as kubelet:
        yield kubelet


@pytest.fixture
def kubelet(running):
    yield running
    for node in NODES:
        running.revive_node(node)


@pytest_asyncio.fixture
async def submit(api, kubelet, namespace):
    """Makes a pod of one container `main`, on a node of the kubelet's unless it is bound already."""

    async def submitted(name, script, *, container=None, metadata=None, **spec):
        main = {"name": "main", "image": "plain", "command": ["sh", "-c", script], **(container or {})}
        body = {
            "metadata": {"name": name, **(metadata or {})},
            "spec": {
                "containers": [main],
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 30,
                "automountServiceAccountToken": False,
                "nodeSelector": {"gangwright.io/rack": "real-r00"},
                **spec,
            },
        }
        return await api.create(where("pods", namespace), body)

    return submitted


@pytest.fixture
def told(api, namespace):
    """`await told("a", lambda pod: …)`: the pod, as soon as that holds."""

    async def until(name, holds, within=30.0):
        return await api.until(where("pods", namespace, name), holds, within=within)

    return until
