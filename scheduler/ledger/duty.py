"""Whether we may do anything: everything was read, it is we who act, and what we know is the present.

Lives here: what happens when that becomes true, or true again. Never here: how one knows (the service does).
While we are blind, facts are still taken in, but no gang is looked at: no plan is made, and nobody is evicted for a
limit or a lost seat. When we see again every limit begins anew: what came true meanwhile is told in no order, and
nobody loses his place for a time in which nobody looked.
"""

from scheduler.ledger import reconcile, recovery
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Step
from scheduler.model import events as ev


def synced(cache: Cache, _event: ev.Synced, now: float) -> None:
    """Every list has been read."""
    if not cache.synced:
        cache.synced = True
        _begin(cache, now)


def took_over(cache: Cache, _event: ev.TookOver, now: float) -> None:
    """It is we who act."""
    if not cache.acting:
        cache.acting = True
        _begin(cache, now)


def _begin(cache: Cache, now: float) -> None:
    """Once both are true: what an earlier run left behind comes before all that is new."""
    if not cache.ready:
        return
    cache.do(recovery.adopt(cache, now))
    for key in cache.roll.gangs:
        cache.mark(key, anew=True)


def lost_sight(cache: Cache, _event: ev.LostSight, _now: float) -> None:
    """From now on what we know may be the past. Who has nothing to do yet has nothing to leave off."""
    cache.blind = cache.blind or cache.ready


def saw_again(cache: Cache, _event: ev.SawAgain, now: float) -> None:
    """All that was put off is looked at, and asked about, under limits that begin anew."""
    if not cache.blind:
        return
    cache.blind = False
    for record in cache.roll.gangs.values():
        _begin_limits(cache, record, now)
        cache.mark(record.key)
    cache.moves.extend(now + cache.policy.timeout)
    cache.wanting.ask_again()


def _begin_limits(cache: Cache, record: GangRecord, now: float) -> None:
    if record.deadline is not None:
        record.deadline = max(record.deadline, now + reconcile.time_limit(cache, record))
    if record.plan is not None and record.plan.step is Step.FREE:
        record.plan.free_by = max(record.plan.free_by, now + cache.policy.timeout)
        for victim in record.plan.victims.values():
            victim.resumed = max(victim.resumed, now)
    for member in record.members.values():
        if member.hold is not None and member.hold.until is not None:
            member.hold.until = max(member.hold.until, now + cache.policy.score_hold)
        if member.failing_since is not None:
            member.failing_since = now
        if member.starting_since is not None:
            member.starting_since = now
        if member.stranded_since is not None:
            member.stranded_since = now
