"""Inputs of the core: facts from watches, outcomes of effects, decisions of the planner."""

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
class NamespaceSeen:
    """labels: None if the namespace was deleted."""

    name: str
    labels: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Asked:
    """kube-scheduler called Filter for a pod without Gangwright's gate. `allowed` is its list as a mask of the
    snapshot's nodes.
    """

    uid: Uid
    allowed: Mask
    nodes_version: int


@dataclass(frozen=True, slots=True)
class Scored:
    """Prioritize was answered for a gang of one: hold the best node briefly."""

    uid: Uid
    node: str


@dataclass(frozen=True, slots=True)
class Decided:
    """The planner's verdict on a gang, from the snapshot of this generation at this room version."""

    gang: Gang
    decision: Decision
    generation: int
    room: int
    fence: int = 0
    """The number of the reservation that the snapshot left out; 0: none."""
    shape: int | None = None
    short: bool = False


@dataclass(frozen=True, slots=True)
class VictimsChosen:
    """The planner chose the victims that free capacity for this gang, from the snapshot of this generation."""

    gang: Gang
    preempt: Preempt
    generation: int


@dataclass(frozen=True, slots=True)
class MoveFound:
    """New seats were found for members of a gang.

    seats: by current member, the seat to reserve for it or for its replacement.
    leaving: members to evict, in this order; empty for a gang that others move for.  whole: the entire gang moves.
    """

    gang: GangKey
    seats: Mapping[Uid, str]
    leaving: tuple[Uid, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    """The shares, and other parts of the policy that may change at run time."""

    policy: Policy


class FailureKind(StrEnum):
    """Why an effect failed."""

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
    """The API server's message: one short line that is safe to display."""


@dataclass(frozen=True, slots=True)
class Synced:
    """Every list was read: the cache matches the API server."""


@dataclass(frozen=True, slots=True)
class TookOver:
    """This replica becomes active. Plans that were started are finished or undone before anything new is planned."""


@dataclass(frozen=True, slots=True)
class LostSight:
    """The cache may be stale from now on: no action is based on it."""


@dataclass(frozen=True, slots=True)
class SawAgain:
    """The cache is current again."""


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
    | NamespaceSeen
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
