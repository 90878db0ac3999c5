"""What our accounts are refused on the real API server: what SECURITY.md says that they cannot do."""

import pytest

from tests.manifests import TEAM
from tests.plane import ApiError, where
from tests.plane.installation import EXTENDER, GANGWRIGHT, NAMESPACE

pytestmark = pytest.mark.plane

POD = {
    "metadata": {"generateName": "refused-"},
    "spec": {"schedulerName": "gangwright", "containers": [{"name": "main", "image": "busybox"}]},
}


@pytest.fixture
async def extender(installed):
    """The account that has the extender's rights alone."""
    async with installed.client(EXTENDER) as client:
        yield client


REFUSED = {
    "binds": ("POST", where("pods", TEAM, "p", "binding"), {"target": {"kind": "Node", "name": "n1"}}),
    "deletes a pod": ("DELETE", where("pods", TEAM, "p"), None),
    "makes a pod": ("POST", where("pods", TEAM), POD),
    "runs a process in a pod": ("POST", where("pods", TEAM, "p", "exec"), None),
    "makes a Job": ("POST", where("jobs", TEAM), {}),
    "deletes a Job": ("DELETE", where("jobs", TEAM, "j"), None),
    "reads a Secret": ("GET", where("secrets", TEAM, "s"), None),
    "lists Secrets": ("GET", where("secrets"), None),
    "lists ConfigMaps": ("GET", where("configmaps"), None),
    "cordons a node": ("PATCH", where("nodes", name="n1"), {"spec": {"unschedulable": True}}),
    "writes a node's status": ("PATCH", where("nodes", name="n1") + "/status", {"status": {}}),
    "reads events": ("GET", where("events", TEAM), None),
    "deletes an event": ("DELETE", where("events", TEAM, "e"), None),
    "takes the Lease": ("PUT", where("leases", NAMESPACE, "gangwright"), {}),
    "reads another Lease": ("GET", where("leases", "kube-system", "kube-scheduler"), None),
    "makes a token": ("POST", where("serviceaccounts", TEAM, "default", "token"), {}),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_the_extender_is_refused(extender, case):
    """None of this is in its role: the API server says so before it looks for the object."""
    method, path, body = REFUSED[case]
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"

    with pytest.raises(ApiError) as refused:
        await extender.request(method, path, body=body, kind=kind)
    assert refused.value.status == 403
    assert f'User "{EXTENDER.user}" cannot' in str(refused.value)


def event(name, note):
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": TEAM},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "Waiting",
        "action": "Planning",
        "note": note,
        "reportingController": "gangwright",
        "reportingInstance": "gangwright-0",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": TEAM, "name": "p", "uid": "1"},
    }


async def test_an_event_keeps_its_words(extender, admin):
    """An Event that exists takes a count, and no other words: the API server holds that, not our role."""
    path = where("events.k8s.io/v1/events", TEAM)
    await extender.create(path, event("said", "there is no room"))
    told = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
    await extender.patch(f"{path}/said", told, how="merge")

    with pytest.raises(ApiError) as refused:
        await extender.patch(f"{path}/said", {"note": "all is well"}, how="merge")
    assert refused.value.status == 422
    kept = await admin.get(f"{path}/said")
    assert (kept["note"], kept["series"]["count"]) == ("there is no room", 2)


async def test_the_pods_account_holds_the_union(installed, admin):
    """What the extender may not, the Pod may, by the roles that Kubernetes ships for kube-scheduler: it deletes pods, in
    every namespace.
    """
    async with installed.client(GANGWRIGHT) as pod_account:
        for namespace in (TEAM, "kube-system"):
            made = await admin.create(where("pods", namespace), POD)
            await pod_account.delete(where("pods", namespace, made["metadata"]["name"]))
