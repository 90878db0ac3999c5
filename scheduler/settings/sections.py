"""All sections as one value, and the sections that both programs have: the API server, the Lease, the log.

Lives here: `Settings`, and the name of every setting. Never here: the form of a value (`kinds`), its source
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
    """Format of log lines."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class LogLevel(StrEnum):
    """Lowest severity of the lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Api:
    """The connection to the API server, and its limits."""

    kubeconfig: Annotated[str, kinds.path] = ""
    """Path of the kubeconfig file. Defaults to $KUBECONFIG, the Pod's service account, or ~/.kube/config."""

    context: Annotated[str, kinds.name] = ""
    """Context of the kubeconfig. Defaults to the current one."""

    concurrent_writes: Annotated[int, kinds.whole(1, 32)] = 16
    """Largest number of concurrent writes. Watches and reads of the Lease use other connections. Defaults to 16: a
    write takes a few milliseconds, so they are faster than kube-scheduler binds pods, and a struggling API server is
    not flooded."""

    silent_after: Annotated[float, kinds.seconds(5, 600)] = 10.0
    """Seconds without an answer of the API server, or without a healthy watch of nodes or pods, after which the cache
    is stale. Extender endpoints then answer with an error, and no pod is placed or evicted. Defaults to 10 seconds, in
    which two reads of the Lease fail, each after 2 s. A leader stops earlier if its Lease expires earlier. A silent
    watch counts as healthy for 70 s. It counts for 11 s if the other machine is gone, and for 14 to 17 s if a proxy in
    between does not pass something on. The elastic master then starts no worker of jobs whose pods it can't watch.
    Running training continues, and the master stays ready."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The Lease of kube-scheduler, which decides which replica may write: the one beside the leader."""

    follow: Annotated[bool, kinds.flag] = True
    """Whether only the replica beside the leading kube-scheduler writes. Defaults to true. Set it to false only for a
    single replica whose kube-scheduler does not elect a leader."""

    namespace: Annotated[str, kinds.dns_name] = "gangwright-system"
    """Namespace of the Lease, as `leaderElection.resourceNamespace` of kube-scheduler. Defaults to gangwright-system."""

    name: Annotated[str, kinds.dns_name] = "gangwright"
    """Name of the Lease, as `leaderElection.resourceName` of kube-scheduler. Defaults to gangwright."""

    hostname: Annotated[str, kinds.name] = ""
    """Host name with which kube-scheduler's identity begins. Defaults to $POD_NAME, or to the name of this host."""


@dataclass(frozen=True, slots=True)
class Log:
    """The log, on standard error."""

    level: Annotated[LogLevel, kinds.word(LogLevel)] = LogLevel.INFO
    """Lowest level that is written: debug, info, warning or error. Defaults to info, which has one line per call of
    kube-scheduler. Rejections and errors of one kind are written five times a minute, then counted. `debug` writes all
    of them."""

    format: Annotated[LogFormat, kinds.word(LogFormat)] = LogFormat.AUTO
    """Format of the lines: `json`, `console`, or `auto`. Defaults to auto: console on a terminal, JSON elsewhere."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. The name of a section here is its name in YAML."""

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
        """The settings that the core decides by."""
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
"""The dotted name of every setting, by its environment variable."""
