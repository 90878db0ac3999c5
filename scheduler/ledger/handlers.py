"""One function per event: how it changes the cache, and which gangs to reconcile. No rules.

Lives here: nodes, PodGroups, quotas, budgets, owners, the policy; calls of kube-scheduler and answers of the planner;
outcomes of effects and their retries; and whether Gangwright may act. Never here: what follows for a gang (reconcile),
or pods (membership).

An answer from an older snapshot counts as far as it is still valid. While the cache may be stale, facts are recorded
and no gang is reconciled. When it is current again, every time limit starts again: changes from that time arrive in no
order, and no gang loses its seats because of that time.
"""

from typing import Final

import numpy as np

from scheduler.ledger import (
    backoff,
    conditions,
    healing,
    membership,
    migration,
    plans,
    preemption,
    recovery,
)
from scheduler.ledger.backoff import RETRY_AFTER
from scheduler.ledger.cache import Cache, CatchUp
from scheduler.ledger.gang import GangRecord, Hold, Member, Plan
from scheduler.ledger.messages import Failure, Mishap
from scheduler.model import events as ev
from scheduler.model.decision import TEXT, Place, Reason, Wait
from scheduler.model.effects import Announce, Effect, Evict, SetCondition, SuspendJob
from scheduler.model.events import EffectFailed, FailureKind
from scheduler.model.workload import OwnerTraits


def node_seen(cache: Cache, event: ev.NodeSeen, _now: float) -> None:
    """A node was added or updated: seats held on it may be lost, and pods on it may be back."""
    back = event.node.name not in cache.nodes or healing.is_unreachable(event.node)
    if cache.nodes.seen(event.node):
        _node_changed(cache, event.node.name)
        if back and cache.ready:
            _tenants_touched(cache, event.node.name)


def node_gone(cache: Cache, event: ev.NodeGone, _now: float) -> None:
    """A node was deleted."""
    if cache.nodes.gone(event.name):
        _node_changed(cache, event.name)
        _tenants_touched(cache, event.name)


def _node_changed(cache: Cache, name: str) -> None:
    for uid in cache.held_on(name):
        cache.mark(cache.registry.gang_of[uid])


def _tenants_touched(cache: Cache, name: str) -> None:
    """Gangs with a pod on this node lost something, or have it back."""
    for uid in cache.nodes.on(name):
        if uid in cache.registry.gang_of:
            cache.mark(cache.registry.gang_of[uid])


def group_seen(cache: Cache, event: ev.GroupSeen, _now: float) -> None:
    """A PodGroup was added or updated."""
    cache.groups[event.group.format, event.group.key] = event.group
    cache.mark(event.group.key, spec_too=True)


def group_gone(cache: Cache, event: ev.GroupGone, _now: float) -> None:
    """A PodGroup was deleted."""
    cache.groups.pop((event.format, event.key), None)
    cache.mark(event.key, spec_too=True)


def budget_seen(cache: Cache, event: ev.BudgetSeen, _now: float) -> None:
    """A disruption budget was added or updated. While this replica is standby, no gang waits because of it."""
    cache.budgets.seen(event.budget, heed=cache.acting and cache.synced)


def budget_gone(cache: Cache, event: ev.BudgetGone, _now: float) -> None:
    """A disruption budget was deleted: its pods may be evicted."""
    cache.budgets.gone(event.namespace, event.name, heed=cache.acting and cache.synced)


def quota_seen(cache: Cache, event: ev.QuotaSeen, _now: float) -> None:
    """A ResourceQuota was added or updated."""
    if cache.quotas.seen(event.quota):
        _short_of_members_told(cache, event.quota.namespace)


def quota_gone(cache: Cache, event: ev.QuotaGone, _now: float) -> None:
    """A ResourceQuota was deleted."""
    cache.quotas.gone(event.namespace, event.name)
    _short_of_members_told(cache, event.namespace)


def _short_of_members_told(cache: Cache, namespace: str) -> None:
    """A quota explains missing members. Nothing else of a gang depends on it."""
    for key in cache.quotas.gathering(namespace):
        cache.mark_told(key)


def namespace_seen(cache: Cache, event: ev.NamespaceSeen, _now: float) -> None:
    """A namespace has other labels: selectors may select other pods."""
    if cache.neighbors.namespace_seen(event.name, event.labels):
        cache.nodes.reopened()
        for record in cache.pending.queue():
            cache.mark(record.key)


def owner_seen(cache: Cache, event: ev.OwnerSeen, now: float) -> None:
    """An owner was added or updated."""
    cache.jobs_to_resume.seen(event.traits, now)
    cache.registry.asleep.seen(event.traits)
    before = cache.owners.get(event.traits.uid)
    cache.owners[event.traits.uid] = event.traits  # its version may differ when nothing else does
    if before != event.traits:
        changed = before is None or _counting_traits(before) != _counting_traits(event.traits)
        for key in cache.registry.concerned(event.traits.uid):
            cache.mark(key, spec_too=changed)
    if cache.freeing and (before is None or before.version != event.traits.version):
        for key in preemption.waiting_for(cache, event.traits.uid):
            cache.mark(key)


def _counting_traits(traits: OwnerTraits) -> tuple[int, bool, bool]:
    """The fields of an owner that change how its gang counts: completions, and whether it creates more pods."""
    return traits.succeeded, traits.ended, traits.suspended


def owner_gone(cache: Cache, event: ev.OwnerGone, _now: float) -> None:
    """An owner was deleted."""
    cache.owners.pop(event.uid, None)
    for key in cache.registry.concerned(event.uid):
        cache.mark(key, spec_too=True)
    cache.jobs_to_resume.gone(event.uid)
    cache.registry.asleep.gone(event.uid)


def policy_changed(cache: Cache, event: ev.PolicyChanged, _now: float) -> None:
    """A new policy takes effect."""
    cache.policy = event.policy
    cache.share_usage.adopt(event.policy.shares)
    cache.nodes.grew()  # verdicts of waiting gangs may change
    if cache.acting:  # a takeover begins with new specs
        cache.catch_up(_resolve_all(cache))


MARKED: Final = 32
"""Marking a gang is quick: so many take as long as reconciling one."""


def _resolve_all(cache: Cache) -> CatchUp:
    """Reconcile every gang with a new spec."""
    yield 0
    for number, key in enumerate(list(cache.registry.gangs)):
        cache.mark(key, spec_too=True)
        if number % MARKED == 0:
            yield 1


def asked(cache: Cache, event: ev.Asked, _now: float) -> None:
    """kube-scheduler called Filter for a pod without Gangwright's gate."""
    member = cache.registry.member(event.uid)
    if member is None or member.bound:
        return
    key = cache.registry.gang_of[event.uid]
    record = cache.registry.gangs[key]
    scored = member.hold is not None and member.hold.until is not None
    if scored:
        cache.release(member)
    known = member.allowed if member.allowed_version == event.nodes_version else None
    if known is None or not np.array_equal(known, event.allowed):
        member.allowed, member.allowed_version = event.allowed, event.nodes_version
        record.verdict.ask_again()
        cache.pending.ask_again()
    elif record.seen_by_kube_scheduler and member.hold is None and not scored:
        return
    record.seen_by_kube_scheduler = True
    if member.hold is not None and not _within(cache, member, member.hold.node):
        cache.counters.reseats += 1
        cache.release(member)
    cache.mark(key)


def _within(cache: Cache, member: Member, node: str) -> bool:
    if member.allowed is None or member.allowed_version != cache.nodes.version:
        return True
    row = cache.snapshot().index.get(node)
    return row is not None and bool(member.allowed[row])


def scored(cache: Cache, event: ev.Scored, now: float) -> None:
    """Hold the best node briefly."""
    member = cache.registry.member(event.uid)
    if member is not None and not member.bound and (member.hold is None or member.hold.until is not None):
        cache.hold(member, Hold(event.node, "", now + cache.policy.score_hold), now)
        cache.mark(cache.registry.gang_of[event.uid])


def decided(cache: Cache, event: ev.Decided, now: float) -> None:
    """Record a verdict. One from an older snapshot only counts as far as it is still valid.

    Seats may be lost since then, and capacity may have been freed.
    """
    record = _still_asking(cache, event, now)
    if record is None:
        return
    decision, fresh = event.decision, event.generation == cache.nodes.generation
    if isinstance(decision, Place) and not plans.take_seats(cache, record, decision.seats, now):
        if not fresh:
            cache.pending.ask_again()
            return
        decision = Wait(Reason.INSUFFICIENT_RESOURCES)
    if isinstance(decision, Place):
        cache.counters.placements.append(decision.quality)
        cache.counters.decisions[Reason.SEATED] += 1
        plan = Plan(plans.name_of(record, decision.seats), dict(decision.seats))
        cache.do(plans.start(record, plan, now, cache.policy))
        record.verdict.forget()
    else:
        record.verdict.keep(decision, record.wanted, room=event.room, fence=event.fence)
        record.verdict.compare_by(event.shape, short=event.short)
        record.verdict.valid_while(
            victims_version=cache.victims_version, version=cache.nodes.version if fresh else -1
        )
        cache.counters.decisions[decision.reason] += 1
    cache.mark(record.key)


def _still_asking(cache: Cache, event: "ev.Decided | ev.VictimsChosen", now: float) -> GangRecord | None:
    """The gang, if its request is unchanged. Otherwise it is asked about again."""
    record = cache.registry.gangs.get(event.gang.key)
    if record is None or migration.request(cache, record, now) == event.gang:
        return record
    cache.pending.ask_again()
    cache.mark(record.key)
    return None


def victims_chosen(cache: Cache, event: ev.VictimsChosen, now: float) -> None:
    """Hold the seats and start the preemption."""
    record = _still_asking(cache, event, now)
    if record is None:
        return
    name = plans.name_of(record, event.preempt.seats)
    if not preemption.start(cache, record, event.preempt, name, now):
        cache.pending.ask_again()
        return
    cache.counters.decisions[Reason.WAITING_FOR_PREEMPTION] += 1
    cache.counters.preempted(event.preempt)
    record.verdict.forget()
    cache.mark(record.key)


def synced(cache: Cache, _event: ev.Synced, now: float) -> None:
    """Every list was read."""
    if not cache.synced:
        cache.synced = True
        _begin(cache, now)


def took_over(cache: Cache, _event: ev.TookOver, now: float) -> None:
    """This replica becomes active."""
    if not cache.acting:
        cache.acting = True
        _begin(cache, now)


def _begin(cache: Cache, now: float) -> None:
    """Once synced and active: leftovers of an earlier process come before everything new."""
    if cache.synced and cache.acting:
        cache.history.begin(now)
        cache.catch_up(recovery.adopt(cache))


def lost_sight(cache: Cache, _event: ev.LostSight, _now: float) -> None:
    """The cache may be stale from now on. A standby replica has nothing to stop."""
    cache.blind = cache.blind or (cache.synced and cache.acting)


def saw_again(cache: Cache, _event: ev.SawAgain, now: float) -> None:
    """Reconcile and ask about everything that was postponed, with new time limits."""
    if not cache.blind:
        return
    cache.blind = False
    cache.catch_up(recovery.resume(cache))
    cache.migrations.extend(now + cache.policy.timeout)
    cache.pending.ask_again()


_RUNS_ON: Final = "not restarted with the gang: a disruption budget protects its running pods"


def effect_done(cache: Cache, record: GangRecord, effect: Effect, now: float) -> None:
    """The effect succeeded."""
    if record.plan is not None and record.plan.outstanding.pop(effect, None) is not None:
        effect_failed = record.failed
        if effect_failed is not None and (
            effect_failed.uid == effect.uid or effect_failed.plan != record.plan.name
        ):
            record.failed = None
    if _asks_a_victim(record, effect):
        preemption.answered(cache, record, effect.uid, None, now)


def effect_failed(cache: Cache, record: GangRecord, event: EffectFailed, now: float) -> None:
    """The effect failed, perhaps permanently."""
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
    elif isinstance(effect, SuspendJob) and effect.stays is not None:
        _suspension_failed(record, effect, event)
    else:
        _effect_failed(cache, record, event, now)


def _eviction_failed(record: GangRecord, effect: Evict, kind: FailureKind, now: float) -> None:
    """Request a rejected eviction again. Not if a budget protects a running pod, unless its gang is ended."""
    member = record.members.get(effect.uid)
    if member is None or member.evicting is None:
        return
    ended = member.evicting is Reason.RUNTIME_EXCEEDED
    if member.bound and kind is FailureKind.BUDGET and member.stranded_since is None and not ended:
        if member.evicting is Reason.MEMBER_LOST:
            befell = [Mishap(member.pod, member.pod.key.name)]
            conditions.note_mishaps(record, Reason.MEMBER_LOST, befell, _RUNS_ON)
        member.set_evicting(None)
    else:
        member.evict_again = now + RETRY_AFTER[kind]


def _suspension_failed(record: GangRecord, effect: SuspendJob, event: EffectFailed) -> None:
    """Report once why the Job of a gang that is to end keeps running. A changed Job or an unavailable API server is not
    reported, only retried.
    """
    why, member = Reason.RUNTIME_EXCEEDED, record.members.get(effect.uid)
    text, said = f"Job {effect.owner.name} is not suspended: {event.message}", record.notices.get(why)
    if member is None or event.kind not in {FailureKind.FORBIDDEN, FailureKind.INVALID}:
        return
    if said is None or text not in said.message:
        conditions.note_mishaps(record, why, [Mishap(member.pod, f"{TEXT[why]}, and {text}")], _TRIED_AGAIN)


_TRIED_AGAIN: Final = "Gangwright keeps retrying"


def _effect_failed(cache: Cache, record: GangRecord, event: EffectFailed, now: float) -> None:
    """Retry temporary failures. An effect that the API server calls invalid is not retried."""
    plan = record.plan
    if plan is None or event.effect not in plan.outstanding:
        return
    _remember(record, plan, event)
    if event.kind is not FailureKind.INVALID:
        plan.outstanding[event.effect] = now + RETRY_AFTER[event.kind]
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
    """Record the failure for messages. If no member can be written, the first one is reported as long as it fails."""
    last, uid = record.failed, event.effect.uid
    if event.message and (last is None or last.uid == uid or last.plan != plan.name):
        record.failed = Failure(plan.name, uid, event.message)


def _asks_a_victim(record: GangRecord, effect: Effect) -> bool:
    asks = isinstance(effect, Evict | SuspendJob)
    return asks and record.plan is not None and record.plan.victim(effect.uid) is not None
