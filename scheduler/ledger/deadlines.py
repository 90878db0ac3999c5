"""The time limit for binding a gang's quorum. A gang that misses it is rolled back and backs off.

Lives here: the clock of one attempt. Never here: lost members of a gang that was complete (healing).
"""

from scheduler.ledger import backoff, pins, plans, quorum
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Spec, Step
from scheduler.ledger.phase import Facts
from scheduler.model.decision import Reason
from scheduler.model.effects import Effect
from scheduler.model.policy import Policy

_NO_ROOM = frozenset(
    {
        Reason.INSUFFICIENT_RESOURCES,
        Reason.TOPOLOGY_UNSATISFIED,
        Reason.NO_MATCHING_NODES,
        Reason.EXCEEDS_CLUSTER,
    }
)


def enforce(cache: Cache, record: GangRecord, spec: Spec | None, now: float) -> list[Effect]:
    """Roll the gang back if its ungated quorum was not bound in time.

    If it is clear earlier that the attempt fails, a gang that can be rolled back is rolled back at once.

    A gang that was complete before is never torn down for lost members: the rest of its quorum waits. It backs off only
    if none of its members run. Running members are idle until the others arrive, so the gang keeps the first claim.
    """
    if record.bind_limit.by is None:
        return []
    refused = [] if record.was_bound else pins.refused(record, cache.policy, now)
    early = record.bind_limit.by > now
    if early and not refused and not _lacks_room(record, cache.policy, now):
        return []
    facts = quorum.facts(record, spec)
    if facts.quorum and facts.bound >= facts.quorum:
        record.bind_limit.by = record.bind_limit.by if early else None
        return []
    roll_back = facts.bound == 0 or (not record.was_bound and pins.remakeable(record, cache.owners))
    if early and not roll_back:
        return []
    record.bind_limit.by = None
    for member in refused:  # nothing was bound in part, so a retry of this node costs nothing
        if member.hold is not None:
            pins.bar(record, member.hold.node, cache.policy, now, doubles=facts.bound > 0)
    effects: list[Effect] = []
    # Bound members go first, and the one that carries the plan last. After a crash between two evictions, the next
    # start still sees that the gang was never complete, as long as a member is bound.
    for member in sorted(record.live(), key=lambda m: 1 + (m.pod.plan is not None) if m.bound else 3):
        remade = roll_back and plans.remakes(member, cache.owners)
        wanted = remade if member.bound else pins.evictable(member)
        if wanted:
            effects.append(pins.evict(record, member, Reason.TIMED_OUT, cache.policy, now))
        elif not member.bound and member.hold is not None:
            cache.release(member)
            effects += [] if member.tied or member.pod.gated else plans.give_back(record, member)
    effects += plans.drop(cache, record, now)
    if roll_back or not any(member.bound for member in record.live()):
        backoff.begin(record, cache.policy, now)
    cache.counters.decisions[Reason.TIMED_OUT if roll_back else Reason.PARTIALLY_BOUND] += 1
    return effects


def begin(cache: Cache, record: GangRecord, facts: Facts, now: float) -> None:
    """Seats below the quorum are held for a limited time, which starts again when the first member is ungated.

    An ungated member that lost its seat continues under the same limit: successive seats are one attempt.
    For seats that wait for preemption the limit starts when the victims are deleted.
    """
    if facts.quorum and facts.bound >= facts.quorum:
        record.bind_limit.by = None
        return
    leased = record.plan.seats if record.plan is not None and record.plan.step is Step.FREE else ()
    free = (m for m in record.members.values() if m.live and m.pod.node is None)
    unbound = [m for m in free if m.pod.uid not in leased]
    held = any(m.hold is not None and m.hold.until is None for m in unbound)
    torn = 0 < facts.bound < facts.quorum and not record.was_bound
    astray = any(not m.pod.gated for m in unbound)
    if not (held or torn or astray):
        record.bind_limit.by = None
    elif record.bind_limit.by is None and (held or torn):
        record.bind_limit.by = now + time_limit(cache, record)


def restart(record: GangRecord) -> None:
    """Start the clock of this attempt again at the next look."""
    record.bind_limit.by = None


def extend(cache: Cache, record: GangRecord, now: float) -> None:
    """Give the gang its full time from now on, if it has a limit."""
    if record.bind_limit.by is not None:
        record.bind_limit.by = max(record.bind_limit.by, now + time_limit(cache, record))


def time_limit(cache: Cache, record: GangRecord) -> float:
    """Seconds for the whole quorum to be bound."""
    wanted = record.spec.wish.timeout if isinstance(record.spec, Spec) else None
    return cache.policy.timeout if wanted is None else wanted


def _lacks_room(record: GangRecord, policy: Policy, now: float) -> bool:
    """It is partially bound, and its required domain has had no capacity for the rest for a while. Another domain may
    fit all of it. Not at the first rejection, because terminating pods may free the capacity.
    """
    wanted, verdict = record.wanted, record.verdict.decision
    lacks = record.partly_bound and not record.was_bound and wanted is not None and wanted.required
    if not lacks or record.verdict.request is not wanted or verdict is None or verdict.reason not in _NO_ROOM:
        record.bind_limit.roomless_since = None
        return False
    if record.bind_limit.roomless_since is None:
        record.bind_limit.roomless_since = now
    return now - record.bind_limit.roomless_since >= policy.pin_grace
