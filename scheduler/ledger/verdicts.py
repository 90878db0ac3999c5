"""What kube-scheduler's questions and the planner's answers change: marks, seats, plans, and the reasons to wait.

Lives here: how far an answer counts that was made from an older picture. Never here: the answer.
"""

from typing import TYPE_CHECKING

import numpy as np

from scheduler.ledger import freeing, plans
from scheduler.ledger.records import GangRecord, Hold, Member, Plan
from scheduler.model import events as ev
from scheduler.model.decision import Place, Reason, Refuse, Wait

if TYPE_CHECKING:
    from scheduler.ledger.ledger import Ledger


def asked(ledger: "Ledger", event: ev.Asked, _now: float) -> None:
    """kube-scheduler asked about a pod without our gate."""
    member = ledger.roll.member(event.uid)
    if member is None or member.bound:
        return
    key = ledger.roll.gang_of[event.uid]
    record = ledger.roll.gangs[key]
    scored = member.hold is not None and member.hold.until is not None
    if scored:
        ledger.release(member)
    known = member.allowed if member.allowed_version == event.nodes_version else None
    if known is None or not np.array_equal(known, event.allowed):
        member.allowed, member.allowed_version = event.allowed, event.nodes_version
        record.verdict_for = None
        ledger.wanting.ask_again()
    elif record.asked and member.hold is None and not scored:
        return
    record.asked = True
    if member.hold is not None and not _within(ledger, member, member.hold.node):
        ledger.tally.reseats += 1
        ledger.release(member)
    ledger.mark(key)


def _within(ledger: "Ledger", member: Member, node: str) -> bool:
    if member.allowed is None or member.allowed_version != ledger.nodes.version:
        return True
    row = ledger.snapshot().index.get(node)
    return row is not None and bool(member.allowed[row])


def scored(ledger: "Ledger", event: ev.Scored, now: float) -> None:
    """The best node is kept for a moment."""
    member = ledger.roll.member(event.uid)
    if member is not None and not member.bound and (member.hold is None or member.hold.until is not None):
        ledger.hold(member, Hold(event.node, "", now + ledger.policy.score_hold), now)
        ledger.mark(ledger.roll.gang_of[event.uid])


def decided(ledger: "Ledger", event: ev.Decided, now: float) -> None:
    """Take a verdict; one that was made from an older picture counts only as far as it is still true.

    Seats may be gone since; room that was not there may be there now.
    """
    record = _still_asking(ledger, event, now)
    if record is None:
        return
    decision, fresh = event.decision, event.generation == ledger.nodes.generation
    if isinstance(decision, Place) and not plans.take_seats(ledger, record, decision.seats, now):
        if not fresh:
            ledger.wanting.ask_again()
            return
        decision = Wait(Reason.NO_ROOM)
    if isinstance(decision, Place):
        record.passed = event.short and event.fence > 0
        ledger.tally.placements.append(decision.quality)
        ledger.tally.decisions[Reason.SEATED] += 1
        plan = Plan(plans.name_of(record, decision.seats), dict(decision.seats))
        ledger.do(plans.start(record, plan, now, ledger.policy))
        record.verdict, record.verdict_for = None, None
    else:
        _keep(record, event, decision)
        record.verdict_standing = ledger.standing
        record.verdict_version = ledger.nodes.version if fresh else -1
        ledger.tally.decisions[decision.reason] += 1
    ledger.mark(record.key)


def _still_asking(ledger: "Ledger", event: "ev.Decided | ev.Freed", now: float) -> GangRecord | None:
    """The gang, if it still asks what it asked; otherwise it is asked about again."""
    record = ledger.roll.gangs.get(event.gang.key)
    if record is None or ledger.request(record, now) == event.gang:
        return record
    ledger.wanting.ask_again()
    ledger.mark(record.key)
    return None


def _keep(record: GangRecord, event: ev.Decided, decision: Wait | Refuse) -> None:
    record.verdict, record.verdict_for = decision, record.wanted
    record.verdict_room, record.verdict_fence = event.room, event.fence
    record.verdict_shape, record.verdict_short = event.shape, event.short
    record.verdict_until = float("inf")


def freed(ledger: "Ledger", event: ev.Freed, now: float) -> None:
    """Hold the seats, and begin with asking others to leave."""
    record = _still_asking(ledger, event, now)
    if record is None:
        return
    name = plans.name_of(record, event.preempt.seats)
    if not freeing.start(ledger, record, event.preempt, name, now):
        ledger.wanting.ask_again()
        return
    record.passed = False  # it may have passed another with the seats that it had before
    ledger.tally.decisions[Reason.MAKING_ROOM] += 1
    ledger.tally.preempted(event.preempt)
    record.verdict, record.verdict_for = None, None
    ledger.mark(record.key)
