"""The gate policy on the real API server: every pod that is ours gets our gate, and no other pod notices."""

import asyncio
import itertools

import pytest

from bench.plane import Plane, where
from tests.manifests import TEAM
from tests.manifests.support.rendering import MANIFESTS

pytestmark = pytest.mark.plane

OUR_GATE = "gangwright.io/planned"
PODS = where("pods", TEAM)
DEFAULT_PODS = where("pods", "default")
_number = itertools.count()


def a_pod(**spec):
    return {
        "metadata": {"name": f"gate-{next(_number)}"},
        "spec": {"schedulerName": "gangwright", "containers": [{"name": "main", "image": "busybox"}]} | spec,
    }


async def in_force(client):
    """A policy counts a moment after it was written."""
    async with asyncio.timeout(30):
        while (
            "schedulingGates"
            not in (await client.request("POST", DEFAULT_PODS, body=a_pod(), dryRun="All"))["spec"]
        ):
            await asyncio.sleep(0.05)


async def gates(client, pod):
    made = await client.create(PODS, pod)
    return [gate["name"] for gate in made["spec"].get("schedulingGates", [])]


async def test_ours_are_gated(alice):
    """A pod that names our scheduler is made with our gate, whoever makes it."""
    assert await gates(alice, a_pod()) == [OUR_GATE]


@pytest.mark.parametrize("scheduler", ["default-scheduler", "gangwright-2", ""])
async def test_others_are_not(alice, scheduler):
    """A pod of another scheduler, or of none by name, is left alone."""
    assert await gates(alice, a_pod(schedulerName=scheduler)) == []


async def test_other_gates_stay(alice):
    """Gates that a pod comes with are kept, and ours joins them."""
    pod = a_pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}, {"name": "example.com/quota"}])

    assert set(await gates(alice, pod)) == {"kueue.x-k8s.io/admission", "example.com/quota", OUR_GATE}


async def test_gated_already(alice):
    """A pod that comes with our gate, as a careful author writes it, has it once."""
    pod = a_pod(schedulingGates=[{"name": OUR_GATE}, {"name": "example.com/quota"}])

    assert sorted(await gates(alice, pod)) == ["example.com/quota", OUR_GATE]


async def test_node_named(alice):
    """A pod that names its node is made, without our gate: the API server would refuse the pair."""
    assert await gates(alice, a_pod(nodeName="somewhere")) == []


@pytest.mark.parametrize("native", [True, False], ids=["field on", "field off"])
async def test_scheduling_group(native):
    """A member of kube-scheduler's own gangs gets no gate, whether or not the cluster has that feature switched on."""
    with Plane(scheduler=False, kwok=False, native_gangs=native) as plane:
        plane.kubectl("apply", "--server-side", "-k", MANIFESTS / "components" / "gate-policy")
        async with plane.client() as admin:
            await in_force(admin)
            made = await admin.create(DEFAULT_PODS, a_pod(schedulingGroup={"podGroupName": "theirs"}))

    assert "schedulingGates" not in made["spec"]
    assert ("schedulingGroup" in made["spec"]) == native


async def test_rest_is_untouched(alice):
    """Nothing but the gate differs from what the same pod becomes under another scheduler."""
    spec = {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"disk": "fast"}, "priority": 0}
    ours = (await alice.create(PODS, a_pod(**spec)))["spec"]
    others = (await alice.create(PODS, a_pod(**spec, schedulerName="default-scheduler")))["spec"]

    assert ours | {"schedulerName": "", "schedulingGates": []} == others | {
        "schedulerName": "",
        "schedulingGates": [],
    }
