"""What gangs stand on and depend on: nodes, PodGroups, quotas, owners, the policy.

Lives here: which gangs are to be looked at when one of these changes. Never here: what follows for them (care).
"""

from typing import TYPE_CHECKING

from scheduler.ledger import freeing, healing
from scheduler.model import events as ev
from scheduler.model.workload import OwnerTraits

if TYPE_CHECKING:
    from scheduler.ledger.ledger import Ledger


def node_seen(ledger: "Ledger", event: ev.NodeSeen, _now: float) -> None:
    """A node as it is now: seats held on it may be lost, and who stands on it may have it back."""
    back = event.node.name not in ledger.nodes or healing.is_unreachable(event.node)
    if ledger.nodes.seen(event.node):
        _node_changed(ledger, event.node.name)
        if back and ledger.ready:
            _tenants_touched(ledger, event.node.name)


def node_gone(ledger: "Ledger", event: ev.NodeGone, _now: float) -> None:
    """A node is no more."""
    if ledger.nodes.gone(event.name):
        _node_changed(ledger, event.name)
        _tenants_touched(ledger, event.name)


def _node_changed(ledger: "Ledger", name: str) -> None:
    for uid in ledger.held_on(name):
        ledger.mark(ledger.roll.gang_of[uid])


def _tenants_touched(ledger: "Ledger", name: str) -> None:
    """Whoever is bound there has lost something, or has it back."""
    for uid, node, _ in ledger.nodes.places():
        if node == name and uid in ledger.roll.gang_of:
            ledger.mark(ledger.roll.gang_of[uid])


def group_seen(ledger: "Ledger", event: ev.GroupSeen, _now: float) -> None:
    """A PodGroup as it is now."""
    ledger.groups[event.group.format, event.group.key] = event.group
    ledger.mark(event.group.key, anew=True)


def group_gone(ledger: "Ledger", event: ev.GroupGone, _now: float) -> None:
    """A PodGroup is no more."""
    ledger.groups.pop((event.format, event.key), None)
    ledger.mark(event.key, anew=True)


def budget_seen(ledger: "Ledger", event: ev.BudgetSeen, _now: float) -> None:
    """A disruption budget as it is now. Until we act, no gang was told to wait because of it."""
    ledger.budgets.seen(event.budget, heed=ledger.acting and ledger.synced)


def budget_gone(ledger: "Ledger", event: ev.BudgetGone, _now: float) -> None:
    """A disruption budget is no more: what it kept may leave."""
    ledger.budgets.gone(event.namespace, event.name, heed=ledger.acting and ledger.synced)


def quota_seen(ledger: "Ledger", event: ev.QuotaSeen, _now: float) -> None:
    """A ResourceQuota as it is now."""
    if ledger.quotas.seen(event.quota):
        _short_of_members_told(ledger, event.quota.namespace)


def quota_gone(ledger: "Ledger", event: ev.QuotaGone, _now: float) -> None:
    """A ResourceQuota is no more."""
    ledger.quotas.gone(event.namespace, event.name)
    _short_of_members_told(ledger, event.namespace)


def _short_of_members_told(ledger: "Ledger", namespace: str) -> None:
    """A quota says why members are missing; nothing else of a gang depends on it."""
    for key in ledger.quotas.gathering(namespace):
        ledger.mark_told(key)


def owner_seen(ledger: "Ledger", event: ev.OwnerSeen, now: float) -> None:
    """What is known of an owner now."""
    ledger.paused.seen(event.traits, now)
    ledger.roll.asleep.seen(event.traits)
    before = ledger.owners.get(event.traits.uid)
    ledger.owners[event.traits.uid] = event.traits  # its version may be another, where nothing else is
    if before != event.traits:
        anew = before is None or _course(before) != _course(event.traits)
        for key in ledger.roll.concerned(event.traits.uid):
            ledger.mark(key, anew=anew)
    if before is None or before.version != event.traits.version:
        for key in freeing.waiting_for(ledger, event.traits.uid):
            ledger.mark(key)


def _course(traits: OwnerTraits) -> tuple[int, bool, bool]:
    """What of an owner a gang counts by: what it completed, and whether it makes more pods."""
    return traits.succeeded, traits.ended, traits.suspended


def owner_gone(ledger: "Ledger", event: ev.OwnerGone, _now: float) -> None:
    """An owner is no more."""
    ledger.owners.pop(event.uid, None)
    for key in ledger.roll.concerned(event.uid):
        ledger.mark(key, anew=True)
    ledger.paused.gone(event.uid)
    ledger.roll.asleep.gone(event.uid)


def policy_changed(ledger: "Ledger", event: ev.PolicyChanged, _now: float) -> None:
    """Another policy counts from now on."""
    ledger.policy = event.policy
    ledger.usage.adopt(event.policy.shares)
    ledger.nodes.grew()  # whoever was told to wait may be told otherwise now
    for key in ledger.roll.gangs:
        ledger.mark(key, anew=True)
