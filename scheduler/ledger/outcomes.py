"""What became of effects, gang by gang.

Lives here: whose outcome it is, and when what failed is done again. Never here: how (reconcile, preemption, plans).
"""

from typing import Final

from scheduler.ledger import backoff, member_mishaps, membership, plans, preemption
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Plan
from scheduler.ledger.messages import Failure, Mishap, Sequel
from scheduler.model.decision import Reason
from scheduler.model.effects import Announce, Effect, Evict, SetCondition, SuspendJob
from scheduler.model.events import EffectFailed, FailureKind

RETRY = {
    FailureKind.UNAVAILABLE: 1.0,
    FailureKind.CONFLICT: 1.0,
    FailureKind.BUDGET: 5.0,
    FailureKind.FORBIDDEN: 3.0,
}
"""Seconds until an effect that failed for this is done again. A disruption budget changes slowly; an API server
that refuses may still be reading the policies that allow us what we do."""


_RUNS_ON: Final = Sequel(
    "a disruption budget keeps it from being restarted with its gang, so it runs on",
    "a disruption budget keeps them from being restarted with their gang, so they run on",
)


def done(cache: Cache, record: GangRecord, effect: Effect, now: float) -> None:
    """It came true."""
    if record.plan is not None and record.plan.outstanding.pop(effect, None) is not None:
        failed = record.failed
        if failed is not None and (failed.uid == effect.uid or failed.plan != record.plan.name):
            record.failed = None
    if _asks_a_victim(record, effect):
        preemption.answered(cache, record, effect.uid, None, now)


def failed(cache: Cache, record: GangRecord, event: EffectFailed, now: float) -> None:
    """It did not, and perhaps never will."""
    effect, kind = event.effect, event.kind
    if _asks_a_victim(record, effect):
        cache.counters.refusals[kind] += 1
        preemption.answered(cache, record, effect.uid, kind, now)
    if kind is FailureKind.NOT_FOUND:
        if record.plan is not None:
            record.plan.outstanding.pop(effect, None)
        if not isinstance(effect, SuspendJob):
            membership.forget(cache, effect.uid, now)
    elif isinstance(effect, Announce | SetCondition):
        if effect.seated is not None and kind is not FailureKind.INVALID:
            cache.member_conditions.failed(record, effect.uid, now)
    elif isinstance(effect, Evict):
        _eviction_failed(record, effect, kind, now)
    else:
        _effect_failed(cache, record, event, now)


def _eviction_failed(record: GangRecord, effect: Evict, kind: FailureKind, now: float) -> None:
    """A refused eviction is asked for again, except that of a running pod which its budget protects."""
    member = record.members.get(effect.uid)
    if member is None or member.evicting is None:
        return
    if member.bound and kind is FailureKind.BUDGET and member.stranded_since is None:
        if member.evicting is Reason.MEMBER_LOST:
            member_mishaps.note(
                record, Reason.MEMBER_LOST, [Mishap(member.pod, member.pod.key.name)], _RUNS_ON
            )
        member.evicting = None
    else:
        member.evict_again = now + RETRY.get(kind, 1.0)


def _effect_failed(cache: Cache, record: GangRecord, event: EffectFailed, now: float) -> None:
    """Passing failures are tried again; one that the API server calls invalid is of no use twice."""
    plan = record.plan
    if plan is None or event.effect not in plan.outstanding:
        return
    _remember(record, plan, event)
    if event.kind is not FailureKind.INVALID:
        plan.outstanding[event.effect] = now + RETRY[event.kind]
        return
    del plan.outstanding[event.effect]
    member = record.members.get(event.effect.uid)
    if member is None:
        return
    member.unpinnable, member.pinning = True, None
    if plans.is_reversible(record, plan):
        plan.spoiled = True
        return
    cache.release(member)
    backoff.begin(record, cache.policy, now)


def _remember(record: GangRecord, plan: Plan, event: EffectFailed) -> None:
    """What people are told of it. Of many members of which none can be written the first one speaks, as long as it
    fails.
    """
    last, uid = record.failed, event.effect.uid
    if event.message and (last is None or last.uid == uid or last.plan != plan.name):
        record.failed = Failure(plan.name, uid, event.message)


def _asks_a_victim(record: GangRecord, effect: Effect) -> bool:
    asks = isinstance(effect, Evict | SuspendJob)
    return asks and record.plan is not None and record.plan.victim(effect.uid) is not None
