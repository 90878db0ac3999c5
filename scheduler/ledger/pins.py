"""Seats that were assigned and are no longer available.

kube-scheduler does not call the extender about a node that is full, closed to the pod or deleted, so a broken pin is
only visible in the watches. A hard pin can only be undone by evicting the pod, which its owner recreates. A soft one
gets another seat.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

from scheduler.ledger import plans
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Member, Step
from scheduler.ledger.node_table import NodeTable
from scheduler.model.decision import Reason
from scheduler.model.effects import Effect, Evict, Nominate
from scheduler.model.policy import Policy
from scheduler.model.workload import OwnerTraits

NOMINATE_EVERY = 1.0
"""Seconds between two nominations of one pod. kube-scheduler clears one at every failed attempt, and each write wakes
the pod, so an eager rewrite would be a hot loop."""

EVICTIONS_EVERY = 1.0
"""Seconds until broken pins beyond the gang's limit of evictions are checked again."""

UNSCHEDULABLE = "Unschedulable"
"""The reason of PodScheduled=False when no node fits the pod. Any other reason is an error on the way."""

Cause: TypeAlias = Literal["node-gone", "node-unschedulable", "refused", "room-taken"]
"""Why a seat is lost."""


def seat(member: Member) -> str | None:
    """The destination of an ungated, unbound member: its hold or its pin."""
    if member.pod.gated or member.pod.node is not None:
        return None
    return member.hold.node if member.hold else member.tied


def broken(
    record: GangRecord, nodes: NodeTable, policy: Policy, now: float
) -> Iterator[tuple[Member, str, Cause]]:
    """Members that lost their seat, with the node and the cause."""
    for member in [m for m in record.members.values() if m.pod.node is None and not m.pod.gated and m.live]:
        node = seat(member)
        if node is None or (member.hold is None and not evictable(member)):
            continue
        cause = _cause(member, node, nodes, policy, now)
        if cause in _PASSING and record.plan is not None and record.plan.step is Step.FREE:
            continue  # it is not available yet
        if cause:
            yield member, node, cause


def _cause(member: Member, node: str, nodes: NodeTable, policy: Policy, now: float) -> Cause | None:
    if node not in nodes:
        return "node-gone"
    if not nodes.admits(node, member.pod.demand):
        return "node-unschedulable"  # by a cordon, a taint, or removed labels
    if member.failing_since is None:
        return None
    failing = now - member.failing_since
    if failing >= policy.pin_limit:
        return "refused"
    if failing >= policy.pin_grace and nodes.is_overdrawn(node, member.pod.demand):
        return "room-taken"
    return None


_PASSING: Final[frozenset[Cause]] = frozenset({"refused", "room-taken"})
"""Causes that are no loss while a seat waits for its victims."""


def repair(cache: Cache, record: GangRecord, now: float) -> list[Effect]:
    """Repair broken pins: hard ones are evicted, soft ones are released to be placed again."""
    policy = cache.policy
    effects = list(evict_again(record, policy, now))
    for member, node, cause in broken(record, cache.nodes, policy, now):
        hard = evictable(member)
        if hard and _under_eviction(record) >= policy.evictions_per_gang:
            continue
        cache.counters.pins_broken[cause] += 1
        record.pinning.broken += bar(record, node, policy, now)
        record.pinning.soft = record.pinning.soft or record.pinning.broken >= policy.broken_pins_until_soft
        if hard:
            effects.append(evict(record, member, Reason.PIN_BROKEN, policy, now))
            continue
        cache.release(member)
        if member.tied is None:
            cache.counters.reseats += 1
            effects += plans.give_back(record, member)
    effects += renominate(record, now)
    return effects


def refused(record: GangRecord, policy: Policy, now: float) -> list[Member]:
    """Nominated members of the quorum that kube-scheduler rejects by rules that the planner does not model, for longer
    than a scheduling attempt takes. No node fits them, otherwise the extender would be called about another. A member
    without a seat is included if its gang is partially bound.
    """
    if not record.unmodeled or (record.plan is not None and record.plan.step is Step.FREE):
        return []
    return [
        m
        for m in record.live()
        if (record.partly_bound if m.hold is None else m.hold.until is None and m.tied is None)
        and m.failing_since is not None
        and now - m.failing_since >= policy.pin_grace
        and m.pod.unmodeled
        and m.pod.pending is not None
        and m.pod.pending.reason == UNSCHEDULABLE
        and not (m.pod.membership and m.pod.membership.surplus)
    ]


def looks(record: GangRecord, policy: Policy, now: float) -> Iterator[float]:
    """When time alone may break a seat, end a hold, or require a nomination or an eviction."""
    if _under_eviction(record):
        yield now + EVICTIONS_EVERY
    yield from (until for until, _ in record.pinning.barred.values())
    for member in record.members.values():
        if member.evicting is not None and not (member.pod.deleting or member.pod.phase.ended):
            yield member.evict_again
        if member.hold is not None and member.hold.until is not None:
            yield member.hold.until
        if member.failing_since is None or not member.live:
            continue
        if seat(member) is None and not record.unmodeled:
            continue
        yield member.failing_since + policy.pin_grace
        yield member.failing_since + policy.pin_limit
        if member.hold is not None and member.pod.nominated != member.hold.node:
            yield member.nominated_at + NOMINATE_EVERY


def evictable(member: Member) -> bool:
    """A pod that is pinned to its node and that its owner recreates."""
    return member.tied is not None and member.pod.maker is not None


def evict(record: GangRecord, member: Member, reason: Reason, policy: Policy, now: float) -> Effect:
    member.set_evicting(reason)
    member.evict_again = now + policy.outcome_limit
    return Evict(record.key, member.pod.uid, member.pod.key, reason)


def evict_again(record: GangRecord, policy: Policy, now: float) -> Iterator[Effect]:
    """Evictions that did not succeed: requested again, unless the pod was bound to its seat after all."""
    for member in record.members.values():
        if member.evicting is None or member.pod.deleting or member.pod.phase.ended:
            continue
        if member.bound and member.evicting is Reason.PIN_BROKEN:
            member.set_evicting(None)
        elif member.evict_again <= now:
            yield evict(record, member, member.evicting, policy, now)


def _under_eviction(record: GangRecord) -> int:
    return sum(m.evicting is not None and not m.pod.phase.ended for m in record.members.values())


def bar(record: GangRecord, node: str, policy: Policy, now: float, *, doubles: bool = True) -> bool:
    """Exclude a node for the gang after a pin broke there; for twice as long if it breaks there again (`doubles`).

    False if the node is excluded already: simultaneous breaks on one node count once.
    """
    until, span = record.pinning.barred.get(node, (now, 0.0))
    if until > now:
        return False
    span = 2 * span if span and doubles else policy.barred
    record.pinning.barred[node] = (now + span, span)
    record.pinning.barred_nodes |= {node}
    return True


def unbar(record: GangRecord, now: float) -> None:
    """Remove exclusions that ended."""
    for node, (until, span) in list(record.pinning.barred.items()):
        if until + span <= now:
            del record.pinning.barred[node]
    record.pinning.barred_nodes = frozenset(
        node for node, (until, _) in record.pinning.barred.items() if until > now
    )


def renominate(record: GangRecord, now: float) -> Iterator[Effect]:
    """Nominations that kube-scheduler cleared while the seat is still held."""
    if record.plan is not None and record.plan.step is not Step.DONE:
        return
    for member in [m for m in record.members.values() if m.hold is not None and m.live]:
        hold, pod = member.hold, member.pod
        wiped = hold is not None and hold.until is None and pod.nominated != hold.node
        if not wiped or hold is None or pod.gated or pod.node is not None or member.tied is not None:
            continue
        if member.failing_since is not None and now - member.nominated_at >= NOMINATE_EVERY:
            member.nominated_at = now
            yield Nominate(record.key, pod.uid, pod.key, hold.plan, hold.node)


def remakeable(record: GangRecord, owners: Mapping[str, OwnerTraits]) -> bool:
    """Every ungated member can be recreated at no cost, so the gang can be rolled back."""
    let_go = [m for m in record.live() if not m.pod.gated]
    return all((m.pod.maker and (t := owners.get(m.pod.maker.uid)) and t.remakes_freely) for m in let_go)
