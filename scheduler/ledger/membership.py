"""Pod events: how a pod enters and leaves its gang, and which members count.

A member that doesn't count stays in its gang's record, waits, and reports why. Never here: what follows for the gang
(reconcile), or messages (conditions).
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
"""Kinds of which one owner creates several in turn: all their pods are one gang."""


def set_aside(cache: Cache, record: GangRecord) -> None:
    """Set aside members without a seat that don't count now: pods with invalid settings beside valid ones, and pods of
    a later run.

    Runs go one at a time: first the one with seats, then the one that had its turn, then the oldest.  A run consists of
    the pods of one controller.  It keeps its turn while one of its pods has not ended. A Job also keeps it while its
    pods are recreated.
    """
    if len(record.members) == 1 and record.turn is None:
        (alone,) = record.members.values()
        if alone.aside is None:
            return  # the only pod counts
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
    if not wrong or len(wrong) == len(staying):
        return {}
    fatal = {m.pod.uid: next(own for own in m.pod.complaints if own.fatal) for m in wrong if not m.has_seat}
    return {
        uid: Aside(Reason.INVALID_SPEC, f"{TEXT[Reason.INVALID_SPEC]}: {own}") for uid, own in fatal.items()
    }


def _later_runs(
    cache: Cache, record: GangRecord, unended: Sequence[Member]
) -> tuple[Owner | None, list[Member]]:
    """The controller of the run that goes first, and seatless members of the others. None: there is a single run."""
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
    """A Job without pods that will create more.  A suspended one leaves its turn to the others."""
    traits = cache.owners.get(owner.uid)
    return owner.kind == "Job" and traits is not None and not (traits.ended or traits.suspended)


def is_of_several(
    key: GangKey, members: Iterable[Member], groups: Mapping[tuple[str, GangKey], Group]
) -> bool:
    """Pods of several controllers form one gang: it has a group object, roles, or a stated size."""
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
    """Add or update a pod."""
    cache.selectors_noted(pod)
    if pod.node is not None and not pod.phase.ended:
        cache.put_pod(pod, pod.node)
    if pod.scheduler not in cache.policy.scheduler_names or pod.native_group:
        _stranger_seen(cache, pod, now)
        return
    cache.highest = max(cache.highest, pod.priority)
    known = cache.registry.member(pod.uid)
    before = cache.registry.foreign_pods.get(pod.uid) if known is None else known.pod
    if before == pod and known is not None:
        known.see(pod)  # its status may differ
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
        cache.occupy(pod, pod.node)  # once more: a change of gang released its old seat
    if note_tried(member, now):
        record.seen_by_kube_scheduler = True  # on a full cluster kube-scheduler does not call the extender
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
        record.verdict.try_again()  # its nomination ended, so other pods may be preempted for it
    if pod.nominated and not (before is not None and before.nominated):
        record.verdict.is_unlike()  # no other gang has its nominated resources
    cache.nominated(pod, counts=member.hold is None)
    cache.mark(record.key)


def _keep_seat(cache: Cache, member: Member, hold: Hold, now: float) -> None:
    """Keep the pod's seat: its demand may have changed, or a late PATCH of an earlier process tied it elsewhere."""
    pod, tied = member.pod, member.tied
    if tied is None or tied == hold.node or pod.seat is None:
        cache.occupy(pod, hold.node)
        return
    cache.release(member)
    if cache.nodes.has_room(tied, pod.demand):
        cache.hold(member, Hold(tied, pod.seat.plan), now)


def _said(pod: Pod) -> tuple[object, ...]:
    """What a pod states about its gang."""
    return (pod.membership, pod.complaints)


def _stranger_seen(cache: Cache, pod: Pod, now: float) -> None:
    if pod.phase.ended:
        forget(cache, pod.uid, now)
        return
    before, cache.registry.foreign_pods[pod.uid] = cache.registry.foreign_pods.get(pod.uid), pod
    if pod.node is None:
        cache.take_pod(pod.uid)
    elif before is None or before.node is None:
        cache.note_victim(pod.priority)
        _took_room(cache, pod, now)
    cache.nominated(pod, counts=True)


def _took_room(cache: Cache, pod: Pod, now: float) -> None:
    """A pod of another scheduler was bound. If it took a seat that was freed by preemption, its owner is spared from
    now on.
    """
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
    taken = f"took its reserved resources on {pod.node}"
    text = f"{member.pod.key.name}: {taker} of {pod.scheduler or 'no scheduler'} {taken}"
    conditions.note_mishaps(record, Reason.PIN_BROKEN, [Mishap(member.pod, text)], _TOOK)
    cache.mark(record.key)


def _enrolled(cache: Cache, pod: Pod, known: Member | None, now: float) -> tuple[GangRecord, Member]:
    """The pod's gang and its member, created if new.

    When all members ended, a pod of another controller starts a new gang, and each ended pod becomes a gang of one. A
    pod of the same controller replaces a failed member, and succeeded members still count. While lists are being read,
    not all members are known. known: its member, if it already has a gang.
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
    """All members ended, and another controller created the newcomer."""
    owner = newcomer.owner.uid if newcomer.owner else None
    return all(
        m.pod.phase.ended and (owner is None or m.pod.owner is None or m.pod.owner.uid != owner)
        for m in record.members.values()
    )


def forget(cache: Cache, uid: Uid, now: float) -> None:
    """Remove everything about this pod."""
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
    """A pod left this gang. A gang without pods leaves no traces."""
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
    """The gang's specification; pods of an earlier run leave it. None: nothing can be requested."""
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
                quorum.forget_completions(record)  # their completions count for them only
            done = quorum.completed(record, spec, cache.owners)
            record.spec = replace(spec, done=done) if done else spec
        record.overlooked = gang_spec.overlooked(record)
    return record.spec if isinstance(record.spec, Spec) else None
