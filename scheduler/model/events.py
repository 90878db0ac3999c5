"""What happened. Facts come from watches; outcomes come back from effects; decisions come from the planner."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from scheduler.model.cluster import Mask, Node
from scheduler.model.decision import Decision
from scheduler.model.effects import Effect
from scheduler.model.policy import Policy
from scheduler.model.preemption_units import Preempt
from scheduler.model.workload import Budget, Gang, GangKey, Group, OwnerTraits, Pod, PodKey, Quota, Uid


@dataclass(frozen=True, slots=True)
class NodeSeen:
    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    name: str


@dataclass(frozen=True, slots=True)
class PodSeen:
    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    uid: Uid
    key: PodKey


@dataclass(frozen=True, slots=True)
class GroupSeen:
    group: Group


@dataclass(frozen=True, slots=True)
class GroupGone:
    format: str
    key: GangKey


@dataclass(frozen=True, slots=True)
class OwnerSeen:
    traits: OwnerTraits


@dataclass(frozen=True, slots=True)
class OwnerGone:
    uid: str


@dataclass(frozen=True, slots=True)
class QuotaSeen:
    quota: Quota


@dataclass(frozen=True, slots=True)
class QuotaGone:
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class BudgetSeen:
    budget: Budget


@dataclass(frozen=True, slots=True)
class BudgetGone:
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Asked:
    """kube-scheduler asked about a pod without our gate; `allowed` is its list as a mask of the snapshot's nodes."""

    uid: Uid
    allowed: Mask
    nodes_version: int


@dataclass(frozen=True, slots=True)
class Scored:
    """Prioritize was answered for a gang of one: keep the best node for a moment."""

    uid: Uid
    node: str


@dataclass(frozen=True, slots=True)
class Decided:
    """The planner's verdict on a gang, from the snapshot of this generation, when there was so much room."""

    gang: Gang
    decision: Decision
    generation: int
    room: int
    fence: int = 0
    """The number of the reservation that the picture left out; 0: none."""
    shape: int | None = None
    short: bool = False


@dataclass(frozen=True, slots=True)
class VictimsChosen:
    """The planner found who has to leave so that this gang has room, from the snapshot of this generation."""

    gang: Gang
    preempt: Preempt
    generation: int


@dataclass(frozen=True, slots=True)
class MoveFound:
    """Other seats were found for members of a gang.

    seats: by member that is there now, the seat that is to be kept for it, or for the pod that is made in its place.
    leaving: those who are to be evicted, in this order; none of a gang that others move for.  whole: all of the gang.
    """

    gang: GangKey
    seats: Mapping[Uid, str]
    leaving: tuple[Uid, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    """Shares and what else of the policy may change while we run."""

    policy: Policy


class FailureKind(StrEnum):
    """What became of an effect that did not come true."""

    NOT_FOUND = "not-found"
    CONFLICT = "conflict"
    INVALID = "invalid"
    FORBIDDEN = "forbidden"
    BUDGET = "disruption-budget"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class EffectDone:
    effect: Effect


@dataclass(frozen=True, slots=True)
class EffectFailed:
    effect: Effect
    kind: FailureKind
    message: str = ""
    """The API server's words: one line that can be shown to people, and not long."""


@dataclass(frozen=True, slots=True)
class Synced:
    """Every list has been read: what the API server knows, we know."""


@dataclass(frozen=True, slots=True)
class TookOver:
    """From now on it is we who act: begun plans are finished or undone before anything else is planned."""


@dataclass(frozen=True, slots=True)
class LostSight:
    """From now on what we know may be the past: nothing is done by it."""


@dataclass(frozen=True, slots=True)
class SawAgain:
    """What we know is the present again."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event: TypeAlias = (
    NodeSeen
    | NodeGone
    | PodSeen
    | PodGone
    | GroupSeen
    | GroupGone
    | OwnerSeen
    | OwnerGone
    | QuotaSeen
    | QuotaGone
    | BudgetSeen
    | BudgetGone
    | Asked
    | Scored
    | Decided
    | VictimsChosen
    | MoveFound
    | PolicyChanged
    | EffectDone
    | EffectFailed
    | Synced
    | TookOver
    | LostSight
    | SawAgain
    | Tick
)
