"""The repair of gangs that have their seats: members that never start, and members that are lost.

Lives here: what counts as never started and as lost, its message, and which members are evicted so that their owner
recreates them. Never here: where they go then (the planner), or the move of a gang without capacity where it is
(engine.drain).
Everything is bounded: each setback doubles the time until the next, until the gang has run well for a while.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from scheduler.ledger import backoff, conditions, pins, plans, quorum
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Member, Spec, arrival
from scheduler.ledger.messages import Mishap
from scheduler.ledger.phase import Facts
from scheduler.model.cluster import Node
from scheduler.model.decision import Reason
from scheduler.model.demand import TaintEffect
from scheduler.model.durations import doubled
from scheduler.model.effects import Effect
from scheduler.model.workload import OnMemberLoss, Phase, Pod

GONE_FOR: Final = 2.0
"""Seconds after a node's deletion until its pods count as lost. A node that is recreated under its name is missing for
a moment, and after a broken watch nodes may be reported later than their pods."""

LONGEST: Final = 86_400.0
"""Maximum seconds of a gang's start timeout after doubling."""

TOGETHER: Final = 0.1
"""Members with start times that differ by less than this part of the timeout are late together: they were bound one
after the other."""

BATCH_EVERY: Final = 1.0
"""Seconds between two batches of evictions of one gang."""

UNREACHABLE: Final = "node.kubernetes.io/unreachable"
"""Taint of a node that stopped reporting."""

IMAGE: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ImageInspectError",
        "ErrImageNeverPull",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
"""The kubelet's reasons for an image that is unavailable."""

OWN: Final = IMAGE | {"CreateContainerConfigError", "CrashLoopBackOff"}
"""Problems of the pod itself on any node: its image, a missing Secret, a failing init container."""


def is_unreachable(node: Node) -> bool:
    """The node stopped reporting, and its pods are evicted."""
    return any(own.key == UNREACHABLE and own.effect is TaintEffect.NO_EXECUTE for own in node.taints)


def heal(cache: Cache, record: GangRecord, facts: Facts, now: float) -> list[Effect] | None:
    """The repair of members that do not start or are lost; None if there are none.

    Sets `record.health.look_at`, when to check again.
    """
    record.health.look_at = float("inf")
    whole = bool(facts.quorum) and facts.bound >= facts.quorum
    _note(cache, record, facts, now, whole=whole or record.was_bound)
    if whole:
        record.health.bereft = False
    effects: list[Effect] = []
    lost = _lost(cache, record, now, effects)
    late = _late(cache, record, now) if whole or record.was_bound else []
    if not (lost or late or record.health.restart_for):
        return None
    if late:
        effects += _hurry(cache, record, late, now)
    if record.health.restart_for:
        effects += _restart(cache, record, lost, now)
    elif lost:
        conditions.note_mishaps(record, Reason.MEMBER_LOST, lost, _AFTER_A_LOSS[_wish(record)])
    cache.mark(record.key)
    return effects


def _note(cache: Cache, record: GangRecord, facts: Facts, now: float, *, whole: bool) -> None:
    """Record since when each member is starting or without its node, and since when all is well."""
    starting = False
    for member in record.members.values():
        pod = member.pod
        if pod.node is None:
            continue
        if pod.phase is Phase.PENDING and member.live:
            starting = True
            if member.starting_since is None:
                member.starting_since = now if pod.bound_at is None else min(now, pod.bound_at)
        else:
            member.starting_since = None
        if pod.node in cache.nodes or pod.phase.ended:
            came_back = member.stranded_since is not None and not (pod.deleting or pod.phase.ended)
            if came_back:  # before it had consequences
                member.lost = False
                if member.evicting is Reason.MEMBER_LOST:
                    member.set_evicting(None)
            member.stranded_since = None
        elif member.stranded_since is None:
            member.stranded_since = now
        member.worked = member.worked or (whole and member.bound and member.live)
    well = bool(facts.quorum) and facts.running >= facts.quorum and not starting
    if well and record.health.well_since is None:
        record.health.well_since = now
    if record.health.well_since is not None and now - record.health.well_since >= cache.policy.backoff_limit:
        # It has run well: setbacks count from zero, also for the next gang of its name.
        record.health.setbacks = 0
    if not well:
        record.health.well_since = None


def turned_away(cache: Cache, record: GangRecord, pod: Pod, now: float, *, news: bool) -> None:
    """The kubelet of its node rejected this pod, so its replacement goes elsewhere.

    Saved at once for a recreated gang, because the pod of a gang of one may stay. news: report it.
    """
    if pod.node is None:
        return
    pins.bar(record, pod.node, cache.policy, now)
    cache.registry.keep_scars(record, pod)
    if news:
        cache.counters.decisions[Reason.NOT_STARTED] += 1
        text = f"{pod.key.name} on {pod.node}: the kubelet rejected the pod: {pod.refused}"
        conditions.note_mishaps(record, Reason.NOT_STARTED, [Mishap(pod, text)], _ELSEWHERE)


_ELSEWHERE: Final = "the node is excluded for its gang for a while"

# ── lost ────────────────────────────────────────────────────────────────────────────────────────────────


def _wish(record: GangRecord) -> OnMemberLoss:
    wish = record.spec.wish.on_member_loss if isinstance(record.spec, Spec) else None
    return wish or OnMemberLoss.REPLACE


def _how(cache: Cache, record: GangRecord, member: Member, now: float) -> str:
    """How this member was lost. Empty if it was not."""
    pod = member.pod
    if pod.node is None or pod.phase is Phase.SUCCEEDED:
        return ""
    if member.evicting is not None and member.stranded_since is None:
        return ""  # it is evicted for another reason than its missing node
    if member.stranded_since is not None:
        return f"was lost with its node {pod.node}" if now >= member.stranded_since + GONE_FOR else ""
    node = cache.nodes.get(pod.node)
    if pod.deleting and not pod.phase.ended and node is not None and is_unreachable(node):
        return f"was lost with its node {pod.node}"
    if not member.worked or _wish(record) is not OnMemberLoss.RESTART:
        return ""
    if pod.phase is Phase.FAILED:
        return f"failed on {pod.node}"
    return f"was disrupted on {pod.node}" if pod.deleting and pod.disrupted else ""


def _lost(cache: Cache, record: GangRecord, now: float, effects: list[Effect]) -> list[Mishap]:
    """Members that the gang has just lost. Their repair is appended to the effects."""
    lost: list[Mishap] = []
    for member in list(record.members.values()):
        if member.lost:
            continue
        how = _how(cache, record, member, now)
        if how:
            lost.append(Mishap(member.pod, f"{member.pod.key.name} {how}"))
            effects += _lose(cache, record, member, lost[-1].text, now)
        elif member.stranded_since is not None:
            record.health.look_at = min(record.health.look_at, member.stranded_since + GONE_FOR)
    return lost


def _lose(cache: Cache, record: GangRecord, member: Member, what: str, now: float) -> Iterator[Effect]:
    """Have its owner recreate it if nothing else will soon."""
    member.lost = True
    record.health.bereft = True
    cache.counters.decisions[Reason.MEMBER_LOST] += 1
    wish = _wish(record)
    if wish is OnMemberLoss.RESTART and _is_core(record, member):
        record.health.restart_for = what
    gone = member.stranded_since is not None and not member.pod.deleting
    if gone and wish is not OnMemberLoss.NONE and member.pod.maker is not None:
        yield pins.evict(record, member, Reason.MEMBER_LOST, cache.policy, now)


_AFTER_A_LOSS: Final = {
    OnMemberLoss.REPLACE: "the replacement joins the gang if there is free capacity",
    OnMemberLoss.RESTART: "",
    OnMemberLoss.NONE: "no action, as on-member-loss is none",
}
_RESTARTED: Final = "the whole gang is restarted"
_NOT_RESTARTED: Final = (
    "the gang is not restarted: some of its pods would not be recreated without a counted failure"
)


def _is_core(record: GangRecord, member: Member) -> bool:
    """The quorum needed it."""
    if quorum.is_surplus(member) or not isinstance(record.spec, Spec):
        return not quorum.is_surplus(member)
    placed = [
        m
        for m in record.members.values()
        if m is member or (m.bound and not m.lost and not m.pod.deleting and m.evicting is None)
    ]
    return any(m is member for m in quorum.core(record, record.spec, placed)[0])


def left(cache: Cache, member: Member) -> None:
    """This pod no longer exists: was it lost? Sometimes its deletion is the only event."""
    record = cache.registry.gangs[cache.registry.gang_of[member.pod.uid]]
    if member.lost or not member.worked or member.pod.phase is Phase.SUCCEEDED:
        return
    pod = member.pod
    stranded = pod.node is not None and pod.node not in cache.nodes
    if member.evicting is not None or not (stranded or pod.disrupted or pod.phase is Phase.FAILED):
        return
    record.health.bereft = True
    if _wish(record) is OnMemberLoss.RESTART and _is_core(record, member):
        record.health.restart_for = f"{pod.key.name} was lost on {pod.node}"


def _restart(cache: Cache, record: GangRecord, lost: list[Mishap], now: float) -> list[Effect]:
    """Evict all members together, if their owners recreate them at no cost."""
    said, record.health.restart_for = record.health.restart_for, ""
    speaker = min(record.live(), key=arrival, default=None)
    if speaker is None:
        conditions.note_mishaps(record, Reason.MEMBER_LOST, lost)
        return []
    if all(own.text != said for own in lost):
        lost = [*lost, Mishap(speaker.pod, said)]
    if not pins.remakeable(record, cache.owners):
        conditions.note_mishaps(record, Reason.MEMBER_LOST, lost, _NOT_RESTARTED)
        return []
    conditions.note_mishaps(record, Reason.MEMBER_LOST, lost, _RESTARTED)
    record.health.setbacks += 1
    backoff.wait_until(record, now + _pause(cache, record))
    for member in record.live():
        if member.hold is not None and not member.bound and member.tied is None and member.pod.gated:
            cache.release(member)
    placed = [m for m in record.live() if m.bound or pins.evictable(m)]
    return list(evict_all(cache, record, placed, Reason.MEMBER_LOST, now))


def _pause(cache: Cache, record: GangRecord) -> float:
    policy = cache.policy
    if record.health.setbacks <= 1:
        return 0.0
    return doubled(policy.backoff, record.health.setbacks - 2, policy.backoff_limit)


def evict_all(
    cache: Cache, record: GangRecord, members: Iterable[Member], reason: Reason, now: float
) -> Iterator[Effect]:
    """Evict them together: none counts from now on. Each batch has as many as a namespace may lose at a time."""
    for number, member in enumerate(members):
        batch = number // cache.policy.evictions_per_namespace
        effect = pins.evict(record, member, reason, cache.policy, now)
        if batch == 0:
            yield effect
        else:
            member.evict_again = now + batch * BATCH_EVERY


# ── never started ───────────────────────────────────────────────────────────────────────────────────────


def patience(cache: Cache, record: GangRecord) -> float:
    """Seconds from its bind until a member must run."""
    asked = record.spec.wish.start_timeout if isinstance(record.spec, Spec) else None
    span = cache.policy.start_timeout if asked is None else asked
    return doubled(span, record.health.setbacks, max(span, LONGEST))


def _late(cache: Cache, record: GangRecord, now: float) -> list[Member]:
    """Members that exceeded their start timeout."""
    times = [
        (m.starting_since, m)
        for m in record.members.values()
        if m.starting_since is not None and m.live and m.stranded_since is None
    ]
    if not times:
        return []
    limit = patience(cache, record)
    first = min(since for since, _ in times) + limit
    if now < first:
        record.health.look_at = min(record.health.look_at, first)
        return []
    return [m for since, m in times if since + (1 - TOGETHER) * limit <= now]


def _hurry(cache: Cache, record: GangRecord, late: list[Member], now: float) -> Iterable[Effect]:
    """Recreate late members elsewhere if that costs nothing; otherwise report them repeatedly."""
    limit = patience(cache, record)
    record.health.setbacks += 1
    cache.counters.decisions[Reason.NOT_STARTED] += len(late)
    again = _wish(record) is not OnMemberLoss.NONE and all(plans.remakes(m, cache.owners) for m in late)
    pods = [m.pod for m in late]
    befell = [
        Mishap(pod, f"{pod.key.name} on {pod.node} for {limit:g} s: {pod.stuck or 'ContainerCreating'}")
        for pod in pods
    ]
    conditions.note_mishaps(record, Reason.NOT_STARTED, befell, _MADE_AGAIN if again else _LEFT_ALONE)
    if not again:
        _let_go(cache, record, now)
        return []
    for node in dict.fromkeys(str(m.pod.node) for m in late if _is_nodes_fault(record, m)):
        pins.bar(record, node, cache.policy, now)
    return evict_all(cache, record, late, Reason.NOT_STARTED, now)


_MADE_AGAIN: Final = "evicted, to be recreated"
_LEFT_ALONE: Final = "not evicted: some of them would not be recreated without a counted failure"


def _is_nodes_fault(record: GangRecord, member: Member) -> bool:
    """No problem of the pod itself is known, or its image is available to similar pods elsewhere."""
    if member.pod.stuck not in OWN:
        return True
    return member.pod.stuck in IMAGE and any(
        other.pod.phase is Phase.RUNNING and other.pod.node != member.pod.node and _alike(other, member)
        for other in record.live()
    )


def _alike(one: Member, other: Member) -> bool:
    roles = [m.pod.membership.role if m.pod.membership else "" for m in (one, other)]
    return roles[0] == roles[1] and one.pod.owner == other.pod.owner


def _let_go(cache: Cache, record: GangRecord, now: float) -> None:
    """Release the seats of gated members: others may use them while this gang does not start."""
    backoff.wait_until(record, now + patience(cache, record))
    for member in record.live():
        if member.hold is not None and member.pod.gated and member.tied is None:
            cache.release(member)
