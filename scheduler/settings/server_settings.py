"""The settings of Gangwright's servers: for kube-scheduler, probes and metrics, users, and workers.

Lives here: one dataclass per section, and what servers with TLS have in common. Never here: a use of any of them.
"""

from dataclasses import dataclass
from typing import Annotated

from scheduler.model import names
from scheduler.settings import kinds

_address = kinds.text(
    r"https?://[-A-Za-z0-9.:\[\]]{1,253}", "must be a URL, for example https://127.0.0.1:10259"
)
_server_name = kinds.text(r"[-A-Za-z0-9.:]{1,253}", "must be an address or a host name")
_object_name = kinds.text(f"({names.SUBDOMAIN})?", "must be the name of an object")


@dataclass(frozen=True, slots=True)
class TLSServer:
    """An address, a certificate, and bounds on connections."""

    host: Annotated[str, kinds.host] = "127.0.0.1"
    """Address to listen on."""

    port: Annotated[int, kinds.port] = 0
    """Port to listen on. 0 takes any free port."""

    cert: Annotated[str, kinds.path] = ""
    """Path of the server's certificate file (PEM). Reloaded when it changes. Empty by default: plain HTTP."""

    key: Annotated[str, kinds.path] = ""
    """Path of the certificate's key file (PEM). Empty by default, like the certificate."""

    connections: Annotated[int, kinds.connections] = 256
    """Largest number of open connections."""

    keep_alive: Annotated[float, kinds.seconds(1, 3600)] = 120.0
    """Seconds for which an idle connection stays open."""

    @property
    def client_ca(self) -> str:
        """Path of the file with the authorities of client certificates (PEM). If empty, clients show none."""
        return ""

    @property
    def client_names(self) -> tuple[str, ...]:
        """Names of which a client certificate must have one. If empty, every signed certificate is accepted."""
        return ()


@dataclass(frozen=True, slots=True)
class VerbsServer(TLSServer):
    """The extender endpoints that kube-scheduler calls."""

    host: Annotated[str, kinds.host] = "127.0.0.1"
    """Address to listen on. Any address but loopback requires mutual TLS. Defaults to 127.0.0.1 because kube-scheduler
    runs in the same Pod."""

    port: Annotated[int, kinds.port] = 10270
    """Port to listen on, as in `extenders[].urlPrefix`. 0 takes any free port. Defaults to 10270, near kube-scheduler's
    own 10259."""

    http_timeout: Annotated[float, kinds.seconds(0.1, 20)] = 2.0
    """Timeout of kube-scheduler's calls in seconds, as in `extenders[].httpTimeout`. Gangwright answers with an error
    after half of it, because an answer with a reason is better than none. Defaults to 2 seconds."""

    keep_alive: Annotated[float, kinds.seconds(100, 3600)] = 120.0
    """Seconds for which an idle connection stays open. Defaults to 2 minutes, longer than the 90 s of Go's client: it
    does not repeat a POST on a connection that is just being closed."""

    connections: Annotated[int, kinds.connections] = 256
    """Largest number of open connections. Beyond it the oldest one that was never answered is closed. Defaults to 256;
    kube-scheduler keeps two."""

    body_limit: Annotated[int, kinds.size(2**20, 2**30)] = 64 * 2**20
    """Largest request body in bytes. The size of the cluster sets a tighter limit. Defaults to 64 MiB; with names only,
    a call over 5,000 nodes has 0.2 MB."""

    client_ca: Annotated[str, kinds.path] = ""
    """Path of the file with the authorities of kube-scheduler's client certificate (PEM). Reloaded for new connections
    when it changes. Empty by default: no client certificate is required."""

    client_names: Annotated[tuple[str, ...], kinds.many(kinds.name)] = ()
    """Common names or DNS names of which the client certificate must have one. Empty by default: every certificate that
    the authority signed is accepted."""


@dataclass(frozen=True, slots=True)
class Probes:
    """The probes and metrics for the kubelet and Prometheus: /livez, /readyz, /metrics."""

    host: Annotated[str, kinds.host] = ""
    """Address to listen on. Empty by default: all addresses of both families, because the kubelet and Prometheus
    connect from outside the Pod."""

    port: Annotated[int, kinds.port] = 10271
    """Port to listen on. 0 takes any free port. Defaults to 10271."""

    kube_scheduler: Annotated[str, _address] = "https://127.0.0.1:10259"
    """URL at which `gangwright serve` checks whether kube-scheduler is alive, for its liveness probe. Must agree with
    `--secure-port` of kube-scheduler. Defaults to kube-scheduler's own port on loopback."""


@dataclass(frozen=True, slots=True)
class StatusServer(TLSServer):
    """The status API and the status page, and which tokens they accept."""

    serve: Annotated[bool, kinds.flag] = True
    """Whether the status service runs. Defaults to true."""

    host: Annotated[str, kinds.host] = "127.0.0.1"
    """Address to listen on. Any address but loopback requires status.cert and status.key, because clients send tokens.
    Defaults to 127.0.0.1: `kubectl port-forward` reaches it, the network does not."""

    port: Annotated[int, kinds.port] = 10272
    """Port to listen on. 0 takes any free port. Defaults to 10272."""

    client_ca: Annotated[str, kinds.path] = ""
    """Path of the file with the cluster's authority for client certificates (PEM). As for the API server, the common
    name of a certificate is the user, and its organizations are the groups. Reloaded for new connections when it
    changes. Empty by default: bearer tokens only."""

    audiences: Annotated[tuple[str, ...], kinds.many(kinds.audience)] = ()
    """Audiences of which a bearer token must have one. Empty by default: tokens for the API server itself, which users
    already have. The operator of this service could then use them there."""

    remember: Annotated[float, kinds.seconds(1, 600)] = 60.0
    """Seconds for which a positive review of a token or of a read right is cached. A user who loses a right sees the
    same for this long. Requests that change something are reviewed every time. Defaults to 1 minute."""

    remember_refusal: Annotated[float, kinds.seconds(0.1, 600)] = 10.0
    """Seconds for which a negative review is cached. Defaults to 10 seconds, so a new right takes effect soon."""

    connections: Annotated[int, kinds.connections] = 128
    """Largest number of open connections. Beyond it the oldest one without a token or certificate is closed. Defaults
    to 128; a browser keeps six."""

    keep_alive: Annotated[float, kinds.seconds(1, 3600)] = 60.0
    """Seconds for which an idle connection stays open. Defaults to 1 minute."""


@dataclass(frozen=True, slots=True)
class Aggregation(TLSServer):
    """The status API as a group of the Kubernetes API. The API server authenticates users and passes requests on."""

    serve: Annotated[bool, kinds.flag] = False
    """Whether the group is served. Defaults to false because it needs the APIService, the Secret and the rights of
    manifests/components/aggregated-api, which sets it to true."""

    host: Annotated[str, kinds.host] = ""
    """Address to listen on. A client without a certificate of the API server is rejected in the handshake. Empty by
    default: all addresses of both families, because the API server connects from outside the Pod."""

    port: Annotated[int, kinds.port] = 10250
    """Port to listen on. 0 takes any free port. Defaults to 10250 because private clusters let their control plane
    reach this port of nodes and Pods, and few others."""

    cert: Annotated[str, kinds.path] = ""
    """Path of the server's certificate file (PEM). With a file, set `spec.caBundle` of the APIService yourself. Empty
    by default: Gangwright creates a certificate, keeps it in the Secret, and writes its authority into the APIService.
    """

    names: Annotated[tuple[str, ...], kinds.many(_server_name, least=1, most=16)] = (
        "gangwright-api.gangwright-system.svc",
    )
    """Names in the certificate. Defaults to the name of the Service, as the API server calls it."""

    secret: Annotated[str, _object_name] = "gangwright-api-tls"  # noqa: S105 - the name of an object
    """Name of the Secret in lease.namespace that keeps the certificate, so that all replicas use one authority.
    Defaults to gangwright-api-tls, as in the manifests."""

    connections: Annotated[int, kinds.connections] = 128
    """Largest number of open connections. Beyond it the oldest one that was never answered is closed. Defaults to 128;
    each API server keeps a few."""

    keep_alive: Annotated[float, kinds.seconds(100, 3600)] = 120.0
    """Seconds for which an idle connection stays open. Defaults to 2 minutes, longer than the 90 s of the API server's
    client."""


@dataclass(frozen=True, slots=True)
class RendezvousServer(TLSServer):
    """The rendezvous of the workers of elastic jobs, always over TLS, and which of their tokens it accepts."""

    host: Annotated[str, kinds.host] = ""
    """Address to listen on. Empty by default: all addresses, because workers run everywhere in the cluster. TLS is
    never off."""

    port: Annotated[int, kinds.port] = 10273
    """Port to listen on. 0 takes any free port. Defaults to 10273."""

    names: Annotated[tuple[str, ...], kinds.many(_server_name, least=1, most=16)] = (
        "gangwright-elastic.gangwright-system.svc",
        "gangwright-elastic.gangwright-system",
        "gangwright-elastic",
    )
    """Names and addresses in the certificate. Workers use the first. Defaults to the names of the Service, first in
    full because workers run in other namespaces."""

    cert: Annotated[str, kinds.path] = ""
    """Path of the server's certificate file (PEM), for example of a Secret of cert-manager. Reloaded when it changes.
    Empty by default: the master creates a certificate."""

    ca: Annotated[str, kinds.path] = ""
    """Path of the file with the authority that signed rendezvous.cert (PEM). Workers verify the master by it. It is
    read at the start, and passed to a worker when the worker is created. Before you switch to another authority, add it
    to the file beside the old one, and recreate the workers."""

    secret: Annotated[str, _object_name] = "gangwright-elastic-tls"  # noqa: S105 - the name of an object
    """Name of the Secret in the master's namespace that keeps the certificate that it creates. Workers know the
    authority for as long as they run, and another master must be able to continue with it. Defaults to
    gangwright-elastic-tls."""

    audience: Annotated[str, kinds.audience] = "gangwright-elastic"
    """Audience of the workers' tokens. Defaults to gangwright-elastic, which nothing else uses: these tokens give no
    other access, and no other token gives access here."""

    remember: Annotated[float, kinds.seconds(1, 60)] = 60.0
    """Seconds for which a positive token review is cached. A pod that no longer exists loses access at once, whatever
    its token says. Defaults to 1 minute."""

    remember_refusal: Annotated[float, kinds.seconds(0.1, 60)] = 5.0
    """Seconds for which a negative token review is cached. Defaults to 5 seconds. A renewed token is a new one and is
    reviewed at once."""

    outage: Annotated[float, kinds.seconds(0, kinds.DAY)] = 3600.0
    """Seconds for which a token that was accepted before stays accepted while token reviews fail, at most until the
    token expires. 0 accepts none. Defaults to 1 hour: without it, a minute of failed reviews would cut off every
    worker. If the Lease also expires, after ten seconds, workers are cut off until a master leads again. They keep
    training."""

    beat: Annotated[float, kinds.seconds(0.1, 60)] = 1.0
    """Seconds between two heartbeats of a worker. The actual interval is 0.6 to 1.25 times that, depending on what its
    training reports. Defaults to 1 second; a hundred workers then cost a few hundredths of a core."""

    silent_after: Annotated[float, kinds.seconds(1, 600)] = 5.0
    """Seconds without a heartbeat after which a worker counts as lost. Must be at least 5s: an agent gives up a
    heartbeat after 1.5 s, and needs time for two more. Defaults to 5 seconds, so one lost packet does no harm.
    """

    wait: Annotated[float, kinds.seconds(0.1, 300)] = 30.0
    """Longest time in seconds for which a request waits for its answer. After that it is repeated. Defaults to 30
    seconds, less than the minute after which middleboxes drop a silent connection."""

    waits: Annotated[int, kinds.whole(1, 65536)] = 512
    """Largest number of waiting requests per worker. Defaults to 512 because the mesh of a worker requests the address
    of every other member at once."""

    body_limit: Annotated[int, kinds.size(2**10, 2**26)] = 2**20
    """Largest request body in bytes. Defaults to 1 MiB; a report with the end of a child's output has a few thousand."""

    value_limit: Annotated[int, kinds.size(2**15, 2**24)] = 64 * 2**10
    """Largest value that members exchange, in bytes. Gloo's has 136 bytes for each other member, 23 KiB for 170
    members. Defaults to 64 KiB because the agent passes on no larger value."""

    keys: Annotated[int, kinds.whole(2**11, 2**24)] = 16384
    """Largest number of values per round. Defaults to 16384; Horovod stores eight per member, and four more."""

    round_limit: Annotated[int, kinds.size(2**23, 2**32)] = 8 * 2**20
    """Largest size of all values of a round in bytes, with their keys and 256 bytes each. Horovod builds its mesh
    twice, so N members store 272 × N × (N − 1) bytes and a little more. Defaults to 8 MiB, which is enough for 170
    members, the largest job. Scripts with their own process sets store more than that."""

    values_limit: Annotated[int, kinds.size(2**23, 2**34)] = 128 * 2**20
    """Largest size of the values of all jobs in bytes. Values of a round are dropped when all its members train, so
    this limits how many meet at the same time: sixteen rings of 170 members, or 44 of 100. At the limit a member waits
    for up to `workers.glooTimeout` until others have met. After that Horovod ends the members, and the job restarts
    from its checkpoint. Defaults to 128 MiB, a quarter of the master's memory in the manifests."""

    connections: Annotated[int, kinds.connections] = 8192
    """Largest number of open connections, at most the process's limit of open files less 256. A worker keeps a few, and
    one for each waiting request. Each takes 48 KiB when idle, all of them 384 MiB of the 512 MiB in the manifests. At
    most 2,048 may have no token yet, for up to 10 s. Beyond a limit the oldest of those is closed, and a quarter of all
    connections is left to them. Defaults to 8192."""

    backlog: Annotated[int, kinds.whole(512, 65535)] = 4096
    """Largest number of connections that wait to be accepted. All members of a job connect at the same time, and a
    member that finds the queue full retries after 1, 3 and 7 s. Defaults to 4096, the kernel's own limit
    (net.core.somaxconn) since Linux 5.4."""

    keep_alive: Annotated[float, kinds.seconds(1, 3600)] = 75.0
    """Seconds for which an idle connection stays open. Defaults to 75 seconds, longer than a heartbeat and any wait."""
