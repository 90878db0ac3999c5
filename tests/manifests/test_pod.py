"""The Pod: restricted, alive when it should be, reachable only where it must."""

from urllib.parse import urlsplit

import pytest
import yaml

from scheduler.serving.probes import LIMIT
from tests.manifests.support.rendering import EXTENDER_CONFIG, containers, named, pod_spec

UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
BOTH = ["kube-scheduler", "gangwright"]


def amount(text: str) -> int:
    """Bytes of a quantity such as 512Mi."""
    return int(text[:-2]) * UNITS[text[-2:]]


def test_namespace_enforces_restricted():
    """The namespace itself enforces the restricted Pod Security Standard."""
    labels = named("base", "Namespace", "gangwright-system")["metadata"]["labels"]

    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("name", BOTH)
def test_restricted(name):
    """Every field that the restricted Pod Security Standard asks for is set, and the root file system is read-only
    besides.
    """
    pod, container = pod_spec(), containers()[name]
    context = container["securityContext"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert "privileged" not in context
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} == {"configMap"}
    assert not [port for port in container["ports"] if "hostPort" in port]


@pytest.mark.parametrize("name", BOTH)
def test_no_answer_is_throttled(name):
    """Memory has a limit; the CPU has none, for kube-scheduler waits for every answer."""
    resources = containers()[name]["resources"]

    assert resources["limits"].keys() == {"memory"}
    assert resources["requests"].keys() == {"cpu", "memory"}


def test_the_extender_s_memory_is_guaranteed():
    """No neighbour's growth gets the extender killed: all that it may use is reserved for it."""
    resources = containers()["gangwright"]["resources"]

    assert resources["limits"]["memory"] == resources["requests"]["memory"]


def test_the_extender_has_room_for_a_large_cluster():
    """100 MiB, and 1.5 KiB for each of 150,000 pods and 15,000 nodes, leave a quarter of its memory free."""
    limit = amount(containers()["gangwright"]["resources"]["limits"]["memory"])

    assert limit * 3 / 4 > 100 * 2**20 + (150_000 + 15_000) * 1536


def test_kube_scheduler_may_grow_with_the_cluster():
    """20 KB a pod, for 50,000 pods, is below kube-scheduler's memory limit."""
    limit = amount(containers()["kube-scheduler"]["resources"]["limits"]["memory"])

    assert limit > 50_000 * 20_000


@pytest.mark.parametrize("name", BOTH)
def test_probes(name):
    """Each program has three probes on a port of its own; liveness and readiness ask different questions. Of
    kube-scheduler the extender tells whether both live.
    """
    container = containers()[name]
    ports = {port["name"] for port in container["ports"]}
    (metrics,) = containers()["gangwright"]["ports"]
    probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}

    assert {probes[kind]["port"] for kind in ("startup", "readiness")} <= ports
    if name == "gangwright":
        assert probes["readiness"]["path"] == "/readyz"
        assert probes["liveness"] == {"path": "/livez", "port": metrics["name"]}
    else:
        assert probes["liveness"] == {"path": "/livez/kube-scheduler", "port": metrics["containerPort"]}
        assert probes["startup"]["path"] == "/livez"
        assert probes["readiness"]["path"] == "/readyz?exclude=sched-handler-sync"


def test_a_hang_is_replaced_in_time():
    """An extender that answers nothing ends its kube-scheduler within 20 s, and no single question does."""
    probe = containers()["kube-scheduler"]["livenessProbe"]
    period, limit, times = (probe[f] for f in ("periodSeconds", "timeoutSeconds", "failureThreshold"))

    assert LIMIT < limit < period
    assert times >= 3
    assert period * times + limit < 20


def test_extender_first():
    """The extender is a sidecar that is ready before kube-scheduler starts and leaves after it."""
    (sidecar,) = pod_spec()["initContainers"]

    assert sidecar["name"] == "gangwright"
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["startupProbe"]["httpGet"]["path"] == "/readyz"


def test_not_scheduled_by_itself():
    """Our own Pods are placed by the cluster's scheduler, and before ordinary ones."""
    assert pod_spec()["schedulerName"] == "default-scheduler"
    assert pod_spec()["priorityClassName"] == "system-cluster-critical"


def test_two_replicas_apart():
    """Two replicas prefer different hosts, are updated one ahead, and are drained one at a time."""
    deployment = named("base", "Deployment", "gangwright")["spec"]
    terms = deployment["template"]["spec"]["affinity"]["podAntiAffinity"]
    hosts = [
        term["podAffinityTerm"]["topologyKey"]
        for term in terms["preferredDuringSchedulingIgnoredDuringExecution"]
    ]

    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert "kubernetes.io/hostname" in hosts
    assert named("base", "PodDisruptionBudget", "gangwright")["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize("kind", ["PodDisruptionBudget", "NetworkPolicy", "Service", "Deployment"])
def test_selectors_find_the_pod(kind):
    """Budget, network policy, Service and Deployment select the Pod that the Deployment makes."""
    name = "gangwright-metrics" if kind == "Service" else "gangwright"
    spec = named("base", kind, name)["spec"]
    labels = named("base", "Deployment", "gangwright")["spec"]["template"]["metadata"]["labels"]
    selector = spec.get("podSelector", spec.get("selector"))

    assert selector.get("matchLabels", selector).items() <= labels.items()


@pytest.mark.parametrize("file", ["kube-scheduler.yaml", "kube-scheduler-without-policy.yaml"])
def test_verbs_are_not_reachable(file):
    """The verbs are asked for on loopback, on a port that no container, Service or network policy opens.

    What the network policy admits: our metrics, and kube-scheduler's own port, which authenticates whoever asks.
    """
    (extender,) = yaml.safe_load((EXTENDER_CONFIG / file).read_text(encoding="utf-8"))["extenders"]
    verbs = urlsplit(extender["urlPrefix"])
    opened = {port["containerPort"] for one in containers().values() for port in one["ports"]}
    served = {port["port"] for port in named("base", "Service", "gangwright-metrics")["spec"]["ports"]}
    (rule,) = named("base", "NetworkPolicy", "gangwright")["spec"]["ingress"]
    admitted = {port["port"] for port in rule["ports"]}

    assert verbs.hostname == "127.0.0.1"
    assert verbs.port not in opened | served | admitted
    assert served == {10271}
    assert admitted == {10271, 10259}
    assert named("base", "NetworkPolicy", "gangwright")["spec"]["policyTypes"] == ["Ingress"]


def test_token_only_where_needed():
    """No service account mounts its token by default; the Deployment asks for it."""
    assert pod_spec()["automountServiceAccountToken"] is True
    assert pod_spec()["serviceAccountName"] == "gangwright"
    for name in ("gangwright", "gangwright-extender"):
        assert named("base", "ServiceAccount", name)["automountServiceAccountToken"] is False
