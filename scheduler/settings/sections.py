"""All sections as one value, and those that both programs have: the API server, the Lease, the log.

Lives here: `Settings`, and the name of every setting. Never here: what a value looks like (`kinds`), where it comes from
(`sources`), or which values contradict each other (`rules`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Final

from scheduler.model.policy import Policy
from scheduler.settings import kinds, sources
from scheduler.settings.elastic_settings import ElasticMaster, Workers
from scheduler.settings.scheduler_settings import Cluster, Gangs, Placement, Queue
from scheduler.settings.server_settings import (
    Aggregation,
    Probes,
    RendezvousServer,
    StatusServer,
    VerbsServer,
)


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
class Api:
    """The API server, and how hard we lean on it."""

    kubeconfig: Annotated[str, kinds.path] = ""
    """File that says how to reach it. Empty: $KUBECONFIG, the Pod's service account, or ~/.kube/config."""

    context: Annotated[str, kinds.name] = ""
    """Context of the kubeconfig. Empty: its current one."""

    concurrent_writes: Annotated[int, kinds.whole(1, 32)] = 16
    """Writes under way at a time. A write takes some milliseconds, so 16 are more than kube-scheduler can bind
    pods for, and an API server in trouble is not stormed. Watches and looks at the Lease have connections
    beside these."""

    silent_after: Annotated[float, kinds.seconds(5, 600)] = 10.0
    """Without an answer of the API server for so long, or without a standing watch of nodes or of pods, our picture
    counts as stale: verbs answer with an error, and no pod is placed or evicted. Two looks at the Lease fail in that
    time, each after 2 s. A leader stops when its Lease ends, if that is sooner. A watch on which nothing is heard
    stands for 70 s. It stands for 11 s where the other machine is gone, and for 14 to 17 s after something that a proxy
    between does not pass on. The elastic master then starts no worker of the jobs whose pods it cannot watch; what
    trains goes on, and it stays ready."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Which of several replicas may write: the one beside the kube-scheduler that leads."""

    follow: Annotated[bool, kinds.flag] = True
    """false: always write. Only for a single replica whose kube-scheduler does not elect a leader."""

    namespace: Annotated[str, kinds.dns_name] = "gangwright-system"
    """As `leaderElection.resourceNamespace` of kube-scheduler."""

    name: Annotated[str, kinds.dns_name] = "gangwright"
    """As `leaderElection.resourceName` of kube-scheduler."""

    hostname: Annotated[str, kinds.name] = ""
    """How kube-scheduler's identity begins: its host name. Empty: $POD_NAME, else the name of this host."""


@dataclass(frozen=True, slots=True)
class Log:
    """What is written about our work, to standard error."""

    level: Annotated[LogLevel, kinds.word(LogLevel)] = LogLevel.INFO
    """`info` has one line a call of kube-scheduler; refusals and errors of one kind are written five times a minute,
    then counted. `debug` leaves out none."""

    format: Annotated[LogFormat, kinds.word(LogFormat)] = LogFormat.AUTO
    """`json`, `console`, or `auto`: console on a terminal, JSON elsewhere."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All of them. A section's name here is its name in YAML."""

    cluster: Cluster = Cluster()
    placement: Placement = Placement()
    gangs: Gangs = Gangs()
    queue: Queue = Queue()
    verbs: VerbsServer = VerbsServer()
    probes: Probes = Probes()
    status: StatusServer = StatusServer()
    aggregation: Aggregation = Aggregation()
    rendezvous: RendezvousServer = RendezvousServer()
    elastic: ElasticMaster = ElasticMaster()
    workers: Workers = Workers()
    api: Api = Api()
    lease: Lease = Lease()
    log: Log = Log()

    @property
    def policy(self) -> Policy:
        """What of this the core decides by."""
        parts = (self.placement, self.gangs, self.queue)
        return Policy(
            scheduler_names=frozenset(self.cluster.scheduler_names),
            levels=self.cluster.levels,
            **{f.name: getattr(part, f.name) for part in parts for f in fields(part)},
        )


SECTIONS: Final[Mapping[str, type]] = {f.name: f.default.__class__ for f in fields(Settings)}

NAMES: Final[Mapping[str, str]] = {
    sources.variable(section, f.name): f"{section}.{sources.camel(f.name)}"
    for section, kind in SECTIONS.items()
    for f in fields(kind)
}
"""Every setting's dotted name, by its environment variable."""
