"""The command line of every program of the plane. Pure: words in, words out.

What is set differs from a production cluster in four things: data are not synced to disk (`--unsafe-no-fsync`), the
limits of requests in flight are higher (one machine plays a thousand kubelets), a collection is deleted eight objects
at a time (one by one, the pods of a test are gone in twice the processor time), and new nodes are usable at once
(admission plugin TaintNodesByCondition is off: with it a node waits for a controller to untaint it).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

Command = list[str | Path]

HEALTH_PATHS = "/healthz,/readyz,/livez,/metrics"

SERVICE_RANGE = "10.0.0.0/24"

CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourceclaim-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
    "validatingadmissionpolicy-status-controller",
)
"""Those that matter to workloads. Volumes, certificates, services and autoscaling have nobody here to serve."""

NODE_LIFE = "node-lifecycle-controller"
"""Taints nodes that are said not to be ready; only with kwok, whose nodes are said to be ready when they are made."""

SILENCE = "24h"
"""How long a node that says nothing is taken at its last word: nobody renews the leases of kwok's nodes.

kwok would, but then it runs the pods of a node only once it sees its lease, by a watch of its own, and a pod that was
bound before is looked at once, when the lease was made (kwok 0.8.0, node_lease_controller.go `Held`, controller.go
`podsOnNodeSyncWorker`). Where that watch was later than the look, the pod stayed Pending for ever.
"""


@dataclass(frozen=True)
class Files:
    """What the programs share: files of the authority and folders of their own."""

    folder: Path
    authority: Path
    certificate: Path
    key: Path
    """The API server's key; also signs and checks service-account tokens."""

    def own(self, name: str) -> Path:
        """A folder for one program alone."""
        place = self.folder / name
        place.mkdir(exist_ok=True)
        return place


def etcd(program: Path, files: Files, client: int, peer: int) -> Command:
    clients, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    return [
        program,
        f"--data-dir={files.own('etcd')}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--socket-reuse-port",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(
    program: Path, files: Files, port: int, etcd_port: int, *, controllers: bool, gates: Mapping[str, bool]
) -> Command:
    """`controllers`: a controller-manager runs, so pods can have service accounts; without one nobody makes those."""
    disabled = ["TaintNodesByCondition"] if controllers else ["TaintNodesByCondition", "ServiceAccount"]
    return [
        program,
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--permit-port-sharing",
        f"--tls-cert-file={files.certificate}",
        f"--tls-private-key-file={files.key}",
        f"--client-ca-file={files.authority}",
        f"--service-account-key-file={files.key}",
        f"--service-account-signing-key-file={files.key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",  # as kubeadm has it: what keeps such pods away is admission
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--endpoint-reconciler-type=none",
        "--external-hostname=localhost",
        f"--cert-dir={files.own('kube-apiserver')}",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        "--delete-collection-workers=8",
        f"--disable-admission-plugins={','.join(disabled)}",
        *feature_gates(gates),
    ]


def audit(policy: Path, log: Path) -> Command:
    """Further words for the API server: every answered request as a line, written before the answer is sent."""
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log}",
        "--audit-log-format=json",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=0",
    ]


def kubelets(files: Files, certificate: Path, key: Path) -> Command:
    """Further words for the API server: by what kubelets know it, and it knows them."""
    return [
        f"--kubelet-certificate-authority={files.authority}",
        f"--kubelet-client-certificate={certificate}",
        f"--kubelet-client-key={key}",
    ]


def aggregation(authority: Path, certificate: Path, key: Path, name: str) -> Command:
    """Further words for the API server: by what aggregated APIs know it, as kubeadm has them.

    authority: signs for the API server alone. name: the common name of the certificate.
    """
    return [
        f"--requestheader-client-ca-file={authority}",
        f"--requestheader-allowed-names={name}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-uid-headers=X-Remote-Uid",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={certificate}",
        f"--proxy-client-key-file={key}",
    ]


def native_gangs() -> Command:
    """Further words for the API server: the PodGroups of kube-scheduler's own gangs."""
    return ["--runtime-config=scheduling.k8s.io/v1beta1=true"]


def scheduler(
    program: Path, files: Files, name: str, port: int, config: Path, gates: Mapping[str, bool]
) -> Command:
    return [
        program,
        f"--config={config}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--permit-port-sharing",
        f"--cert-dir={files.own(name)}",
        f"--authorization-always-allow-paths={HEALTH_PATHS}",
        *feature_gates(gates),
    ]


def controller_manager(
    program: Path, files: Files, port: int, kubeconfig: Path, *, kwok: bool, gates: Mapping[str, bool]
) -> Command:
    chosen = (*CONTROLLERS, NODE_LIFE) if kwok else CONTROLLERS
    return [
        program,
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--permit-port-sharing",
        f"--cert-dir={files.own('kube-controller-manager')}",
        f"--authorization-always-allow-paths={HEALTH_PATHS}",
        f"--root-ca-file={files.authority}",
        f"--service-account-private-key-file={files.key}",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        f"--controllers={','.join(chosen)}",
        f"--node-monitor-grace-period={SILENCE}",
        *feature_gates(gates),
    ]


def kwok(program: Path, port: int, kubeconfig: Path, stages: list[Path]) -> Command:
    return [
        program,
        f"--kubeconfig={kubeconfig}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=0",
        f"--server-address=127.0.0.1:{port}",
        *(f"--config={stage}" for stage in stages),
    ]


def feature_gates(gates: Mapping[str, bool]) -> Command:
    """`--feature-gates=A=true,B=false`, or nothing."""
    words = ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())
    return [f"--feature-gates={words}"] if words else []
