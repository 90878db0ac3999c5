"""The planner's answers and the closed list of reasons."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from scheduler.model.demand import blocked_nodes
from scheduler.model.resources import is_part_of_device, written
from scheduler.model.workload import GangKey, Uid


class Reason(StrEnum):
    """One closed list of reasons for logs, metrics, events and answers. The text of each is constant, see `TEXT`."""

    SEATED = "Seated"
    BOUND = "Bound"
    SCORED = "Scored"
    OTHER_SCHEDULER = "OtherScheduler"
    NATIVE_GROUP = "NativeGroup"
    CACHE_NOT_SYNCED = "CacheNotSynced"
    POD_NOT_CACHED = "PodNotCached"
    GATED = "Gated"
    MISSING_MEMBERS = "MissingMembers"
    QUORUM_UNKNOWN = "QuorumUnknown"
    QUEUED = "Queued"
    CAPACITY_RESERVED = "CapacityReserved"
    QUOTA_EXCEEDED = "QuotaExceeded"
    WAITING_FOR_PREEMPTION = "WaitingForPreemption"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    TOPOLOGY_UNSATISFIED = "TopologyUnsatisfied"
    NO_MATCHING_NODES = "NoMatchingNodes"
    EXCEEDS_CLUSTER = "ExceedsCluster"
    UNKNOWN_LEVEL = "UnknownLevel"
    BACKING_OFF = "BackingOff"
    PARTIALLY_BOUND = "PartiallyBound"
    INVALID_SPEC = "InvalidSpec"
    CONFLICT = "Conflict"
    NAME_CONFLICT = "NameConflict"
    TIMED_OUT = "TimedOut"
    PREEMPTED = "Preempted"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    RUNTIME_EXPIRING = "RuntimeExpiring"
    RUNTIME_EXCEEDED = "RuntimeExceeded"
    NOT_STARTED = "NotStarted"
    MEMBER_LOST = "MemberLost"
    MOVED = "Moved"
    PIN_BROKEN = "PinBroken"
    NODE_EXCLUDED = "NodeExcluded"
    NODE_RESERVED = "NodeReserved"
    POD_DELETED = "PodDeleted"
    FINISHED = "Finished"
    UNSUPPORTED_FIELD = "UnsupportedField"
    IGNORED_FIELD = "IgnoredField"


TEXT: Mapping[Reason, str] = {
    Reason.SEATED: "All required members are assigned to nodes",
    Reason.BOUND: "All required members are bound",
    Reason.SCORED: "Nodes are scored",
    Reason.OTHER_SCHEDULER: "The pod belongs to another scheduler",
    Reason.NATIVE_GROUP: "The pod belongs to a native pod group of kube-scheduler",
    Reason.CACHE_NOT_SYNCED: "Gangwright is still reading the cluster",
    Reason.POD_NOT_CACHED: "Gangwright has not seen the pod yet",
    Reason.GATED: "The pod has scheduling gates",
    Reason.MISSING_MEMBERS: "Waiting for members to be created",
    Reason.QUORUM_UNKNOWN: "Waiting for the gang's PodGroup",
    Reason.QUEUED: "Waiting for a turn in the queue",
    Reason.CAPACITY_RESERVED: "Free capacity is reserved for a gang ahead in the queue",
    Reason.QUOTA_EXCEEDED: "The gang would exceed its namespace's ceiling",
    Reason.WAITING_FOR_PREEMPTION: "Waiting for preempted pods to terminate",
    Reason.INSUFFICIENT_RESOURCES: "Insufficient resources",
    Reason.TOPOLOGY_UNSATISFIED: "No single domain has enough free resources",
    Reason.NO_MATCHING_NODES: "No node matches the gang's node selector, affinity and tolerations",
    Reason.EXCEEDS_CLUSTER: "The gang can't fit even in an empty cluster",
    Reason.UNKNOWN_LEVEL: "No node has a label for the requested level",
    Reason.BACKING_OFF: "Backing off after a failed attempt",
    Reason.PARTIALLY_BOUND: "Some members are bound; waiting for the rest of the quorum",
    Reason.INVALID_SPEC: "The gang's labels or annotations are invalid",
    Reason.CONFLICT: "The gang's members disagree",
    Reason.NAME_CONFLICT: "Another controller already uses this gang name",
    Reason.TIMED_OUT: "The quorum was not bound in time",
    Reason.PREEMPTED: "Preempted for another gang",
    Reason.SUSPENDED: "The gang's Job is suspended",
    Reason.RESUMED: "Suspended for another gang; resumes automatically",
    Reason.RUNTIME_EXPIRING: "The gang reaches its max-runtime soon",
    Reason.RUNTIME_EXCEEDED: "The gang reached its max-runtime",
    Reason.NOT_STARTED: "A member is bound, but its containers have not started",
    Reason.MEMBER_LOST: "The gang lost a member",
    Reason.MOVED: "The gang moves to nodes that are reserved for it",
    Reason.PIN_BROKEN: "The pod lost its assigned node",
    Reason.NODE_EXCLUDED: "kube-scheduler rejected the pod's assigned node",
    Reason.NODE_RESERVED: "These resources are reserved for a gang",
    Reason.POD_DELETED: "The pod no longer exists",
    Reason.FINISHED: "All pods of the gang have finished",
    Reason.UNSUPPORTED_FIELD: "Gangwright does not model a field that limits the pods' nodes",
    Reason.IGNORED_FIELD: "A setting has no effect",
}
"""The text of each reason. It is constant because kube-scheduler retries without pause if a rejection's text changes.
"""


_WHOLE_DEVICES: Final = ". Request whole devices, or a MIG or time-slicing resource that your nodes have"


@dataclass(frozen=True, slots=True)
class Shortfall:
    """How close the best domain is to fitting the gang.

    Reads as "needs `needed` × `demand`; the best `level`, `domain`, fits `best`".
    `blocked` counts the nodes that each kind of obstacle excludes, for example {"selector": 12, "resources": 4}. An
    extended resource that no node has is a kind of its own, by its name.
    """

    needed: int
    demand: str
    level: str
    domain: str
    best: int
    blocked: Mapping[str, int]
    rules: tuple[str, ...] = ()
    """What the members require of each other, for example "at most one member per host by anti-affinity"."""

    def __str__(self) -> str:
        where = f"; the best {self.level}, {self.domain}, fits" if self.domain else "; the cluster fits"
        obstacles = blocked_nodes(self.blocked)
        text = f"needs {self.needed} × {self.demand}{where} {self.best}"
        remedy = _WHOLE_DEVICES if any(map(is_part_of_device, self.blocked)) else ""
        why = "; ".join(filter(None, (*self.rules, obstacles)))
        return f"{text} ({why}){remedy}" if why else text


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A namespace's use and its ceiling, in the units of the ResourceAxis."""

    resource: str
    used: float
    needed: float
    most: float

    @property
    def is_too_low(self) -> bool:
        """The ceiling is exceeded even if nothing else in the namespace runs."""
        return self.needed > self.most

    def __str__(self) -> str:
        needed, used, most = (written(self.resource, own) for own in (self.needed, self.used, self.most))
        if self.is_too_low:
            return f"needs {needed} of {self.resource}, above the ceiling of {most}; waiting does not help"
        return f"needs {needed} of {self.resource}; {used} of the ceiling of {most} are in use"


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of a placement."""

    spans: Mapping[str, tuple[int, int]]
    """By level: domains spanned, and the fewest that could fit as many of these demands in the empty cluster."""
    alignment: float
    """Mean cosine between a member's demand and its node's free vector before the member was placed, 0 … 1."""


@dataclass(frozen=True, slots=True)
class Place:
    """The whole quorum has seats; `seats` may also include surplus members. Values are node names."""

    seats: Mapping[Uid, str]
    unseated: tuple[Uid, ...] = ()
    """Surplus members that fit no node now."""
    quality: Quality = Quality({}, 0.0)


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now. A later snapshot may change the answer."""

    reason: Reason
    shortfall: Shortfall | None = None
    ceiling: Ceiling | None = None
    behind: GangKey | None = None
    """The gang that this one waits for. Two such gangs in parallel may each get half of the resources that one needs.
    """
    held_for: GangKey | None = None
    """The gang for which the missing resources are reserved."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Impossible in any snapshot of this cluster: the gang must change."""

    reason: Reason
    field: str
    value: str
    remedy: str


Decision: TypeAlias = Place | Wait | Refuse

LASTING: Final = (Reason.EXCEEDS_CLUSTER, Reason.NO_MATCHING_NODES, Reason.UNKNOWN_LEVEL)
"""Verdicts about the cluster's hardware and labels. Only a change of nodes justifies a retry. A tuple, because
comparing a reason takes a tenth of the time of hashing it."""


def is_in_vain(decision: Decision | None) -> bool:
    """Waiting does not help. Only other nodes, a higher ceiling or a change of the gang would."""
    if decision is None or isinstance(decision, Place):
        return False
    too_low = isinstance(decision, Wait) and decision.ceiling is not None and decision.ceiling.is_too_low
    return too_low or decision.reason in LASTING
