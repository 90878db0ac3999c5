"""The execution of a plan: persist, nominate, ungate.

The plan of a gang of two or more is written on its first member before anything else happens. Then all soft members are
nominated while they are still gated. Only then is any gate removed: a nomination reserves resources against
kube-scheduler's other pods, a pin alone does not. Every step waits for the outcomes of the previous one, so a crash
leaves a prefix that the next start can finish.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Hold, Member, Plan, Step, arrival
from scheduler.ledger.node_table import NodeTable
from scheduler.model.demand import Demand
from scheduler.model.effects import Effect, Nominate, Ungate, WritePlan
from scheduler.model.policy import Policy
from scheduler.model.workload import OwnerTraits, Pin, Uid

TIDY_EVERY: Final = 5.0
"""Seconds between two attempts to remove marks of a dropped plan from a pod."""


def remakes(member: Member, owners: Mapping[str, OwnerTraits]) -> bool:
    """Its owner recreates this pod, and losing it before it ran counts as no failure."""
    owner = member.pod.maker
    traits = owners.get(owner.uid) if owner else None
    return traits is not None and traits.remakes_freely


def is_hard(record: GangRecord, member: Member, owners: Mapping[str, OwnerTraits], policy: Policy) -> bool:
    """The member is pinned by node affinity rather than nominated.

    Only deleting the pod undoes a pin. So a pod that no owner would recreate is never pinned, whatever was requested.
    Nor is a pod with a spread constraint that kube-scheduler would find violated on a single node.
    """
    if member.pod.maker is None or record.pinning.soft or member.unpinnable:
        return False
    if not member.pod.neighbors.pinnable:
        return False
    wish = record.pin_wish(policy.pin)
    if wish is not Pin.AUTO:
        return wish is Pin.HARD
    return not member.pod.unmodeled and remakes(member, owners)


def name_of(record: GangRecord, seats: Mapping[Uid, str]) -> str:
    """A name unique to these seats: the same plan is never written under two names, nor two under one."""
    text = "\n".join(f"{uid} {node}" for uid, node in sorted(seats.items()))
    return hashlib.sha256(f"{record.key}\n{record.backoff.tries}\n{text}".encode()).hexdigest()[:12]


def take_seats(cache: Cache, record: GangRecord, seats: Mapping[Uid, str], now: float) -> bool:
    """Hold every seat of a decision, or none of them. Then there is as much capacity as before, and no more."""
    name, room = name_of(record, seats), cache.nodes.room_version
    taken: list[Member] = []
    for uid, node in seats.items():
        member = record.members.get(uid)
        free = member is not None and member.hold is None and cache.nodes.has_room(node, member.pod.demand)
        if member is None or not free:
            break
        cache.hold(member, Hold(node, name), now)
        taken.append(member)
    if seats and len(taken) == len(seats) and is_valid(record, Plan(name, dict(seats)), cache.nodes):
        return True
    for member in taken:
        cache.release(member)
    cache.nodes.room_version = room
    return False


def start(record: GangRecord, plan: Plan, now: float, policy: Policy) -> list[Effect]:
    """Start a plan. Returns its first effect, or none if there is nothing to persist."""
    record.plan = plan
    gated = sorted((record.members[uid] for uid in plan.seats if record.members[uid].pod.gated), key=arrival)
    if len(gated) < 2:
        return []
    first = gated[0].pod
    plan.writer = first.uid
    return _send(
        plan, [WritePlan(record.key, first.uid, first.key, plan.name, dict(plan.seats))], now, policy
    )


def advance(
    record: GangRecord, owners: Mapping[str, OwnerTraits], policy: Policy, now: float
) -> list[Effect]:
    """The effects of the next step, once all effects of the last one have succeeded."""
    plan = record.plan
    effects: list[Effect] = []
    while plan is not None and plan.step is not Step.DONE and not plan.outstanding:
        if not plan.in_turn:
            plan.step = Step(plan.step + 1)
        if plan.step is Step.NOMINATE:
            effects += _send(plan, _nominations(record, plan, owners, policy), now, policy)
        elif plan.step is Step.UNGATE:
            ungatings = plan.in_turn or _ungatings(record, plan, owners, policy)
            plan.in_turn = []
            before = record.members.get(plan.turn) if plan.turn is not None else None
            if _has_order(record, plan, owners, policy):
                if ungatings and before is not None and before.live and not before.bound:
                    plan.in_turn = ungatings
                    break
                ungatings, plan.in_turn = ungatings[:1], ungatings[1:]
                plan.turn = ungatings[0].uid if ungatings else None
                effects += _send(plan, (_nomination(own) for own in ungatings if not own.pin), now, policy)
            for effect in ungatings:
                record.members[effect.uid].pinning = effect.node if effect.pin else None
            effects += _send(plan, ungatings, now, policy)
    return effects


def is_out_of_turn(record: GangRecord, plan: Plan) -> bool:
    """A member that waits for its turn lost its seat meanwhile, or the one before it did and is not bound."""

    def keeps(own: Ungate) -> bool:
        member = record.members.get(own.uid)
        if member is None or not member.live or not member.pod.gated:
            return False
        return member.hold is not None and member.hold.node == own.node

    before = record.members.get(plan.turn) if plan.turn is not None else None
    stuck = before is not None and before.live and not before.bound and before.hold is None
    return bool(plan.in_turn) and (stuck or not all(map(keeps, plan.in_turn)))


def _has_order(record: GangRecord, plan: Plan, owners: Mapping[str, OwnerTraits], policy: Policy) -> bool:
    """kube-scheduler accepts each of these members only after the ones before it, so each is bound before the next.

    A nomination counts like a bound pod on its node, so it must not come before its turn either.
    """
    members = [own for uid in plan.seats if (own := record.members.get(uid)) and own.pod.neighbors]
    return any(own.pod.neighbors.has_order(pinned=is_hard(record, own, owners, policy)) for own in members)


def _nomination(own: Ungate) -> Nominate:
    return Nominate(own.gang, own.uid, own.key, own.plan, own.node)


def is_reversible(record: GangRecord, plan: Plan) -> bool:
    """It has ungated no member yet, so the plan can be dropped and no gang is left in part.

    A member without a gate may be bound at any moment, and even before the watch shows it.
    """
    loose = any((m := record.members.get(uid)) is not None and not m.pod.gated for uid in plan.seats)
    return plan.step < Step.UNGATE and not plan.begun and not loose


def is_valid(record: GangRecord, plan: Plan, nodes: NodeTable, but: Collection[Uid] = ()) -> bool:
    """Everything that the plan depends on still holds: every pod has its seat, and every node admits it and has
    capacity.

    While victims must leave first, capacity is not required. but: pods with seats that don't count against it.
    """
    seats: list[tuple[str, Demand]] = []
    for uid, node in plan.seats.items():
        member = record.members.get(uid)
        if member is None or not member.live or member.hold is None or member.hold.node != node:
            return False
        seats.append((node, member.pod.demand))
    frees = plan.step is Step.FREE
    return not plan.spoiled and nodes.admits_all(seats) and (frees or not nodes.is_any_overdrawn(seats, but))


def again(record: GangRecord, policy: Policy, now: float) -> list[Effect]:
    """Repeat effects with an overdue outcome. They are idempotent."""
    plan = record.plan
    if plan is None:
        return []
    return _send(plan, [effect for effect, due in plan.outstanding.items() if due <= now], now, policy)


def give_back(record: GangRecord, member: Member) -> list[Effect]:
    """A soft member without its gate continues like one that kube-scheduler called the extender about."""
    record.seen_by_kube_scheduler = True
    member.failing_since = None
    pod = member.pod
    return [Nominate(record.key, pod.uid, pod.key, "", "")] if pod.nominated else []


def drop(cache: Cache, record: GangRecord, now: float) -> list[Effect]:
    """Drop the plan and the seats of gated members. A written plan is removed.

    An ungated member keeps its seat, except for one that waits for victims: they are not requested any more.
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
            effects += [] if member.pod.gated else give_back(record, member)
        elif plan.step is Step.FREE and cache.nodes.is_overdrawn(node, member.pod.demand):
            cache.release(member)
            cache.mark(record.key)  # it cannot go elsewhere, because its pin is broken
    writer = record.members.get(plan.writer) if plan.writer else None
    if writer is not None and writer.live and writer.pod.gated:
        writer.tidied_at = now
        effects.append(_unwrite(record, writer))
    return effects


def _unwrite(record: GangRecord, member: Member) -> Effect:
    return WritePlan(record.key, member.pod.uid, member.pod.key, "", {})


def tidy(record: GangRecord, now: float) -> list[Effect]:
    """Remove marks of a dropped plan from gated members: a nomination would reserve resources for no pod."""
    effects: list[Effect] = []
    for member in untidy(record):
        if now < member.tidied_at + TIDY_EVERY:
            continue
        member.tidied_at = now
        pod = member.pod
        effects += [Nominate(record.key, pod.uid, pod.key, "", "")] if pod.nominated else []
        effects += [_unwrite(record, member)] if pod.plan else []
    return effects


def untidy(record: GangRecord) -> list[Member]:
    gated = [m for m in record.members.values() if m.pod.gated and m.live]
    return [m for m in gated if m.hold is None and (m.pod.nominated or m.pod.plan)] if gated else gated


def _send(plan: Plan, effects: Iterable[Effect], now: float, policy: Policy) -> list[Effect]:
    sent = list(effects)
    for effect in sent:
        plan.outstanding[effect] = now + policy.outcome_limit
    return sent


def _present(record: GangRecord, plan: Plan) -> list[tuple[Uid, str, Member]]:
    rows = [(uid, node, record.members.get(uid)) for uid, node in plan.seats.items()]
    live = [(uid, node, member) for uid, node, member in rows if member is not None and member.live]
    seated = [row for row in live if row[2].hold is not None and row[2].hold.node == row[1]]
    if any(member.pod.neighbors for _, _, member in seated):
        return seated  # in the order of the decision
    return sorted(seated, key=lambda row: arrival(row[2]))


def _nominations(
    record: GangRecord, plan: Plan, owners: Mapping[str, OwnerTraits], policy: Policy
) -> list[Effect]:
    if _has_order(record, plan, owners, policy):
        return []  # each gets its nomination in its turn
    return [
        Nominate(record.key, uid, member.pod.key, plan.name, node)
        for uid, node, member in _present(record, plan)
        if member.pod.nominated != node
        and member.tied is None
        and not (member.pod.gated and is_hard(record, member, owners, policy))
    ]


def _ungatings(
    record: GangRecord, plan: Plan, owners: Mapping[str, OwnerTraits], policy: Policy
) -> list[Ungate]:
    return [
        Ungate(
            gang=record.key,
            uid=uid,
            key=member.pod.key,
            plan=plan.name,
            node=node,
            pin=is_hard(record, member, owners, policy),
            affinity=member.pod.affinity,
        )
        for uid, node, member in _present(record, plan)
        if member.pod.gated
    ]
