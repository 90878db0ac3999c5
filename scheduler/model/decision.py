"""What the planner answers, and the closed list of reasons."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from scheduler.model.demand import ruled_out
from scheduler.model.resources import written
from scheduler.model.workload import GangKey, Uid


class Reason(StrEnum):
    """Why: one closed list for log, metric, event and answer. A member's text is constant, see `TEXT`."""

    SEATED = "Seated"
    BOUND = "Bound"
    SCORED = "Scored"
    FOREIGN = "Foreign"
    NATIVE_GROUP = "NativeGroup"
    NOT_SYNCED = "NotSynced"
    NOT_SEEN_YET = "NotSeenYet"
    GATED = "Gated"
    MISSING_MEMBERS = "MissingMembers"
    NO_QUORUM_KNOWN = "NoQuorumKnown"
    QUEUED = "Queued"
    RESERVED = "Reserved"
    OVER_CEILING = "OverCeiling"
    MAKING_ROOM = "MakingRoom"
    NO_ROOM = "NoRoom"
    NO_DOMAIN = "NoDomain"
    NO_NODE_MATCHES = "NoNodeMatches"
    NEVER_FITS = "NeverFits"
    UNKNOWN_LEVEL = "UnknownLevel"
    BACKING_OFF = "BackingOff"
    PARTLY_BOUND = "PartlyBound"
    INVALID = "Invalid"
    CONFLICT = "Conflict"
    NAME_TAKEN = "NameTaken"
    TIMED_OUT = "TimedOut"
    PREEMPTED = "Preempted"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    ENDING_SOON = "EndingSoon"
    RUNTIME_EXCEEDED = "RuntimeExceeded"
    NOT_STARTED = "NotStarted"
    MEMBER_LOST = "MemberLost"
    MOVED = "Moved"
    PIN_BROKEN = "PinBroken"
    SEAT_EXCLUDED = "SeatExcluded"
    HELD_FOR_OTHERS = "HeldForOthers"
    GONE = "Gone"
    ENDED = "Ended"
    UNMODELLED = "Unmodelled"
    WARNING = "Warning"


TEXT: Mapping[Reason, str] = {
    Reason.SEATED: "the gang has its seats",
    Reason.BOUND: "the pod is bound",
    Reason.SCORED: "nodes scored",
    Reason.FOREIGN: "not a pod of this scheduler",
    Reason.NATIVE_GROUP: "kube-scheduler's own pod group",
    Reason.NOT_SYNCED: "gangwright is still reading the cluster",
    Reason.NOT_SEEN_YET: "gangwright has not seen the pod yet",
    Reason.GATED: "the pod is gated",
    Reason.MISSING_MEMBERS: "gang waits for its members",
    Reason.NO_QUORUM_KNOWN: "gang waits for its pod group",
    Reason.QUEUED: "gang waits for its turn",
    Reason.RESERVED: "gang waits because the room is reserved for one before it",
    Reason.OVER_CEILING: "gang would take its namespace above its ceiling",
    Reason.MAKING_ROOM: "gang waits until those have left who give way to it",
    Reason.NO_ROOM: "gang waits for room",
    Reason.NO_DOMAIN: "gang waits for room in one domain",
    Reason.NO_NODE_MATCHES: "no node matches the gang's selector, affinity or tolerations",
    Reason.NEVER_FITS: "gang does not fit the empty cluster",
    Reason.UNKNOWN_LEVEL: "gang asks for a level that no node has",
    Reason.BACKING_OFF: "gang was not bound in time, or was restarted, and waits before the next try",
    Reason.PARTLY_BOUND: "gang is partly bound and waits for the rest of its quorum",
    Reason.INVALID: "gang's annotations are not valid",
    Reason.CONFLICT: "gang's members disagree",
    Reason.NAME_TAKEN: "pods of another controller are the gang of this name",
    Reason.TIMED_OUT: "gang was not bound in time",
    Reason.PREEMPTED: "the pod gives way to a gang that goes before it",
    Reason.SUSPENDED: "the gang's Job is suspended, so it has no pods",
    Reason.RESUMED: "the gang waits for its next turn",
    Reason.ENDING_SOON: "the gang is ended soon",
    Reason.RUNTIME_EXCEEDED: "the gang has run for its max-runtime",
    Reason.NOT_STARTED: "a member was bound and does not start",
    Reason.MEMBER_LOST: "the gang lost a member",
    Reason.MOVED: "the gang moves to seats that are kept for it",
    Reason.PIN_BROKEN: "the pod's seat was lost",
    Reason.SEAT_EXCLUDED: "kube-scheduler excludes the pod's seat",
    Reason.HELD_FOR_OTHERS: "room is held for a gang",
    Reason.GONE: "the pod is gone",
    Reason.ENDED: "all pods of the gang have ended",
    Reason.UNMODELLED: "the planner does not model a field that decides about the pods' nodes",
    Reason.WARNING: "something will not work as asked",
}
"""The texts of refusals. Constant per reason: a text that varies makes kube-scheduler ask again without end."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """How near the nearest domain came: the numbers a person needs.

    Read as "needs `needed` × `demand`; the best `level`, `domain`, has room for `best`".
    `blocked` counts the nodes that each kind of obstacle rules out, e.g. {"selector": 12, "room": 4}.
    """

    needed: int
    demand: str
    level: str
    domain: str
    best: int
    blocked: Mapping[str, int]

    def __str__(self) -> str:
        where = (
            f"in one {self.level}; best {self.level} {self.domain} has room for"
            if self.domain
            else "; room for"
        )
        obstacles = ruled_out(self.blocked)
        text = f"needs {self.needed} × {self.demand} {where} {self.best}".replace(" ; ", "; ")
        return f"{text} ({obstacles})" if obstacles else text


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How far a namespace is from what it may use at most, in the units of the ResourceAxis."""

    resource: str
    used: float
    needed: float
    most: float

    @property
    def is_too_low(self) -> bool:
        """Not even with the ceiling to itself would it stay below."""
        return self.needed > self.most

    def __str__(self) -> str:
        needed, used, most = (written(self.resource, own) for own in (self.needed, self.used, self.most))
        if self.is_too_low:
            return f"needs {needed} of {self.resource}; the ceiling is {most}, so waiting does not help"
        return f"needs {needed} of {self.resource}; {used} of at most {most} are in use"


@dataclass(frozen=True, slots=True)
class Quality:
    """How good a placement is."""

    spans: Mapping[str, tuple[int, int]]
    """By level: domains spanned, and the fewest that could hold as many of these demands in the empty cluster."""
    alignment: float
    """Mean cosine between a member's demand and the free vector of its node before it sat down, 0 … 1."""


@dataclass(frozen=True, slots=True)
class Place:
    """All of the quorum have a seat; `seats` may hold surplus members besides. node is a name."""

    seats: Mapping[Uid, str]
    unseated: tuple[Uid, ...] = ()
    """Surplus members that fit nowhere now."""
    quality: Quality = Quality({}, 0.0)


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now. A later picture of the cluster may answer otherwise."""

    reason: Reason
    shortfall: Shortfall | None = None
    ceiling: Ceiling | None = None
    behind: GangKey | None = None
    """The gang that this one lets pass, because two like them may each get half of what only one can have."""
    held_for: GangKey | None = None
    """The gang for which the room is held that there would be."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Not as asked, in no picture of this cluster: the gang must be changed."""

    reason: Reason
    field: str
    value: str
    remedy: str


Decision: TypeAlias = Place | Wait | Refuse

LASTING: Final = (Reason.NEVER_FITS, Reason.NO_NODE_MATCHES, Reason.UNKNOWN_LEVEL)
"""Verdicts about the cluster as it is built: only a change of its nodes makes them worth asking for again. A tuple,
since a reason is compared in a tenth of the time in which it is hashed."""


def is_in_vain(decision: Decision | None) -> bool:
    """Waiting does not help: only other nodes, a higher ceiling or another gang would."""
    if decision is None or isinstance(decision, Place):
        return False
    too_low = isinstance(decision, Wait) and decision.ceiling is not None and decision.ceiling.is_too_low
    return too_low or decision.reason in LASTING
