"""What the watches tell of pods: the way of a pod into its gang and out of it, and which members count.

A member that does not count stays in the record of its gang, waits, and is told why. Never here: what follows for the gang
(reconcile), or what people are told (conditions).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from scheduler.ledger import (
    conditions,
    gang_spec,
    healing,
    migration,
    preemption,
    quorum,
    runtime_limit,
)
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import Aside, GangRecord, Hold, Member, Spec, arrival, note_tried
from scheduler.ledger.gang_spec import SINGLE
from scheduler.ledger.messages import Mishap, called
from scheduler.model.decision import TEXT, Reason, Refuse
from scheduler.model.workload import GangKey, Group, Owner, Pod, Uid, gang_of_one

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
        aside |= dict.fromkeys((m.pod.uid for m in later), Aside(Reason.NAME_CONFLICT, _taken_by(first)))
    for member in staying:
        before, why = member.aside, aside.get(member.pod.uid)
        if before != why:
            member.set_aside(why)
        if before is not None and why is None:
            record.told_waiting = record.told_waiting or member.says is not None


def _unread(staying: Sequence[Member]) -> dict[Uid, Aside]:
    wrong = [m for m in staying if m.pod.membership is not None and m.pod.membership.refused]
    if len(wrong) == len(staying):
        return {}
    fatal = {m.pod.uid: next(own for own in m.pod.complaints if own.fatal) for m in wrong if not m.has_seat}
    return {
        uid: Aside(Reason.INVALID_SPEC, f"{TEXT[Reason.INVALID_SPEC]}: {own}") for uid, own in fatal.items()
    }


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
    return not seated, not had, min((arrival(member) for member in run), default=(0.0, ""))


def _taken_by(owner: Owner) -> str:
    return (
        f"{TEXT[Reason.NAME_CONFLICT]}: {owner.kind} {owner.name}; these pods wait until it ends. To run both at once,"
        " use two gang names; to form one gang, set roles"
    )


_TOOK: Final = "pods of that controller are not evicted again for 1 hour"


def seen(cache: Cache, pod: Pod, now: float) -> None:
    """Take in a pod as it is now."""
    if pod.node is not None and not pod.phase.ended:
        cache.nodes.put(pod.uid, pod.node, pod.demand)
    if pod.scheduler not in cache.policy.scheduler_names or pod.native_group:
        _stranger_seen(cache, pod, now)
        return
    cache.highest = max(cache.highest, pod.priority)
    known = cache.registry.member(pod.uid)
    before = cache.registry.foreign_pods.get(pod.uid) if known is None else known.pod
    if before == pod and known is not None:
        known.see(pod)  # what people are told on it may be another
        return
    record, member = _enrolled(cache, pod, known, now)
    if before is None or not member.live or _said(before) != _said(pod):
        record.spec = None
    cache.registry.renew(member, pod)
    if pod.refused and (before is None or not before.refused):
        healing.turned_away(cache, record, pod, now, news=before is not None)
    if pod.node is not None and (before is None or before.node is None):
        cache.note_victim(pod.priority)
    if member.bound and pod.node is not None:
        cache.occupy(pod, pod.node)  # once more: a change of gang gave its old seat back
    if note_tried(member, now):
        record.seen_by_kube_scheduler = True  # on a full cluster kube-scheduler asks us nothing
    if pod.node is not None or pod.deleting or pod.phase.ended:
        cache.release(member)
        if pod.phase.ended and before is not None and not before.phase.ended:
            migration.keep_place(cache, member, now)
            cache.history.ended(record, member, now)
    elif member.hold is not None:
        _keep_seat(cache, member, member.hold, now)
    if not member.live:
        record.spec = None
    if before is not None and before.nominated and not pod.nominated:
        record.verdict.try_again()  # kube-scheduler makes no room for it any more: others may be asked to
    if pod.nominated and not (before is not None and before.nominated):
        record.verdict.is_unlike()  # no other gang has the room of its nomination
    cache.nominated(pod, counts=member.hold is None)
    cache.mark(record.key)


def _keep_seat(cache: Cache, member: Member, hold: Hold, now: float) -> None:
    """The seat goes with the pod: its needs may have changed, or a late PATCH of an earlier run tied it elsewhere."""
    pod, tied = member.pod, member.tied
    if tied is None or tied == hold.node or pod.seat is None:
        cache.occupy(pod, hold.node)
        return
    cache.release(member)
    if cache.nodes.has_room(tied, pod.demand):
        cache.hold(member, Hold(tied, pod.seat.plan), now)


def _said(pod: Pod) -> tuple[object, ...]:
    """What a pod says of its gang."""
    return (pod.membership, pod.complaints)


def _stranger_seen(cache: Cache, pod: Pod, now: float) -> None:
    if pod.phase.ended:
        forget(cache, pod.uid, now)
        return
    before, cache.registry.foreign_pods[pod.uid] = cache.registry.foreign_pods.get(pod.uid), pod
    if pod.node is None:
        cache.nodes.take(pod.uid)
    elif before is None or before.node is None:
        cache.note_victim(pod.priority)
        _took_room(cache, pod, now)
    cache.nominated(pod, counts=True)


def _took_room(cache: Cache, pod: Pod, now: float) -> None:
    """A pod of another scheduler was bound. Where it took a seat for which others left, its owner is left alone."""
    key = cache.spared_owners.room_on(pod.node)
    record = cache.registry.gangs.get(key) if key is not None else None
    if record is None or pod.node is None:
        return
    seated = (m for m in record.live() if not m.bound and m.hold is not None and m.hold.node == pod.node)
    member = next(seated, None)
    if member is None or not cache.nodes.is_overdrawn(pod.node, member.pod.demand, preemption.going(cache)):
        return
    if pod.owner is not None:
        cache.spared_owners.leave_alone(pod.owner.uid, now)
    hidden = pod.key.namespace != record.key.namespace
    taker = called("pod", str(pod.key), pod.uid, hidden=hidden)
    text = f"{member.pod.key.name}: {taker} of {pod.scheduler or 'no scheduler'} took its reserved resources on {pod.node}"
    conditions.note_mishaps(record, Reason.PIN_BROKEN, [Mishap(member.pod, text)], _TOOK)
    cache.mark(record.key)


def _enrolled(cache: Cache, pod: Pod, known: Member | None, now: float) -> tuple[GangRecord, Member]:
    """The pod's gang and its place in it, made when it is new.

    When all members ended, a pod of another controller begins a new gang; each that ended is on its own from then on.
    One of the same controller takes the place of a member that failed: those that succeeded still count. While the
    lists are still being read it cannot be told what all members are. known: it, if it is in a gang already.
    """
    key = gang_spec.gang_key(pod)
    if known is not None:
        if gang_spec.gang_key(known.pod) != key:
            cache.release(known)  # its seat was given to it as a member of another gang
            move(cache, pod.uid, key)
        return cache.registry.gangs[cache.registry.gang_of[pod.uid]], known
    record = cache.registry.gangs.get(key)
    if record is not None and cache.synced and _is_over(record, pod):
        cache.history.replaced(record, list(record.members.values()), now)
        for uid in list(record.members):
            move(cache, uid, gang_of_one(key.namespace, uid))
    return cache.registry.enter(pod, key)


def _is_over(record: GangRecord, newcomer: Pod) -> bool:
    """All members ended, and another controller made the newcomer."""
    owner = newcomer.owner.uid if newcomer.owner else None
    return all(
        m.pod.phase.ended and (owner is None or m.pod.owner is None or m.pod.owner.uid != owner)
        for m in record.members.values()
    )


def forget(cache: Cache, uid: Uid, now: float) -> None:
    """Nothing of this pod is left."""
    member = cache.registry.member(uid)
    if member is not None:
        healing.left(cache, member)
        if member.bound:
            migration.keep_place(cache, member, now)
        record = cache.registry.gangs[cache.registry.gang_of[uid]]
        cache.history.gone(record, member, now, suspended=record.key in cache.registry.asleep)
    cache.unknown(uid)
    key = cache.registry.leave(uid)
    if key is not None:
        _left(cache, key)


def _left(cache: Cache, key: GangKey) -> None:
    """A pod is no longer of this gang; a gang without pods leaves nothing behind."""
    if key in cache.registry.gangs:
        cache.mark(key, spec_too=True)
        return
    cache.drop(key)
    cache.pending.close(key)
    migration.give_back_places(cache, key)
    cache.quotas.forget(key)


def move(cache: Cache, uid: Uid, key: GangKey) -> None:
    left = cache.registry.gang_of.get(uid)
    if left is None:
        return
    before = cache.registry.gangs[left]
    member = before.members[uid]
    cache.registry.leave(uid)
    _left(cache, left)
    record, _ = cache.registry.enter(member.pod, key, member)
    record.seen_by_kube_scheduler = record.seen_by_kube_scheduler or (
        before.seen_by_kube_scheduler and not member.pod.gated
    )
    cache.mark(key, spec_too=True)


def resolve(cache: Cache, record: GangRecord, now: float) -> Spec | None:
    """What the gang asks for; pods of an earlier run leave it. None: nothing can be asked."""
    if record.spec is None:
        set_aside(cache, record)
        runtime_limit.recognize(cache, record)
        record.spec = spec = gang_spec.spec(record, cache.groups, cache.policy)
        if isinstance(spec, Refuse):
            record.verdict.tell(spec)
        elif isinstance(record.verdict.decision, Refuse):
            record.verdict.forget()
        if isinstance(spec, Spec):
            if former := quorum.pods_of_earlier_controllers(record, spec):
                cache.history.replaced(record, [record.members[uid] for uid in former], now)
                for uid in former:
                    move(cache, uid, gang_of_one(record.key.namespace, uid))
                quorum.forget_completions(record)  # what they completed counts for them alone
            record.spec = replace(spec, done=quorum.completed(record, spec, cache.owners))
        record.overlooked = gang_spec.overlooked(record)
    return record.spec if isinstance(record.spec, Spec) else None
