"""Every setting, by concern: what it means, in which unit, and why its default is what it is.

Lives here: frozen dataclasses, and `load`, which fills them once, from a YAML file, below environment variables,
below flags. Never here: a use of any of them. The core sees only `Policy`, made here.

In YAML a setting is `section.settingName`; in the environment GANGWRIGHT_SECTION__SETTING_NAME, its value written
as in YAML. `extender_config/settings.yaml` is this file as YAML, with every default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Annotated, Final

from scheduler import settings_reader as reader
from scheduler.model import names
from scheduler.model.cluster import Level
from scheduler.model.policy import Policy
from scheduler.model.workload import Pin, Strategy
from scheduler.settings_elastic import ElasticMaster, RendezvousServer, Workers
from scheduler.settings_queue import Queue
from scheduler.settings_status import StatusServer

_CORE: Final = Policy()
_DAY: Final = 86400.0

_dns_name = reader.text(names.SUBDOMAIN, "must be a name of lower-case letters, digits, '-' and '.'")
_level_name = reader.text(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?", "must be a short word of lower-case letters")
_label_key = reader.text(names.LABEL_KEY, "must be a label key, such as topology.kubernetes.io/zone")
_path = reader.text(r"[^\x00]{0,4096}", "must be a path")
_host = reader.text(r"[-A-Za-z0-9.:]{0,253}", "must be an address or a host name")
_address = reader.text(
    r"https?://[-A-Za-z0-9.:\[\]]{1,253}", "must be an address such as https://127.0.0.1:10259"
)
_name = reader.text(r"[^\x00-\x1f]{0,253}", "must be a name of at most 253 characters")


class LogFormat(StrEnum):
    """How log lines look."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class LogLevel(StrEnum):
    """The least severe lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is ours in the cluster, and how its nodes lie."""

    scheduler_names: Annotated[tuple[str, ...], reader.many(_dns_name, least=1)] = ("gangwright",)
    """`spec.schedulerName` of the pods that are ours; the profiles of the kube-scheduler beside us. Pods of any
    other name are passed through untouched. Change them in kube-scheduler.yaml and in the gate policy
    as well, the first one in the trust policy of the elastic master.
    """

    levels: Annotated[
        tuple[Level, ...],
        reader.many(reader.record(Level, name=_level_name, label=_label_key), least=1, most=8),
    ] = _CORE.levels
    """The levels of the cluster, finest first: the word that gangs use, and the node label that carries it.
    `kubernetes.io/hostname` and `topology.kubernetes.io/zone` are on every node of common clusters; no key for racks
    is, so that one is ours. A node without a level's label is in no domain of that level."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a gang goes that does not say it."""

    strategy: Annotated[Strategy, reader.word(Strategy)] = _CORE.strategy
    """`pack`: few domains, few hosts, which is what collectives want; `spread`: evenly over domains; `cosine`: as
    pack, and inside a domain the node whose free vector points where the demand does."""

    level: Annotated[str, _level_name] = _CORE.level
    """The level that the strategy speaks of; one of `cluster.levels`. Racks: where bandwidth usually drops."""

    required: Annotated[bool, reader.flag()] = _CORE.required
    """Whether a gang waits rather than be placed over more domains than asked. false: a gang that runs over two racks
    is slower, one that waits stands still."""


@dataclass(frozen=True, slots=True)
class Gangs:
    """The life of a gang between its plan and its start."""

    pin: Annotated[Pin, reader.word(Pin)] = _CORE.pin
    """How a member is tied to its seat: `hard` by node affinity, `soft` by nomination. `auto` pins hard only pods that
    can be made again at no cost, because a hard pin that breaks ends in an eviction."""

    timeout: Annotated[float, reader.seconds(1, _DAY)] = _CORE.timeout
    """From the first ungating until the quorum must be bound. A planned gang binds within seconds; two minutes also
    cover a change of leader and a slow API server."""

    start_timeout: Annotated[float, reader.seconds(1, _DAY)] = _CORE.start_timeout
    """From its bind until a member must run. Then its gang is told why it does not, and the member is made again
    elsewhere where that costs nothing; after twice as long once more. Ten minutes pull an image of 20 GB."""

    backoff: Annotated[float, reader.seconds(0.1, _DAY)] = _CORE.backoff
    """Before a gang that timed out is tried again; doubles each time."""

    backoff_limit: Annotated[float, reader.seconds(0.1, _DAY)] = _CORE.backoff_limit
    """Where the doubling ends: others get their turn, and the gang is not forgotten."""

    score_hold: Annotated[float, reader.seconds(0.1, 600)] = _CORE.score_hold
    """How long the best-scored node is kept for a single pod without our gate; a bind takes milliseconds."""

    pin_grace: Annotated[float, reader.seconds(1, _DAY)] = _CORE.pin_grace
    """kube-scheduler has refused a pinned pod for so long, and our own picture has no room either: the pin is broken.
    Also how long it may refuse a member by a rule that the planner does not model, before the gang gives back what it
    has. Shorter would mistake a picture that is about to catch up."""

    pin_limit: Annotated[float, reader.seconds(1, _DAY)] = _CORE.pin_limit
    """kube-scheduler has refused a pinned pod for so long: the pin is broken, whatever our picture says. Several
    times its back-off (3 s at most), and soon enough that half a minute after it first refused the gang is on its way
    elsewhere."""

    barred: Annotated[float, reader.seconds(1, _DAY)] = _CORE.barred
    """A node where a pin broke, or whose kubelet refused a pod, is not given to that gang for so long; doubles each
    time."""

    broken_pins_until_soft: Annotated[int, reader.whole(1, 1000)] = _CORE.broken_pins_until_soft
    """After so many broken pins a gang is only nominated: something decides about its nodes that we do not see."""

    evictions_per_gang: Annotated[int, reader.whole(1, 1000)] = _CORE.evictions_per_gang
    """Broken pins of one gang that may be evicted at a time; the rest follow second by second."""

    outcome_limit: Annotated[float, reader.seconds(1, 3600)] = _CORE.outcome_limit
    """A write without an outcome for so long is done again; every write of ours may be."""

    announce_every: Annotated[float, reader.seconds(1, 3600)] = _CORE.announce_every
    """At most one event a gang and reason in so long."""

    largest_gang: Annotated[int, reader.whole(1, 4096)] = _CORE.largest_gang
    """Members; a gang that asks for more is refused. The plan of 4096, deflated, takes some two thirds of the 256 KiB
    that the API server allows all annotations of its first member together."""


@dataclass(frozen=True, slots=True)
class VerbsServer:
    """Where kube-scheduler reaches us, and how long it waits."""

    host: Annotated[str, _host] = "127.0.0.1"
    """Address to listen on. Loopback: kube-scheduler is in the same Pod. Any other address needs mutual TLS."""

    port: Annotated[int, reader.whole(0, 65535)] = 10270
    """As in `extenders[].urlPrefix`; beside kube-scheduler's own 10259. 0: any that is free."""

    http_timeout: Annotated[float, reader.seconds(0.1, 20)] = 2.0
    """As `extenders[].httpTimeout`. Half of it is our own deadline: an answer that says why it failed beats none."""

    keep_alive: Annotated[float, reader.seconds(100, 3600)] = 120.0
    """How long an idle connection stays open. Longer than the 90 s of Go's client: it does not send a POST again
    that met a connection just being closed."""

    connections: Annotated[int, reader.whole(4, 65536)] = 256
    """Connections at a time; kube-scheduler keeps two. Beyond it the oldest that was never answered is closed."""

    body_limit: Annotated[int, reader.size(2**20, 2**30)] = 64 * 2**20
    """The largest body that is ever read, in bytes; a cluster's size sets a tighter limit. With names only, a call
    over 5,000 nodes is 0.2 MB."""

    cert: Annotated[str, _path] = ""
    """File of our certificate, PEM. Empty: plain HTTP. Read again when it changes."""

    key: Annotated[str, _path] = ""
    """File of the certificate's key, PEM."""

    client_ca: Annotated[str, _path] = ""
    """File of the authorities, PEM, one of which must have signed kube-scheduler's client certificate. Read again when
    it changes, for new connections.
    """

    client_names: Annotated[tuple[str, ...], reader.many(_name)] = ()
    """Common names or DNS names of which the client certificate must have one; none: any that the authority signed."""


@dataclass(frozen=True, slots=True)
class Probes:
    """Where kubelet and Prometheus reach us: /livez, /readyz, /metrics."""

    host: Annotated[str, _host] = ""
    """Address to listen on. Empty: every one, of both families, because both come from outside of the Pod."""

    port: Annotated[int, reader.whole(0, 65535)] = 10271
    """0: any that is free."""

    kube_scheduler: Annotated[str, _address] = "https://127.0.0.1:10259"
    """Where `gangwright serve` asks kube-scheduler whether it is alive, for its liveness probe: as `--secure-port` of
    kube-scheduler."""


@dataclass(frozen=True, slots=True)
class Api:
    """The API server, and how hard we lean on it."""

    kubeconfig: Annotated[str, _path] = ""
    """File that says how to reach it. Empty: $KUBECONFIG, the Pod's service account, or ~/.kube/config."""

    context: Annotated[str, _name] = ""
    """Context of the kubeconfig. Empty: its current one."""

    concurrent_writes: Annotated[int, reader.whole(1, 32)] = 16
    """Writes under way at a time. A write takes some milliseconds, so 16 are more than kube-scheduler can bind
    pods for, and an API server in trouble is not stormed. Watches and looks at the Lease have connections
    beside these."""

    silent_after: Annotated[float, reader.seconds(5, 600)] = 10.0
    """Without an answer of the API server for so long, or without a standing watch of nodes or of pods, our picture
    counts as stale: verbs answer with an error, and no pod is placed or evicted. Two looks at the Lease fail in that
    time, each after 2 s. A leader stops when its Lease ends, if that is sooner. A watch on which nothing is heard
    stands for 70 s. It stands for 11 s where the other machine is gone, and for 14 to 17 s after something that a proxy
    between does not pass on. The elastic master then starts no worker of the jobs whose pods it cannot watch; what
    trains goes on, and it stays ready."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Which of several replicas may write: the one beside the kube-scheduler that leads."""

    follow: Annotated[bool, reader.flag()] = True
    """false: always write. Only for a single replica whose kube-scheduler does not elect a leader."""

    namespace: Annotated[str, _dns_name] = "gangwright-system"
    """As `leaderElection.resourceNamespace` of kube-scheduler."""

    name: Annotated[str, _dns_name] = "gangwright"
    """As `leaderElection.resourceName` of kube-scheduler."""

    hostname: Annotated[str, _name] = ""
    """How kube-scheduler's identity begins: its host name. Empty: $POD_NAME, else the name of this host."""


@dataclass(frozen=True, slots=True)
class Log:
    """What is written about our work, to standard error."""

    level: Annotated[LogLevel, reader.word(LogLevel)] = LogLevel.INFO
    """`info` has one line a call of kube-scheduler; refusals and errors of one kind are written five times a minute,
    then counted. `debug` leaves out none."""

    format: Annotated[LogFormat, reader.word(LogFormat)] = LogFormat.AUTO
    """`json`, `console`, or `auto`: console on a terminal, JSON elsewhere."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All of them. A section's name here is its name in YAML."""

    cluster: Cluster = field(default=Cluster())
    placement: Placement = field(default=Placement())
    gangs: Gangs = field(default=Gangs())
    queue: Queue = field(default=Queue())
    verbs: VerbsServer = field(default=VerbsServer())
    probes: Probes = field(default=Probes())
    status: StatusServer = field(default=StatusServer())
    rendezvous: RendezvousServer = field(default=RendezvousServer())
    elastic: ElasticMaster = field(default=ElasticMaster())
    workers: Workers = field(default=Workers())
    api: Api = field(default=Api())
    lease: Lease = field(default=Lease())
    log: Log = field(default=Log())

    @property
    def policy(self) -> Policy:
        """What of this the core decides by."""
        return Policy(
            scheduler_names=frozenset(self.cluster.scheduler_names),
            levels=self.cluster.levels,
            **{f.name: getattr(self.placement, f.name) for f in fields(Placement)},
            **{f.name: getattr(self.gangs, f.name) for f in fields(Gangs)},
            **{f.name: getattr(self.queue, f.name) for f in fields(Queue)},
        )


SECTIONS: Final[Mapping[str, type]] = {f.name: f.default.__class__ for f in fields(Settings)}

NAMES: Final[Mapping[str, str]] = {
    reader.variable(section, f.name): f"{section}.{reader.camel(f.name)}"
    for section, kind in SECTIONS.items()
    for f in fields(kind)
}
"""Every setting's dotted name, by its environment variable."""
