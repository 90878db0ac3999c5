"""The whole of manifests/ on the real API server, under the rights it gives."""

import asyncio
from collections import Counter

import pytest
import yaml

from bench.plane import ApiError, Fleet, Identity, Plane, nodes, where
from bench.plane.installation import EXTENDER, GANGWRIGHT, serves_at
from bench.plane.ports import answers, unverified
from tests.manifests import TEAM
from tests.manifests.support.rendering import EXTENDER_CONFIG, MANIFESTS, SAMPLES, rendered

pytestmark = pytest.mark.plane


def test_applied_twice(installed):
    """Applying everything again, server-side, changes nothing and is refused nothing: as much as a person's upgrade."""
    for directory in ("base", "components/gate-policy", "overlays/default"):
        said = installed.kubectl("apply", "--server-side", "-k", MANIFESTS / directory)
        assert len(said.splitlines()) == len(rendered(directory))


async def test_pod_is_admitted(installed, admin):
    """The Pod passes the restricted standard that its own namespace enforces, in that namespace."""
    template = (await admin.get(where("deployments", "gangwright-system", "gangwright")))["spec"]["template"]
    pod = {
        "metadata": {"name": "as-the-deployment-makes-it", **template["metadata"]},
        "spec": template["spec"],
    }
    made = await admin.request("POST", where("pods", "gangwright-system"), body=pod, dryRun="All")

    assert made["spec"]["priority"] == 2_000_000_000
    assert "schedulingGates" not in made["spec"]


async def test_privileged_pod_is_not(admin):
    """The namespace refuses a pod that asks for more."""
    pod = {
        "metadata": {"name": "greedy"},
        "spec": {"hostNetwork": True, "containers": [{"name": "a", "image": "b"}]},
    }

    with pytest.raises(ApiError, match="violates PodSecurity"):
        await admin.create(where("pods", "gangwright-system"), pod)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda place: str(place.relative_to(MANIFESTS / "samples")))
def test_samples(installed, sample):
    """Every sample is accepted as it stands, with strict validation of fields."""
    assert installed.kubectl("apply", "--dry-run=server", "--validate=strict", "-n", TEAM, "-f", sample)


def test_the_standby_is_ready_too(installed):
    """Two kube-schedulers of one Lease are both ready, though one of them only waits: rollouts and drains count on
    it.
    """
    file = EXTENDER_CONFIG / "kube-scheduler.yaml"
    for name in ("first", "second"):
        installed.start_scheduler(name, file, identity=GANGWRIGHT)  # returns when it is ready
    installed.end("second")
    installed.end("first")


@pytest.mark.parametrize("file", ["kube-scheduler.yaml", "kube-scheduler-without-policy.yaml"])
async def test_kube_scheduler_runs_under_the_pods_account(installed, admin, file):
    """A real kube-scheduler takes the configuration, gets its Lease and is ready with no more than our account's
    rights.
    """
    since = installed.audit.mark()
    name = file.removesuffix(".yaml")
    program = installed.start_scheduler(name, EXTENDER_CONFIG / file, identity=GANGWRIGHT)
    try:
        lease = where("leases", "gangwright-system", "gangwright")
        await admin.until(lease, lambda seen: seen["spec"].get("holderIdentity"))
        while not await asyncio.to_thread(answers, f"{serves_at(program)}/readyz", unverified()):
            await asyncio.sleep(0.1)  # it reads the cluster once it leads
    finally:
        installed.end(name)

    assert installed.audit.refused(GANGWRIGHT.user, since=since) == []


CAN = """
list,watch  nodes pods persistentvolumeclaims persistentvolumes resourcequotas jobs.batch statefulsets.apps
list,watch  poddisruptionbudgets.policy
list,watch  podgroups.scheduling.x-k8s.io podgroups.scheduling.sigs.k8s.io
list,watch  podgroups.scheduling.volcano.sh podgroups.scheduling.run.ai
patch       pods pods/status jobs.batch events.events.k8s.io
create      pods/eviction events.events.k8s.io
"""
CANNOT = """
create,update,delete,deletecollection  pods
create                                 pods/binding pods/exec
update,delete                          jobs.batch
patch,update,delete                    nodes nodes/status jobs.batch/status podgroups.scheduling.x-k8s.io
create,patch,update,delete             poddisruptionbudgets.policy
delete                                 pods/eviction
get,list                               secrets configmaps serviceaccounts
get,list,watch,delete                  events.events.k8s.io
create                                 jobs.batch serviceaccounts/token
create,update,patch,delete             leases.coordination.k8s.io
list                                   leases.coordination.k8s.io
"""


def questions(table):
    for line in table.strip().splitlines():
        verbs, *resources = line.split()
        yield from ((verb, resource) for resource in resources for verb in verbs.split(","))


async def allowed(client, verb, resource, namespace=TEAM, name=""):
    """Asks the API server's own authorizer about the caller."""
    kind, _, part = resource.partition("/")
    plural, _, group = kind.partition(".")
    about = {
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": part,
        "namespace": namespace,
        "name": name,
    }
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    path = where("authorization.k8s.io/v1/selfsubjectaccessreviews")
    return (await client.create(path, review | {"spec": {"resourceAttributes": about}}))["status"]["allowed"]


async def test_what_the_extender_may(installed):
    """The extender's account may do what the extender does, everywhere, and nothing of what it never should."""
    async with installed.client(EXTENDER) as extender:
        granted = {
            question
            for question in (*questions(CAN), *questions(CANNOT))
            if await allowed(extender, *question)
        }
        follows = [
            await allowed(extender, verb, "leases.coordination.k8s.io", "gangwright-system", "gangwright")
            for verb in ("get", "update")
        ]

    assert granted == set(questions(CAN))
    assert follows == [True, False]


async def test_the_pods_account_follows_its_lease(installed):
    """The Pod's account writes one Lease, and no other of that namespace."""
    async with installed.client(GANGWRIGHT) as both:
        lease = [
            await allowed(both, "update", "leases.coordination.k8s.io", "gangwright-system", name)
            for name in ("gangwright", "another")
        ]

    assert lease == [True, False]


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


async def test_an_event_keeps_its_words(installed, admin):
    """An Event that exists takes a count, and no other words: the API server holds that, not our role."""
    path = where("events.k8s.io/v1/events", TEAM)
    async with installed.client(EXTENDER) as extender:
        await extender.create(path, event("said", "there is no room"))
        told = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
        await extender.patch(f"{path}/said", told, how="merge")
        with pytest.raises(ApiError) as refused:
            await extender.patch(f"{path}/said", {"note": "all is well"}, how="merge")

    assert refused.value.status == 422
    kept = await admin.get(f"{path}/said")
    assert (kept["note"], kept["series"]["count"]) == ("there is no room", 2)


async def test_the_pods_account_deletes_everywhere(installed, admin):
    """The union: what the extender may not, the Pod may by the role that Kubernetes ships for kube-scheduler."""
    metadata, spec = {"generateName": "deleted-"}, {"containers": [{"name": "main", "image": "busybox"}]}
    async with installed.client(GANGWRIGHT) as both:
        for namespace in (TEAM, "kube-system"):
            made = await admin.create(where("pods", namespace), {"metadata": metadata, "spec": spec})
            path = where("pods", namespace, made["metadata"]["name"])
            await both.delete(path)
            assert await admin.find(path) is None


def test_the_older_overlay():
    """Without the gate policy pods stay ungated, plans stay protected, and the overlay is accepted whole."""
    with Plane(scheduler=False, kwok=False) as plane:
        plane.kubectl("apply", "--server-side", "-k", MANIFESTS / "overlays" / "without-gate-policy")
        pod = yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "plain", "namespace": "default"},
                "spec": {"schedulerName": "gangwright", "containers": [{"name": "main", "image": "busybox"}]},
            }
        )
        made = yaml.safe_load(plane.kubectl("create", "-o", "yaml", "-f", "-", stdin=pod))

        assert "schedulingGates" not in made["spec"]
        assert "gangwright-only-we-plan" in plane.kubectl(
            "get", "validatingadmissionpolicybindings", "-o", "name"
        )


@pytest.fixture(scope="module")
def cluster():
    """A whole cluster, controllers and fake kubelets included, with the default overlay on it."""
    with Plane(controllers=True) as plane:
        plane.kubectl("apply", "--server-side", "-k", MANIFESTS / "overlays" / "default")
        yield plane


async def test_the_deployment_comes_up(cluster):
    """Controllers make the two Pods in the restricted namespace, and the cluster's own scheduler sets them apart."""
    async with cluster.client() as admin:
        await nodes.create(admin, Fleet(racks=2, nodes_per_rack=1, areas=2))
        deployment = where("deployments", "gangwright-system", "gangwright")
        await admin.until(deployment, lambda seen: seen["status"].get("availableReplicas") == 2)
        pods = await admin.items(where("pods", "gangwright-system"))
        budget = where("poddisruptionbudgets", "gangwright-system", "gangwright")
        await admin.until(budget, lambda seen: seen.get("status", {}).get("disruptionsAllowed") == 1)

    assert len({pod["spec"]["nodeName"] for pod in pods}) == len(pods) == 2


POLICIES = ["only-we-plan", "only-we-suspend", "we-only-plan", "we-only-suspend", "we-only-evict-elsewhere"]


@pytest.mark.parametrize("policy", POLICIES)
async def test_the_type_checker_is_content(cluster, policy):
    """The API server's checker of policies finds no field misspelt and no type confused."""
    path = where("admissionregistration.k8s.io/v1/validatingadmissionpolicies", name=f"gangwright-{policy}")
    async with cluster.client() as admin:
        checked = await admin.until(path, lambda seen: "typeChecking" in seen.get("status", {}))

    assert checked["status"]["typeChecking"] == {}


async def test_samples_come_gated(cluster):
    """Jobs and StatefulSets of the samples are made by their controllers, and every one of their pods is gated by
    us.
    """
    async with cluster.client() as admin:
        await admin.until(where("serviceaccounts", "default", "default"), bool)
        for sample in SAMPLES:
            if "kind: PodGroup" not in sample.read_text(encoding="utf-8"):
                cluster.kubectl("apply", "--server-side", "-f", sample)
        expected = {
            "devices": 4,
            "pack": 4,
            "rack-required": 4,
            "roles": 7,
            "spread": 3,
            "surplus": 4,
            "training": 8,
        }
        async with asyncio.timeout(30):
            while (made := await gated(admin)) != expected:
                await asyncio.sleep(0.1)

    assert made == expected


async def gated(client):
    """Gang → its pods that wait behind our gate alone."""
    pods = await client.items(where("pods", "default"), labels="gangwright.io/gang")
    return Counter(
        pod["metadata"]["labels"]["gangwright.io/gang"]
        for pod in pods
        if pod["spec"].get("schedulingGates") == [{"name": "gangwright.io/planned"}]
    )


async def test_the_way_to_the_status_service(installed):
    """Bound as the README says, the role for people lets a port be forwarded to our Pods, and opens nothing else
    anywhere.
    """
    viewer = Identity("carol", ("viewers",))
    words = ("create", "rolebinding", "viewers", "--clusterrole=gangwright-view", "--group=viewers")
    installed.kubectl("-n", "gangwright-system", *words)
    asked = [
        ("list", "pods"),
        ("get", "pods/portforward"),
        ("create", "pods/portforward"),
        ("create", "pods"),
    ]

    async with installed.client(viewer) as carol:
        ours = [await allowed(carol, *question, "gangwright-system") for question in asked]
        theirs = [await allowed(carol, *question) for question in asked]

    assert ours == [True, True, True, False]
    assert not any(theirs)
