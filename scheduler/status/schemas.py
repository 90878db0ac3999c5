"""The JSON of the status API, as frozen structs: first what is sent, then what is taken.

Lives here: names and types, from which the OpenAPI description is made. Never here: where a value comes from.

Times are seconds since the epoch, spans are seconds. Amounts of resources are in the units that Gangwright counts
in: CPU in thousandths of a core, memory and storage in bytes, everything else in pieces. Names (`namespace`, `name`,
`message` …) are null where the asker may not read them; numbers stay.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from scheduler.model import names


class Part(Struct, frozen=True, rename="camel"):
    """What is sent. Every field is always there."""


Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]


class Error(Part, frozen=True):
    """Why there is no answer."""

    error: str
    """A sentence that says what would be right."""
    status: int


class Forecast(Part, frozen=True):
    """When a gang is expected to start: the middle, and the bounds that hold in four of five cases."""

    middle: float
    low: float
    high: float


class Members(Part, frozen=True):
    """How many pods of a gang are where."""

    present: Count
    """Pods that are there, and could be given a seat or have one."""
    needed: Count | None
    """The quorum; null while nobody has said it."""
    held: Count
    """With a seat that is kept, and not bound yet."""
    bound: Count
    """On a node, or ended well."""
    running: Count


class GangRow(Part, frozen=True):
    """One gang in a list."""

    id: str
    """The same for one gang in every answer of one replica, as long as it runs; says nothing of its name."""
    namespace: str | None
    name: str | None
    """Of a pod that is no gang's: the pod's name."""
    key: str | None
    """What stands in the path of this gang; null also for one that is suspended, of which there is no more to tell."""
    alone: bool
    """A single pod that is a gang of one."""
    state: str
    """`suspended` where a Job of it is suspended and it has no pods that have not ended; `over` where all have ended."""
    reason: str | None
    """A word of a closed list; null from a replica that does not act: it keeps facts and judges nothing."""
    message: str | None
    position: Annotated[int, Meta(ge=1)] | None
    """In the queue; null for a gang that is not in it, or waits in vain: the cluster or its ceiling is too small."""
    priority: int | None
    """Null for a gang without pods, which would say it."""
    wait_seconds: Seconds | None
    """Since its quorum was there, before that since its first pod came; null for a gang that does not wait."""
    members: Members
    forecast: Forecast | None
    owner: str | None
    """Kind and name of the controller of its first pod, such as `Job/train`; null where it has none."""
    created: float | None
    """When its first pod was created; null for a gang without pods."""
    devices_wanted: dict[str, Count]
    """By extended resource: what its pods ask for, and those that its quorum still lacks."""
    devices_held: dict[str, Count]
    """By extended resource: what its pods have that are bound, or whose seat is kept. Part of `devicesWanted`."""


class GangList(Part, frozen=True):
    """Gangs, page by page. One that is over is in no list."""

    acting: bool
    """Whether this replica decides. One that does not has no reasons, positions and forecasts."""
    generation: Count
    """Changes whenever anything in the cluster does."""
    total: Count
    offset: Count
    next: Count | None
    """The offset of the next page; null at the end."""
    unchecked: Count
    """Namespaces whose names are hidden only because too many had to be asked about at once; ask again."""
    gangs: list[GangRow]


class MemberRow(Part, frozen=True):
    """One pod of a gang."""

    name: str
    uid: str
    role: str
    surplus: bool
    state: str
    """`bound`, `held`, `leaving`, `ended`, `waiting` or `gated` (by somebody else)."""
    phase: str
    node: str | None
    """Where it runs, or the seat that is kept for it."""
    reason: str | None
    """Why it is leaving, why it does not count, or kube-scheduler's word on why it could not be bound."""


class LevelShortfall(Part, frozen=True):
    """How near the nearest domain came: `needed` × `demand`, of which there is room for `best` in `domain`."""

    needed: Count
    demand: str
    level: str
    domain: str
    best: Count
    blocked: dict[str, int]
    """How many nodes each kind of obstacle rules out."""


class Refusal(Part, frozen=True):
    """What a user wrote that cannot be honoured."""

    field: str
    value: str
    remedy: str


class NoticeRow(Part, frozen=True):
    """What was last told about a gang in events, and when."""

    reason: str
    message: str
    at: float


class PlanRow(Part, frozen=True):
    """Seats on their way to the API server."""

    name: str
    step: str
    outstanding: Count
    """Writes without an outcome yet."""


class BarRow(Part, frozen=True):
    """A node that the gang is not given, because a seat of it was lost there."""

    node: str
    until: float


class Behind(Part, frozen=True):
    """The gang for which room is reserved, and from when on."""

    id: str
    namespace: str | None
    gang: str | None
    start: float


class VictimRow(Part, frozen=True):
    """Who would leave to make room."""

    id: str
    namespace: str | None
    gang: str | None
    """Of a pod that is no gang's: the pod's name."""
    kind: str
    """`surplus`, `pod` or `gang`."""
    pods: Count
    priority: int
    lost: Seconds
    """Device-seconds of work that would be thrown away."""
    way: str
    """`evict` or `suspend`."""


class LeavingRow(Part, frozen=True):
    """A pod that was chosen to leave, and has not left yet."""

    id: str
    """Of its gang."""
    namespace: str | None
    pod: str | None
    way: str
    """`evict` or `suspend`."""
    accepted: bool
    """The API server took the request; a PodDisruptionBudget may still keep it from doing so."""


class PreemptedRow(Part, frozen=True):
    """The gang that this gang, or some of it, gave way to last; known until a restart, or by pods that tell it."""

    id: str | None
    """Null where only the pods tell it, as are the next three."""
    namespace: str | None
    gang: str | None
    priority: int | None
    message: str | None
    """What stands on a pod that gave way and is still there."""
    at: float


class Wishes(Part, frozen=True):
    """What holds for the gang's placement: its own word, else the setting."""

    strategy: str
    level: str
    required: bool
    pin: str
    timeout: float
    expected_runtime: float | None
    max_runtime: float | None


class GangDetail(Part, frozen=True):
    """All that is known of one gang."""

    acting: bool
    generation: Count
    gang: GangRow
    quorum: dict[str, int] | None
    """By role; a gang without roles has the one role "". """
    size: Count | None
    wishes: Wishes
    deadline: float | None
    """When the quorum must be bound."""
    ends_by: float | None
    """When a gang that runs is ended, for its max-runtime."""
    not_before: float | None
    """Backing off until then."""
    tries: Count
    broken_pins: Count
    soft: bool
    """Its pods are only nominated: pins broke too often."""
    plan: PlanRow | None
    shortfalls: list[LevelShortfall]
    """What the reason is about."""
    nearest: list[LevelShortfall]
    """Of every level that nodes are labelled with, finest first: the domain where most of the quorum could sit now."""
    refusal: Refusal | None
    notices: list[NoticeRow]
    barred: list[BarRow]
    victims: list[VictimRow]
    """Who would have to leave for it, as far as that was worked out."""
    would_cost: list[VictimRow]
    """Who would have to leave for it, if it might ask them to: gangs and pods of lower priority. It asks nobody."""
    behind: Behind | None
    """The gang for which the room is kept that it would fit into; or that has seats already, and waits until preempted
    pods leave them."""
    leaving: list[LeavingRow]
    """Who is leaving for it now."""
    preempted: PreemptedRow | None
    reserved_from: float | None
    """Room is kept for it from then on: it is the first that waits. Null for every other gang."""
    members: list[MemberRow]


class TrialSeat(Part, frozen=True):
    """Where a pod would go."""

    pod: str
    node: str


class TrialAnswer(Part, frozen=True):
    """What would happen now."""

    starts: bool
    """Now; or, where there are victims, once they have left. False where it cannot be told: `UnsupportedField`."""
    reason: str
    message: str
    seats: list[TrialSeat]
    victims: list[VictimRow]
    shortfalls: list[LevelShortfall]
    forecast: Forecast | None


class Move(Part, frozen=True):
    """A gang that was asked to leave a node."""

    namespace: str
    name: str
    pods: Count
    outcome: str
    """What happens to it, or why it stays."""


class DrainAnswer(Part, frozen=True):
    """What a drain began, or would."""

    node: str
    done: bool
    """Nothing of ours is left on the node."""
    moves: list[Move]


class Asked(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What is taken. A field that is not known is an error: it was meant to say something."""


class Nothing(Asked, frozen=True):
    """An empty object: the path says it all."""


class TrialPods(Asked, frozen=True):
    """Pods that are alike."""

    pod: dict[str, Any]
    """A Pod as Kubernetes writes it; its name may be left out."""
    count: Annotated[float, Meta(ge=1, le=4096, multiple_of=1)] = 1
    """A whole number; to JSON 4.0 is one."""


class TrialRequest(Asked, frozen=True):
    """What to try out: the pods of one gang, or pods of which each is a gang of its own."""

    pods: Annotated[list[TrialPods], Meta(min_length=1, max_length=64)]
    namespace: Annotated[str, Meta(pattern=f"^{names.NAMESPACE}$")] = "default"
    """Where the pods would be; one that a pod names itself must be the same."""
