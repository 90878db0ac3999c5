"""The calls against the real API server: it takes every body, and what it then sends is read back."""

import json

import pytest

from bench.plane.client import Client, Object, where
from bench.plane.errors import ApiError
from scheduler.model.decision import Reason
from scheduler.model.effects import Announce, Effect, Evict, Nominate, Ungate, WritePlan
from scheduler.model.workload import GangKey, Owner, Pod, PodKey, Uid
from scheduler.objects.patches import calls
from tests.objects.reading import pod_of

pytestmark = pytest.mark.plane

NOW = 1_767_225_600.0
ZONED = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "a"]}]}


def gated(name: str, terms: list | None = None) -> Object:
    """A pod with our gate and somebody else's, for a scheduler that nobody runs."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "nobody",
            "schedulingGates": [{"name": "other.io/gate"}, {"name": "gangwright.io/planned"}],
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
            **({"affinity": {"nodeAffinity": required}} if terms else {}),
        },
    }


async def do(api: Client, effect: Effect) -> None:
    for call in calls(effect, NOW):
        await api.request(
            call.method, call.path, body=json.loads(call.body), kind=call.content_type, **call.params
        )


async def made(api: Client, namespace: str, thing: Object) -> Pod:
    return pod_of(json.dumps(await api.create(where("pods", namespace), thing)))


async def again(api: Client, pod: Pod) -> Pod:
    return pod_of(json.dumps(await api.get(where("pods", pod.key.namespace, pod.key.name))))


def gang(pod: Pod) -> GangKey:
    return GangKey(pod.key.namespace, "g")


@pytest.mark.parametrize(
    "terms",
    [None, [ZONED, {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}]}]],
)
async def test_ungating_removes_our_gate_alone_and_pins(
    api: Client, namespace: str, terms: list | None
) -> None:
    """Doing it twice is harmless; the pod then says its seat, its pin, and the gate of others."""
    pod = await made(api, namespace, gated("p", terms))
    assert (pod.gated, pod.held_back, pod.pinned) == (True, True, None)
    ungate = Ungate(gang(pod), pod.uid, pod.key, "plan-1", "n1", pin=True, affinity=pod.affinity)
    await do(api, ungate)
    await do(api, ungate)
    pod = await again(api, pod)
    assert (pod.gated, pod.held_back, pod.pinned) == (False, True, "n1")
    assert pod.seat is not None
    assert (pod.seat.node, pod.seat.plan, pod.complaints) == ("n1", "plan-1", ())


async def test_another_pod_of_the_same_name_is_left_alone(api: Client, namespace: str) -> None:
    """Every call carries the uid, and the API server compares it."""
    pod = await made(api, namespace, gated("p"))
    wrong = Uid("00000000-0000-4000-8000-000000000000")
    for effect in (
        Ungate(gang(pod), wrong, pod.key, "plan-1", "n1", pin=True),
        WritePlan(gang(pod), wrong, pod.key, "plan-1", {wrong: "n1"}),
        Nominate(gang(pod), wrong, pod.key, "plan-1", "n1"),
        Evict(gang(pod), wrong, pod.key, Reason.PIN_BROKEN),
    ):
        with pytest.raises(ApiError) as refused:
            await do(api, effect)
        assert refused.value.status in {409, 422}
    assert await again(api, pod) == pod


async def test_plans_and_nominations_come_and_go(api: Client, namespace: str) -> None:
    """Written, read back, and taken away."""
    pod = await made(api, namespace, gated("p"))
    seats = {pod.uid: "n1", Uid("other"): "n2"}
    await do(api, WritePlan(gang(pod), pod.uid, pod.key, "plan-1", seats))
    await do(api, Nominate(gang(pod), pod.uid, pod.key, "plan-1", "n1"))
    seen = await again(api, pod)
    assert seen.plan is not None
    assert (seen.plan.plan, seen.plan.seats, seen.nominated) == ("plan-1", seats, "n1")
    await do(api, WritePlan(gang(pod), pod.uid, pod.key, "", {}))
    await do(api, Nominate(gang(pod), pod.uid, pod.key, "", ""))
    seen = await again(api, pod)
    assert (seen.plan, seen.nominated) == (None, None)


async def test_people_can_read_what_is_told(api: Client, namespace: str) -> None:
    """Events on the pod and its owner, and a condition beside those of others."""
    pod = await made(api, namespace, gated("p-" + "x" * 60))
    owner = Owner("Job", "train", "00000000-0000-4000-8000-000000000001", "batch/v1")
    message = "Insufficient resources: needs 8 × 4 nvidia.com/gpu " * 40
    await do(
        api,
        Announce(gang(pod), pod.uid, pod.key, owner, Reason.INSUFFICIENT_RESOURCES, message, seated=False),
    )
    told = [e for e in await api.items(where("events", namespace)) if e["reason"] == "InsufficientResources"]
    assert sorted(event["regarding"]["kind"] for event in told) == ["Job", "Pod"]
    status = (await api.get(where("pods", namespace, pod.key.name)))["status"]
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    assert conditions["gangwright.io/Seated"]["status"] == "False"
    assert "PodScheduled" in conditions


async def test_what_is_said_again_is_one_event_that_counts(api: Client, namespace: str) -> None:
    """The API server takes the second one as an update; what was removed meanwhile is made once more."""
    pod = await made(api, namespace, gated("p"))
    words = (gang(pod), pod.uid, pod.key, None, Reason.INSUFFICIENT_RESOURCES, "no room")

    async def told(count: int) -> list[tuple[str, int]]:
        await do(api, Announce(*words, since=1_767_225_600.123456789, count=count))
        events = [
            e for e in await api.items(where("events", namespace)) if e["reason"] == "InsufficientResources"
        ]
        return [(e["metadata"]["name"], (e.get("series") or {}).get("count", 1)) for e in events]

    ((name, first),) = await told(1)
    assert first == 1
    assert await told(2) == [(name, 2)]
    await api.delete(where("events", namespace, name))
    assert await told(3) == [(name, 3)]


async def test_an_eviction_removes_the_pod(api: Client, namespace: str) -> None:
    """A gated pod goes at once: it has no grace to wait for."""
    pod = await made(api, namespace, gated("p"))
    await do(api, Evict(gang(pod), pod.uid, pod.key, Reason.PIN_BROKEN))
    assert PodKey(namespace, "p") not in {
        PodKey(namespace, item["metadata"]["name"]) for item in await api.items(where("pods", namespace))
    }
