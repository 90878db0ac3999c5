"""The specification of a gang, merged from its members and a PodGroup.

A gang is confined to its namespace. Its members must agree: if they don't, the gang is rejected with both values, and
nothing is guessed. Lives here: what members must state alike, what some may omit, and the detection of conflicts. Never
here: what the gang still misses (quorum).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from scheduler.ledger.gang import GangRecord, Spec, arrival
from scheduler.ledger.messages import Overlooked
from scheduler.model.decision import Reason, Refuse
from scheduler.model.durations import written
from scheduler.model.policy import Policy
from scheduler.model.workload import Complaint, GangKey, Group, Membership, Pod, gang_of_one

SINGLE: Mapping[str, int] = {"": 1}

ALONE: Final = Spec(SINGLE)
"""The specification of every pod that names no gang."""

MAX_RUNTIME: Final = "gangwright.io/max-runtime"


def gang_key(pod: Pod) -> GangKey:
    """The gang that a pod belongs to. A pod without one is a gang of one."""
    return pod.membership.gang if pod.membership else gang_of_one(pod.key.namespace, pod.uid)


def is_gang_of_one(key: GangKey) -> bool:
    return ":" in key.name


def spec(
    record: GangRecord, groups: Mapping[tuple[str, GangKey], Group], policy: Policy
) -> Spec | Refuse | Reason:
    """The gang's specification. Refuse if it is contradictory or its max-runtime is over. A Reason while something is
    missing.
    """
    said = _said(record, groups, policy)
    limit, span = record.runtime_limit, said.wish.max_runtime if isinstance(said, Spec) else None
    if span is None or limit.exceeded is None or span > limit.exceeded:
        return said
    if not any(m.pod.owner is not None and m.pod.owner.uid in limit.makers for m in record.live()):
        return said
    return Refuse(
        Reason.RUNTIME_EXCEEDED,
        MAX_RUNTIME,
        written(span),
        "raise or remove it to run the gang again",
    )


def _said(
    record: GangRecord, groups: Mapping[tuple[str, GangKey], Group], policy: Policy
) -> Spec | Refuse | Reason:
    members = record.live()
    if len(members) > 1:
        members.sort(key=arrival)
    for member in members:
        for complaint in member.pod.complaints:
            if complaint.fatal:
                return _refuse(Reason.INVALID_SPEC, complaint)
    if is_gang_of_one(record.key) or not members:
        own = members[0].pod.membership if members else None
        return Spec(SINGLE, own.wish) if own else ALONE
    heard = [member.pod.membership for member in members if member.pod.membership]
    said = list({id(own): own for own in heard}.values())  # most are the same object
    clash = disagreement(said)
    if clash is not None:
        return _refuse(Reason.CONFLICT, clash)
    group = groups.get((said[0].format, record.key))
    if group is not None and (fatal := next((c for c in group.complaints if c.fatal), None)):
        return _refuse(Reason.INVALID_SPEC, fatal)
    return _resolve(record, together(said), group, policy)


def overlooked(record: GangRecord) -> tuple[Overlooked, ...]:
    """Ignored settings of its members. Each field once with the oldest member's value; younger members are named."""
    live = record.live()
    size = record.spec.size if isinstance(record.spec, Spec) else None
    if size is None and not any(m.pod.complaints for m in live):
        return ()
    found: dict[str, Overlooked] = {}
    eldest = min(live, key=arrival, default=None)
    for member in sorted((m for m in live if m.pod.complaints), key=arrival):
        whose = "" if member is eldest else f"{member.pod.key.name}: "
        for own in member.pod.complaints:
            if not own.fatal:
                found.setdefault(own.field, Overlooked(own.field, f"{whose}{own}"))
    if size is not None and len(live) > size:
        keys = (said.keys for m in live if (said := m.pod.membership) is not None and said.size is not None)
        field = next((each.get("size", "gangwright.io/members") for each in keys), "the group's size")
        text = f"{field}: {size} members are stated, but {len(live)} exist; the rest are surplus"
        found.setdefault(field, Overlooked(field, text))
    return tuple(found.values())


def _resolve(
    record: GangRecord, first: Membership, group: Group | None, policy: Policy
) -> Spec | Refuse | Reason:
    quorum = group.quorum if group else first.quorum
    if quorum is None:
        return Reason.QUORUM_UNKNOWN
    size = group.size if group and group.size is not None else first.size
    total = sum(quorum.values())
    largest = max(total, size or 0, len(record.live()))
    if largest > policy.largest_gang:
        return Refuse(Reason.INVALID_SPEC, "members", str(largest), f"must be at most {policy.largest_gang}")
    if size is not None and total > size:
        return Refuse(
            Reason.INVALID_SPEC,
            first.keys.get("quorum", "gangwright.io/min-members"),
            str(total),
            f"must be at most the gang's size, {size}",
        )
    strange = {
        own.role: own.keys.get("role", "gangwright.io/role")
        for m in record.live()
        if (own := m.pod.membership) is not None and own.role not in quorum
    }
    if strange and set(quorum) != {""}:
        role, known = min(strange), ", ".join(sorted(quorum))
        return Refuse(
            Reason.CONFLICT, strange[role], role, f"must be one of the roles with a minimum: {known}"
        )
    wish = first.wish.over(group.wish) if group else first.wish
    return Spec(quorum, wish, size, grouped=group is not None)


def _refuse(reason: Reason, complaint: Complaint) -> Refuse:
    return Refuse(reason, complaint.field, complaint.value, complaint.remedy)


_SPOKEN: Final[tuple[tuple[str, str, Callable[[Membership], object]], ...]] = (
    ("quorum", "gangwright.io/min-members", lambda m: m.quorum),
    ("size", "gangwright.io/members", lambda m: m.size),
    ("strategy", "gangwright.io/strategy", lambda m: m.wish.strategy),
    ("level", "gangwright.io/level", lambda m: m.wish.level),
    ("required", "gangwright.io/level-required", lambda m: m.wish.required),
    ("timeout", "gangwright.io/timeout", lambda m: m.wish.timeout),
    ("start_timeout", "gangwright.io/start-timeout", lambda m: m.wish.start_timeout),
    ("max_runtime", MAX_RUNTIME, lambda m: m.wish.max_runtime),
    ("pin", "gangwright.io/pin", lambda m: m.wish.pin),
    ("on_member_loss", "gangwright.io/on-member-loss", lambda m: m.wish.on_member_loss),
    ("give_way", "gangwright.io/preemption", lambda m: m.wish.give_way),
    ("format", "the gang's format", lambda m: m.format),
)
"""What all members must state alike, and its key if it was not stated in another format."""

_NOTHING: Final = "unset"

_MAY_BE_SILENT: Final = frozenset({"quorum"})
"""What some members may omit in every format. If a pod must not omit it, the pod itself is rejected."""


def disagreement(said: Sequence[Membership]) -> Complaint | None:
    """Two values of one field, or a Gangwright key that only some members have.

    Keys of other formats may be missing on some members, because one of them states it for all: YuniKorn's driver for
    its executors, the pod from which Volcano or KAI created the group. In Kueue, only some pods may request a topology.
    """
    for field, ours, get in _SPOKEN:
        stated = [
            (_plain(value), own.keys.get(field, ours)) for own in said if (value := get(own)) is not None
        ]
        where = dict(stated)
        silent = len(stated) < len(said) and field not in _MAY_BE_SILENT
        if silent and stated and all(key == ours for _, key in stated):
            where[_NOTHING] = ours
        if len(where) > 1:
            values = sorted(where)[:2]
            keys = dict.fromkeys(where[value] for value in values)
            return Complaint(
                " and ".join(keys), " and ".join(values), "must be the same on all members of the gang"
            )
    return None


def together(said: Sequence[Membership]) -> Membership:
    """The union of what consistent members state, when not all of them state everything."""
    first = said[0]
    wish = first.wish
    for other in dict.fromkeys(own.wish for own in said):
        wish = wish.over(other)
    return replace(
        first,
        quorum=next((own.quorum for own in said if own.quorum is not None), None),
        size=next((own.size for own in said if own.size is not None), None),
        wish=replace(wish, expected_runtime=first.wish.expected_runtime),
        keys=next((own.keys for own in said if own.quorum is not None), first.keys),
    )


def _plain(value: object) -> str:
    match value:
        case dict():
            return ",".join(
                f"{role}={least}" if role else str(least) for role, least in sorted(value.items())
            )
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case _:
            return str(value)
