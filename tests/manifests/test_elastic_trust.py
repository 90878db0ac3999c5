"""What the elastic master's policies keep from a thief of its token, on the real API server; beside each try its good
counterpart, which is taken.
"""

import pytest

from bench.plane import ApiError, where
from tests.manifests import TEAM
from tests.manifests.support.elastic import (
    HOME,
    HOST_ACCESS,
    PODS,
    POLICIES,
    WORKER,
    a_lease,
    a_namespace,
    a_network_policy,
    a_secret,
    a_worker_in,
    forbidden,
    network_policies,
)

pytestmark = [pytest.mark.plane, pytest.mark.usefixtures("elastic")]

OPEN, SHUT, NEAR = "host-access-true", "host-access-false", "kubeflow"
"""Namespaces: with the label, with the label and another value, and one whose name is nearly the cluster's own."""


@pytest.fixture(scope="module", autouse=True)
def namespaces(elastic):
    labelled = ((OPEN, {HOST_ACCESS: "true"}), (SHUT, {HOST_ACCESS: "false"}), (NEAR, {}))
    elastic.apply([a_namespace(name, **labels) for name, labels in labelled])


def tried(client, path, body):
    """A creation that every check of the API server judges, and that leaves nothing."""
    return client.request("POST", path, body=body, dryRun="All")


# --- whose ---

OURS = {"apiVersion": "gangwright.io/v1alpha1", "kind": "ElasticJob", "name": "ghost", "uid": "0"}
OWNERS = {
    "a version that nothing serves": [OURS | {"apiVersion": "gangwright.io/v9", "controller": True}],
    "a longer version": [OURS | {"apiVersion": "gangwright.io/v1alpha11", "controller": True}],
    "another group": [OURS | {"apiVersion": "x.gangwright.io/v1alpha1", "controller": True}],
}
KEPT = {"apiVersion": "example.com/v9", "kind": "Keeper", "name": "keeper", "uid": "1"}
"""An owner that the garbage collector cannot look up."""


@pytest.mark.parametrize("case", OWNERS)
async def test_the_owner_is_of_our_version(master, case):
    """An owner that the garbage collector never finds missing is none of ours: of a pod nor of a NetworkPolicy."""
    pod = a_worker_in()
    pod["metadata"]["ownerReferences"] = OWNERS[case]
    pod["metadata"]["labels"]["gangwright.io/elastic-job"] = "ghost"
    policy = a_network_policy("p", OWNERS[case], {"matchLabels": {"gangwright.io/elastic-job": "ghost"}})

    assert "owned by an ElasticJob of gangwright.io/v1alpha1" in await forbidden(
        tried(master, PODS, pod), "own-workers"
    )
    assert "of one ElasticJob" in await forbidden(tried(master, POLICIES, policy), "own-network")


async def test_a_worker_has_one_owner(master):
    """A second owner would keep the pod when its job is gone, or never was."""
    pod = a_worker_in()
    pod["metadata"]["ownerReferences"].append(KEPT)

    assert "by nothing else" in await forbidden(tried(master, PODS, pod), "own-workers")


async def test_a_policy_stays_its_jobs(admin, master):
    """The master cannot take the owner off a NetworkPolicy that is there, and so keep it."""
    selector = {"matchLabels": {"gangwright.io/elastic-job": "ghost"}}
    await admin.create(POLICIES, a_network_policy("ghosts", [OURS | {"controller": True}], selector))
    path = f"{POLICIES}/ghosts"

    said = await forbidden(
        master.patch(path, {"metadata": {"ownerReferences": None}}, how="merge"), "own-network"
    )

    assert "of one ElasticJob" in said
    assert await master.patch(path, {"spec": {"ingress": []}}, how="merge")


async def test_any_pod_of_the_clusters_own(master):
    """A takeover as it would be tried: privileged, on the node's own file system, under an account that may do
    anything.
    """
    container = WORKER | {"securityContext": {"privileged": True}}
    root = {"name": "root", "hostPath": {"path": "/"}}
    account = "clusterrole-aggregation-controller"
    pod = a_worker_in(
        "kube-system", containers=[container], hostPID=True, volumes=[root], serviceAccountName=account
    )
    pod["metadata"]["ownerReferences"][0].update(apiVersion="gangwright.io/v9")

    await forbidden(tried(master, where("pods", "kube-system"), pod), "")


# --- where ---

RESTRICTED = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        WORKER | {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
    ],
}
"""A template that the Pod Security level `restricted` admits, which our own namespace enforces."""

REMEDY = "neither in kube-* namespaces nor in gangwright-system. Create the ElasticJob in another namespace"


@pytest.mark.parametrize("namespace", ["kube-system", "kube-public", "kube-node-lease", HOME])
async def test_nothing_runs_among_the_clusters_own(master, namespace):
    """In these namespaces the master makes neither a pod nor a NetworkPolicy, however harmless, and the refusal says
    what to do.
    """
    pod = a_worker_in(namespace, **RESTRICTED, serviceAccountName="gangwright")
    (owner,) = pod["metadata"]["ownerReferences"]
    selector = {"matchLabels": {"gangwright.io/elastic-job": owner["name"]}}
    policy = a_network_policy("p", [owner], selector)

    assert REMEDY in await forbidden(tried(master, where("pods", namespace), pod), "namespaces")
    assert REMEDY in await forbidden(tried(master, network_policies(namespace), policy), "namespaces")
    assert await tried(master, where("pods", TEAM), a_worker_in(**RESTRICTED))
    assert await tried(master, network_policies(TEAM), policy)


async def test_a_name_that_is_nearly_one_of_these(master):
    """Only names that begin with `kube-` are the cluster's own."""
    assert await tried(master, where("pods", NEAR), a_worker_in(NEAR))


async def test_nothing_is_changed_or_removed_there(admin, master):
    """Not even what looks like a worker."""
    place = where("pods", "kube-system")
    made = await admin.create(place, a_worker_in("kube-system"))
    path = f"{place}/{made['metadata']['name']}"
    quorum = {"metadata": {"annotations": {"gangwright.io/min-members": "1"}}}

    assert REMEDY in await forbidden(master.patch(path, quorum, how="merge"), "namespaces")
    assert REMEDY in await forbidden(master.delete(path), "namespaces")
    await admin.delete(path, grace=0)


# --- what reaches the node ---


def contained(**context):
    return {"containers": [WORKER | {"securityContext": context}]}


def prepared(**context):
    return {"initContainers": [WORKER | {"name": "first", "securityContext": context}]}


def able(*names):
    return {"capabilities": {"add": list(names)}}


WINDOWS = {"windowsOptions": {"hostProcess": True}}
HOST = {
    "hostNetwork": ("hostNetwork", {"hostNetwork": True}),
    "hostPID": ("hostPID", {"hostPID": True}),
    "hostIPC": ("hostIPC", {"hostIPC": True}),
    "hostPath": ("hostPath", {"volumes": [{"name": "dev", "hostPath": {"path": "/dev/infiniband"}}]}),
    "hostPort": (
        "hostPort",
        {"containers": [WORKER | {"ports": [{"containerPort": 22, "hostPort": 2222}]}]},
    ),
    "privileged": ("privileged", contained(privileged=True)),
    "privileged init container": ("privileged", prepared(privileged=True)),
    "hostProcess": ("hostNetwork, hostProcess", {"hostNetwork": True, "securityContext": WINDOWS}),
    "a capability": ("capabilities", contained(**able("IPC_LOCK", "SYS_ADMIN"))),
    "one that baseline forbids": ("capabilities", contained(**able("NET_RAW"))),
    "all capabilities": ("capabilities", prepared(**able("ALL"))),
    "several": (
        "hostNetwork, hostPID, privileged",
        {"hostNetwork": True, "hostPID": True, **contained(privileged=True)},
    ),
}


@pytest.mark.parametrize("case", HOST)
async def test_the_node_is_reached_where_the_namespace_is_labelled(master, case):
    """Whatever reaches from a pod to its node needs the Namespace's label, with the value "true": the refusal names
    what it is, the label, and who sets it.
    """
    word, spec = HOST[case]
    wanted = f'request: {word}: an administrator of the cluster must label the Namespace with {HOST_ACCESS}: "true"'

    for namespace in (TEAM, SHUT):
        said = await forbidden(
            tried(master, where("pods", namespace), a_worker_in(namespace, **spec)), "host-access"
        )
        assert said.endswith(wanted)
    assert await tried(master, where("pods", OPEN), a_worker_in(OPEN, **spec))


async def test_a_windows_pod_reaches_the_node_by_its_containers(master):
    """The same where each container says it, and not the pod."""
    for namespace, taken in ((TEAM, False), (OPEN, True)):
        pod = a_worker_in(namespace, hostNetwork=True)
        for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
            container["securityContext"] = WINDOWS
        call = tried(master, where("pods", namespace), pod)
        if taken:
            assert await call
        else:
            assert "request: hostNetwork, hostProcess: " in await forbidden(call, "host-access")


HARMLESS = {
    "nothing": {},
    "what baseline allows, and what RDMA needs": contained(
        **able(
            *(
                "AUDIT_WRITE",
                "CHOWN",
                "DAC_OVERRIDE",
                "FOWNER",
                "FSETID",
                "KILL",
                "MKNOD",
                "NET_BIND_SERVICE",
            ),
            *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT", "IPC_LOCK"),
        )
    ),
    "refusals in words": {
        "hostNetwork": False,
        "hostPID": False,
        "hostIPC": False,
        **contained(privileged=False),
        **prepared(privileged=False, **able()),
    },
    "a port and a volume": {
        "containers": [WORKER | {"ports": [{"containerPort": 22}]}],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    },
}


@pytest.mark.parametrize("case", HARMLESS)
async def test_an_ordinary_worker_needs_no_label(master, case):
    """What stays in the pod is taken in every namespace."""
    assert await tried(master, PODS, a_worker_in(**HARMLESS[case]))


# --- at home ---

TOKEN = {
    "type": "kubernetes.io/service-account-token",
    "metadata": {"annotations": {"kubernetes.io/service-account.name": "gangwright"}},
}
SECRETS = {
    "another name": a_secret("gangwright-elastic-tls-2"),
    "no name yet": a_secret() | {"metadata": {"generateName": "gangwright-elastic-tls"}},
    "a token of another account": TOKEN | {"metadata": {"name": "token"} | TOKEN["metadata"]},
    "the same under our name": TOKEN | {"metadata": {"name": "gangwright-elastic-tls"} | TOKEN["metadata"]},
    "a certificate by its type": a_secret(
        type="kubernetes.io/tls", data={"tls.crt": "LS0t", "tls.key": "LS0t"}
    ),
}


@pytest.mark.parametrize("case", SECRETS)
async def test_no_other_secret(master, case):
    """The master writes the one Secret of its certificate: no other name, and no type but Opaque."""
    said = await forbidden(tried(master, where("secrets", HOME), SECRETS[case]), "own-secret")

    assert "only its own Secret: gangwright-elastic-tls in gangwright-system, of type Opaque" in said


async def test_its_own_secret(admin, master):
    """It makes it and writes it again, unless it is of another type by now."""
    own = where("secrets", HOME, "gangwright-elastic-tls")
    await admin.delete(own)

    made = await master.create(where("secrets", HOME), a_secret())
    assert await master.replace(own, made | {"data": {"tls.crt": "LS0t"}})

    await admin.delete(own)
    token = await admin.create(where("secrets", HOME), SECRETS["the same under our name"])
    await forbidden(master.replace(own, token), "own-secret")
    await admin.delete(own)


async def test_no_other_lease(admin, master):
    """The master makes the Lease by which it acts, and not the scheduler's, nor any other."""
    await admin.delete(where("leases", HOME, "gangwright-elastic"))

    for name in ("gangwright", "gangwright-elastic-2"):
        said = await forbidden(tried(master, where("leases", HOME), a_lease(name)), "own-lease")
        assert "only its own Lease: gangwright-elastic in gangwright-system" in said
    assert await tried(master, where("leases", HOME), a_lease())


@pytest.mark.parametrize("kind", ["secrets", "leases"])
async def test_its_names_elsewhere(master, kind):
    """In other namespaces its role gives it neither."""
    body = a_secret() if kind == "secrets" else a_lease()

    with pytest.raises(ApiError, match="cannot create resource"):
        await tried(master, where(kind, TEAM), body)
