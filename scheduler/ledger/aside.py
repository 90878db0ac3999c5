"""Members that are of a gang by name and do not count for it: they stay in its record, wait, and are told why.

Lives here: which members these are. Never here: what the others make of the gang (roster), or what people are told
(notices).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from scheduler.ledger.records import Aside, GangRecord, Member
from scheduler.ledger.roster import SINGLE
from scheduler.model.decision import TEXT, Reason
from scheduler.model.workload import GangKey, Group, Uid

REVISIONS: Final = frozenset({"ReplicaSet", "ReplicationController"})
"""Kinds of which one owner above makes several in turn: their pods are one gang all the way."""


def set_aside(record: GangRecord, groups: Mapping[tuple[str, GangKey], Group]) -> None:
    """Say which members without a seat do not count now: pods that cannot be read beside others that can, and pods of
    a later run.

    One run goes at a time: the one that has seats, else the eldest.  A run is what one controller makes.
    """
    staying = [member for member in record.members.values() if member.stays]
    aside = _unread(staying)
    aside |= _of_later_runs(record.key, [m for m in staying if m.pod.uid not in aside], groups)
    for member in staying:
        before, member.aside = member.aside, aside.get(member.pod.uid)
        if before is not None and member.aside is None:
            record.told_waiting = record.told_waiting or member.pod.told is not None


def _unread(staying: Sequence[Member]) -> dict[Uid, Aside]:
    wrong = [m for m in staying if m.pod.membership is not None and m.pod.membership.refused]
    if len(wrong) == len(staying):
        return {}
    return {m.pod.uid: Aside(Reason.INVALID, _complaint_of(m)) for m in wrong if not m.has_seat}


def _complaint_of(member: Member) -> str:
    return f"{TEXT[Reason.INVALID]}: {next(own for own in member.pod.complaints if own.fatal)}"


def _of_later_runs(
    key: GangKey, staying: Sequence[Member], groups: Mapping[tuple[str, GangKey], Group]
) -> dict[Uid, Aside]:
    runs: dict[str, list[Member]] = {}
    for member in staying:
        owner = member.pod.owner
        if owner is not None:
            runs.setdefault("" if owner.kind in REVISIONS else owner.uid, []).append(member)
    if len(runs) < 2 or is_of_several(key, staying, groups):
        return {}
    first = min(runs.values(), key=_turn)
    why = Aside(Reason.NAME_TAKEN, _taken_by(first[0]))
    return {m.pod.uid: why for run in runs.values() if run is not first for m in run if not m.has_seat}


def is_of_several(
    key: GangKey, members: Iterable[Member], groups: Mapping[tuple[str, GangKey], Group]
) -> bool:
    """Pods of several controllers are one gang: by a group object, by roles, or because the size is stated."""
    said = {id(own): own for member in members if (own := member.pod.membership) is not None}
    return any(
        (own.format, key) in groups or own.size is not None or set(own.quorum or SINGLE) != {""}
        for own in said.values()
    )


def _turn(run: Sequence[Member]) -> tuple[bool, tuple[float, str]]:
    return (not any(member.has_seat for member in run), min(member.arrival for member in run))


def _taken_by(member: Member) -> str:
    owner = member.pod.owner
    by = f"{owner.kind} {owner.name}" if owner is not None else member.pod.key.name
    return (
        f"{TEXT[Reason.NAME_TAKEN]}: {by}; these pods wait until its pods have ended. To run both at once, give each a"
        " gang name of its own; to make both one gang, give them roles"
    )
