"""The reconciliation of one gang: its desired state compared with its actual state.

Called once after the events that affected the gang. Only this module knows the order of the rules: the gang's
specification, its lost seats, its time limit, its plan, and finally its messages.
"""

from scheduler.ledger import (
    attained_service,
    backoff,
    conditions,
    deadlines,
    healing,
    membership,
    migration,
    observed_runs,
    phase,
    pins,
    plans,
    preemption,
    quorum,
    runtime_limit,
)
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Plan, Spec, Step
from scheduler.ledger.phase import QUORUM_BOUND, UNDER_WAY, Facts, State
from scheduler.model.effects import Effect
from scheduler.model.queueing import Order, Waiting
from scheduler.model.workload import Gang

NEVER = float("inf")


def reconcile(cache: Cache, record: GangRecord, now: float) -> tuple[list[Effect], float]:
    """The effects for this gang now, and when time alone requires the next call."""
    # 1. Its specification; pods of an earlier run leave it.
    spec = membership.resolve(cache, record, now)
    # 2. Holds and exclusions that expire.
    _expire(cache, record, now)
    # 3. Broken pins: evicted, or released to be placed again.
    effects = pins.repair(cache, record, now)
    # 4. A quorum that was not bound in time is rolled back.
    effects += deadlines.enforce(cache, record, spec, now)
    # 5. Unneeded seats of lost members are released; replacements take theirs.
    if record.kept or cache.migrations.moves:
        migration.tend_places(cache, record, now)
        effects += migration.arrive(cache, record, now)
    # 6. The plan, one step further or dropped; marks of a dropped plan.
    effects += _advance_plan(cache, record, now)
    effects += plans.tidy(record, now)
    # 7. Members that were lost or never started.
    facts = quorum.facts(record, spec)
    healed = healing.heal(cache, record, facts, now)
    if healed is not None:
        effects += healed
        facts = quorum.facts(record, spec)
    # 8. The clock of this attempt, and the gang's backoff.
    backoff.note(record, now)
    deadlines.begin(cache, record, facts, now)
    # 9. The state that follows from the facts, and the consequences of entering it.
    _enter(cache, record, facts, now)
    cache.pending.note_state(record, facts)
    # 10. The end by its max-runtime.
    effects += runtime_limit.enforce(cache, record, now)
    # 11. Messages.
    told, again = tell(cache, record, now)
    return [*effects, *told], min(again, _wake(cache, record, now))


def tell(cache: Cache, record: GangRecord, now: float) -> tuple[list[Effect], float]:
    """The messages that are due now, and when time alone requires more.

    This is all that is needed for a gang of which only the verdict has changed.
    """
    cache.quotas.note(record)
    said = conditions.words(record)
    effects = list(conditions.due(record, said, cache.policy, cache.owners, cache.quotas, now))
    cache.member_conditions.note(record, said, now)
    return effects, conditions.next_due(record, said, cache.policy, now)


def _expire(cache: Cache, record: GangRecord, now: float) -> None:
    """End holds and exclusions that expire."""
    for member in record.members.values():
        if member.hold is not None and member.hold.until is not None and member.hold.until <= now:
            cache.release(member)
    if record.pinning.barred:
        pins.unbar(record, now)


def _advance_plan(cache: Cache, record: GangRecord, now: float) -> list[Effect]:
    """Advance the plan by a step, unless it lost its basis before any member was ungated."""
    plan = record.plan
    if plan is None or plan.step is Step.DONE:
        return []
    if preemption.is_stuck(cache, record, plan, now):
        return plans.drop(cache, record, now)
    undone = plan.step is Step.FREE or plans.is_reversible(record, plan)
    if undone and not _stands(cache, record, plan):
        effects = plans.drop(cache, record, now)
        if plan.spoiled:
            backoff.begin(record, cache.policy, now)
        return effects
    if plans.is_out_of_turn(record, plan):
        return plans.drop(cache, record, now)  # the rest is planned again
    if plan.step is Step.FREE:
        effects, freed = preemption.carry_on(cache, record, plan, now)
        if not freed:
            return effects
        effects += plans.start(record, plan, now, cache.policy)
    else:
        effects = plans.again(record, cache.policy, now)
    before = plan.step
    effects += plans.advance(record, cache.owners, cache.policy, now)
    if before < Step.UNGATE <= plan.step and all(m.pod.gated for m in record.live()):
        deadlines.restart(record)  # the first members are ungated now
    return effects


def _stands(cache: Cache, record: GangRecord, plan: Plan) -> bool:
    but = preemption.pods_waiting_for_victims(cache) | cache.migrations.names()
    return isinstance(record.spec, Spec) and plans.is_valid(record, plan, cache.nodes, but)


def _enter(cache: Cache, record: GangRecord, facts: Facts, now: float) -> None:
    """Record the state that follows from the facts, and the clock of the wait."""
    record.state = phase.state(facts)
    stood, record.gives_way = record.gives_way, record.state in QUORUM_BOUND or _stands_short(record, facts)
    if record.gives_way and not stood:
        cache.note_victim(record.priority)
    record.partly_bound = facts.quorum > 1 and 0 < facts.bound < facts.quorum
    if record.state in UNDER_WAY and record.waiting_since is None and not record.was_bound:
        record.waiting_since = now
    if record.state in QUORUM_BOUND:
        record.whole = facts.quorum
    record.grew = 0 < record.whole < facts.quorum
    if record.state in QUORUM_BOUND and not record.was_bound:
        record.was_bound = True
        backoff.reset(record)
        if record.waiting_since is not None:
            cache.counters.waits.append(now - record.waiting_since)
            cache.counters.starts.append((record.key, now))
        record.waiting_since = None
    if facts.bound == 0:
        record.was_bound, record.whole = False, 0
    elif record.partly_bound and not record.was_bound:  # a running member should go, and a budget kept it
        record.was_bound = any(member.worked and member.bound for member in record.live())
    if record.state is State.LEAVING:
        record.waiting_since = None
    observed_runs.keep(cache, record, now)
    cache.history.note(record, cache.owners, now)


def _stands_short(record: GangRecord, facts: Facts) -> bool:
    """Some members are bound without the rest, which may wait without end, so the preemptable pods are known."""
    if not facts.there or (record.plan is not None and record.plan.step is not Step.DONE):
        return False
    return all(m.bound or (m.hold is None and m.tied is None) for m in record.live())


def _wake(cache: Cache, record: GangRecord, now: float) -> float:
    times = [
        *pins.looks(record, cache.policy, now),
        record.backoff.not_before,
        record.health.look_at,
        record.runtime_limit.look_at,
        observed_runs.doubted_at(record),
    ]
    times += [member.tidied_at + plans.TIDY_EVERY for member in plans.untidy(record)]
    if record.plan is not None:
        times += record.plan.outstanding.values()
        times += preemption.wakes(record.plan)
    if record.bind_limit.by is not None:
        times.append(record.bind_limit.by)
    if record.bind_limit.roomless_since is not None:
        times.append(record.bind_limit.roomless_since + cache.policy.pin_grace)
    return min([time for time in times if time > now], default=NEVER)


def as_waiting(cache: Cache, record: GangRecord, wanted: Gang) -> Waiting:
    """Everything that decides this gang's turn. Values that the configured order ignores are not computed."""
    order = cache.policy.order
    return Waiting(
        wanted,
        record.arrived,
        first=record.partly_bound and not record.grew,
        attained=attained_service.before(record, cache.owners) if order is Order.LAS else 0.0,
        born=attained_service.born(record, cache.owners) if order is Order.LAS else None,
        runs=observed_runs.expect(cache, record) if order is Order.SHORTEST else None,
    )
