"""Preemption for a gang: its seats are held at once, and the gang is ungated only when the victims have left.

Lives here: which victims were requested, which were denied, which still exist. The held seats overcommit their nodes so
that no other gang gets the freed resources. Nothing else protects these. Before any eviction, the plan with its victims
is written on the gang, so that a restart continues with these victims and takes no others. Never here: the choice of
victims. Everything ends on its own: if the preempting gang disappears, no more evictions are requested, and the
remaining victims stay.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from scheduler.ledger import attained_service, gang_spec, healing, plans, quorum
from scheduler.ledger.backoff import RETRY_AFTER
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Hold, Plan, Spec, Step, Victim, arrival
from scheduler.ledger.messages import GaveWay, called
from scheduler.ledger.preemption_history import line
from scheduler.model.decision import TEXT, Reason
from scheduler.model.effects import Announce, Effect, Evict, SuspendJob, WritePlan
from scheduler.model.events import FailureKind
from scheduler.model.preemption_units import Preempt, Unit
from scheduler.model.workload import GangKey, GiveWay, Pod, Uid

SPARED: Final = 300.0
"""Seconds for which a victim that did not leave is spared by the same gang, which tries others or waits."""


def start(cache: Cache, record: GangRecord, preempt: Preempt, name: str, now: float) -> bool:
    """Hold the seats and start to free them. False when the gang, a seat or a victim has changed."""
    members = [(record.members.get(uid), node) for uid, node in preempt.seats.items()]
    there = all(
        m is not None and m.live and m.hold is None and m.pod.node is None and cache.nodes.get(node)
        for m, node in members
    )
    if not there or not all(_as_chosen(cache, unit, set(preempt.uids)) for unit in preempt.victims):
        return False
    plan = Plan(name, dict(preempt.seats), Step.FREE, free_by=now + cache.policy.timeout)
    plan.units = preempt.victims
    for unit in preempt.victims:
        for uid, victim in _victims(cache, unit, now):
            plan.victims[uid] = victim
    cache.freeing[record.key] = plan
    for member, node in members:
        if member is not None:
            cache.hold(member, Hold(node, name), now)
    if _is_overdrawn(cache, record, plan, going(cache)):
        _undo_holds(cache, record, plan)
        return False
    record.plan = plan
    if preempt.victims:
        start_cooldown(record, now)
    for unit in preempt.victims:
        set_leaving(cache, unit.uids, Reason.PREEMPTED)
        if unit.way is GiveWay.EVICT:
            loser = cache.registry.gangs.get(unit.gang)
            cache.preemption_cycles.took(line(record), str(unit.gang) if loser is None else line(loser), now)
    cache.do(_persist(cache, record, plan, now))
    return True


def _as_chosen(cache: Cache, unit: Unit, taken: set[Uid]) -> bool:
    """All pods of the unit still run, and the victims include all or none of a gang's quorum. A rejected gang has no
    known quorum.
    """
    gang = cache.registry.gangs.get(unit.gang)
    if gang is None:
        pods = [cache.registry.foreign_pods.get(uid) for uid in unit.uids]
        return all(pod is not None and pod.node is not None and not pod.deleting for pod in pods)
    if gang.spec is None or not gang.gives_way:
        return False
    running = {m.pod.uid: m for m in gang.live() if m.bound}
    spec = gang.spec if isinstance(gang.spec, Spec) else None
    core = list(running.values()) if spec is None else quorum.core(gang, spec, running.values())[0]
    left = [member for member in core if member.pod.uid not in taken]
    return running.keys() >= set(unit.uids) and len(left) in {0, len(core)}


def _undo_holds(cache: Cache, record: GangRecord, plan: Plan) -> None:
    """Undo as if the seats had never been held: no capacity was freed by it."""
    room = cache.nodes.room_version
    del cache.freeing[record.key]
    for uid in plan.seats:
        member = record.members.get(uid)
        if member is not None:
            cache.release(member)
    cache.nodes.room_version = room


def _persist(cache: Cache, record: GangRecord, plan: Plan, now: float) -> list[Effect]:
    """Write the plan with its victims on the first gated member. For a gang without gates, a restart knows nothing."""
    gated = [m for uid in plan.seats if (m := record.members[uid]).pod.gated]
    if not (gated and plan.victims):
        return []
    pod = min(gated, key=arrival).pod
    plan.writer = pod.uid
    written = WritePlan(
        record.key, pod.uid, pod.key, plan.name, dict(plan.seats), tuple(sorted(plan.victims))
    )
    plan.outstanding[written] = now + cache.policy.outcome_limit
    return [written]


def _victims(cache: Cache, unit: Unit, now: float) -> Iterator[tuple[Uid, Victim]]:
    """For a Job to suspend, its first pod gets the request for all."""
    gang = cache.registry.gangs.get(unit.gang)
    had = attained_service.so_far(gang, cache.owners, now) if gang is not None else 0.0
    for number, uid in enumerate(unit.uids):
        pod = cache.registry.pod(uid)
        if pod is not None:
            asks = unit.way is GiveWay.EVICT or number == 0
            where = None if cache.registry.gang_of.get(uid) else pod.node
            yield uid, Victim(pod.key, unit.gang, unit.way, had, pod.owner, where, sends_request=asks)


def set_leaving(cache: Cache, uids: Iterable[Uid], reason: Reason | None) -> None:
    """Mark these pods as leaving; without a reason, as staying. A leaving pod does not count for its gang."""
    for uid in uids:
        member = cache.registry.member(uid)
        if member is not None and member.evicting in {None, Reason.PREEMPTED}:
            member.set_evicting(reason)
            member.evict_again = float("inf")
            if reason is None:
                cache.note_victim(member.pod.priority)
            cache.mark(cache.registry.gang_of[uid], spec_too=True)


def carry_on(cache: Cache, record: GangRecord, plan: Plan, now: float) -> tuple[list[Effect], bool]:
    """Send the due requests. True: all victims have left and the seats are free, so the plan continues as any other."""
    for uid in [uid for uid in plan.victims if _is_gone(cache, cache.registry.pod(uid))]:
        _pass_on(plan, uid, plan.victims.pop(uid))
    if not plan.victims and not _is_overdrawn(cache, record, plan):
        cache.freeing.pop(record.key, None)
        plan.step = Step.PERSIST
        for uid in plan.seats:
            # That kube-scheduler could not place it before says nothing about its seat.
            if (member := record.members.get(uid)) is not None and member.failing_since is not None:
                member.failing_since = now
        return [], True
    if plan.outstanding:
        return plans.again(record, cache.policy, now), False
    return list(_ask(cache, record, plan, now)), False


def _pass_on(plan: Plan, uid: Uid, gone: Victim) -> None:
    """If the pod with the request for its Job is deleted, another pod of that Job takes over."""
    if gone.request_sent and not gone.accepted:
        plan.parted[uid] = gone
    if gone.sends_request and gone.way is GiveWay.SUSPEND:
        for victim in plan.victims.values():
            if victim.way is GiveWay.SUSPEND and victim.owner == gone.owner:
                victim.sends_request, victim.again = True, gone.again if gone.request_sent else victim.again
                victim.request_sent, victim.accepted = gone.accepted, gone.accepted
                return


def _is_gone(cache: Cache, pod: Pod | None) -> bool:
    """Deleted, or terminating on an unreachable node, where no seat of a plan can be (`plans.is_valid`)."""
    if pod is None or pod.phase.ended:
        return True
    node = cache.nodes.get(pod.node) if pod.deleting and pod.node is not None else None
    return node is not None and healing.is_unreachable(node)


def _is_overdrawn(cache: Cache, record: GangRecord, plan: Plan, but: Collection[Uid] = ()) -> bool:
    """A node of the plan has too few resources for its member, even without the pods in `but`."""
    seats = ((node, m.pod.demand) for uid, node in plan.seats.items() if (m := record.members.get(uid)))
    return cache.nodes.is_any_overdrawn(seats, but)


def going(cache: Cache) -> set[Uid]:
    """Pods that will free their resources: they are terminating, or their eviction was requested."""
    return {*cache.deleted, *(uid for plan in cache.freeing.values() for uid in plan.victims)}


def pods_waiting_for_victims(cache: Cache) -> set[Uid]:
    """Pods with seats that wait for victims. They take nothing from a plan with seats of its own."""
    return {uid for plan in cache.freeing.values() for uid in plan.seats}


def waiting_for(cache: Cache, owner: str) -> Iterator[GangKey]:
    """Gangs that wait for pods of this owner to leave."""
    for key, plan in cache.freeing.items():
        if any(victim.owner is not None and victim.owner.uid == owner for victim in plan.victims.values()):
            yield key


def _ask(cache: Cache, record: GangRecord, plan: Plan, now: float) -> Iterator[Effect]:
    """Requests for further victims, as many per namespace as its limit allows."""
    asked = Counter(
        victim.key.namespace
        for other in cache.freeing.values()
        for victim in other.victims.values()
        if victim.request_sent
    )
    for uid, victim in plan.victims.items():
        pod = cache.registry.pod(uid)
        leaves = pod is None or (pod.deleting and victim.request_sent)
        if pod is None or leaves or not victim.sends_request or victim.again > now:
            continue
        if victim.way is GiveWay.SUSPEND and _is_suspended(cache, victim):
            victim.request_sent, victim.accepted, victim.again = True, True, float("inf")
            continue
        if not victim.request_sent and asked[victim.key.namespace] >= cache.policy.evictions_per_namespace:
            continue
        asked[victim.key.namespace] += not victim.request_sent
        victim.request_sent = True
        victim.again = now + cache.policy.outcome_limit
        yield _request(cache, record, uid, victim)


def _is_suspended(cache: Cache, victim: Victim) -> bool:
    """Its Job is already suspended, perhaps by an operator, who then decides about it: its pods leave without a
    request.
    """
    traits = cache.owners.get(victim.owner.uid) if victim.owner is not None else None
    return traits is not None and traits.suspended


def _request(cache: Cache, record: GangRecord, uid: Uid, victim: Victim) -> Effect:
    if victim.way is GiveWay.SUSPEND and victim.owner is not None:
        key = victim.key._replace(name=victim.owner.name)
        traits = cache.owners.get(victim.owner.uid)
        version = traits.version if traits is not None else ""
        return SuspendJob(record.key, uid, key, victim.owner, victim.attained, version)
    return Evict(record.key, uid, victim.key, Reason.PREEMPTED)


def answered(cache: Cache, record: GangRecord, uid: Uid, kind: FailureKind | None, now: float) -> None:
    """Record the outcome of a victim's request; kind None: it is terminating."""
    victim = record.plan.victim(uid) if record.plan is not None else None
    if record.plan is None or victim is None:
        return
    record.plan.parted.pop(uid, None)
    victim.protected = kind is FailureKind.BUDGET
    if kind is None:
        if not victim.accepted:
            cache.do([_gave_way(cache, record, record.plan, uid, victim, now)])
        victim.accepted, victim.again = True, float("inf")
        # The deletion of its pods follows a moment later.
        record.plan.free_by = max(record.plan.free_by, now + cache.policy.outcome_limit)
    elif kind is FailureKind.INVALID:
        victim.again = float("inf")
    else:
        victim.again = now + RETRY_AFTER[kind]


def _gave_way(cache: Cache, record: GangRecord, plan: Plan, uid: Uid, victim: Victim, now: float) -> Announce:
    """Report to the victim that it leaves for this gang, and record it. Denied requests are not reported."""
    speaker = min(record.members.values(), key=arrival).pod
    name = speaker.key.name if gang_spec.is_gang_of_one(record.key) else record.key.name
    loser = cache.registry.gangs.get(victim.gang)
    if loser is not None:
        loser.preemption.gave_way = GaveWay(record.key, name, record.priority, now)
    if victim.node is not None and victim.owner is not None:
        cache.spared_owners.leave_alone(victim.owner.uid, now)
        cache.spared_owners.made_room(victim.node, record.key)
    # A controller is notified once, however many of its pods leave.
    owner = (
        victim.owner if victim.owner is not None and victim.owner.uid not in plan.notified_owners else None
    )
    plan.notified_owners |= {owner.uid} if owner is not None else set()
    full = f"{record.key.namespace}/{name}"
    winner = called("gang", full, speaker.uid, hidden=record.key.namespace != victim.key.namespace)
    text = f"{TEXT[Reason.PREEMPTED]}: {winner}, priority {record.priority}"
    evicted = victim.way is GiveWay.EVICT
    return Announce(victim.gang, uid, victim.key, owner, Reason.PREEMPTED, text, disrupted=evicted)


def is_stuck(cache: Cache, record: GangRecord, plan: Plan, now: float) -> bool:
    """The preemption will not succeed. Either a pod doesn't leave within the start time of a gang, for example because
    of a budget or a resumed Job. Or a budget takes a gang apart. Or others took the resources, so that they will be
    missing when all have left.
    """
    if plan.step is not Step.FREE:
        return False
    return (
        (now >= plan.free_by and any(_staying(cache, plan)))
        or any(_taken_apart(cache, plan))
        or _is_overdrawn(cache, record, plan, going(cache))
    )


def _taken_apart(cache: Cache, plan: Plan) -> Iterator[bool]:
    """A disruption budget allowed some evictions of a gang and prevents the others. The recreated pods have no capacity
    to become ready, so the budget never allows more. The gang stands still until the plan is abandoned.
    """
    for unit in plan.units:
        left = [(uid, plan.victims[uid]) for uid in unit.uids if uid in plan.victims]
        kept = any(victim.protected and not _leaves(cache.registry.pod(uid)) for uid, victim in left)
        gone = len(left) < len(unit.uids) or any(victim.accepted for _, victim in left)
        yield kept and gone


def _staying(cache: Cache, plan: Plan) -> list[Uid]:
    """Victims that are not terminating yet."""
    return [uid for uid in plan.victims if not _leaves(cache.registry.pod(uid))]


def wakes(plan: Plan) -> Iterator[float]:
    """When requests are repeated, and when the plan is abandoned if a victim stays."""
    if plan.step is Step.FREE:
        yield plan.free_by
        yield from (victim.again for victim in plan.victims.values())


def give_up(cache: Cache, key: GangKey, plan: Plan, now: float) -> None:
    """Request no more evictions for this plan. The remaining victims count again."""
    cache.freeing.pop(key, None)
    staying = _staying(cache, plan)
    set_leaving(cache, staying, None)
    record = cache.registry.gangs.get(key)
    if record is not None:
        stubborn = [uid for uid in staying if plan.victims[uid].request_sent]
        record.preemption.spared |= dict.fromkeys(stubborn, now + SPARED)


def _leaves(pod: Pod | None) -> bool:
    return pod is None or pod.deleting or pod.phase.ended


def start_cooldown(record: GangRecord, now: float) -> None:
    """Pods were preempted for this gang."""
    record.preemption.at = now


def spared(record: GangRecord, now: float) -> frozenset[Uid]:
    """Victims that did not leave at this gang's last request."""
    notes = record.preemption
    notes.spared = {uid: until for uid, until in notes.spared.items() if until > now}
    return frozenset(notes.spared)
