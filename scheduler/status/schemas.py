"""The JSON of the status API, as frozen structs: first the answers, then the requests.

Lives here: names and types, which the OpenAPI description is generated from. Never here: the source of a value.

Times are seconds since the epoch, spans are seconds. Amounts of resources are in Gangwright's units: CPU in thousandths
of a core, memory and storage in bytes, everything else in pieces. Names (`namespace`, `name`, `message` …) are null if
the caller may not read them. Numbers are always shown.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from scheduler.model import names


class Part(Struct, frozen=True, rename="camel"):
    """A part of an answer. Every field is always present."""


Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]


class Error(Part, frozen=True):
    """An error."""

    error: str
    """A sentence with the reason and the fix."""
    status: int


class Forecast(Part, frozen=True):
    """When a gang is expected to start: the middle, and bounds that hold in 80% of cases."""

    middle: float
    low: float
    high: float


class Members(Part, frozen=True):
    """Numbers of a gang's pods by state."""

    present: Count
    """Pods that exist and are assigned to a node or can be."""
    needed: Count | None
    """The quorum; null while it is not specified."""
    held: Count
    """Pods with a reserved node that are not bound yet."""
    bound: Count
    """Pods that are bound or have succeeded."""
    running: Count


class GangRow(Part, frozen=True):
    """One gang in a list."""

    id: str
    """The same for one gang in every answer of a running replica. It does not reveal the name."""
    namespace: str | None
    name: str | None
    """The pod's name for a pod without a gang."""
    key: str | None
    """The name of this gang in paths; also null for a suspended gang without pods, which has no details."""
    alone: bool
    """A single pod that is a gang of one."""
    state: str
    """`suspended` if a Job of the gang is suspended and none of its pods is live; `over` if all have ended."""
    reason: str | None
    """A word of a fixed list; null from a standby replica, which only keeps facts."""
    message: str | None
    position: Annotated[int, Meta(ge=1)] | None
    """Position in the queue; null if the gang is not in it or waits in vain: cluster or ceiling are too small."""
    priority: int | None
    """Null for a gang without pods."""
    wait_seconds: Seconds | None
    """Time since its quorum was complete, before that since its first pod was created; null if it does not wait."""
    members: Members
    forecast: Forecast | None
    owner: str | None
    """Kind and name of the controller of its first pod, for example `Job/train`; null if there is none."""
    created: float | None
    """When its first pod was created; null for a gang without pods."""
    started: float | None
    """When its quorum was first bound; null before that, and from a replica that was not active then."""
    devices_wanted: dict[str, Count]
    """Requests of its pods, and of the missing pods of its quorum, by extended resource."""
    devices_held: dict[str, Count]
    """Requests of its pods that are bound or have a reserved node, by extended resource. Part of `devicesWanted`."""


class GangList(Part, frozen=True):
    """Gangs, page by page, without gangs that are over."""

    acting: bool
    """Whether this replica is active. A standby replica has no reasons, positions or forecasts."""
    generation: Count
    """Changes whenever anything in the cluster does."""
    total: Count
    offset: Count
    next: Count | None
    """The offset of the next page; null at the end."""
    unchecked: Count
    """Namespaces that are hidden only because too many had to be reviewed at once. Try again."""
    gangs: list[GangRow]


class MemberRow(Part, frozen=True):
    """One pod of a gang."""

    name: str
    uid: str
    role: str
    surplus: bool
    state: str
    """`bound`, `held`, `leaving`, `ended`, `waiting` or `gated` (by another controller)."""
    phase: str
    node: str | None
    """Its node, or the node that is reserved for it."""
    reason: str | None
    """Why it is terminating, why it does not count, or kube-scheduler's reason why it was not bound."""


class LevelShortfall(Part, frozen=True):
    """How close the best domain is: the gang needs `needed` × `demand`, and `domain` fits `best`."""

    needed: Count
    demand: str
    level: str
    domain: str
    best: Count
    blocked: dict[str, int]
    """Number of nodes that each kind of obstacle excludes. An extended resource that no node has is a kind by its name."""


class Refusal(Part, frozen=True):
    """A field with an invalid value, and the fix."""

    field: str
    value: str
    remedy: str


class NoticeRow(Part, frozen=True):
    """The last event about a gang, by reason, with its time."""

    reason: str
    message: str
    at: float


class PlanRow(Part, frozen=True):
    """A plan that is being written to the API server."""

    name: str
    step: str
    outstanding: Count
    """Writes without an outcome yet."""


class BarRow(Part, frozen=True):
    """A node that is excluded for the gang after a failed placement."""

    node: str
    until: float


class Behind(Part, frozen=True):
    """The gang that capacity is reserved for, and from when on."""

    id: str
    namespace: str | None
    gang: str | None
    start: float


class VictimRow(Part, frozen=True):
    """A potential victim of preemption."""

    id: str
    namespace: str | None
    gang: str | None
    """The pod's name for a pod without a gang."""
    kind: str
    """`surplus`, `pod` or `gang`."""
    pods: Count
    priority: int
    lost: Seconds
    """Device-seconds of work that would be lost."""
    way: str
    """`evict` or `suspend`."""


class LeavingRow(Part, frozen=True):
    """A victim of preemption that has not terminated yet."""

    id: str
    """The id of its gang."""
    namespace: str | None
    pod: str | None
    way: str
    """`evict` or `suspend`."""
    accepted: bool
    """Whether the API server accepted the request. While it is false, a PodDisruptionBudget may block it."""


class PreemptedRow(Part, frozen=True):
    """The gang that last preempted this gang or a part of it; known until a restart, or from pods' conditions."""

    id: str | None
    """Null if only the pods tell it. Then the next three are null too."""
    namespace: str | None
    gang: str | None
    priority: int | None
    message: str | None
    """The condition's message on a preempted pod that still exists."""
    at: float


class Wishes(Part, frozen=True):
    """The effective placement settings of a gang: its own, otherwise the defaults of the settings."""

    strategy: str
    level: str
    required: bool
    pin: str
    timeout: float
    expected_runtime: float | None
    max_runtime: float | None


class GangDetail(Part, frozen=True):
    """All details of one gang."""

    acting: bool
    generation: Count
    gang: GangRow
    quorum: dict[str, int] | None
    """By role. A gang without roles has one role with an empty name."""
    size: Count | None
    wishes: Wishes
    deadline: float | None
    """When the quorum must be bound."""
    ends_by: float | None
    """When a running gang is ended because of its max-runtime."""
    not_before: float | None
    """The gang backs off until this time."""
    tries: Count
    broken_pins: Count
    soft: bool
    """Its pods are only nominated, because pins broke too often."""
    plan: PlanRow | None
    shortfalls: list[LevelShortfall]
    """The shortfall behind the reason."""
    nearest: list[LevelShortfall]
    """For every level that nodes are labeled with, finest first: the domain that fits most of the quorum now."""
    refusal: Refusal | None
    notices: list[NoticeRow]
    barred: list[BarRow]
    victims: list[VictimRow]
    """Victims that are preempted for it, as far as they are known."""
    would_cost: list[VictimRow]
    """Potential victims of lower priority if the gang may preempt. It is not preempting them."""
    behind: Behind | None
    """The gang that holds the capacity that this gang needs: by a reservation, or while it waits for preempted pods to
    terminate."""
    leaving: list[LeavingRow]
    """Victims that are terminating for it now."""
    preempted: PreemptedRow | None
    reserved_from: float | None
    """Capacity is reserved for it from this time on, because it is the first pending gang; null for others."""
    members: list[MemberRow]


class TrialSeat(Part, frozen=True):
    """The node for a pod."""

    pod: str
    node: str


class TrialAnswer(Part, frozen=True):
    """The result of a dry run."""

    starts: bool
    """The gang starts now or, with victims, once they have terminated. False if unknown: `UnsupportedField`."""
    reason: str
    message: str
    seats: list[TrialSeat]
    victims: list[VictimRow]
    shortfalls: list[LevelShortfall]
    forecast: Forecast | None


class Move(Part, frozen=True):
    """A gang on the drained node."""

    namespace: str
    name: str
    pods: Count
    outcome: str
    """Its outcome, or why it stays."""


class DrainAnswer(Part, frozen=True):
    """The result of a drain."""

    node: str
    done: bool
    """No pods of gangs are left on the node."""
    moves: list[Move]


class Asked(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The body of a request. An unknown field is an error, because ignoring it would hide a mistake."""


class Nothing(Asked, frozen=True):
    """An empty object."""


class TrialPods(Asked, frozen=True):
    """A number of identical pods."""

    pod: dict[str, Any]
    """A Pod in the format of Kubernetes. The name is optional."""
    count: Annotated[float, Meta(ge=1, le=4096, multiple_of=1)] = 1
    """An integer. In JSON, 4.0 is also an integer."""


class TrialRequest(Asked, frozen=True):
    """The pods to simulate: those of one gang, or pods that are gangs of one."""

    pods: Annotated[list[TrialPods], Meta(min_length=1, max_length=64)]
    namespace: Annotated[str, Meta(pattern=f"^{names.NAMESPACE}$")] = "default"
    """The namespace of the pods. If a pod specifies its own, it must be the same."""
