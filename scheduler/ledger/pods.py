"""What the watches tell of pods: who is new, who has changed, who is gone.

Lives here: the way of a pod into its gang and out of it. Never here: what follows for the gang (see care).
"""

from typing import TYPE_CHECKING

from scheduler.ledger import comebacks, healing, pins, roster, vacancies
from scheduler.ledger.records import GangRecord, Hold, Member
from scheduler.model.workload import GangKey, Pod, Uid, gang_of_one

if TYPE_CHECKING:
    from scheduler.ledger.ledger import Ledger


def seen(ledger: "Ledger", pod: Pod, now: float) -> None:
    """Take in a pod as it is now."""
    if pod.node is not None and not pod.phase.ended:
        ledger.nodes.put(pod.uid, pod.node, pod.demand)
    if pod.scheduler not in ledger.policy.scheduler_names or pod.native_group:
        _stranger_seen(ledger, pod, now)
        return
    ledger.highest = max(ledger.highest, pod.priority)
    before = ledger.roll.pod(pod.uid)
    known = ledger.roll.member(pod.uid)
    if before == pod and known is not None:
        known.pod = pod  # what people are told on it may be another
        return
    record, member = _enrolled(ledger, pod)
    if before is None or not member.live or _said(before) != _said(pod):
        record.spec = None
    ledger.roll.renew(member, pod)
    if pod.refused and (before is None or not before.refused):
        healing.turned_away(ledger, record, pod, now, news=before is not None)
    if pod.node is not None and (before is None or before.node is None):
        ledger.stands(pod.priority)
    if member.bound and pod.node is not None:
        ledger.occupy(pod, pod.node)  # once more: a change of gang gave its old seat back
    pins.note(member, now)
    record.asked = record.asked or pins.was_tried(pod)  # on a full cluster kube-scheduler asks us nothing
    if pod.node is not None or pod.deleting or pod.phase.ended:
        ledger.release(member)
        if pod.phase.ended and before is not None and not before.phase.ended:
            vacancies.lost(ledger, member, now)
    elif member.hold is not None:
        _keep_seat(ledger, member, member.hold, now)
    if not member.live:
        record.spec = None
    if before is not None and before.nominated and not pod.nominated:
        record.verdict_standing = -1  # kube-scheduler makes no room for it any more: others may be asked to
    if pod.nominated and not (before is not None and before.nominated):
        record.verdict_shape = None  # no other gang has the room of its nomination
    ledger.nominated(pod, counts=member.hold is None)
    ledger.mark(record.key)


def _keep_seat(ledger: "Ledger", member: Member, hold: Hold, now: float) -> None:
    """The seat goes with the pod: its needs may have changed, or a late PATCH of an earlier run tied it elsewhere."""
    pod, tied = member.pod, member.tied
    if tied is None or tied == hold.node or pod.seat is None:
        ledger.occupy(pod, hold.node)
        return
    ledger.release(member)
    if ledger.nodes.has_room(tied, pod.demand):
        ledger.hold(member, Hold(tied, pod.seat.plan), now)


def _said(pod: Pod) -> tuple[object, ...]:
    """What a pod says of its gang."""
    return (pod.membership, pod.complaints)


def _stranger_seen(ledger: "Ledger", pod: Pod, now: float) -> None:
    if pod.phase.ended:
        forget(ledger, pod.uid, now)
        return
    before, ledger.roll.strangers[pod.uid] = ledger.roll.strangers.get(pod.uid), pod
    if pod.node is None:
        ledger.nodes.take(pod.uid)
    elif before is None or before.node is None:
        ledger.stands(pod.priority)
        comebacks.bound(ledger, pod, now)
    ledger.nominated(pod, counts=True)


def _enrolled(ledger: "Ledger", pod: Pod) -> tuple[GangRecord, Member]:
    """The pod's gang and its place in it, made when it is new.

    When all members ended, a pod of another controller begins a new gang; who ended is on his own from then on.
    One of the same controller takes the place of a member that failed: those that succeeded still count. While the
    lists are still being read nobody can tell what all members are.
    """
    key = roster.gang_key(pod)
    known = ledger.roll.member(pod.uid)
    if known is not None:
        if roster.gang_key(known.pod) != key:
            ledger.release(known)  # its seat was given to it as a member of another gang
            ledger.spares.drop(roster.gang_key(known.pod), pod.uid)
            move(ledger, pod.uid, key)
        return ledger.roll.gangs[ledger.roll.gang_of[pod.uid]], known
    record = ledger.roll.gangs.get(key)
    if record is not None and ledger.synced and _is_over(record, pod):
        for uid in list(record.members):
            move(ledger, uid, gang_of_one(key.namespace, uid))
    return ledger.roll.enter(pod, key)


def _is_over(record: GangRecord, newcomer: Pod) -> bool:
    """All members ended, and the newcomer is not made by who made them."""
    owner = newcomer.owner.uid if newcomer.owner else None
    return all(
        m.pod.phase.ended and (owner is None or m.pod.owner is None or m.pod.owner.uid != owner)
        for m in record.members.values()
    )


def forget(ledger: "Ledger", uid: Uid, now: float) -> None:
    """Nothing of this pod is left."""
    member = ledger.roll.member(uid)
    if member is not None:
        ledger.spares.drop(roster.gang_key(member.pod), uid)
        healing.left(ledger, member)
        if member.bound:
            vacancies.lost(ledger, member, now)
    ledger.unknown(uid)
    key = ledger.roll.leave(uid)
    if key is not None:
        _left(ledger, key)


def _left(ledger: "Ledger", key: GangKey) -> None:
    ledger.left(key)
    if key not in ledger.roll.gangs:
        ledger.wanting.singly.close(ledger, key)
        vacancies.gone(ledger, key)
        ledger.quotas.forget(key)


def move(ledger: "Ledger", uid: Uid, key: GangKey) -> None:
    left = ledger.roll.gang_of.get(uid)
    if left is None:
        return
    before = ledger.roll.gangs[left]
    member = before.members[uid]
    ledger.roll.leave(uid)
    _left(ledger, left)
    record, _ = ledger.roll.enter(member.pod, key, member)
    record.asked = record.asked or (before.asked and not member.pod.gated)
    ledger.mark(key, anew=True)


def recalled(ledger: "Ledger", record: GangRecord) -> bool:
    """This plain pod went back to the gang that it names and that has had a place for it since."""
    if not (ledger.spares.any_called and roster.is_gang_of_one(record.key)):
        return False
    (member,) = record.members.values()
    key = roster.gang_key(member.pod)
    if member.hold is not None or not ledger.spares.is_called(key, member.pod.uid):
        return False
    if key in ledger.roll.gangs:
        ledger.mark(key, anew=True)
        return False
    for uid in ledger.spares.take(key, 1, ledger.roll):
        move(ledger, uid, key)
    return record.key not in ledger.roll.gangs
