"""Members that are of a gang by name and do not count for it: they stay in its record, wait, and are told why.

Lives here: which members these are. Never here: what the others make of the gang (quorum), or what people are told
(conditions).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import Aside, GangRecord, Member
from scheduler.ledger.gang_spec import SINGLE
from scheduler.model.decision import TEXT, Reason
from scheduler.model.workload import GangKey, Group, Owner, Uid

REVISIONS: Final = frozenset({"ReplicaSet", "ReplicationController"})
"""Kinds of which one owner above makes several in turn: their pods are one gang all the way."""


def set_aside(cache: Cache, record: GangRecord) -> None:
    """Say which members without a seat do not count now: pods that cannot be read beside others that can, and pods of
    a later run.

    One run goes at a time: the one that has seats, else the one whose turn it was, else the eldest.  A run is what one
    controller makes.  It keeps its turn while a pod of it has not ended; that of a Job also while its pods are made
    again.
    """
    staying = [member for member in record.members.values() if member.stays]
    aside = _unread(staying)
    unended = [m for m in record.members.values() if not m.pod.phase.ended and m.pod.uid not in aside]
    first, later = _later_runs(cache, record, unended)
    cache.registry.give_turn(record, first)
    if first is not None:
        aside |= dict.fromkeys((m.pod.uid for m in later), Aside(Reason.NAME_TAKEN, _taken_by(first)))
    for member in staying:
        before, member.aside = member.aside, aside.get(member.pod.uid)
        if before is not None and member.aside is None:
            record.told_waiting = record.told_waiting or member.says is not None


def _unread(staying: Sequence[Member]) -> dict[Uid, Aside]:
    wrong = [m for m in staying if m.pod.membership is not None and m.pod.membership.refused]
    if len(wrong) == len(staying):
        return {}
    return {m.pod.uid: Aside(Reason.INVALID, _complaint_of(m)) for m in wrong if not m.has_seat}


def _complaint_of(member: Member) -> str:
    return f"{TEXT[Reason.INVALID]}: {next(own for own in member.pod.complaints if own.fatal)}"


def _later_runs(
    cache: Cache, record: GangRecord, unended: Sequence[Member]
) -> tuple[Owner | None, list[Member]]:
    """The controller of the run that goes first, and members of others without a seat; None: there is one run."""
    runs: dict[str, list[Member]] = {}
    owners: dict[str, Owner] = {}
    for member in unended:
        if (owner := member.pod.owner) is not None:
            run = "" if owner.kind in REVISIONS else owner.uid
            runs.setdefault(run, []).append(member)
            owners.setdefault(run, owner)
    before = record.turn
    if before is not None and before.uid not in runs and _makes_again(cache, before):
        runs[before.uid], owners[before.uid] = [], before
    if len(runs) < 2 or is_of_several(record.key, unended, cache.groups):
        return None, []
    last = before.uid if before is not None else None
    first = min(runs, key=lambda run: (*_turn(runs[run], had=run == last), run))
    return owners[first], [m for run in runs if run != first for m in runs[run] if not m.has_seat]


def _makes_again(cache: Cache, owner: Owner) -> bool:
    """A Job without pods that is to make more of them.  One that is suspended leaves its turn to the others."""
    traits = cache.owners.get(owner.uid)
    return owner.kind == "Job" and traits is not None and not (traits.ended or traits.suspended)


def is_of_several(
    key: GangKey, members: Iterable[Member], groups: Mapping[tuple[str, GangKey], Group]
) -> bool:
    """Pods of several controllers are one gang: by a group object, by roles, or because the size is stated."""
    said = {id(own): own for member in members if (own := member.pod.membership) is not None}
    return any(
        (own.format, key) in groups or own.size is not None or set(own.quorum or SINGLE) != {""}
        for own in said.values()
    )


def _turn(run: Sequence[Member], *, had: bool) -> tuple[bool, bool, tuple[float, str]]:
    seated = any(member.has_seat for member in run)
    return not seated, not had, min((member.arrival for member in run), default=(0.0, ""))


def _taken_by(owner: Owner) -> str:
    return (
        f"{TEXT[Reason.NAME_TAKEN]}: {owner.kind} {owner.name}; these pods wait until it has ended. To run both at once,"
        " give each a gang name of its own; to make both one gang, give them roles"
    )
