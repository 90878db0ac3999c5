"""What kube-scheduler's questions and the planner's answers change: marks, seats, plans, and the reasons to wait.

Lives here: how far an answer counts that was made from an older picture. Never here: the answer.
"""

import numpy as np

from scheduler.ledger import migration, plans, preemption
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Hold, Member, Plan
from scheduler.model import events as ev
from scheduler.model.decision import Place, Reason, Refuse, Wait


def asked(cache: Cache, event: ev.Asked, _now: float) -> None:
    """kube-scheduler asked about a pod without our gate."""
    member = cache.roll.member(event.uid)
    if member is None or member.bound:
        return
    key = cache.roll.gang_of[event.uid]
    record = cache.roll.gangs[key]
    scored = member.hold is not None and member.hold.until is not None
    if scored:
        cache.release(member)
    known = member.allowed if member.allowed_version == event.nodes_version else None
    if known is None or not np.array_equal(known, event.allowed):
        member.allowed, member.allowed_version = event.allowed, event.nodes_version
        record.verdict_for = None
        cache.wanting.ask_again()
    elif record.asked and member.hold is None and not scored:
        return
    record.asked = True
    if member.hold is not None and not _within(cache, member, member.hold.node):
        cache.tally.reseats += 1
        cache.release(member)
    cache.mark(key)


def _within(cache: Cache, member: Member, node: str) -> bool:
    if member.allowed is None or member.allowed_version != cache.nodes.version:
        return True
    row = cache.snapshot().index.get(node)
    return row is not None and bool(member.allowed[row])


def scored(cache: Cache, event: ev.Scored, now: float) -> None:
    """The best node is kept for a moment."""
    member = cache.roll.member(event.uid)
    if member is not None and not member.bound and (member.hold is None or member.hold.until is not None):
        cache.hold(member, Hold(event.node, "", now + cache.policy.score_hold), now)
        cache.mark(cache.roll.gang_of[event.uid])


def decided(cache: Cache, event: ev.Decided, now: float) -> None:
    """Take a verdict; one that was made from an older picture counts only as far as it is still true.

    Seats may be gone since; room that was not there may be there now.
    """
    record = _still_asking(cache, event, now)
    if record is None:
        return
    decision, fresh = event.decision, event.generation == cache.nodes.generation
    if isinstance(decision, Place) and not plans.take_seats(cache, record, decision.seats, now):
        if not fresh:
            cache.wanting.ask_again()
            return
        decision = Wait(Reason.NO_ROOM)
    if isinstance(decision, Place):
        record.passed = event.short and event.fence > 0
        cache.tally.placements.append(decision.quality)
        cache.tally.decisions[Reason.SEATED] += 1
        plan = Plan(plans.name_of(record, decision.seats), dict(decision.seats))
        cache.do(plans.start(record, plan, now, cache.policy))
        record.verdict, record.verdict_for = None, None
    else:
        _keep(record, event, decision)
        record.verdict_standing = cache.standing
        record.verdict_version = cache.nodes.version if fresh else -1
        cache.tally.decisions[decision.reason] += 1
    cache.mark(record.key)


def _still_asking(cache: Cache, event: "ev.Decided | ev.Freed", now: float) -> GangRecord | None:
    """The gang, if it still asks what it asked; otherwise it is asked about again."""
    record = cache.roll.gangs.get(event.gang.key)
    if record is None or migration.request(cache, record, now) == event.gang:
        return record
    cache.wanting.ask_again()
    cache.mark(record.key)
    return None


def _keep(record: GangRecord, event: ev.Decided, decision: Wait | Refuse) -> None:
    record.verdict, record.verdict_for = decision, record.wanted
    record.verdict_room, record.verdict_fence = event.room, event.fence
    record.verdict_shape, record.verdict_short = event.shape, event.short
    record.verdict_until = float("inf")


def freed(cache: Cache, event: ev.Freed, now: float) -> None:
    """Hold the seats, and begin with asking others to leave."""
    record = _still_asking(cache, event, now)
    if record is None:
        return
    name = plans.name_of(record, event.preempt.seats)
    if not preemption.start(cache, record, event.preempt, name, now):
        cache.wanting.ask_again()
        return
    record.passed = False  # it may have passed another with the seats that it had before
    cache.tally.decisions[Reason.MAKING_ROOM] += 1
    cache.tally.preempted(event.preempt)
    record.verdict, record.verdict_for = None, None
    cache.mark(record.key)
