"""One gang looked at whole: what should be true of it, compared with what is.

Called after every event that touched the gang. The steps are in the order of their force: what the gang says
of itself, its lost seats, its time limit, its plan, and last what people are told.
"""

from collections.abc import Iterable
from dataclasses import replace

from scheduler.ledger import (
    backoff,
    completions,
    conditions,
    excluded_members,
    gang_spec,
    healing,
    member_mishaps,
    membership,
    migration,
    observed_runs,
    phase,
    pins,
    plans,
    preemption,
    quorum,
    vacancies,
)
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Member, Plan, Spec, Step
from scheduler.ledger.phase import STANDS, UNDER_WAY, Facts, State
from scheduler.model.decision import Reason, Refuse
from scheduler.model.effects import Effect, Nominate, WritePlan
from scheduler.model.policy import Policy
from scheduler.model.workload import Uid, gang_of_one

NEVER = float("inf")

EVICTIONS_EVERY = 1.0
"""Seconds until broken pins beyond the gang's budget of evictions are looked at again."""

TIDY_EVERY = 5.0
"""Seconds until marks of a plan that is no more are taken off a pod once again, if they are still seen there."""


def look_after(cache: Cache, record: GangRecord, now: float) -> tuple[list[Effect], float]:
    """What is to be done for this gang now, and when time alone will next call for a look."""
    spec = _spec(cache, record)
    effects: list[Effect] = []
    _expire(cache, record, now)
    effects += _mend(cache, record, now)
    effects += _keep_time(cache, record, spec, now)
    vacancies.tend(cache, record, now)
    effects += migration.arrive(cache, record, now)
    effects += _carry_on(cache, record, now)
    effects += _tidy(record, now)
    facts = _facts(record, spec)
    healed = healing.heal(cache, record, facts, now)
    if healed is not None:
        effects += healed
        facts = _facts(record, spec)
    backoff.note(record, now)
    _set_time(cache, record, facts, now)
    _enter(cache, record, facts, now)
    cache.wanting.note_state(record, facts)
    told, again = tell(cache, record, now)
    return [*effects, *told], min(again, _wake(cache, record, now))


def tell(cache: Cache, record: GangRecord, now: float) -> tuple[list[Effect], float]:
    """What people are to be told now, and when time alone may call for more of it.

    All there is to do for a gang of which nothing but the verdict has changed.
    """
    cache.quotas.note(record)
    said = conditions.words(record)
    effects: list[Effect] = [*member_mishaps.due(record, cache.policy, now)]
    effects += conditions.due(record, said, cache.policy, cache.owners, cache.quotas, now)
    cache.telling.note(record, said, now)
    times = (
        member_mishaps.next_due(record, cache.policy),
        conditions.next_due(record, said, cache.policy),
        conditions.aside_due(record, cache.policy),
    )
    return effects, min((time for time in times if time > now), default=NEVER)


def _spec(cache: Cache, record: GangRecord) -> Spec | None:
    if record.spec is None:
        excluded_members.set_aside(cache, record)
        record.spec = spec = gang_spec.spec(record, cache.groups, cache.policy)
        if isinstance(spec, Refuse):
            record.verdict = spec
        elif isinstance(record.verdict, Refuse):
            record.verdict, record.verdict_for = None, None
        if isinstance(spec, Spec):
            if former := quorum.strangers(record, spec):
                _put_out(cache, record, former)
                completions.forget(record)  # what they completed counts for them alone
            spare = quorum.beyond_size(record, spec)
            cache.spares.put(record.key, spare)
            _put_out(cache, record, spare)
            if not spare and _take_back(cache, record, spec):
                return _spec(cache, record)
            record.spec = replace(spec, done=completions.done(record, spec, cache.owners))
        record.overlooked = gang_spec.overlooked(record)
    return record.spec if isinstance(record.spec, Spec) else None


def _put_out(cache: Cache, record: GangRecord, uids: Iterable[Uid]) -> None:
    for uid in uids:
        membership.move(cache, uid, gang_of_one(record.key.namespace, uid))


def _take_back(cache: Cache, record: GangRecord, spec: Spec) -> bool:
    """Pods that were beyond the stated size take the places that are free by now."""
    if not cache.spares.has(record.key) or not any(record.live()):
        return False  # who ended says nothing of the gang's size any more
    if (room := quorum.places_left(record, spec)) == 0:
        return False
    taken = cache.spares.take(record.key, room, cache.roll)
    for uid in taken:
        membership.move(cache, uid, record.key)
    record.spec = None  # who came back speaks for the gang again
    return bool(taken)


def _facts(record: GangRecord, spec: Spec | None) -> Facts:
    if spec is not None:
        return quorum.facts(record, spec)
    bound = sum(m.bound for m in record.live())
    return Facts(0, bound, 0, 0, 0, len(record.live()), there=bound, refused=isinstance(record.spec, Refuse))


def _expire(cache: Cache, record: GangRecord, now: float) -> None:
    """Holds, bars and quarrels that end by themselves."""
    if record.at_odds <= now:
        record.at_odds = float("-inf")
    for member in record.members.values():
        if member.hold is not None and member.hold.until is not None and member.hold.until <= now:
            cache.release(member)
    pins.unbar(record, now)


def _mend(cache: Cache, record: GangRecord, now: float) -> list[Effect]:
    """Broken pins: hard ones are evicted, soft ones are given back to be seated again."""
    policy = cache.policy
    effects = list(pins.evict_again(record, policy, now))
    for member, node, cause in pins.broken(record, cache.nodes, policy, now):
        hard = pins.evictable(member)
        if hard and pins.under_eviction(record) >= policy.evictions_per_gang:
            continue
        cache.tally.pins_broken[cause] += 1
        record.broken_pins += pins.bar(record, node, policy, now)
        record.soft = record.soft or record.broken_pins >= policy.broken_pins_until_soft
        if hard:
            effects.append(pins.evict(record, member, Reason.PIN_BROKEN, policy, now))
            continue
        cache.release(member)
        if member.tied is None:
            cache.tally.reseats += 1
            effects += _give_back(record, member)
    effects += pins.renominate(record, now)
    return effects


def _give_back(record: GangRecord, member: Member) -> list[Effect]:
    """A soft member without its gate goes on as one that kube-scheduler asked about."""
    record.asked = True
    member.failing_since = None
    pod = member.pod
    return [Nominate(record.key, pod.uid, pod.key, "", "")] if pod.nominated else []


def _keep_time(cache: Cache, record: GangRecord, spec: Spec | None, now: float) -> list[Effect]:
    """The quorum was let go and must be bound before its deadline, or the gang is rolled back.

    Where it is clear before that nothing will come of it, a gang that can be rolled back is so at once.

    A gang that was whole once is never taken down for members that it lost: the rest of its quorum waits. It backs off
    only where nobody of it runs: members that run stand idle until the others come, so those keep the first claim.
    """
    if record.deadline is None:
        return []
    refused = [] if record.was_bound else pins.refused(record, cache.policy, now)
    early = record.deadline > now
    if early and not refused and not _lacks_room(record, cache.policy, now):
        return []
    facts = _facts(record, spec)
    if facts.quorum and facts.bound >= facts.quorum:
        record.deadline = record.deadline if early else None
        return []
    roll_back = facts.bound == 0 or (not record.was_bound and pins.remakeable(record, cache.owners))
    if early and not roll_back:
        return []
    record.deadline = None
    for member in refused:  # where nothing was torn it costs nothing to try the node again
        if member.hold is not None:
            pins.bar(record, member.hold.node, cache.policy, now, doubles=facts.bound > 0)
    effects: list[Effect] = []
    for member in _as_they_leave(record):
        remade = roll_back and plans.remakes(member, cache.owners)
        wanted = remade if member.bound else pins.evictable(member)
        if wanted:
            effects.append(pins.evict(record, member, Reason.TIMED_OUT, cache.policy, now))
        elif not member.bound and member.hold is not None:
            cache.release(member)
            effects += [] if member.tied or member.pod.gated else _give_back(record, member)
    effects += _drop_plan(cache, record, now)
    if roll_back or not any(member.bound for member in record.live()):
        backoff.begin(record, cache.policy, now)
    cache.tally.decisions[Reason.TIMED_OUT if roll_back else Reason.PARTLY_BOUND] += 1
    return effects


def _lacks_room(record: GangRecord, policy: Policy, now: float) -> bool:
    """It is torn, and the domain that it asks for has had no room for the rest for a while; others may have some for all
    of it. Not at the first refusal: the room may be on its way, by pods that leave or are asked to.
    """
    wanted, verdict = record.wanted, record.verdict
    lacks = record.partly_bound and not record.was_bound and wanted is not None and wanted.required
    if not lacks or record.verdict_for is not wanted or verdict is None or verdict.reason not in _NO_ROOM:
        record.roomless_since = None
        return False
    if record.roomless_since is None:
        record.roomless_since = now
    return now - record.roomless_since >= policy.pin_grace


_NO_ROOM = frozenset({Reason.NO_ROOM, Reason.NO_DOMAIN, Reason.NO_NODE_MATCHES, Reason.NEVER_FITS})


def _as_they_leave(record: GangRecord) -> list[Member]:
    """Who is bound goes first, and of those last who carries the plan: should we die between two evictions, the next
    start still reads that the gang was never whole, for as long as anybody of it is bound.
    """
    return sorted(record.live(), key=lambda member: 1 + (member.pod.plan is not None) if member.bound else 3)


def _drop_plan(cache: Cache, record: GangRecord, now: float) -> list[Effect]:
    """Forget the plan and the seats of members that were not let go yet; a written plan is taken away.

    Who was let go keeps its seat, but for one that others had to leave first: with the plan goes the promise that they
    will.
    """
    plan, record.plan = record.plan, None
    if plan is None:
        return []
    effects: list[Effect] = []
    for uid, node in plan.seats.items():
        member = record.members.get(uid)
        if member is None or member.hold is None or member.hold.plan != plan.name:
            continue
        if member.live and member.tied is None:
            cache.release(member)
            effects += [] if member.pod.gated else _give_back(record, member)
        elif plan.step is Step.FREE and cache.nodes.is_overdrawn(node, member.pod.demand):
            cache.release(member)
            cache.mark(record.key)  # it cannot go elsewhere: its pin is broken
    writer = record.members.get(plan.writer) if plan.writer else None
    if writer is not None and writer.live and writer.pod.gated:
        writer.tidied_at = now
        effects.append(_unwrite(record, writer))
    return effects


def _unwrite(record: GangRecord, member: Member) -> Effect:
    return WritePlan(record.key, member.pod.uid, member.pod.key, "", {})


def _carry_on(cache: Cache, record: GangRecord, now: float) -> list[Effect]:
    """Take the plan a step further, unless it lost what it was made for before anybody was let go."""
    plan = record.plan
    if plan is None or plan.step is Step.DONE:
        return []
    if preemption.is_stuck(cache, record, plan, now):
        stay = preemption.resumed(cache, plan, now)
        return [*conditions.resumed(record, stay, now), *_drop_plan(cache, record, now)]
    undone = plan.step is Step.FREE or plans.is_reversible(record, plan)
    if undone and not _stands(cache, record, plan):
        effects = _drop_plan(cache, record, now)
        if plan.spoiled:
            backoff.begin(record, cache.policy, now)
        return effects
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
        record.deadline = None  # the first are let go now: the time begins anew
    return effects


def _stands(cache: Cache, record: GangRecord, plan: Plan) -> bool:
    return isinstance(record.spec, Spec) and plans.stands(record, plan, cache.nodes, preemption.booked(cache))


def _tidy(record: GangRecord, now: float) -> list[Effect]:
    """Marks on gated members of a plan that is no more: a nomination would keep room for nobody."""
    effects: list[Effect] = []
    for member in _untidy(record):
        if now < member.tidied_at + TIDY_EVERY:
            continue
        member.tidied_at = now
        pod = member.pod
        effects += [Nominate(record.key, pod.uid, pod.key, "", "")] if pod.nominated else []
        effects += [_unwrite(record, member)] if pod.plan else []
    return effects


def _untidy(record: GangRecord) -> list[Member]:
    return [m for m in record.live() if m.pod.gated and m.hold is None and (m.pod.nominated or m.pod.plan)]


def _set_time(cache: Cache, record: GangRecord, facts: Facts, now: float) -> None:
    """Seats are held below the quorum for a limited time, counted anew when the first member is let go.

    Who was let go and lost his seat goes on under the same limit: seats given one after the other are one try.
    For seats that others have to leave first there is none: it begins when they have left.
    """
    if facts.quorum and facts.bound >= facts.quorum:
        record.deadline = None
        return
    leased = record.plan.seats if record.plan is not None and record.plan.step is Step.FREE else ()
    unbound = [m for m in record.live() if m.pod.node is None and m.pod.uid not in leased]
    held = any(m.hold is not None and m.hold.until is None for m in unbound)
    torn = 0 < facts.bound < facts.quorum and not record.was_bound
    astray = any(not m.pod.gated for m in unbound)
    if not (held or torn or astray):
        record.deadline = None
    elif record.deadline is None and (held or torn):
        record.deadline = now + time_limit(cache, record)


def time_limit(cache: Cache, record: GangRecord) -> float:
    """Seconds that this gang has for all of its quorum to be bound."""
    wanted = record.spec.wish.timeout if isinstance(record.spec, Spec) else None
    return cache.policy.timeout if wanted is None else wanted


def _enter(cache: Cache, record: GangRecord, facts: Facts, now: float) -> None:
    """The state that the facts name, and the clock of the wait."""
    record.state = phase.state(facts)
    stood, record.gives_way = record.gives_way, record.state in STANDS or _stands_short(record, facts)
    if record.gives_way and not stood:
        cache.stands(record.priority)
    record.partly_bound = facts.quorum > 1 and 0 < facts.bound < facts.quorum
    if record.state in UNDER_WAY and record.waiting_since is None and not record.was_bound:
        record.waiting_since = now
    if record.state in STANDS:
        record.whole = facts.quorum
    record.grew = 0 < record.whole < facts.quorum
    if record.state in STANDS and not record.was_bound:
        record.was_bound, record.tries, record.not_before = True, 0, float("-inf")
        if record.waiting_since is not None:
            cache.tally.waits.append(now - record.waiting_since)
            cache.tally.starts.append((record.key, now))
        record.waiting_since = None
    if facts.bound == 0:
        record.was_bound, record.whole = False, 0
    elif record.partly_bound and not record.was_bound:  # a member at work was to go, and a budget kept it
        record.was_bound = any(member.worked and member.bound for member in record.live())
    if record.state is State.LEAVING:
        record.waiting_since = None
    observed_runs.keep(cache, record, now)


def _stands_short(record: GangRecord, facts: Facts) -> bool:
    """Some of it are at their places without the rest, who may wait for ever: so it is known what there is to take."""
    if not facts.there or (record.plan is not None and record.plan.step is not Step.DONE):
        return False
    return all(m.bound or (m.hold is None and m.tied is None) for m in record.live())


def _wake(cache: Cache, record: GangRecord, now: float) -> float:
    times = [
        *pins.looks(record, cache.policy),
        record.not_before,
        record.heal_at,
        record.at_odds,
        observed_runs.doubted_at(record),
    ]
    times += [member.tidied_at + TIDY_EVERY for member in _untidy(record)]
    if record.plan is not None:
        times += record.plan.outstanding.values()
        times += preemption.wakes(record.plan)
    if record.deadline is not None:
        times.append(record.deadline)
    if record.roomless_since is not None:
        times.append(record.roomless_since + cache.policy.pin_grace)
    if pins.under_eviction(record):
        times.append(now + EVICTIONS_EVERY)
    return min((time for time in times if time > now), default=NEVER)
