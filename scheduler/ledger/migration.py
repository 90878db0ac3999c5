"""Seats reserved for pods that their owners have not created yet: for gangs that move, and for lost members. Also for a
gang that others move for, until they have left.

Lives here: the leases; the order of a move's evictions; which seats of lost members are reserved, for how long, and
when that ends; and which pod takes a lease. A lease uses resources under its own name, so no other pod gets them. It
counts for its namespace as soon as its predecessor does not. A pod that moves is bound, or waits without a seat. The
node requirements of either contain no pin, so its replacement has the same. A member is lost if its gang was complete:
the rest of the gang is idle until the replacement runs.

Never here: the destination of a move (engine.drain, engine.defragmentation). Everything ends on its own: an unused
lease is released, and a rejected eviction ends a move that has not started. All of it is in memory: a restart forgets
the leases, and an evicted pod waits in the queue.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from scheduler.ledger import fault_isolation, gang_spec, healing, pins, plans, quorum
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Member, Plan, Spec
from scheduler.ledger.leases import Lease, Migration
from scheduler.ledger.registry import lineage
from scheduler.model import events as ev
from scheduler.model.decision import TEXT, Reason, Wait
from scheduler.model.durations import doubled
from scheduler.model.effects import Announce, Effect
from scheduler.model.workload import Gang, GangKey, Owner, Phase, Role, Uid

AGAIN: Final = 5.0
"""Seconds until the eviction of a member of a partially moved gang is retried. A disruption budget changes slowly."""


SHOWN: Final = 8
"""Nodes that a message names."""


# ── begin ───────────────────────────────────────────────────────────────────────────────────────────────


def begin(cache: Cache, event: ev.MoveFound, now: float) -> None:
    """Reserve the seats and start the move. Nothing happens if the gang has changed."""
    record = cache.registry.gangs.get(event.gang)
    members = [record.members.get(uid) for uid in event.seats] if record is not None else []
    there = all(m is not None and m.live for m in members) and all(
        node in cache.nodes for node in event.seats.values()
    )
    if record is None or not isinstance(record.spec, Spec) or not there or record.key in cache.migrations:
        return
    if not event.seats:
        return  # a drain found no other capacity for any of them
    leases = [
        Lease(uid, node, quorum.role_of(record.members[uid], record.spec), record.members[uid].pod.demand)
        for uid, node in event.seats.items()
    ]
    going = [
        uid for uid in event.leaving if (m := record.members.get(uid)) is not None and m.bound and m.live
    ]
    line = lineage(record.key, next(iter(record.members.values())).pod)
    if (vacancy := cache.migrations.vacancy(record.key)) is not None:
        _is_over(cache, record, vacancy, now)
    move = Migration(record.key, line, event.whole, [], going, now + cache.policy.timeout)
    cache.migrations.put(move)
    for lease in leases:
        keep(cache, move, lease)
    if not event.leaving:  # others leave for it
        record.verdict.wait_until_cleared(Wait(Reason.WAITING_FOR_PREEMPTION))
    cache.counters.decisions[Reason.MOVED if event.leaving else Reason.WAITING_FOR_PREEMPTION] += 1
    cache.do(_tell(record, going, event))
    cache.mark(record.key)


def keep(cache: Cache, move: Migration, lease: Lease) -> None:
    """The seat uses resources from now on, and counts for the gang's namespace."""
    move.leases.append(lease)
    cache.nodes.put(lease.name, lease.node, lease.demand)
    cache.share_usage.keep(lease.name, lease.old, move.gang.namespace, lease.demand)


def _tell(record: GangRecord, going: list[Uid], event: ev.MoveFound) -> Iterator[Effect]:
    if going:
        pod = record.members[going[0]].pod
        nodes = ", ".join(sorted(set(event.seats.values()))[:SHOWN])
        text = (
            f"{TEXT[Reason.MOVED]}: {len(going)} pod(s) are evicted, first on {pod.node}; reserved: {nodes}"
        )
        yield Announce(record.key, pod.uid, pod.key, pod.owner, Reason.MOVED, text)


def gang_of(
    cache: Cache,
    record: GangRecord,
    spec: Spec,
    core: Iterable[Member],
    surplus: Iterable[Member],
    without: str,
) -> Gang:
    """The request to the planner for members that need other seats, none on the node `without`.

    Members that stay are anchors.
    """
    keys = cache.neighbors.keys(record.key.namespace)
    roles: dict[tuple[str, quorum.Likeness], tuple[list[Uid], list[Uid]]] = {}
    moving: set[Uid] = set()
    for which, members in enumerate((core, surplus)):
        for member in members:
            role = (quorum.role_of(member, spec), quorum.Likeness.of(member.pod, keys))
            roles.setdefault(role, ([], []))[which].append(member.pod.uid)
            moving.add(member.pod.uid)
    anchors = tuple(
        sorted(m.pod.node for m in record.live() if m.pod.node is not None and m.pod.uid not in moving)
    )
    asked = quorum.asked(
        record,
        spec,
        cache.policy,
        tuple(alike.role(name, own, more) for (name, alike), (own, more) in roles.items()),
        anchors,
    )
    return replace(asked, barred=asked.barred | {without} if without else asked.barred)


# ── go ──────────────────────────────────────────────────────────────────────────────────────────────────


def carry_on(cache: Cache, now: float) -> list[Effect]:
    """The next evictions of all moves. Moves that are over end."""
    effects: list[Effect] = []
    for move in cache.migrations.to_see_to(now):
        record = cache.registry.gangs.get(move.gang)
        with fault_isolation.Guard(cache, move.gang, now):
            if record is not None and record.rests_until <= now:
                effects += _go(cache, record, move, now)
            if now >= move.by:
                _is_over(cache, record, move, now)
                cache.mark(move.gang)
            if not move.leases and not move.going:
                cache.migrations.drop(move)
    return effects


def _go(cache: Cache, record: GangRecord, move: Migration, now: float) -> list[Effect]:
    """Of an entire gang the first member goes alone: if a disruption budget forbids that, nothing has happened."""
    begun = _has_begun(record, move)
    for uid in [uid for uid in move.asked if (m := record.members.get(uid)) is not None and m.live]:
        if begun and move.whole:
            _ask_again(cache, record, record.members[uid], now)
        else:
            _stay(cache, move, uid, now)
    if not move.going or (move.asked and not begun):
        return []
    first = move.whole and not begun
    going, move.going = (move.going[:1], move.going[1:]) if first else (move.going, [])
    move.asked += going
    members = [m for uid in going if (m := record.members.get(uid)) is not None and m.live]
    cache.mark(record.key, spec_too=True)
    return list(healing.evict_all(cache, record, members, Reason.MOVED, now))


def _ask_again(cache: Cache, record: GangRecord, member: Member, now: float) -> None:
    """Half of the gang has left. The rest must follow as soon as its budget allows."""
    pins.evict(record, member, Reason.MOVED, cache.policy, now)
    member.evict_again = now + AGAIN
    cache.mark(record.key)


def _has_begun(record: GangRecord, move: Migration) -> bool:
    return any(_leaves(record.members.get(uid)) for uid in move.asked)


def _may_not_be(record: GangRecord, move: Migration) -> bool:
    """For an entire gang: a member is still to be requested, or the first was requested and may be denied."""
    return move.whole and bool(move.going or (move.asked and not _has_begun(record, move)))


def _leaves(member: Member | None) -> bool:
    return member is None or member.pod.deleting or member.pod.phase.ended


def _stay(cache: Cache, move: Migration, uid: Uid, now: float) -> None:
    """Its eviction was denied: the seats reserved for it, or for the entire gang, are not needed."""
    move.asked.remove(uid)
    for lease in list(move.leases):
        if lease.old == uid or move.whole:
            give_back(cache, move, lease)
    if move.whole:
        move.going = []
        cache.migrations.refuse(move.gang, now)


def _is_over(cache: Cache, record: GangRecord | None, move: Migration, now: float) -> None:
    """End the move, unless a member is still terminating: its owner may create the replacement only then. A move also
    continues while other pods terminate and its seats need their resources.
    """
    members = [record.members.get(lease.old) for lease in move.leases] if record is not None else []
    leaving = any(m is not None and m.pod.deleting and not m.pod.phase.ended for m in members)
    if leaving or (not move.vacancy and _is_making_room(cache, move)):
        cache.migrations.last(move, now + cache.policy.timeout)
        return
    for uid in move.asked:
        member = record.members.get(uid) if record is not None else None
        if member is not None and member.evicting is Reason.MOVED and not _leaves(member):
            member.set_evicting(None)
            cache.mark(move.gang, spec_too=True)
    move.going = []
    for lease in list(move.leases):
        give_back(cache, move, lease)


def _is_making_room(cache: Cache, move: Migration) -> bool:
    """A pod is terminating on a reachable node where a seat has too few free resources."""
    full = {lease.node for lease in move.leases if cache.nodes.is_overdrawn(lease.node, lease.demand)}
    heard = {
        name
        for name in full
        if (node := cache.nodes.get(name)) is not None and not healing.is_unreachable(node)
    }
    return any(pod.node in heard for pod in cache.deleted.values())


def give_back(cache: Cache, move: Migration, lease: Lease) -> None:
    """Release the seat. A vacancy without seats ends."""
    move.leases.remove(lease)
    if move.vacancy and not move.leases:
        cache.migrations.drop(move)
    cache.nodes.take(lease.name)
    cache.share_usage.keep_no_longer(lease.old)


# ── arrive ──────────────────────────────────────────────────────────────────────────────────────────────


def request(cache: Cache, record: GangRecord, now: float) -> Gang | None:
    """The current request to the planner for this gang, if any."""
    spec = record.spec
    if not isinstance(spec, Spec) or not cache.is_idle(record, now):
        return None
    wanted = quorum.request(record, spec, cache.policy, cache.neighbors.keys(record.key.namespace))
    kept = wanted is not None and match(cache, record, wanted)
    return None if kept else wanted


def match(cache: Cache, record: GangRecord, gang: Gang) -> dict[Uid, tuple[Migration, Lease]] | None:
    """A lease for each member of the quorum, and for surplus as far as they suffice. None: some have none."""
    free = [(move, lease) for move in cache.migrations.of(record) for lease in move.leases]
    if not free:
        return None
    found: dict[Uid, tuple[Migration, Lease]] = {}
    for role in gang.roles:
        for uid in (*role.quorum, *role.surplus):
            suiting = [pair for pair in free if _suits(cache, pair[1], role, uid)]
            if suiting:
                own = min(suiting, key=lambda pair: pair[1].old != uid)
                found[uid] = own
                free.remove(own)
            elif uid in role.quorum:
                return None
    return found or None


def _suits(cache: Cache, lease: Lease, role: Role, uid: Uid) -> bool:
    old, new = lease.demand, role.demand
    alike = (old.requests, old.selector, old.ports) == (new.requests, new.selector, new.ports)
    if lease.owner is not None:  # the replacement of a lost pod may require another node
        alike = old == new
    there = cache.nodes.admits(lease.node, new)
    waits = cache.registry.member(lease.old)
    own = lease.old == uid or _leaves(waits)
    return alike and there and own and lease.role == role.name


def arrive(cache: Cache, record: GangRecord, now: float) -> list[Effect]:
    """New members take the seats reserved for them, as soon as the previous pods have left."""
    if not cache.migrations.of(record) or not isinstance(record.spec, Spec) or not cache.is_idle(record, now):
        return []
    keys = cache.neighbors.keys(record.key.namespace)
    gang = quorum.request(record, record.spec, cache.policy, keys)
    found = match(cache, record, gang) if gang is not None else None
    if not found or any(_may_not_be(record, move) for move, _ in found.values()):
        return []
    if any(cache.nodes.is_overdrawn(own.node, own.demand) for _, own in found.values()):
        cache.migrations.wait(record.key)
        return []
    for move, lease in found.values():
        give_back(cache, move, lease)
    seats = {uid: lease.node for uid, (_, lease) in found.items()}
    return _sit_down(cache, record, seats, now)


def _sit_down(cache: Cache, record: GangRecord, seats: Mapping[Uid, str], now: float) -> list[Effect]:
    if not plans.take_seats(cache, record, seats, now):
        return []
    record.verdict.forget()
    plan = Plan(plans.name_of(record, seats), dict(seats))
    cache.mark(record.key)
    return plans.start(record, plan, now, cache.policy)


JOB_BACKOFF: Final = 10.0
"""Seconds that a Job waits after its first failure. Doubles after each further one."""

JOB_BACKOFF_LIMIT: Final = 360.0
"""Seconds at which that doubling ends, as documented by Kubernetes."""

KEPT: Final = 30.0
"""Seconds for an owner without a delay to create the pod on a busy cluster, and for the watch to report it."""

WATCHED_KINDS: Final = frozenset({"Job", "StatefulSet"})
"""Kinds of owners that Gangwright watches for deletion."""


def keep_place(cache: Cache, member: Member, now: float) -> None:
    """This member ended without success or was deleted: its seat is reserved if its gang was complete.

    Not if Gangwright or the cluster took it away, because the resources are for others. `tend_places` decides later,
    with all events known, whether the quorum needs it and a replacement will come.
    """
    pod, record = member.pod, cache.registry.gangs[cache.registry.gang_of[member.pod.uid]]
    ours = member.worked and record.was_bound and not quorum.is_surplus(member)
    taken = member.evicting is not None or pod.disrupted or pod.phase is Phase.SUCCEEDED
    if not cache.current or not ours or taken or pod.node is None or pod.owner is None:
        return
    spec = record.spec or gang_spec.spec(record, cache.groups, cache.policy)
    if not isinstance(spec, Spec) or spec.total < 2 or record.key in cache.migrations:
        return
    move = cache.migrations.vacancy(record.key)
    if move is None:
        move = Migration(record.key, lineage(record.key, pod), False, [], [], now, vacancy=True)
        cache.migrations.put(move)
    cache.migrations.last(move, max(move.by, now + _patience(cache, pod.owner)))
    lease = Lease(pod.uid, pod.node, quorum.role_of(member, spec), pod.demand, pod.owner)
    keep(cache, move, lease)


def _patience(cache: Cache, owner: Owner) -> float:
    """Seconds for which a seat is reserved: the owner's delay plus a margin."""
    traits = cache.owners.get(owner.uid)
    if owner.kind != "Job" or traits is None:
        return KEPT
    return KEPT + doubled(JOB_BACKOFF, traits.failed, JOB_BACKOFF_LIMIT)


def tend_places(cache: Cache, record: GangRecord, now: float) -> None:
    """Release seats that the quorum doesn't need, that are no longer available, or that fit no replacement."""
    move = cache.migrations.vacancy(record.key)
    if move is None:
        record.kept = ()
        return
    spec = record.spec
    missing = quorum.lacking(record, spec).lacks if isinstance(spec, Spec) else {}
    waits = any(member.bound for member in record.live()) and not _suits_none(cache, record, now)
    for lease in list(move.leases):
        if waits and missing.get(lease.role, 0) > 0 and _is_to_be_had(cache, record, lease):
            missing[lease.role] -= 1
        else:
            give_back(cache, move, lease)
    record.kept = tuple(sorted(lease.node for lease in move.leases))


def give_back_places(cache: Cache, key: GangKey) -> None:
    """This gang no longer exists: none of it is idle and it needs no capacity. Its evicted pods are recreated."""
    move = cache.migrations.moves.get(key)
    if move is not None and not (move.going or move.asked):
        for lease in list(move.leases):
            give_back(cache, move, lease)


def _suits_none(cache: Cache, record: GangRecord, now: float) -> bool:
    """All missing members exist, but not each of them has a lease: the planner finds capacity for all."""
    if not isinstance(record.spec, Spec) or not cache.is_idle(record, now):
        return False
    keys = cache.neighbors.keys(record.key.namespace)
    gang = quorum.request(record, record.spec, cache.policy, keys)
    return gang is not None and match(cache, record, gang) is None


def _is_to_be_had(cache: Cache, record: GangRecord, lease: Lease) -> bool:
    """Its owner creates another pod, and the node admits it."""
    owner, node, demand = lease.owner, cache.nodes.get(lease.node), lease.demand
    if owner is None or node is None or lease.node in record.pinning.barred_nodes:
        return False
    traits = cache.owners.get(owner.uid)
    makes = not (traits.ended or traits.suspended) if traits is not None else owner.kind not in WATCHED_KINDS
    takes = cache.nodes.admits(lease.node, demand)
    return makes and takes and not cache.nodes.is_overdrawn(lease.node, demand)
