"""The rendezvous beside a real API server: real projected tokens, a real Secret, and no right beyond the few it
needs.
"""

import asyncio
import ssl
from dataclasses import dataclass

import aiohttp
import pytest
import pytest_asyncio

from bench.plane import where
from bench.plane.certificates import service_account
from scheduler.elastic.rendezvous.rendezvous_server import rendezvous
from scheduler.kube.client import Client as KubeClient
from scheduler.kube.credentials import find_access
from scheduler.settings import RendezvousServer
from scheduler.telemetry.elastic_metrics import ElasticMetrics
from tests.elastic.rendezvous.support.desk import HonestDesk

pytestmark = pytest.mark.plane

ACCOUNT = "rendezvous"
SETTINGS = RendezvousServer(host="127.0.0.1", port=0, names=("127.0.0.1",), remember=1, remember_refusal=0.1)


def rights(namespace):
    """Reviews in the cluster, and one Secret at home."""
    group, name = "rbac.authorization.k8s.io", f"{namespace}-{ACCOUNT}"
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    reviews = {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
    secrets = {"apiGroups": [""], "resources": ["secrets"]}
    own = secrets | {"verbs": ["get", "update"], "resourceNames": [SETTINGS.secret]}
    at_home = {"name": ACCOUNT, "namespace": namespace}

    def binding(kind, meta, role):
        return {
            "apiVersion": f"{group}/v1", "kind": kind, "metadata": meta, "subjects": [subject],
            "roleRef": {"apiGroup": group, "kind": kind.removesuffix("Binding"), "name": role},
        }  # fmt: skip

    return [
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [reviews]},
        binding("ClusterRoleBinding", {"name": name}, name),
        {
            "apiVersion": f"{group}/v1", "kind": "Role", "metadata": at_home,
            "rules": [own, secrets | {"verbs": ["create"]}],
        },
        binding("RoleBinding", at_home, ACCOUNT),
    ]  # fmt: skip


@dataclass
class Beside:
    """A rendezvous of this namespace, and what tests do to it."""

    api: object
    namespace: str
    desk: HonestDesk
    address: str
    trust: ssl.SSLContext
    session: aiohttp.ClientSession

    async def pod(self, name):
        """A pod of the namespace; its uid."""
        spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none"}]}
        body = {"metadata": {"name": name}, "spec": spec}
        return (await self.api.create(where("pods", self.namespace), body))["metadata"]["uid"]

    async def token(self, pod="", uid="", audience=SETTINGS.audience):
        """A token as the kubelet would have it for this pod; without a pod, one of the account alone."""
        bound = (
            {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}} if pod else {}
        )
        spec = {"audiences": [audience] if audience else [], "expirationSeconds": 600} | bound
        path = where("serviceaccounts", self.namespace, "default", "token")
        return (await self.api.create(path, {"spec": spec}))["status"]["token"]

    async def beat(self, token):
        headers = {"Authorization": f"Bearer {token}"}
        body = {"phase": "Training", "round": 0}
        url = f"{self.address}/v1/beat"
        async with self.session.post(url, json=body, headers=headers, ssl=self.trust) as answer:
            found = await answer.json()
            return answer.status, found["error"]["reason"] if "error" in found else ""


async def until_in_force(api, identity, namespace):
    """Waits until the API server itself goes by the rights that were just given."""
    wanted = [
        {"group": "authentication.k8s.io", "resource": "tokenreviews", "verb": "create"},
        {"resource": "secrets", "verb": "create", "namespace": namespace},
    ]
    async with asyncio.timeout(30):
        for attributes in wanted:
            spec = {"user": identity.user, "groups": list(identity.groups), "resourceAttributes": attributes}
            path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            while not (await api.create(path, {"spec": spec}))["status"]["allowed"]:
                await asyncio.sleep(0.05)


@pytest_asyncio.fixture
async def beside(plane, api, namespace):
    identity = service_account(namespace, ACCOUNT)
    documents = rights(namespace)
    await asyncio.to_thread(plane.apply, documents)
    await until_in_force(api, identity, namespace)
    kubeconfig = await asyncio.to_thread(plane.kubeconfig, identity)
    desk = HonestDesk()
    async with (
        KubeClient(await find_access(str(kubeconfig))) as calls,
        rendezvous(desk, calls, SETTINGS, ElasticMetrics(), namespace=namespace) as opened,
        aiohttp.ClientSession() as session,
    ):
        trust = ssl.create_default_context(cadata=opened.authority)
        yield Beside(api, namespace, desk, opened.address, trust, session)
    for document in documents[:2]:
        await api.delete(where(f"{document['kind'].lower()}s", name=document["metadata"]["name"]))


async def test_a_projected_token_proves_its_pod(plane, beside):
    """The token of a live worker's pod is believed, and the pod's own uid is what the desk hears; no right was missing,
    and none was used but those to review tokens and to keep one Secret."""
    uid = await beside.pod("worker-0")
    token = await beside.token("worker-0", uid)
    stranger = await beside.beat(token)
    beside.desk.hire(uid, f"{beside.namespace}/job", "worker-0")

    assert stranger == (403, "NoWorker")
    assert await beside.beat(token) == (200, "")
    assert set(beside.desk.beats) == {uid}
    user = service_account(beside.namespace, ACCOUNT).user
    assert plane.audit.refused(user) == []
    assert plane.audit.used(user) == {
        ("create", "tokenreviews.authentication.k8s.io"),
        ("get", "secrets"),
        ("create", "secrets"),
    }


async def test_other_tokens_prove_nothing(beside):
    """Of another audience, of the API server's own, of the account without a pod, with one letter changed: all are
    refused.
    """
    uid = await beside.pod("worker-0")
    beside.desk.hire(uid, f"{beside.namespace}/job", "worker-0")
    good = await beside.token("worker-0", uid)
    head, claims, signature = good.split(".")
    swapped = "A" if signature[9] != "A" else "B"

    answers = [
        await beside.beat(await beside.token("worker-0", uid, "vault")),
        await beside.beat(await beside.token("worker-0", uid, "")),
        await beside.beat(await beside.token()),
        await beside.beat(f"{head}.{claims}.{signature[:9]}{swapped}{signature[10:]}"),
    ]

    assert answers == [
        (401, "TokenForOthers"), (401, "TokenForOthers"), (403, "NoPod"), (401, "TokenRefused"),
    ]  # fmt: skip
    assert beside.desk.beats == {}


async def test_the_token_of_a_pod_that_is_gone_is_worth_nothing(beside):
    """Even of one whose name lives on in another pod, and whom the desk still believes to live."""
    uid = await beside.pod("worker-0")
    token = await beside.token("worker-0", uid)
    beside.desk.hire(uid, f"{beside.namespace}/job", "worker-0")
    path = where("pods", beside.namespace, "worker-0")
    await beside.api.delete(path, grace=0)
    await beside.api.gone(path)
    await beside.pod("worker-0")

    async with asyncio.timeout(60):  # the API server remembers its own yes for some seconds
        while (answer := await beside.beat(token))[0] == 200:
            await asyncio.sleep(0.2)

    assert answer == (401, "TokenRefused")


async def test_the_next_master_goes_on_with_the_same_authority(plane, beside):
    """It finds the Secret; workers that know the first master's authority believe the second."""
    identity = service_account(beside.namespace, ACCOUNT)
    async with (
        KubeClient(await find_access(str(plane.kubeconfig(identity)))) as calls,
        rendezvous(HonestDesk(), calls, SETTINGS, ElasticMetrics(), namespace=beside.namespace) as second,
        beside.session.get(f"{second.address}/v1/announced", ssl=beside.trust) as answer,
    ):
        assert answer.status == 401
