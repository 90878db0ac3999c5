"""The pods of a gang as users see them: counts by state, one row each, and the gang that preempted them.

Lives here: the state of a pod. Never here: why its gang waits (`gang_views`). Until a restart, the ledger remembers the
gang that last preempted a gang, even if the victim is recreated under its name. After that, and if the cluster is read
without the service, the condition of the remaining pods tells it.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Final

from scheduler.ledger import quorum
from scheduler.ledger.gang import GangRecord, Member, Spec, arrival
from scheduler.ledger.messages import GaveWay
from scheduler.ledger.phase import QUORUM_BOUND, UNDER_WAY
from scheduler.model.demand import Demand
from scheduler.model.workload import Phase
from scheduler.status import schemas
from scheduler.status.authorization import Sight

_COMPLETE: Final = QUORUM_BOUND | UNDER_WAY
"""States of gangs whose quorum is complete."""

STRIDE: Final = 128
"""Pods processed in one step: about half a millisecond."""


def counts(record: GangRecord, needed: int | None) -> schemas.Members:
    """Numbers of its pods by state. needed: the quorum; None if it is not known."""
    members, spec = record.members.values(), record.spec
    done = sum(spec.done.values()) if isinstance(spec, Spec) else 0
    return schemas.Members(
        present=sum(member.bound or not member.pod.held_back for member in record.live()),
        needed=needed,
        held=sum(member.hold is not None and not member.bound for member in members),
        bound=sum(member.bound or member.pod.phase is Phase.SUCCEEDED for member in members) + done,
        running=sum(member.pod.phase is Phase.RUNNING for member in members),
    )


def eldest(record: GangRecord) -> Member | None:
    """The member that was created first; None if no pod is known."""
    return min(record.members.values(), key=arrival, default=None)


def devices(record: GangRecord) -> tuple[dict[str, int], dict[str, int]]:
    """By extended resource: requested by its pods and by missing pods of the quorum; and held by its pods."""
    known: dict[int, Demand] = {}  # comparing identities is faster than comparing demands
    asked: dict[int, int] = {}
    seated: dict[int, int] = {}
    for member in record.members.values():
        seat = member.has_seat
        if seat or member.live:
            number = id(member.pod.demand)
            known[number] = member.pod.demand
            asked[number] = asked.get(number, 0) + 1
            seated[number] = seated.get(number, 0) + seat
    for demand, count in _lacking(record):
        known[id(demand)] = demand
        asked[id(demand)] = asked.get(id(demand), 0) + count
    return _devices(known, asked), _devices(known, seated)


def _devices(known: dict[int, Demand], counts: dict[int, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, count in counts.items():
        for name, amount in known[number].requests if count else ():
            if "/" in name:  # only extended resources have a domain in their name
                found[name] = found.get(name, 0) + count * amount
    return found


def _lacking(record: GangRecord) -> Iterator[tuple[Demand, int]]:
    """The missing pods of the quorum, with the demand of the first member of each role."""
    if not isinstance(spec := record.spec, Spec) or record.state in _COMPLETE:
        return
    members = record.members.values()
    there = (m for m in members if m.live or m.has_seat or m.pod.phase is Phase.SUCCEEDED)
    lacks = quorum.QuorumCount(spec, there).lacks
    for member in members:
        count = lacks.pop(quorum.role_of(member, spec), 0)
        if count > 0:
            yield member.pod.demand, count


def row(member: Member) -> schemas.MemberRow:
    """One pod."""
    pod, own = member.pod, member.pod.membership
    failing = pod.pending.reason if pod.pending is not None and not (member.bound or pod.gated) else None
    return schemas.MemberRow(
        name=pod.key.name,
        uid=pod.uid,
        role=own.role if own is not None else "",
        surplus=quorum.is_surplus(member),
        state=next(word for word, holds in _MEMBER_STATES if holds(member)),
        phase=pod.phase,
        node=pod.node or (member.hold.node if member.hold is not None else None),
        reason=member.evicting or (member.aside.reason if member.aside is not None else failing),
    )


def ordered(record: GangRecord) -> list[Member]:
    """The members by arrival."""
    return sorted(record.members.values(), key=arrival)


def rows(record: GangRecord) -> Generator[None, None, list[schemas.MemberRow]]:
    """All pods of a gang, each as it is in its step."""
    found, made = ordered(record), list[schemas.MemberRow]()
    for start in range(0, len(found), STRIDE):
        yield
        made += map(row, found[start : start + STRIDE])
    return made


def preempted(record: GangRecord, sight: Sight) -> schemas.PreemptedRow | None:
    """The gang that last preempted this gang; None if unknown or never preempted."""
    said = [m.pod.preempted for m in record.members.values() if m.pod.preempted is not None]
    words, known = max(said, key=lambda own: own.at, default=None), record.preemption.gave_way
    message = words.words if words is not None else None
    if known is None:
        return schemas.PreemptedRow(None, None, None, None, message, words.at) if words is not None else None
    return gave_way(known, sight, message)


def gave_way(known: GaveWay, sight: Sight, message: str | None = None) -> schemas.PreemptedRow:
    """The gang that preempted another. Its name is shown only if the caller may read it."""
    sees = sight.sees(known.gang)
    return schemas.PreemptedRow(
        id=sight.alias(known.gang),
        namespace=known.gang.namespace if sees else None,
        gang=known.name if sees else None,
        priority=known.priority,
        message=message,
        at=known.at,
    )


_MEMBER_STATES: Final[tuple[tuple[str, Callable[[Member], bool]], ...]] = (
    ("ended", lambda m: m.pod.phase.ended),
    ("leaving", lambda m: not m.stays),
    ("bound", lambda m: m.bound),
    ("held", lambda m: m.hold is not None),
    ("gated", lambda m: m.pod.held_back),
    ("waiting", lambda _: True),
)
"""The first condition that holds determines the state."""
