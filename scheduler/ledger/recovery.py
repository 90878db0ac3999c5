"""Recovery after a restart, a failover or a stale cache: started plans are finished or undone first.

Everything is read from the pods themselves, and only consistent data is trusted. Bound pods are facts. The seat of an
ungated pod is held again if there is capacity. A written plan continues only if all its pods exist, belong to the gang,
and all its seats fit together. Everything else is planned again.
"""

from collections.abc import Iterable, Iterator

from scheduler.ledger import deadlines, fault_isolation, gang_spec, phase, preemption, quorum, runtime_limit
from scheduler.ledger.cache import Cache, CatchUp
from scheduler.ledger.gang import GangRecord, Hold, Member, Plan, Spec, Step, Victim, arrival, was_tried
from scheduler.model.decision import Reason
from scheduler.model.effects import Effect, WritePlan
from scheduler.model.preemption_units import may_be_asked
from scheduler.model.queueing import Reclaim
from scheduler.model.workload import GangKey, GiveWay, Phase, PlanNote, Pod, gang_of_one


def adopt(cache: Cache) -> CatchUp:
    """Restore holds and plans from the pods, gang by gang, and undo untrusted plans. Every gang is to be reconciled then.

    Nothing is answered or reconciled meanwhile. Events between two turns are recorded as by a standby: a gang that is
    deleted is passed over, and a new one has nothing to restore.
    """
    now = yield 0
    # 1. Gangs with pods on their way to a seat, in the order of their turn.
    under_way: list[GangRecord] = []
    for record in list(cache.registry.gangs.values()):
        if _is_under_way(record):
            under_way.append(record)
        now = yield 1
    under_way.sort(key=lambda record: (-record.priority, record.arrived, record.key))
    # 2. Seats that kube-scheduler knows, pinned ones first.
    for believed in (_is_pinned, _is_nominated):
        for record in _there(cache, under_way):
            with fault_isolation.Guard(cache, record.key, now):
                for member in sorted(record.live(), key=arrival):
                    if believed(member.pod):
                        _adopt_seat(cache, record, member, now)
            now = yield len(record.members)
    # 3. Plans.
    for record in _there(cache, under_way):
        with fault_isolation.Guard(cache, record.key, now):
            cache.do(_adopt_plan(cache, record, now))
        now = yield len(record.members)
    # 4. The other seats, and what was reported.
    done: set[GangKey] = set()
    for record in _there(cache, [*under_way, *cache.registry.gangs.values()]):
        if record.key in done:
            continue
        done.add(record.key)
        with fault_isolation.Guard(cache, record.key, now):
            if any(m.pod.node is None for m in record.members.values()):
                runtime_limit.adopt(cache, record)
                _adopt_rest(cache, record, now)
            _adopt_history(cache, record, now)
        cache.mark(record.key, spec_too=True)
        now = yield len(record.members)


def resume(cache: Cache) -> CatchUp:
    """Give every gang its full time from now on, and reconcile it: the cache is current again."""
    now = yield 0
    for record in _there(cache, list(cache.registry.gangs.values())):
        with fault_isolation.Guard(cache, record.key, now):
            _begin_limits(cache, record, now)
        cache.mark(record.key)
        now = yield len(record.members)


def _begin_limits(cache: Cache, record: GangRecord, now: float) -> None:
    deadlines.extend(cache, record, now)
    if record.plan is not None and record.plan.step is Step.FREE:
        record.plan.free_by = max(record.plan.free_by, now + cache.policy.timeout)
    for member in record.members.values():
        if member.hold is not None and member.hold.until is not None:
            member.hold.until = max(member.hold.until, now + cache.policy.score_hold)
        if member.failing_since is not None:
            member.failing_since = now
        if member.starting_since is not None:
            member.starting_since = now
        if member.stranded_since is not None:
            member.stranded_since = now


def _is_under_way(record: GangRecord) -> bool:
    """A pod of it is not bound, and a plan or a seat was noted."""
    members = record.members.values()
    unbound = any(m.pod.node is None for m in members)
    return unbound and any(m.pod.plan is not None or m.pod.seat is not None for m in members)


def _there(cache: Cache, records: Iterable[GangRecord]) -> Iterator[GangRecord]:
    """Those that still exist when their turn comes."""
    return (record for record in records if cache.registry.gangs.get(record.key) is record)


def _adopt_history(cache: Cache, record: GangRecord, now: float) -> None:
    """Restore what was reported, and whether the gang was complete once."""
    live = record.live()
    record.told_waiting = record.told_waiting or any(m.pod.told is not None for m in live)
    on_its_way = record.plan is not None or any(m.hold is not None for m in live)
    said = gang_spec.spec(record, cache.groups, cache.policy)
    spec = said if isinstance(said, Spec) else None
    some_bound = any(m.bound for m in live)
    record.was_bound = not on_its_way and some_bound and not (spec and _never_whole(record, spec))
    if spec is None:
        return
    if record.was_bound:
        quorum.adopt_completions(record, spec)
    _look_back(record, spec, now)


def _look_back(record: GangRecord, spec: Spec, now: float) -> None:
    """Restore unseen events: since when its quorum waits, and which members failed beside running ones."""
    if record.was_bound and all(m.pod.phase is not Phase.FAILED for m in record.members.values()):
        return
    facts = quorum.facts(record, spec)
    if record.was_bound and facts.bound < facts.quorum:
        _note_failed(record)
    elif not record.was_bound and phase.state(facts) in phase.UNDER_WAY:
        core, _ = quorum.core(record, spec, record.live())
        record.waiting_since = min(now, max((m.pod.created for m in core), default=now))


def _note_failed(record: GangRecord) -> None:
    """Members that ran beside one that still runs: if the gang had restarted since, that one would be deleted.

    If the quorum is complete again, an earlier process knew of the loss: nothing else would have ungated the
    replacement.
    """
    first = min((m.pod.created for m in record.live() if m.bound), default=float("inf"))
    for member in record.members.values():
        bound_at = member.pod.bound_at
        if member.pod.phase is Phase.FAILED and bound_at is not None and first <= bound_at:
            member.worked = True


def _never_whole(record: GangRecord, spec: Spec) -> bool:
    """The objects prove that the quorum was never bound at one time: the gang is partially bound, not short of a
    member.

    Without proof it may have run complete, and running pods are not evicted on a guess.
    """
    notes = [m.pod.plan for m in record.members.values() if m.pod.plan is not None]
    return any(_unfinished(record, spec, note) for note in notes) or _of_one_time(record, spec)


def _unfinished(record: GangRecord, spec: Spec, note: PlanNote) -> bool:
    """The plan for a whole quorum got too few members bound, and no plan preceded it."""
    if any(m.bound and uid not in note.seats for uid, m in record.members.items()):
        return False
    named = {uid: record.members.get(uid) for uid in note.seats}
    counting = [m for m in named.values() if m is None or not quorum.is_surplus(m)]
    arrived = sum(m is None or m.pod.node is not None for m in counting)
    return arrived < spec.total <= len(counting)


def _of_one_time(record: GangRecord, spec: Spec) -> bool:
    """All members exist, none has ended or will end, and all were created before the first bind: none was lost yet."""
    members = list(record.members.values())
    if not all(m.live for m in members):
        return False
    counting = [m for m in members if not quorum.is_surplus(m)]
    bound = [m for m in counting if m.bound]
    if not len(bound) < spec.total <= len(counting):
        return False
    moments = [m.pod.bound_at for m in bound]
    known = [at for at in moments if at is not None]
    return bool(known) and len(known) == len(bound) and max(m.pod.created for m in counting) <= min(known)


def _is_pinned(pod: Pod) -> bool:
    """It can go nowhere else, so it comes before all that can."""
    return pod.seat is not None and pod.seat.node == pod.pinned


def _is_nominated(pod: Pod) -> bool:
    """The seat is not only noted on the pod: a note may be outdated."""
    return pod.seat is not None and pod.seat.node == pod.nominated


def _adopt_seat(cache: Cache, record: GangRecord, member: Member, now: float) -> bool:
    """An ungated pod with Gangwright's seat annotation is on its way there. False: there is no capacity for it."""
    pod = member.pod
    if pod.gated or pod.node is not None or pod.seat is None or member.hold is not None:
        return True
    record.seen_by_kube_scheduler = record.seen_by_kube_scheduler or pod.pinned is None
    if pod.pinned not in {None, pod.seat.node} or not cache.nodes.has_room(pod.seat.node, pod.demand):
        return False
    cache.hold(member, Hold(pod.seat.node, pod.seat.plan), now)
    return True


def _adopt_rest(cache: Cache, record: GangRecord, now: float) -> None:
    """Restore all or none of the seats without nomination: kube-scheduler cleared it, or Gangwright on release."""
    record.seen_by_kube_scheduler = record.seen_by_kube_scheduler or any(
        was_tried(m.pod) for m in record.live()
    )
    before = [m for m in record.live() if m.hold is None]
    if not all(_adopt_seat(cache, record, m, now) for m in sorted(before, key=arrival)):
        for member in before:
            if member.hold is not None:
                cache.release(member)


def _adopt_plan(cache: Cache, record: GangRecord, now: float) -> list[Effect]:
    """The first trustworthy plan continues. The others are removed if nothing came of them."""
    effects: list[Effect] = []
    begun = any(m.hold is not None or m.pod.node is not None for m in record.live())
    for writer in sorted(record.live(), key=arrival):
        note = writer.pod.plan
        if note is None or record.plan is not None:
            continue
        gated = [m for uid in note.seats if (m := record.members.get(uid)) is not None and m.pod.gated]
        if _adopt_freeing(cache, record, writer, now):
            continue
        astray = bool(note.victims) and any(
            m.live and not m.pod.gated and m.pod.node is None and m.hold is None for m in _of(record, note)
        )  # it never had Gangwright's gate, or was ungated before, and has no seat
        if gated and not astray and _believable(cache, record, note, gated, now):
            record.plan = Plan(note.plan, dict(note.seats), Step.PERSIST, writer=writer.pod.uid, begun=begun)
        elif writer.pod.gated:
            writer.tidied_at = now
            effects.append(WritePlan(record.key, writer.pod.uid, writer.pod.key, "", {}))
    return effects


def _of(record: GangRecord, note: PlanNote) -> list[Member]:
    return [m for uid in note.seats if (m := record.members.get(uid)) is not None]


def _was_let_go(member: Member, note: PlanNote) -> bool:
    """Ungated by this very plan, or bound."""
    seat = member.pod.seat
    return member.pod.node is not None or (
        not member.pod.gated and seat is not None and seat.plan == note.plan
    )


def _adopt_freeing(cache: Cache, record: GangRecord, writer: Member, now: float) -> bool:
    """If this plan's preemption is unfinished, hold the seats again and preempt no other pods. False: no victim is
    left, or the plan would not be valid now.
    """
    note = writer.pod.plan
    members = [] if note is None else _of(record, note)
    if note is None or len(members) < len(note.seats):
        return False
    if any(not m.live or m.hold is not None or _was_let_go(m, note) for m in members):
        return False
    record.seen_by_kube_scheduler = record.seen_by_kube_scheduler or not all(m.pod.gated for m in members)
    known = [cache.registry.pod(uid) for uid in note.victims]
    staying = [pod for pod in known if pod is not None and not pod.phase.ended]
    there = all(cache.nodes.get(node) is not None for node in note.seats.values())
    if not (staying and there and _may_take(cache, record, staying)):
        return False
    plan = Plan(note.plan, dict(note.seats), Step.FREE, writer=writer.pod.uid)
    plan.free_by = now + cache.policy.timeout
    plan.victims = {pod.uid: _victim(cache, pod) for pod in staying}
    record.plan = plan
    preemption.start_cooldown(record, now)
    for member in members:
        cache.hold(member, Hold(note.seats[member.pod.uid], note.plan), now)
    preemption.set_leaving(cache, plan.victims, Reason.PREEMPTED)
    cache.freeing[record.key] = plan
    return True


def _victim(cache: Cache, pod: Pod) -> Victim:
    """The victim as of the plan. Terminating pods and pods of suspended Jobs need no request."""
    own = cache.registry.gang_of.get(pod.uid)
    key, where = own or gang_of_one(pod.key.namespace, pod.uid), None if own else pod.node
    if not _leaves(cache, pod):
        return Victim(pod.key, key, GiveWay.EVICT, 0.0, pod.owner, where)
    way = GiveWay.EVICT if pod.deleting else GiveWay.SUSPEND
    return Victim(
        pod.key, key, way, 0.0, pod.owner, where, request_sent=True, accepted=True, again=float("inf")
    )


def _may_take(cache: Cache, record: GangRecord, staying: list[Pod]) -> bool:
    """All of them are terminating or may be preempted by what is known now. The author of the plan is not certain.

    A Job to suspend that is not suspended yet had no request, so the plan is made from scratch.
    """
    spec = gang_spec.spec(record, cache.groups, cache.policy)
    keys = cache.neighbors.keys(record.key.namespace)
    gang = quorum.request(record, spec, cache.policy, keys) if isinstance(spec, Spec) else None
    if gang is None or not cache.policy.preemption or not quorum.may_preempt(record, gang):
        return False
    leaving = {pod.uid for pod in staying if _leaves(cache, pod)}
    asked = [pod for pod in staying if pod.uid not in leaving]
    usage, own = cache.share_usage, gang.key.namespace
    claimed = usage.claims(gang) if cache.policy.reclaim is Reclaim.ANY else frozenset()
    borrowers = usage.borrowers(claimed, but=own)
    if usage.limits([pod.uid for pod in asked], preemption.going(cache) | leaving, own):
        return False  # a namespace would lose what it uses within its guarantee
    return all(
        (pod.priority < gang.priority or pod.key.namespace in borrowers)
        and may_be_asked(pod)
        and not _suspends(cache, pod)
        for pod in asked
    )


def _leaves(cache: Cache, pod: Pod) -> bool:
    """It is terminating, or its Job is suspended."""
    owner = cache.owners.get(pod.owner.uid) if pod.owner is not None else None
    return pod.deleting or (owner is not None and owner.suspended)


def _suspends(cache: Cache, pod: Pod) -> bool:
    owner = cache.owners.get(pod.owner.uid) if pod.owner is not None else None
    wish = pod.membership.wish.give_way if pod.membership is not None else None
    suspends = wish is GiveWay.SUSPEND and owner is not None and owner.suspends
    return suspends and owner is not None and len(list(cache.registry.owned_by(owner.uid))) == 1


def _believable(cache: Cache, record: GangRecord, note: PlanNote, gated: list[Member], now: float) -> bool:
    """All pods of the plan exist, and all pending seats fit together: they are held."""
    present = [m for uid in note.seats if (m := record.members.get(uid)) is not None and m.live]
    if len(present) < len(note.seats) or any(m.hold is not None for m in gated):
        return False
    taken: list[Member] = []
    for member in gated:
        node, demand = note.seats[member.pod.uid], member.pod.demand
        if not cache.nodes.admits(node, demand) or not cache.nodes.has_room(node, demand):
            for other in taken:
                cache.release(other)
            return False
        cache.hold(member, Hold(node, note.plan), now)
        taken.append(member)
    return True
