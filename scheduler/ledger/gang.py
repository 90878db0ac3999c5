"""What is remembered of one gang and of its members. Mutable, and reachable through the ledger alone."""

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
from scheduler.model.effects import Effect
from scheduler.model.preemption_units import Unit
from scheduler.model.workload import Gang, GangKey, GiveWay, Owner, Pin, Pod, PodKey, Uid, Wish

GATED = "SchedulingGated"
"""The reason of PodScheduled=False that is no failure."""


@dataclass(slots=True)
class Hold:
    """A seat kept for a pod from decision to bind."""

    node: str
    plan: str
    until: float | None = None
    """Ends by itself then, in the ledger's time; None: ends with the plan, the pod or the pin."""


class Aside(NamedTuple):
    """Why a member waits without counting for its gang, and the sentence for people."""

    reason: Reason
    text: str


@dataclass(slots=True)
class Member:
    """One pod of a gang. What decides whether it counts is changed by its methods alone, and read off its fields: these
    are asked of every member for every event.
    """

    pod: Pod
    """As it was seen last, by `see`."""
    hold: Hold | None = None
    aside: Aside | None = None
    """None: it counts. Set by `set_aside`."""
    allowed: Mask | None = None
    """kube-scheduler's list for this pod, when it asked about it without our gate."""
    allowed_version: int = -1
    failing_since: float | None = None
    """Since when, in the ledger's time, kube-scheduler says that it cannot bind the pod."""
    nominated_at: float = float("-inf")
    tidied_at: float = float("-inf")
    """When marks of a plan that is no more were last taken off the pod."""
    evicting: Reason | None = None
    """Why its eviction was asked for. Its seat stays held until it is gone, for a bind may still be under way; unless
    there never was room for it, because others were to leave first. Set by `set_evicting`."""
    evict_again: float = float("inf")
    """When the eviction is asked for once more, unless it came true by then."""
    pinning: str | None = None
    """A PATCH that ties it to this node was sent; it may have come true before we see it."""
    starting_since: float | None = None
    """Since when, in the ledger's time, it is bound and does not run."""
    stranded_since: float | None = None
    """Since when, in the ledger's time, its node is gone."""
    worked: bool = False
    """It was seen at its place while its gang was whole: its end is a loss."""
    lost: bool = False
    """It was lost, and people were told."""
    unpinnable: bool = False
    """The API server called our PATCH of this pod invalid: from now on it is nominated."""
    telling: Reason | None = None
    """The last reason that we wrote into its condition, or are about to."""
    bound: bool = field(init=False)
    """It has its node, and has not ended."""
    stays: bool = field(init=False)
    """Neither ended nor on its way out."""
    live: bool = field(init=False)
    """Still to count on: it stays, and is not aside."""

    def __post_init__(self) -> None:
        self.see(self.pod)

    def see(self, pod: Pod) -> None:
        """Take in its pod as it is now."""
        self.pod = pod
        self.bound = pod.node is not None and not pod.phase.ended
        self._count()

    def set_aside(self, aside: Aside | None) -> None:
        self.aside = aside
        self._count()

    def set_evicting(self, reason: Reason | None) -> None:
        """Its eviction is asked for; None: it is not, or no more."""
        self.evicting = reason
        self._count()

    def _count(self) -> None:
        self.stays = not (self.pod.phase.ended or self.pod.deleting or self.evicting is not None)
        self.live = self.stays and self.aside is None

    @property
    def says(self) -> str | None:
        """The reason in its condition `gangwright.io/Seated`; None: it has none, or one of another run's that says that
        the gang has its seats.
        """
        return self.telling or self.pod.told

    @property
    def has_seat(self) -> bool:
        """Bound, or on its way to its seat."""
        return self.bound or self.hold is not None

    @property
    def tied(self) -> str | None:
        """The node to which a PATCH of ours tied the pod. What its owner demands of nodes is a demand like any
        other.
        """
        seat = self.pod.seat
        if seat is not None and seat.pin and seat.node == self.pod.pinned:
            return seat.node
        return self.pinning if self.pod.gated else None


arrival: Final[Callable[[Member], tuple[float, str]]] = attrgetter("pod.created", "pod.key.name")
"""A member's place among the members, older ones first. Not kept with each: that takes 64 bytes a pod."""


def was_tried(pod: Pod) -> bool:
    """kube-scheduler may bind the pod, and said that it could not: so it has asked about it."""
    waits = not pod.gated and pod.node is None
    return waits and pod.pending is not None and pod.pending.reason != GATED


def note_tried(member: Member, now: float) -> bool:
    """Remember since when kube-scheduler fails to bind a member that has a seat to go to. Whether it fails."""
    fails = was_tried(member.pod)
    if not fails:
        member.failing_since = None
    elif member.failing_since is None:
        member.failing_since = now
    return fails


@dataclass(slots=True)
class Victim:
    """A pod that gives way, as the plan remembers it."""

    key: PodKey
    gang: GangKey
    way: GiveWay
    attained: float
    """Device-seconds that its gang has had."""
    owner: Owner | None
    node: str | None = None
    """Of a pod of another scheduler: where it runs."""
    sends_request: bool = True
    """It is asked itself; of a Job that is suspended only one pod is."""
    request_sent: bool = False
    accepted: bool = False
    """The API server took the request: it is on its way out."""
    protected: bool = False
    """A disruption budget did not allow it."""
    again: float = float("-inf")
    """When it is asked, or asked once more."""


class Step(IntEnum):
    """How far a plan has come. The order is the order of the effects: nothing is undone by a crash between two."""

    FREE = -1
    """The pods that give way have not left yet."""
    PERSIST = 0
    NOMINATE = 1
    UNGATE = 2
    DONE = 3


@dataclass(slots=True)
class Plan:
    """Seats on their way from decision to the API server."""

    name: str
    seats: dict[Uid, str]
    step: Step = Step.PERSIST
    outstanding: dict[Effect, float] = field(default_factory=dict)
    """Effects without an outcome yet, with the time at which they are done again."""
    writer: Uid | None = None
    """The member on which the plan is written."""
    begun: bool = False
    """Pods were let go by others already: the plan can only go on."""
    victims: dict[Uid, Victim] = field(default_factory=dict)
    """Pods that still have to leave."""
    parted: dict[Uid, Victim] = field(default_factory=dict)
    """Victims that were asked and are gone, before we heard what became of asking."""
    units: tuple[Unit, ...] = ()
    """What was asked to leave for it, as it was decided."""
    free_by: float = float("inf")
    """When the plan is given up, unless all victims are on their way out by then."""
    notified_owners: set[str] = field(default_factory=set)
    """Uids of owners that were told that pods of theirs give way to it: one event an owner, however many pods."""
    spoiled: bool = False
    """The API server will not have it: to be dropped, and made again in another way."""

    def victim(self, uid: Uid) -> Victim | None:
        """This one, where it was to leave and we have not heard yet that it does."""
        return self.victims.get(uid) or self.parted.get(uid)


@dataclass(frozen=True, slots=True)
class Spec:
    """What a gang's members, and the group object beside them, say of it with one voice."""

    quorum: Mapping[str, int]
    wish: Wish = Wish()
    size: int | None = None
    grouped: bool = False
    """A group object states it."""
    done: Mapping[str, int] = field(default_factory=dict)
    """By role: pods that succeeded and are no more, as their Jobs count them."""

    @property
    def total(self) -> int:
        return sum(self.quorum.values())

    @property
    def of_several(self) -> bool:
        """Pods of several controllers are one gang."""
        return self.grouped or self.size is not None or set(self.quorum) != {""}

    @property
    def undone(self) -> dict[str, int]:
        """By role, how many members the quorum needs beside those that succeeded and are no more."""
        return {role: least - self.done.get(role, 0) for role, least in self.quorum.items()}


@dataclass(slots=True)
class GangRecord:
    """One gang, from its first pod to its last."""

    key: GangKey
    number: int = 0
    """The how-many-eth gang that this process met: it tells two gangs of one name apart. No order goes by it."""
    members: dict[Uid, Member] = field(default_factory=dict)
    spec: Spec | Refuse | Reason | None = None
    """None: to be worked out again from the members."""
    jobs: dict[str, str] = field(default_factory=dict)
    """Owners that have or had members in this run of it, with the role of these: what they completed counts."""
    finished: dict[str, int] = field(default_factory=dict)
    """Roles of which no pod was left when we began, with their minimum: they count as done until a pod of theirs comes."""
    turn: Owner | None = None
    """While pods of several runs have its name: the controller of the run whose turn it is."""
    plan: Plan | None = None
    seen_by_kube_scheduler: bool = False
    """kube-scheduler asked about a member without our gate."""
    verdict: Verdict = field(default_factory=Verdict)
    health: Health = field(default_factory=Health)
    pinning: Pinning = field(default_factory=Pinning)
    observed: ObservedRun = field(default_factory=ObservedRun)
    backoff: Backoff = field(default_factory=Backoff)
    bind_limit: BindLimit = field(default_factory=BindLimit)
    preemption: Preemption = field(default_factory=Preemption)
    account: Account | None = None
    """None: it was not looked at while a pod of it lived, since it began or ended last."""
    runtime_limit: RuntimeLimit = field(default_factory=RuntimeLimit)
    pulse: int = 0
    """Grows whenever the gang is looked at: what was made of it before may be stale."""
    faults: int = 0
    """Times that a step of ours failed on it, without a long time between two."""
    rests_until: float = float("-inf")
    """It is not looked at before: a step of ours failed on it."""
    unmodeled: bool = False
    """Several are to start together, and kube-scheduler decides about them by rules that the planner does not model."""
    waiting_since: float | None = None
    notices: dict[Reason, Notice] = field(default_factory=dict)
    overlooked: tuple[Overlooked, ...] = ()
    """What its members say that is overlooked, worked out with `spec`."""
    warned: set[str] = field(default_factory=set)
    """Fields of what is overlooked that people were told of. Kept in memory alone: after a restart each is told once
    more.
    """
    failed: Failure | None = None
    """The last write for it that failed and has not come true since."""
    untold: dict[Reason, dict[str, list[Mishap]]] = field(default_factory=dict)
    """What befell members since people were last told of it."""
    quota_full: str = ""
    """Which quota keeps its missing pods from being made; empty: none, or it lacks no pods."""
    told_waiting: bool = False
    """A member carries the condition Seated=False, which must be turned when the gang is seated."""
    was_bound: bool = False
    """The whole quorum was bound at one time, and not all of it is gone since."""
    state: str = ""
    gives_way: bool = False
    """Its pods could be asked to leave: it is whole, or it lacks members of which none is on its way."""
    whole: int = 0
    """Members of the quorum when it was last whole; 0: it was not, as far as we know."""
    grew: bool = False
    """It asks for a larger quorum than it had when it was whole: the rest waits in order like all others."""
    kept: tuple[str, ...] = ()
    """Nodes on which a place is kept for the successor of a member that it lost."""
    partly_bound: bool = False
    """Some of the quorum run or have run, and the rest has no seat: it has the first claim on the next room, unless
    the quorum was whole before; then it lost members or grew, and waits in order."""
    wanted: Gang | None = None
    """What the planner is to be asked, worked out at the last look."""
    order: tuple[Any, ...] = ()
    """The gang's place in the queue: smaller goes first."""

    def copy(self) -> "GangRecord":
        """One that shares no part and no member with this one: what is tried on it changes nothing here."""
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
        """Members that can be given a seat now, in order of arrival."""
        return sorted(self.plannable(), key=arrival)

    def plannable(self) -> list[Member]:
        """Members that can be given a seat now."""
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
        """It was told what no waiting changes: it has no place among those that wait, and no forecast."""
        return self.verdict.request is self.wanted and is_in_vain(self.verdict.decision)

    def pin_wish(self, default: Pin) -> Pin:
        return (self.spec.wish.pin if isinstance(self.spec, Spec) else None) or default
