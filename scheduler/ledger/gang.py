"""The record of one gang and of its members. Mutable, and accessible through the ledger only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple

from scheduler.ledger.gang_parts import (
    Account,
    Backoff,
    BindLimit,
    Health,
    ObservedRun,
    Pinning,
    Preemption,
    RuntimeLimit,
)
from scheduler.ledger.messages import Failure, Mishap, Notice, Overlooked
from scheduler.ledger.verdict import Verdict
from scheduler.model.cluster import Mask
from scheduler.model.decision import Reason, Refuse, is_in_vain
from scheduler.model.effects import Effect, Ungate
from scheduler.model.preemption_units import Unit
from scheduler.model.workload import Gang, GangKey, GiveWay, Owner, Pin, Pod, PodKey, Uid, Wish

GATED = "SchedulingGated"
"""The reason of PodScheduled=False that is no failure."""


@dataclass(slots=True)
class Hold:
    """A seat reserved for a pod from decision to bind."""

    node: str
    plan: str
    until: float | None = None
    """Expires then, in the ledger's time. None: ends with the plan, the pod or the pin."""


class Aside(NamedTuple):
    """Why a member waits without counting for its gang, with the message."""

    reason: Reason
    text: str


@dataclass(slots=True)
class Member:
    """One pod of a gang. Whether it counts is only changed by methods and read from fields, because it is checked for
    every member on every event.
    """

    pod: Pod
    """As last seen by `see`."""
    hold: Hold | None = None
    aside: Aside | None = None
    """None: it counts. Set by `set_aside`."""
    allowed: Mask | None = None
    """kube-scheduler's list for this pod, from a Filter call for it without Gangwright's gate."""
    allowed_version: int = -1
    failing_since: float | None = None
    """Since when, in the ledger's time, kube-scheduler reports that it cannot bind the pod."""
    nominated_at: float = float("-inf")
    tidied_at: float = float("-inf")
    """When marks of a dropped plan were last removed from the pod."""
    evicting: Reason | None = None
    """Why its eviction was requested. Its seat stays held until it is deleted, because a bind may be in progress. The
    exception is a seat that never had capacity, because its victims had not left. Set by `set_evicting`."""
    evict_again: float = float("inf")
    """When the eviction is requested again, unless it succeeded."""
    pinning: str | None = None
    """The node of a pinning PATCH that was sent. It may have succeeded before the watch shows it."""
    starting_since: float | None = None
    """Since when, in the ledger's time, it is bound and does not run."""
    stranded_since: float | None = None
    """Since when, in the ledger's time, its node no longer exists."""
    worked: bool = False
    """It was bound while its gang was complete, so its end is a loss."""
    lost: bool = False
    """It was lost, and the loss was reported."""
    unpinnable: bool = False
    """The API server rejected the PATCH of this pod as invalid, so it is nominated from now on."""
    telling: Reason | None = None
    """The last reason that Gangwright wrote into its condition, or is about to write."""
    bound: bool = field(init=False)
    """It has a node and has not ended."""
    stays: bool = field(init=False)
    """Neither ended nor terminating."""
    live: bool = field(init=False)
    """It counts: it stays, and is not set aside."""

    def __post_init__(self) -> None:
        self.see(self.pod)

    def see(self, pod: Pod) -> None:
        """Update its pod."""
        self.pod = pod
        self.bound = pod.node is not None and not pod.phase.ended
        self._count()

    def set_aside(self, aside: Aside | None) -> None:
        self.aside = aside
        self._count()

    def set_evicting(self, reason: Reason | None) -> None:
        """Its eviction was requested; None: it was not, or no longer is."""
        self.evicting = reason
        self._count()

    def _count(self) -> None:
        self.stays = not (self.pod.phase.ended or self.pod.deleting or self.evicting is not None)
        self.live = self.stays and self.aside is None

    @property
    def says(self) -> str | None:
        """The reason in its condition `gangwright.io/Seated`. None: no condition, or one from an earlier process which
        states that the gang has its seats.
        """
        return self.telling or self.pod.told

    @property
    def has_seat(self) -> bool:
        """Bound, or on its way to its seat."""
        return self.bound or self.hold is not None

    @property
    def tied(self) -> str | None:
        """The node to which Gangwright's PATCH tied the pod. Node requirements of its owner are ordinary demands."""
        seat = self.pod.seat
        if seat is not None and seat.pin and seat.node == self.pod.pinned:
            return seat.node
        return self.pinning if self.pod.gated else None


arrival: Final[Callable[[Member], tuple[float, str]]] = attrgetter("pod.created", "pod.key.name")
"""Sort key by age, older members first. Not stored per member: that takes 64 bytes per pod."""


def was_tried(pod: Pod) -> bool:
    """kube-scheduler may bind the pod and reported that it could not, so it has called the extender about it."""
    waits = not pod.gated and pod.node is None
    return waits and pod.pending is not None and pod.pending.reason != GATED


def note_tried(member: Member, now: float) -> bool:
    """Record since when kube-scheduler fails to bind a member with a seat. Returns whether it fails."""
    fails = was_tried(member.pod)
    if not fails:
        member.failing_since = None
    elif member.failing_since is None:
        member.failing_since = now
    return fails


@dataclass(slots=True)
class Victim:
    """A pod to preempt, as recorded in the plan."""

    key: PodKey
    gang: GangKey
    way: GiveWay
    attained: float
    """Device-seconds that its gang attained."""
    owner: Owner | None
    node: str | None = None
    """For a pod of another scheduler: its node."""
    sends_request: bool = True
    """It gets a request of its own. For a suspended Job, only one pod does."""
    request_sent: bool = False
    accepted: bool = False
    """The API server accepted the request: it is terminating."""
    protected: bool = False
    """A disruption budget prevented the eviction."""
    again: float = float("-inf")
    """When it is requested, or requested again."""


class Step(IntEnum):
    """The progress of a plan. The order is the order of effects, so a crash between two undoes nothing."""

    FREE = -1
    """The victims have not left yet."""
    PERSIST = 0
    NOMINATE = 1
    UNGATE = 2
    DONE = 3


@dataclass(slots=True)
class Plan:
    """Seats between the decision and their writes to the API server."""

    name: str
    seats: dict[Uid, str]
    step: Step = Step.PERSIST
    in_turn: list[Ungate] = field(default_factory=list)
    """The members to ungate one after the other, in an order that kube-scheduler accepts."""
    turn: Uid | None = None
    """The last one of them, which must be bound before the next."""
    outstanding: dict[Effect, float] = field(default_factory=dict)
    """Effects without an outcome, with the time of their retry."""
    writer: Uid | None = None
    """The member that carries the written plan."""
    begun: bool = False
    """Earlier effects ungated pods already: the plan can only continue."""
    victims: dict[Uid, Victim] = field(default_factory=dict)
    """Pods that still have to leave."""
    parted: dict[Uid, Victim] = field(default_factory=dict)
    """Victims that left before the outcome of their request arrived."""
    units: tuple[Unit, ...] = ()
    """The preempted units, as decided."""
    free_by: float = float("inf")
    """When the plan is abandoned, unless all victims are terminating by then."""
    notified_owners: set[str] = field(default_factory=set)
    """Uids of owners that were notified of the preemption: one event per owner, however many pods."""
    spoiled: bool = False
    """The API server rejects it: it must be dropped and replanned differently."""

    def victim(self, uid: Uid) -> Victim | None:
        """This victim, if the outcome of its request is still unknown."""
        return self.victims.get(uid) or self.parted.get(uid)


@dataclass(frozen=True, slots=True)
class Spec:
    """What a gang's members and its group object state together."""

    quorum: Mapping[str, int]
    wish: Wish = Wish()
    size: int | None = None
    grouped: bool = False
    """Stated by a group object."""
    done: Mapping[str, int] = field(default_factory=dict)
    """By role: succeeded pods that no longer exist, as counted by their Jobs."""

    @property
    def total(self) -> int:
        return sum(self.quorum.values())

    @property
    def of_several(self) -> bool:
        """Pods of several controllers form this gang."""
        return self.grouped or self.size is not None or set(self.quorum) != {""}

    @property
    def undone(self) -> dict[str, int]:
        """By role, how many members the quorum needs besides succeeded pods that no longer exist."""
        return {role: least - self.done.get(role, 0) for role, least in self.quorum.items()}


@dataclass(slots=True)
class GangRecord:
    """One gang, from its first pod to its last."""

    key: GangKey
    number: int = 0
    """Ordinal of the gang in this process. It distinguishes two gangs of one name and has no effect on order."""
    members: dict[Uid, Member] = field(default_factory=dict)
    spec: Spec | Refuse | Reason | None = None
    """None: must be derived from the members again."""
    jobs: dict[str, str] = field(default_factory=dict)
    """Owners that have or had members in this run, with the role of these: their completions count."""
    finished: dict[str, int] = field(default_factory=dict)
    """Roles without pods at startup, with their minimum. They count as done until a pod of theirs appears."""
    turn: Owner | None = None
    """While pods of several runs have its name: the controller of the run that has its turn."""
    plan: Plan | None = None
    seen_by_kube_scheduler: bool = False
    """kube-scheduler called the extender about a member without Gangwright's gate."""
    verdict: Verdict = field(default_factory=Verdict)
    health: Health = field(default_factory=Health)
    pinning: Pinning = field(default_factory=Pinning)
    observed: ObservedRun = field(default_factory=ObservedRun)
    backoff: Backoff = field(default_factory=Backoff)
    bind_limit: BindLimit = field(default_factory=BindLimit)
    preemption: Preemption = field(default_factory=Preemption)
    account: Account | None = None
    """None: it was not reconciled with a living pod since it last started or ended."""
    runtime_limit: RuntimeLimit = field(default_factory=RuntimeLimit)
    pulse: int = 0
    """Grows whenever the gang is reconciled: results derived from it before may be stale."""
    faults: int = 0
    """Recent consecutive internal errors on this gang."""
    rests_until: float = float("-inf")
    """Not reconciled before this time, after an internal error."""
    unmodeled: bool = False
    """Several members start together, and kube-scheduler places them by rules that the planner does not model."""
    waiting_since: float | None = None
    notices: dict[Reason, Notice] = field(default_factory=dict)
    overlooked: tuple[Overlooked, ...] = ()
    """Ignored settings of its members, derived with `spec`."""
    warned: frozenset[str] = frozenset()
    """Fields of ignored settings that were reported. Only in memory: after a restart each is reported again."""
    failed: Failure | None = None
    """The last failed write for it that has not succeeded since."""
    untold: dict[Reason, dict[str, list[Mishap]]] = field(default_factory=dict)
    """What happened to members since the last report."""
    quota_full: str = ""
    """Which quota prevents the creation of its missing pods. Empty: none, or no pods are missing."""
    told_waiting: bool = False
    """A member has the condition Seated=False, which must change when the gang is placed."""
    was_bound: bool = False
    """The whole quorum was bound at one time, and not all of it has left since."""
    state: str = ""
    gives_way: bool = False
    """Its pods may be preempted: it is complete, or misses members of which none is on its way."""
    whole: int = 0
    """Members of the quorum when it was last complete; 0 if never, as far as known."""
    grew: bool = False
    """It asks for a larger quorum than when it was complete. The rest waits in order like all others."""
    kept: tuple[str, ...] = ()
    """Nodes with a reservation for the replacement of a lost member."""
    partly_bound: bool = False
    """Some of the quorum are running or have run, and the rest has no seat. It has the first claim on free capacity,
    unless the quorum was complete before: a gang that lost members or grew waits in order."""
    wanted: Gang | None = None
    """The next request to the planner, from the last reconciliation."""
    order: tuple[Any, ...] = ()
    """The gang's sort key in the queue: smaller goes first."""

    def copy(self) -> "GangRecord":
        """A copy without shared parts or members: changes to it have no effect here."""
        return replace(
            self,
            members={uid: replace(member) for uid, member in self.members.items()},
            verdict=replace(self.verdict),
            health=replace(self.health),
            pinning=replace(self.pinning, barred=dict(self.pinning.barred)),
            observed=replace(self.observed),
            backoff=replace(self.backoff),
            bind_limit=replace(self.bind_limit),
            preemption=replace(self.preemption),
            account=replace(self.account) if self.account is not None else None,
            runtime_limit=replace(self.runtime_limit),
        )

    def live(self) -> list[Member]:
        return [member for member in self.members.values() if member.live]

    def waiting(self) -> list[Member]:
        """Members that can be placed now, in order of arrival."""
        return sorted(self.plannable(), key=arrival)

    def plannable(self) -> list[Member]:
        """Members that can be placed now."""
        return [m for m in self.members.values() if m.live and self.is_plannable(m)]

    def is_plannable(self, member: Member) -> bool:
        pod = member.pod
        free = pod.node is None and member.hold is None and not pod.held_back and member.tied is None
        return free and (pod.gated or self.seen_by_kube_scheduler)

    @property
    def priority(self) -> int:
        return min((member.pod.priority for member in self.live()), default=0)

    @property
    def arrived(self) -> float:
        return min((member.pod.created for member in self.live()), default=0.0)

    @property
    def waits_in_vain(self) -> bool:
        """Waiting cannot help it: it has no position in the queue and no forecast."""
        return self.verdict.request is self.wanted and is_in_vain(self.verdict.decision)

    def pin_wish(self, default: Pin) -> Pin:
        return (self.spec.wish.pin if isinstance(self.spec, Spec) else None) or default
