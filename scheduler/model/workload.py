"""Pods and gangs as read from the API server."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import NamedTuple, NewType

from scheduler.model.demand import AnyOf, Demand, Requirement
from scheduler.model.neighbors import NO_NEIGHBORS, Neighbors, PodLabels
from scheduler.model.resources import Amounts

Uid = NewType("Uid", str)
"""A pod's identity. Names are reused, uids never."""


class PodKey(NamedTuple):
    """Namespace and name of a pod."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def off_limits(self) -> bool:
        """Gangwright never evicts or preempts a pod of this namespace: it is `kube-*` or Gangwright's own.

        The trust policy rejects such an eviction, too.
        """
        return self.namespace.startswith("kube-") or self.namespace == "gangwright-system"


class GangKey(NamedTuple):
    """A gang's identity. Equal names in two namespaces are two gangs.

    A gang of one is keyed by its pod's uid. No gang's name can equal that key, because names contain no colon.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def gang_of_one(namespace: str, uid: Uid) -> GangKey:
    """The key of a pod without a gang: a gang of one."""
    return GangKey(namespace, f"uid:{uid}")


class Phase(StrEnum):
    """A pod's phase, in the terms of the Kubernetes API."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    ended: bool
    """The pod no longer uses resources."""

    def __init__(self, word: str) -> None:
        self.ended = word in {"Succeeded", "Failed"}


class Strategy(StrEnum):
    """How the members of a gang are arranged, and which of several nodes is preferred."""

    PACK = "pack"
    SPREAD = "spread"
    COSINE = "cosine"


class Pin(StrEnum):
    """How a member is tied to its seat: by node affinity, by nomination, or as its owner allows."""

    AUTO = "auto"
    HARD = "hard"
    SOFT = "soft"


class OnMemberLoss(StrEnum):
    """The reaction to the loss of a bound member."""

    REPLACE = "replace"
    RESTART = "restart"
    NONE = "none"


class GiveWay(StrEnum):
    """How a gang is preempted: its pods are evicted, or its Job is suspended and later resumed."""

    EVICT = "evict"
    SUSPEND = "suspend"


@dataclass(frozen=True, slots=True)
class Complaint:
    """An invalid user setting: its field, its value, and how to fix it."""

    field: str
    value: str
    remedy: str
    fatal: bool = True
    """The pod is rejected until it is fixed. Otherwise only this setting is ignored, with a warning."""

    def __str__(self) -> str:
        return f"{self.field}: {self.value!r}: {self.remedy}"


@dataclass(frozen=True, slots=True)
class Wish:
    """A gang's placement settings. None stands for the configured default."""

    strategy: Strategy | None = None
    level: str | None = None
    required: bool | None = None
    timeout: float | None = None
    """Seconds from the first ungating PATCH until the quorum must be bound."""
    expected_runtime: float | None = None
    """Seconds."""
    pin: Pin | None = None
    on_member_loss: OnMemberLoss | None = None
    give_way: GiveWay | None = None
    start_timeout: float | None = None
    """Seconds from the bind until a member must run."""
    max_runtime: float | None = None
    """Seconds from the bind of the quorum until the gang is ended."""

    def over(self, other: "Wish") -> "Wish":
        """This wish, with values of the other one where this has none."""
        pairs = ((f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(Wish))
        return Wish(**{name: mine if mine is not None else theirs for name, mine, theirs in pairs})


@dataclass(frozen=True, slots=True)
class Membership:
    """What one pod states about its gang, in any format.

    `quorum` is the minimum of useful members per role. A gang without roles has the single role "".
    It is None if the format states it on a separate object (a PodGroup named like the gang).
    """

    gang: GangKey
    format: str
    role: str = ""
    quorum: Mapping[str, int] | None = None
    size: int | None = None
    surplus: bool = False
    wish: Wish = Wish()
    refused: bool = False
    """The pod states something invalid. It belongs to this gang, but its settings are ignored."""
    keys: Mapping[str, str] = field(default_factory=dict, compare=False)
    """For formats other than Gangwright's: by field name, here or in the wish, the label or annotation that states it.
    """


@dataclass(frozen=True, slots=True)
class Group:
    """A PodGroup of any format: what it states about the gang that its pods name."""

    key: GangKey
    format: str
    quorum: Mapping[str, int]
    size: int | None = None
    wish: Wish = Wish()
    complaints: tuple[Complaint, ...] = ()


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a pod, which recreates it."""

    kind: str
    name: str
    uid: str
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class SeatNote:
    """The content of the `seat` annotation: the node, its plan, and whether Gangwright pinned the pod there."""

    node: str
    plan: str
    pin: bool = False


@dataclass(frozen=True, slots=True)
class PlanNote:
    """The content of the `plan` annotation: a seat for every member, by uid, and the victims to evict first."""

    plan: str
    seats: Mapping[Uid, str]
    victims: tuple[Uid, ...] = ()


class Pending(NamedTuple):
    """kube-scheduler's latest report about a pod that it could not bind."""

    reason: str
    since: float
    """Seconds since the epoch, by the API server's clock."""
    message: str = ""
    """Its message, at most one line. Only read for pods with rules that the planner does not model."""


class Preempted(NamedTuple):
    """The content of Gangwright's condition on a preempted pod."""

    words: str
    at: float
    """Seconds since the epoch, by Gangwright's clock."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod, reduced to what affects scheduling."""

    uid: Uid
    key: PodKey
    demand: Demand
    scheduler: str = ""
    node: str | None = None
    phase: Phase = Phase.PENDING
    deleting: bool = False
    priority: int = 0
    created: float = 0.0
    """Seconds since the epoch, by the API server's clock: the order of arrival."""
    gated: bool = False
    """It has Gangwright's gate."""
    held_back: bool = False
    """It has scheduling gates of other controllers."""
    native_group: bool = False
    """It has `spec.schedulingGroup`, so kube-scheduler schedules it on its own."""
    membership: Membership | None = None
    nominated: str | None = None
    affinity: AnyOf = ()
    """Its own required node affinity, which a pin narrows term by term."""
    pinned: str | None = None
    """The single node that its required node affinity names by metadata.name, if any."""
    seat: SeatNote | None = None
    plan: PlanNote | None = None
    owner: Owner | None = None
    unmodeled: tuple[str, ...] = ()
    """Fields of its spec that limit nodes and that the planner does not model."""
    neighbors: Neighbors = NO_NEIGHBORS
    """What it requires of the pods around it."""
    pending: Pending | None = None
    complaints: tuple[Complaint, ...] = ()
    bound_at: float | None = None
    """Seconds since the epoch, by the API server's clock: when it was bound."""
    preempts: bool = True
    """Other pods may be preempted for it: its `preemptionPolicy` is not Never."""
    saved_at: float | None = None
    """Seconds since the epoch: the last checkpoint that it reported. Later work would be lost with it."""
    told: str | None = field(default=None, compare=False)
    """The reason in its condition `gangwright.io/Seated` while that is False. Not compared: it only matters at a
    restart."""
    stuck: str = ""
    """Why one of its containers does not start, for example ImagePullBackOff. Empty if unknown."""
    preempted: Preempted | None = None
    labels: str = ""
    """In the form of `labels_text`: 50,000 dicts would take ten times the memory."""
    refused: str = ""
    """Why its node's kubelet rejected it, for example OutOfcpu. Empty if it did not."""
    disrupted: bool = False
    """The cluster ends it: its condition `DisruptionTarget` is True. A pod that its owner deletes has none."""

    @property
    def maker(self) -> Owner | None:
        """The owner that recreates this pod after an eviction. None also where Gangwright never evicts."""
        return None if self.key.off_limits else self.owner


@dataclass(frozen=True, slots=True)
class Asleep:
    """A suspended Job, and what its future pods would state."""

    job: str
    scheduler: str
    membership: Membership
    paused: bool = False
    """Gangwright suspended it and will resume it."""
    exceeded: bool = False
    """It was suspended because its gang reached its max-runtime. It is not resumed."""


@dataclass(frozen=True, slots=True)
class OwnerTraits:
    """What an owner's object states beyond its pods: does it recreate them, and can all of them ever exist?"""

    uid: str
    remakes_freely: bool
    """Losing a pod that never ran costs nothing: no failure is counted."""
    warnings: tuple[Complaint, ...] = ()
    suspends: bool = False
    """It can be suspended and resumed: it is a Job."""
    managed: str = ""
    """The uid of the controller that owns it, for example a JobSet, which may resume it at any time. Empty if none."""
    namespace: str = ""
    suspended: bool = False
    paused: Owner | None = None
    """Its own reference while its note says that Gangwright suspended it and will resume it, even if it is resumed."""
    attained: float = 0.0
    """Device-seconds that its pods had before Gangwright last suspended it."""
    created: float | None = None
    """Seconds since the epoch, for a Job: its creation, however often its pods were recreated since."""
    asleep: Asleep | None = None
    """Set while it is suspended for any reason and its pods would belong to a gang."""
    succeeded: int = 0
    """Succeeded pods of a Job, including deleted ones."""
    failed: int = field(default=0, compare=False)
    """Failed pods of a Job, including deleted ones."""
    ended: bool = False
    """It creates no more pods."""
    version: str = field(default="", compare=False)
    """Of the object when it was read. Changes apply to this version only."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota: the most that a namespace's pods may request together.

    `hard` and the part of it in `used` are by resource, in the units of the ResourceAxis. Quotas with scopes are
    ignored.
    """

    namespace: str
    name: str
    hard: Amounts
    used: Amounts = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget: how many of its pods may be evicted now.

    selector: requirements on a pod's labels, all of which must hold. An empty one covers every pod of the namespace;
    None covers no pod.
    """

    namespace: str
    name: str
    selector: tuple[Requirement, ...] | None
    allowed: int

    def covers(self, labels: Mapping[str, str]) -> bool:
        return self.selector is not None and all(own.holds(labels) for own in self.selector)


@dataclass(frozen=True, slots=True)
class Role:
    """Interchangeable members of a gang: one role name, one demand, the same neighbors.

    The `quorum` of all roles is placed together. `surplus` is placed one by one where capacity is left.
    labels: the labels of the members that any pod's selector reads. None: no selector reads any of them.
    """

    name: str
    demand: Demand
    quorum: tuple[Uid, ...] = ()
    surplus: tuple[Uid, ...] = ()
    neighbors: Neighbors = NO_NEIGHBORS
    labels: PodLabels | None = None


@dataclass(frozen=True, slots=True)
class Gang:
    """The request to the planner.

    `anchors` are the nodes of members that are already placed, one entry per member. New members join them.
    `barred` are nodes excluded for this gang, because its pins broke there.
    """

    key: GangKey
    roles: tuple[Role, ...]
    strategy: Strategy
    level: str
    required: bool
    priority: int = 0
    anchors: tuple[str, ...] = ()
    barred: frozenset[str] = field(default=frozenset())

    @property
    def quorum(self) -> int:
        """Members that must be placed together."""
        return sum(len(role.quorum) for role in self.roles)

    @property
    def shape(self) -> Hashable:
        """Everything that decides its seats on free nodes. Gangs of one shape get the same seats, or none."""
        roles = tuple(
            (role.demand, role.neighbors, role.labels, len(role.quorum), len(role.surplus))
            for role in self.roles
        )
        return roles, self.strategy, self.level, self.required, self.anchors, self.barred
