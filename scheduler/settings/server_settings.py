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
    """Address to listen on. Empty by default: all addresses of both families, because the kubelet and Prometheus connect
    from outside the Pod."""

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
    have anyway. The operator of this service could then use them there."""

    remember: Annotated[float, kinds.seconds(1, 600)] = 60.0
    """Seconds for which a positive review of a token or of a read right is cached. A user who loses a right sees the
    same for this long. Requests that change something are reviewed every time. Defaults to 1 minute."""

    remember_refusal: Annotated[float, kinds.seconds(0.1, 600)] = 10.0
    """Seconds for which a negative review is cached. Defaults to 10 seconds, so a new right takes effect soon."""

    connections: Annotated[int, kinds.connections] = 128
    """Largest number of open connections. Beyond it the oldest one without a token or certificate is closed. Defaults to
    128; a browser keeps six."""

    keep_alive: Annotated[float, kinds.seconds(1, 3600)] = 60.0
    """Seconds for which an idle connection stays open. Defaults to 1 minute."""


@dataclass(frozen=True, slots=True)
class Aggregation(TLSServer):
    """The same service as a part of the Kubernetes API: the API server knows who asks, and passes the request on."""

    serve: Annotated[bool, kinds.flag] = False
    """true: serve it. Needs the APIService, the Secret and the rights of manifests/components/aggregated-api."""

    host: Annotated[str, kinds.host] = ""
    """Address to listen on. Empty: every one of both families, since the API server asks from outside of the Pod. A
    client without a certificate of the API server is refused in the handshake."""

    port: Annotated[int, kinds.port] = 10250
    """Port to listen on. Private clusters let their control plane reach this port of nodes and Pods, and few others. 0: any
    that is free."""

    cert: Annotated[str, kinds.path] = ""
    """File of our certificate, PEM. Empty: Gangwright makes one, keeps it in the Secret, and writes its authority into
    the APIService. With a file, `spec.caBundle` of the APIService is yours to set."""

    names: Annotated[tuple[str, ...], kinds.many(_server_name, least=1, most=16)] = (
        "gangwright-api.gangwright-system.svc",
    )
    """Names that the certificate is good for: that of the Service, as the API server calls it."""

    secret: Annotated[str, _object_name] = "gangwright-api-tls"  # noqa: S105 - the name of an object
    """Secret of lease.namespace that keeps the certificate, so that all replicas show one authority."""

    connections: Annotated[int, kinds.connections] = 128
    """Connections at a time; each API server keeps a few. Beyond it the oldest that was never answered is closed."""

    keep_alive: Annotated[float, kinds.seconds(100, 3600)] = 120.0
    """How long an idle connection stays open: longer than the 90 s of the API server's client."""


@dataclass(frozen=True, slots=True)
class RendezvousServer(TLSServer):
    """Where the workers of elastic jobs meet, over TLS always, and which of their tokens count."""

    host: Annotated[str, kinds.host] = ""
    """Address to listen on. Empty: every one; workers come from all over the cluster, and TLS is never off."""

    port: Annotated[int, kinds.port] = 10273
    """0: any that is free."""

    names: Annotated[tuple[str, ...], kinds.many(_server_name, least=1, most=16)] = (
        "gangwright-elastic.gangwright-system.svc",
        "gangwright-elastic.gangwright-system",
        "gangwright-elastic",
    )
    """Names and addresses that our certificate is good for. Workers are told the first: the Service's, in full, because
    they live in other namespaces."""

    cert: Annotated[str, kinds.path] = ""
    """File of our certificate, PEM, such as cert-manager keeps in a Secret. Empty: we make it ourselves. Read again
    when it changes."""

    ca: Annotated[str, kinds.path] = ""
    """File of the authority that signed rendezvous.cert, PEM; what workers check us by. Read when we start, and told to
    a worker when it is made: before the next authority signs, let it hold that beside the old one, and recreate the
    workers of before.
    """

    secret: Annotated[str, _object_name] = "gangwright-elastic-tls"  # noqa: S105 - the name of an object
    """Secret of our own namespace in which what we make is kept: workers know the authority for as long as they run,
    and another master must be able to go on under it."""

    audience: Annotated[str, kinds.audience] = "gangwright-elastic"
    """Of the workers' tokens. Our own: a token for us opens nothing else, and no other token opens us."""

    remember: Annotated[float, kinds.seconds(1, 60)] = 60.0
    """How long the API server's yes to a token counts. A pod that is gone is no worker at once, whatever its token
    says.
    """

    remember_refusal: Annotated[float, kinds.seconds(0.1, 60)] = 5.0
    """How long its no counts: a token is renewed before it ends, and the new one is another."""

    outage: Annotated[float, kinds.seconds(0, kinds.DAY)] = 3600.0
    """While tokens are not reviewed, how long one that was once believed is believed further, at most until its own end.
    0: not at all. Without it a minute in which reviews alone fail would silence every worker. An outage in which the
    Lease ends as well, after ten seconds, silences them until a master leads again; they train on.
    """

    beat: Annotated[float, kinds.seconds(0.1, 60)] = 1.0
    """How often a worker says that it lives: after 0.6 to 1.25 times that, as its training reports. A hundred
    workers cost some hundredths of a core.
    """

    silent_after: Annotated[float, kinds.seconds(1, 600)] = 5.0
    """A worker that was not heard for so long counts as lost; four beats, so that one lost packet is none. At least 5s:
    an agent gives up a beat after 1.5 s, and needs time for two more.
    """

    wait: Annotated[float, kinds.seconds(0.1, 300)] = 30.0
    """Longest that a question waits for its answer; then it is asked again. Below the minute after which middle boxes
    drop a silent connection."""

    waits: Annotated[int, kinds.whole(1, 65536)] = 512
    """Questions of one worker that wait at a time. Its mesh asks for the address of every other member at once."""

    body_limit: Annotated[int, kinds.size(2**10, 2**26)] = 2**20
    """Largest body in bytes; a report with the end of a child's output takes some thousands."""

    value_limit: Annotated[int, kinds.size(2**15, 2**24)] = 64 * 2**10
    """Largest value that members exchange, in bytes. Gloo's has 136 bytes for each other member, 23 KiB for 170 of them.
    The agent passes on none beyond 64 KiB."""

    keys: Annotated[int, kinds.whole(2**11, 2**24)] = 16384
    """Values of one round. Horovod lays down eight a member, and four beside."""

    round_limit: Annotated[int, kinds.size(2**23, 2**32)] = 8 * 2**20
    """Bytes of one round's values together, with their keys and 256 bytes for each. Horovod builds its mesh twice, so N
    members lay down 272 × N × (N − 1), and some words: 8 MiB do for 170 of them, as many as a job may have. Scripts with
    process sets of their own lay down more than this."""

    values_limit: Annotated[int, kinds.size(2**23, 2**34)] = 128 * 2**20
    """Bytes of the values of all jobs together; a quarter of the memory that the manifests give the master. The values of
    a round are dropped when all members train, so this bounds how many meet at one moment: sixteen rings of 170, or 44 of
    100. When it is full, a member waits for up to `workers.glooTimeout` until others have met. After that Horovod ends
    the members, and the job begins again from its checkpoint."""

    connections: Annotated[int, kinds.connections] = 8192
    """Connections at a time, or as many as the process may open files, less 256. A worker keeps a few, and one for each
    question that waits; each takes 48 KiB at rest, all of them 384 MiB of the 512 in the manifests. At most 2,048 may
    not have shown a token yet, and for no longer than 10 s. Beyond a bound the oldest of these is closed; a quarter of
    all is left to them."""

    backlog: Annotated[int, kinds.whole(512, 65535)] = 4096
    """Connections that may wait to be taken: all members of a job come in one moment, and who finds the queue full
    tries again after 1, 3 and 7 s. The kernel's own bound (net.core.somaxconn) cuts it, 4096 since Linux 5.4."""

    keep_alive: Annotated[float, kinds.seconds(1, 3600)] = 75.0
    """How long an idle connection stays open; longer than the beat and than any wait."""
