"""Pods, and the gangs they form, as the API server tells of them."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import NamedTuple, NewType

from scheduler.model.demand import AnyOf, Demand, Requirement
from scheduler.model.resources import Amounts

Uid = NewType("Uid", str)
"""A pod's identity; names are reused, uids never."""


class PodKey(NamedTuple):
    """Where a pod is found."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def off_limits(self) -> bool:
        """Gangwright evicts no pod of this namespace, and no pod of it gives way: it is `kube-*` or Gangwright's own.

        The trust policy refuses such an eviction, too.
        """
        return self.namespace.startswith("kube-") or self.namespace == "gangwright-system"


class GangKey(NamedTuple):
    """A gang's identity. The namespace is its border: equal names in two namespaces are two gangs.

    A gang of one is keyed by its pod's uid, which no gang's name can equal: names hold no colon.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def gang_of_one(namespace: str, uid: Uid) -> GangKey:
    """The key of the gang that a pod without any gang is, alone."""
    return GangKey(namespace, f"uid:{uid}")


class Phase(StrEnum):
    """A pod's phase; the words of the Kubernetes API."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    ended: bool
    """Nothing of the pod's room is in use any more."""

    def __init__(self, word: str) -> None:
        self.ended = word in {"Succeeded", "Failed"}


class Strategy(StrEnum):
    """How the members of a gang lie to each other, and which node of several is taken."""

    PACK = "pack"
    SPREAD = "spread"
    COSINE = "cosine"


class Pin(StrEnum):
    """How a member is tied to its seat: by node affinity, by nomination, or as its owner allows."""

    AUTO = "auto"
    HARD = "hard"
    SOFT = "soft"


class OnMemberLoss(StrEnum):
    """What follows when a bound member is lost."""

    REPLACE = "replace"
    RESTART = "restart"
    NONE = "none"


class GiveWay(StrEnum):
    """How a gang leaves when its room is taken: its pods are evicted, or its Job is suspended and resumed."""

    EVICT = "evict"
    SUSPEND = "suspend"


@dataclass(frozen=True, slots=True)
class Complaint:
    """Something a user wrote that cannot be honoured: which field, what it says, what would be right."""

    field: str
    value: str
    remedy: str
    fatal: bool = True
    """The pod is refused until it is mended; otherwise the rest is honoured and this is only said."""

    def __str__(self) -> str:
        return f"{self.field}: {self.value!r}: {self.remedy}"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a gang asks of its placement; None stands for the configured default."""

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
        """This wish, and the other one where this says nothing."""
        pairs = ((f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(Wish))
        return Wish(**{name: mine if mine is not None else theirs for name, mine, theirs in pairs})


@dataclass(frozen=True, slots=True)
class Membership:
    """What one pod says of its gang, in whichever format it says it.

    `quorum` is the least number of members per role that are of use; a gang without roles has the one role "".
    It is None where the format leaves it to an object beside the pod (a PodGroup named like the gang).
    """

    gang: GangKey
    format: str
    role: str = ""
    quorum: Mapping[str, int] | None = None
    size: int | None = None
    surplus: bool = False
    wish: Wish = Wish()
    refused: bool = False
    """Something that it says cannot be read: it is of this gang, and none of its words count."""
    keys: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where another format than ours says what: by the field's name, here or in the wish, a label or annotation of
    that format.
    """


@dataclass(frozen=True, slots=True)
class Group:
    """A PodGroup of one of the formats: what it says of the gang that its pods name."""

    key: GangKey
    format: str
    quorum: Mapping[str, int]
    size: int | None = None
    wish: Wish = Wish()
    complaints: tuple[Complaint, ...] = ()


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a pod: who makes it again."""

    kind: str
    name: str
    uid: str
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class SeatNote:
    """What our `seat` annotation says: the node, the plan it belongs to, and whether we pinned the pod there."""

    node: str
    plan: str
    pin: bool = False


@dataclass(frozen=True, slots=True)
class PlanNote:
    """What our `plan` annotation says: a seat for every member, by uid, and the pods that have to leave first."""

    plan: str
    seats: Mapping[Uid, str]
    victims: tuple[Uid, ...] = ()


class Pending(NamedTuple):
    """kube-scheduler's last word on a pod that it could not bind."""

    reason: str
    since: float
    """Seconds since the epoch, by the API server's clock."""
    message: str = ""
    """What it says is in the way; read of pods with rules that the planner does not model, and no longer than a line."""


class Preempted(NamedTuple):
    """What our condition on a pod says that gave way to a gang."""

    words: str
    at: float
    """Seconds since the epoch, by our clock."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod, reduced to what decides about it."""

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
    """Our gate is on it."""
    held_back: bool = False
    """Gates of others are on it."""
    native_group: bool = False
    """It has `spec.schedulingGroup`: kube-scheduler's own business."""
    membership: Membership | None = None
    nominated: str | None = None
    affinity: AnyOf = ()
    """Its own required node affinity, which a pin narrows term by term."""
    pinned: str | None = None
    """The only node that its required node affinity names, if it names one by metadata.name."""
    seat: SeatNote | None = None
    plan: PlanNote | None = None
    owner: Owner | None = None
    unmodeled: tuple[str, ...] = ()
    """Fields of its spec that decide about nodes and that the planner does not model."""
    pending: Pending | None = None
    complaints: tuple[Complaint, ...] = ()
    bound_at: float | None = None
    """Seconds since the epoch, by the API server's clock: when it was given its node."""
    preempts: bool = True
    """Room may be made for it: its `preemptionPolicy` is not Never."""
    saved_at: float | None = None
    """Seconds since the epoch: the last checkpoint that it reported; what it did since would be lost with it."""
    told: str | None = field(default=None, compare=False)
    """The reason in its condition `gangwright.io/Seated`, while that is False. Not compared: it decides at a restart alone."""
    stuck: str = ""
    """Why a container of it does not start, such as ImagePullBackOff; empty where nothing tells."""
    preempted: Preempted | None = None
    labels: str = ""
    """As `labels_text` writes them: 50,000 dicts would take ten times the memory."""
    refused: str = ""
    """Why the kubelet of its node would not start it, such as OutOfcpu; empty where it did not refuse."""
    disrupted: bool = False
    """The cluster ends it: its condition `DisruptionTarget` is True. A pod that its owner deletes has none."""

    @property
    def maker(self) -> Owner | None:
        """The owner that makes this pod again when Gangwright evicts it; None also where Gangwright evicts nothing."""
        return None if self.key.off_limits else self.owner


def labels_text(labels: Mapping[str, str]) -> str:
    """Labels as one text, the same for equal labels; neither `=` nor `,` can stand in one."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def read_labels(text: str) -> dict[str, str]:
    """What `labels_text` wrote."""
    return {key: value for key, _, value in (own.partition("=") for own in text.split(",") if own)}


@dataclass(frozen=True, slots=True)
class Asleep:
    """A Job that is suspended, and what the pods would say that it does not make."""

    job: str
    scheduler: str
    membership: Membership
    paused: bool = False
    """It was we who suspended it, and we resume it."""
    exceeded: bool = False
    """It was suspended because its gang had run for its max-runtime, and is not resumed."""


@dataclass(frozen=True, slots=True)
class OwnerTraits:
    """What an owner's object says that its pods do not: can they be made again, and will they ever all exist."""

    uid: str
    remakes_freely: bool
    """Losing a pod that never ran costs nothing (no failure is counted)."""
    warnings: tuple[Complaint, ...] = ()
    suspends: bool = False
    """It can be suspended and resumed: a Job."""
    managed: str = ""
    """The uid of another controller that owns it, such as a JobSet, and may resume it at any time; empty: none does."""
    namespace: str = ""
    suspended: bool = False
    paused: Owner | None = None
    """Itself, when it says that we suspended it so that another gang had room: resumed when its pods are gone. None
    also where it is to stay suspended; not None also where a person resumed it and left our word on it."""
    attained: float = 0.0
    """Device-seconds that its pods had before they were last suspended by us."""
    created: float | None = None
    """Seconds since the epoch, of a Job: when it was made, however often its pods were made again since."""
    asleep: Asleep | None = None
    """While it is suspended, by whomever, and its pods would be of a gang."""
    succeeded: int = 0
    """Pods of a Job that succeeded, whether or not they are still there."""
    failed: int = field(default=0, compare=False)
    """Pods of a Job that failed, likewise."""
    ended: bool = False
    """It makes no pods any more."""
    version: str = field(default="", compare=False)
    """Of the object when it said this: it is changed only as it was then."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota: the most that the pods of a namespace may ask for together.

    `hard`, and what of it is in `used`, by resource, in the units of the ResourceAxis. Quotas with scopes are not read: they may not apply.
    """

    namespace: str
    name: str
    hard: Amounts
    used: Amounts = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget: how many of the pods that it covers may be evicted now.

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
    """Members of a gang that are interchangeable: one role name, one demand.

    `quorum` are to be seated whole with the quorum of all other roles, `surplus` one by one where room is left.
    """

    name: str
    demand: Demand
    quorum: tuple[Uid, ...] = ()
    surplus: tuple[Uid, ...] = ()


@dataclass(frozen=True, slots=True)
class Gang:
    """What the planner is asked to seat now.

    `anchors` are the nodes of members that have their place already, one entry a member; newcomers join them.
    `barred` are nodes that this gang must not be given (its pins broke there).
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
        """Members that must be seated together."""
        return sum(len(role.quorum) for role in self.roles)

    @property
    def shape(self) -> Hashable:
        """All that decides where it is seated on free nodes: gangs of one shape get the same seats, or none."""
        roles = tuple((role.demand, len(role.quorum), len(role.surplus)) for role in self.roles)
        return roles, self.strategy, self.level, self.required, self.anchors, self.barred
