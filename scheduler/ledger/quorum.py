"""Members counted against the quorum of their gang, and the request to the planner for the missing ones.

Completions of a gang's Jobs count too, even if the succeeded pods are deleted.
"""

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple, Self

from scheduler.ledger.gang import GangRecord, Member, Spec, Step, arrival
from scheduler.ledger.phase import Facts
from scheduler.model.decision import Refuse
from scheduler.model.demand import Demand
from scheduler.model.neighbors import Neighbors, PodLabels
from scheduler.model.policy import Policy
from scheduler.model.workload import (
    Gang,
    OwnerTraits,
    Phase,
    Pod,
    Role,
    Uid,
)


def role_of(member: Member, spec: Spec) -> str:
    """The role under which a member counts. If the gang states one minimum for all, all members are alike."""
    role = member.pod.membership.role if member.pod.membership else ""
    return role if role in spec.quorum else ""


class QuorumCount:
    """What each role of a quorum still misses, counted down member by member.

    of_all: succeeded pods that no longer exist count as missing.
    """

    def __init__(self, spec: Spec, members: Iterable[Member] = (), *, of_all: bool = False) -> None:
        self._spec = spec
        self.lacks = dict(spec.quorum) if of_all else spec.undone
        """By role. A value of 0 or less is complete."""
        for member in members:
            self.take(member)

    def take(self, member: Member) -> bool:
        """Count this member. Returns whether the quorum needed it: it is no surplus, and its role was not complete."""
        role = role_of(member, self._spec)
        if is_surplus(member) or self.lacks.get(role, 0) <= 0:
            return False
        self.lacks[role] -= 1
        return True

    @property
    def left(self) -> int:
        """Members that it misses, of all roles."""
        return sum(max(0, lack) for lack in self.lacks.values())


def core(record: GangRecord, spec: Spec, bound: Iterable[Member]) -> tuple[list[Member], list[Member]]:
    """Of these bound members: those that the quorum needs, and those above it, which are the latest of each role."""
    count = QuorumCount(spec, filter(_succeeded, record.members.values()))
    kept: list[Member] = []
    above: list[Member] = []
    for member in sorted(bound, key=lambda m: (is_surplus(m), arrival(m))):
        (kept if count.take(member) else above).append(member)
    return kept, above


def is_surplus(member: Member) -> bool:
    return bool(member.pod.membership and member.pod.membership.surplus)


def pods_of_earlier_controllers(record: GangRecord, spec: Spec) -> list[Uid]:
    """Members of an earlier controller, if a new one took over the gang's name.

    Members of several controllers are one gang only if `membership.is_of_several` says so. Otherwise the newest
    revision's pods are the gang, once nothing of the earlier one runs.  Pods that ended under an earlier controller
    count for it only.
    """
    if len(record.members) == 1:
        return []  # two runs have two pods
    newest: dict[str, float] = {}
    for member in record.live():
        owner = owner_of(member)
        newest[owner] = max(newest.get(owner, 0.0), member.pod.created)
    mixed = spec.of_several
    former = _ended_before(record, newest, mixed=mixed)
    owned = {owner for owner in newest if owner}
    if mixed or len(owned) < 2 or any(member.bound or member.hold for member in record.live()):
        return former
    latest = max(owned, key=lambda owner: (newest[owner], owner))
    return former + [m.pod.uid for m in record.live() if m.pod.owner and m.pod.owner.uid != latest]


def _ended_before(record: GangRecord, owners: Container[str], *, mixed: bool) -> list[Uid]:
    """Members that ended under a controller without live pods, or without a controller before any live member was
    created.

    mixed: in a gang of several controllers, one may be done before the others.  A gang starts with its quorum, so a
    member that ran before any live one existed belongs to an earlier run.
    """
    ended = [
        (uid, member)
        for uid, member in record.members.items()
        if member.pod.phase.ended and (not owner_of(member) or owner_of(member) not in owners)
    ]
    live = record.live() if ended else []
    if not live:
        return []
    first = min(m.pod.created for m in live)
    return [uid for uid, m in ended if (not mixed and owner_of(m) not in owners) or _began(m) < first]


def _began(member: Member) -> float:
    bound_at = member.pod.bound_at
    return member.pod.created if bound_at is None else bound_at


def owner_of(member: Member) -> str:
    return member.pod.owner.uid if member.pod.owner else ""


_BOUND, _HELD, _WAITING, _RUNNING = range(4)


def facts(record: GangRecord, spec: Spec | None) -> Facts:
    """Counts of the members, capped per role for the quorum. Called for every event, so it only counts."""
    if spec is None:
        bound = sum(m.bound for m in record.live())
        live = len(record.live())
        return Facts(0, bound, 0, 0, 0, live, there=bound, refused=isinstance(record.spec, Refuse))
    tallies = {role: [spec.done.get(role, 0), 0, 0, spec.done.get(role, 0)] for role in spec.quorum}
    of_all = tallies.get("")
    waiting = set(map(id, record.plannable()))
    live = there = 0
    for member in record.members.values():
        alive, pod = member.live, member.pod
        live += alive
        there += alive and pod.node is not None
        own = pod.membership
        tally = tallies.get(own.role, of_all) if own is not None else of_all
        if tally is None or (own is not None and own.surplus):
            continue
        if pod.phase is Phase.SUCCEEDED:
            tally[_BOUND] += 1
            tally[_RUNNING] += 1
        elif alive and pod.node is not None:
            tally[_BOUND] += 1
            tally[_RUNNING] += pod.phase is Phase.RUNNING
        elif alive:
            tally[_HELD] += member.hold is not None
            tally[_WAITING] += id(member) in waiting
    counted = [0, 0, 0, 0]
    for role, least in spec.quorum.items():
        left = least
        for fact in (_BOUND, _HELD, _WAITING):
            share = min(left, tallies[role][fact])
            counted[fact] += share
            left -= share
        counted[_RUNNING] += min(least, tallies[role][_RUNNING])
    return Facts(
        freeing=record.plan is not None and record.plan.step is Step.FREE,
        quorum=spec.total,
        bound=counted[_BOUND],
        running=counted[_RUNNING],
        held=counted[_HELD],
        waiting=counted[_WAITING],
        live=live,
        there=there,
    )


class Likeness(NamedTuple):
    """What interchangeable members have in common."""

    demand: Demand
    neighbors: Neighbors
    labels: PodLabels | None

    @classmethod
    def of(cls, pod: Pod, keys: frozenset[str] | None) -> Self:
        """keys: the labels that selectors read; None: none."""
        seen = None if keys is None else PodLabels.of(pod.key.namespace, pod.labels, keys)
        return cls(pod.demand, pod.neighbors, seen)

    def role(self, name: str, core: Iterable[Uid], surplus: Iterable[Uid]) -> Role:
        return Role(name, self.demand, tuple(core), tuple(surplus), self.neighbors, self.labels)


def request(record: GangRecord, spec: Spec, policy: Policy, keys: frozenset[str] | None) -> Gang | None:
    """The current request to the planner: the missing quorum as a whole, the rest one by one. None: nothing.

    keys: see `NeighborTable.keys`.

    Members that can't be planned (other gates, no Filter call) count as missing. While the quorum misses them, none is
    placed.
    """
    waiting = record.waiting()
    if not waiting:
        return None
    missing = lacking(record, spec)
    quorum: dict[tuple[str, int], list[Uid]] = {}
    surplus: dict[tuple[str, int], list[Uid]] = {}
    numbers: dict[Likeness, int] = {}
    for member in waiting:
        number = numbers.setdefault(Likeness.of(member.pod, keys), len(numbers))
        into = quorum if missing.take(member) else surplus
        into.setdefault((role_of(member, spec), number), []).append(member.pod.uid)
    if missing.left or not (quorum or surplus):
        return None
    alike = list(numbers)
    roles = tuple(
        alike[number].role(role, quorum.get((role, number), ()), surplus.get((role, number), ()))
        for role, number in sorted({*quorum, *surplus})
    )
    seats = (m.pod.node or (m.hold.node if m.hold is not None else None) for m in record.live())
    return asked(record, spec, policy, roles, tuple(sorted(filter(None, seats))))


def alone(
    record: GangRecord, spec: Spec, policy: Policy, member: Member, keys: frozenset[str] | None
) -> Gang:
    """The request for this member of a gang of one, whatever blocks it now."""
    role = Likeness.of(member.pod, keys).role("", (member.pod.uid,), ())
    return asked(record, spec, policy, (role,), ())


def asked(
    record: GangRecord, spec: Spec, policy: Policy, roles: tuple[Role, ...], anchors: tuple[str, ...]
) -> Gang:
    """A request for these roles, with all placement settings of the gang."""
    wish = spec.wish
    return Gang(
        key=record.key,
        roles=roles,
        strategy=wish.strategy or policy.strategy,
        level=wish.level or policy.level,
        required=policy.required if wish.required is None else wish.required,
        priority=record.priority,
        anchors=anchors,
        barred=record.pinning.barred_nodes,
    )


def lacking(record: GangRecord, spec: Spec) -> QuorumCount:
    """What the quorum misses besides members with a seat and succeeded ones."""
    members = record.members.values()
    return QuorumCount(
        spec, (m for m in members if (m.live and (m.bound or m.hold is not None)) or _succeeded(m))
    )


def absent(record: GangRecord, spec: Spec) -> dict[str, int]:
    """By role: how many pods of the quorum don't exist."""
    there = (m for m in record.members.values() if m.live or _succeeded(m))
    return QuorumCount(spec, there, of_all=True).lacks


def _succeeded(member: Member) -> bool:
    return member.pod.phase is Phase.SUCCEEDED


def survives(record: GangRecord, gone: set[Uid]) -> bool:
    """The gang keeps its quorum without these members, or had none to lose.

    A member with a held seat counts like a bound one: kube-scheduler knows of its own binds before the watch shows
    them.
    """
    taken = [record.members[uid] for uid in gone]
    if not isinstance(record.spec, Spec):
        return not any(_placed(member) for member in taken)
    if all(is_surplus(member) or not _placed(member) for member in taken):
        return True
    stay = (
        m for uid, m in record.members.items() if (_placed(m) and m.live and uid not in gone) or _succeeded(m)
    )
    return QuorumCount(record.spec, stay).left == 0


def _placed(member: Member) -> bool:
    return member.bound or (member.hold is not None and not member.pod.gated)


def may_preempt(record: GangRecord, gang: Gang) -> bool:
    """No quorum member in the request has `preemptionPolicy: Never`.

    Surplus members don't matter, because nothing is preempted for them. Otherwise the quorum's right would depend on
    whether its surplus exists yet. Deleted members don't matter either: the request may be older than the latest
    events.
    """
    asked = (record.members.get(uid) for role in gang.roles for uid in role.quorum)
    return all(member.pod.preempts for member in asked if member is not None)


def completed(record: GangRecord, spec: Spec, owners: Mapping[str, OwnerTraits]) -> dict[str, int]:
    """By role: completions of its members' Jobs beyond the succeeded pods that are visible.

    A succeeded pod may be deleted while its gang runs: its node is removed, or it is cleaned up.  Its Job remembers it.
    """
    seen: dict[str, int] = {}
    jobs = {owner: role for owner, role in record.jobs.items() if owner in owners}
    for member in record.members.values():
        owner = owner_of(member)
        if owner in owners and member.aside is None and not is_surplus(member):
            jobs[owner] = role_of(member, spec)
            seen[owner] = seen.get(owner, 0) + (member.pod.phase is Phase.SUCCEEDED)
    living = {owner_of(member) for member in record.live()} - {""} if jobs else set()
    if living and not spec.of_several:  # another run's completions count for that run only
        jobs = {owner: role for owner, role in jobs.items() if owner in living}
    record.jobs = jobs
    if record.finished:
        there = {role_of(member, spec) for member in record.members.values()}
        record.finished = {role: n for role, n in record.finished.items() if role not in there}
    found = dict(record.finished)
    for owner, role in jobs.items():
        found[role] = found.get(role, 0) + max(0, owners[owner].succeeded - seen.get(owner, 0))
    return {role: count for role, count in found.items() if count > 0}


def adopt_completions(record: GangRecord, spec: Spec) -> None:
    """After a restart: the gang was complete once, so a role without pods has done its part.

    Its Job is unknown: a Job without pods does not name its gang.
    """
    there = {role_of(member, spec) for member in record.members.values()}
    record.finished = {role: least for role, least in spec.quorum.items() if role not in there}


def forget_completions(record: GangRecord) -> None:
    """The gang starts over."""
    record.jobs.clear()
    record.finished = {}
