"""What gangs stand on and depend on: nodes, PodGroups, quotas, owners, the policy.

Lives here: which gangs are to be looked at when one of these changes. Never here: what follows for them (care).
"""

from scheduler.ledger import healing, preemption
from scheduler.ledger.cache import Cache
from scheduler.model import events as ev
from scheduler.model.workload import OwnerTraits


def node_seen(cache: Cache, event: ev.NodeSeen, _now: float) -> None:
    """A node as it is now: seats held on it may be lost, and who stands on it may have it back."""
    back = event.node.name not in cache.nodes or healing.is_unreachable(event.node)
    if cache.nodes.seen(event.node):
        _node_changed(cache, event.node.name)
        if back and cache.ready:
            _tenants_touched(cache, event.node.name)


def node_gone(cache: Cache, event: ev.NodeGone, _now: float) -> None:
    """A node is no more."""
    if cache.nodes.gone(event.name):
        _node_changed(cache, event.name)
        _tenants_touched(cache, event.name)


def _node_changed(cache: Cache, name: str) -> None:
    for uid in cache.held_on(name):
        cache.mark(cache.roll.gang_of[uid])


def _tenants_touched(cache: Cache, name: str) -> None:
    """Whoever is bound there has lost something, or has it back."""
    for uid, node, _ in cache.nodes.places():
        if node == name and uid in cache.roll.gang_of:
            cache.mark(cache.roll.gang_of[uid])


def group_seen(cache: Cache, event: ev.GroupSeen, _now: float) -> None:
    """A PodGroup as it is now."""
    cache.groups[event.group.format, event.group.key] = event.group
    cache.mark(event.group.key, anew=True)


def group_gone(cache: Cache, event: ev.GroupGone, _now: float) -> None:
    """A PodGroup is no more."""
    cache.groups.pop((event.format, event.key), None)
    cache.mark(event.key, anew=True)


def budget_seen(cache: Cache, event: ev.BudgetSeen, _now: float) -> None:
    """A disruption budget as it is now. Until we act, no gang was told to wait because of it."""
    cache.budgets.seen(event.budget, heed=cache.acting and cache.synced)


def budget_gone(cache: Cache, event: ev.BudgetGone, _now: float) -> None:
    """A disruption budget is no more: what it kept may leave."""
    cache.budgets.gone(event.namespace, event.name, heed=cache.acting and cache.synced)


def quota_seen(cache: Cache, event: ev.QuotaSeen, _now: float) -> None:
    """A ResourceQuota as it is now."""
    if cache.quotas.seen(event.quota):
        _short_of_members_told(cache, event.quota.namespace)


def quota_gone(cache: Cache, event: ev.QuotaGone, _now: float) -> None:
    """A ResourceQuota is no more."""
    cache.quotas.gone(event.namespace, event.name)
    _short_of_members_told(cache, event.namespace)


def _short_of_members_told(cache: Cache, namespace: str) -> None:
    """A quota says why members are missing; nothing else of a gang depends on it."""
    for key in cache.quotas.gathering(namespace):
        cache.mark_told(key)


def owner_seen(cache: Cache, event: ev.OwnerSeen, now: float) -> None:
    """What is known of an owner now."""
    cache.paused.seen(event.traits, now)
    cache.roll.asleep.seen(event.traits)
    before = cache.owners.get(event.traits.uid)
    cache.owners[event.traits.uid] = event.traits  # its version may be another, where nothing else is
    if before != event.traits:
        anew = before is None or _course(before) != _course(event.traits)
        for key in cache.roll.concerned(event.traits.uid):
            cache.mark(key, anew=anew)
    if before is None or before.version != event.traits.version:
        for key in preemption.waiting_for(cache, event.traits.uid):
            cache.mark(key)


def _course(traits: OwnerTraits) -> tuple[int, bool, bool]:
    """What of an owner a gang counts by: what it completed, and whether it makes more pods."""
    return traits.succeeded, traits.ended, traits.suspended


def owner_gone(cache: Cache, event: ev.OwnerGone, _now: float) -> None:
    """An owner is no more."""
    cache.owners.pop(event.uid, None)
    for key in cache.roll.concerned(event.uid):
        cache.mark(key, anew=True)
    cache.paused.gone(event.uid)
    cache.roll.asleep.gone(event.uid)


def policy_changed(cache: Cache, event: ev.PolicyChanged, _now: float) -> None:
    """Another policy counts from now on."""
    cache.policy = event.policy
    cache.usage.adopt(event.policy.shares)
    cache.nodes.grew()  # whoever was told to wait may be told otherwise now
    for key in cache.roll.gangs:
        cache.mark(key, anew=True)
