"""API objects as events of the model: the door of this room.

Lives here: `Translator`, which is told what exists and what is gone, and says what that means. It remembers only
what one kind of object needs of another: where claims are bound, which unbound pods wait for that, and which owners
are known by their kind alone. Never here: what is bound, held or waiting (`ledger`).
"""

from collections.abc import Callable, Mapping
from typing import Any

from scheduler.model.cluster import DEFAULT_LEVELS, Level
from scheduler.model.events import (
    BudgetGone,
    BudgetSeen,
    Event,
    GroupGone,
    GroupSeen,
    NodeGone,
    NodeSeen,
    OwnerGone,
    OwnerSeen,
    PodGone,
    PodSeen,
    QuotaGone,
    QuotaSeen,
)
from scheduler.model.workload import Complaint, GangKey, Owner, PodKey, Uid
from scheduler.objects import api, groups, nodes, owners, pod_disruption_budgets, pods, quotas
from scheduler.objects.interner import Interner
from scheduler.objects.pod_demand import claims_of
from scheduler.objects.volumes import ClaimKey, Volumes


class Translator:
    """Tells what API objects mean. `levels` as configured: formats name levels by their node labels."""

    def __init__(self, levels: tuple[Level, ...] = DEFAULT_LEVELS, interner: Interner | None = None) -> None:
        self.node_complaints: dict[str, tuple[Complaint, ...]] = {}
        """What could not be read of a node, by its name."""
        self._levels = levels
        self._interner = interner or Interner()
        self.volumes = Volumes()
        """What claims are bound to."""
        self._claiming: dict[ClaimKey, dict[Uid, api.Pod]] = {}
        self._claims: dict[Uid, list[ClaimKey]] = {}
        self._owned: dict[str, set[Uid]] = {}
        self._owners: dict[Uid, str] = {}
        self._on_seen: Mapping[type, Callable[[Any], list[Event]]] = {
            api.Pod: self._pod,
            api.Node: self._node,
            api.PersistentVolume: self._volume,
            api.PersistentVolumeClaim: self._claim,
            api.Job: self._job,
            api.StatefulSet: self._stateful_set,
            api.ResourceQuota: self._quota,
            api.PodDisruptionBudget: self._budget,
            **dict.fromkeys(groups.KINDS, self._group),
        }
        self._on_gone: Mapping[type, Callable[[Any, str, str, str], list[Event]]] = {
            api.Pod: self._pod_gone,
            api.Node: self._node_gone,
            api.PersistentVolume: self._volume_gone,
            api.PersistentVolumeClaim: self._claim_gone,
            api.Job: self._owner_gone,
            api.StatefulSet: self._owner_gone,
            api.ResourceQuota: self._quota_gone,
            api.PodDisruptionBudget: self._budget_gone,
            **dict.fromkeys(groups.KINDS, self._group_gone),
        }

    def seen(self, found: api.ApiObject) -> list[Event]:
        """What follows from the object's being as it is."""
        return self._on_seen[type(found)](found)

    def gone(self, kind: type[api.ApiObject], namespace: str, name: str, uid: str) -> list[Event]:
        """What follows from the object's being gone."""
        return self._on_gone[kind](kind, namespace, name, uid)

    # Pods

    def _pod(self, found: api.Pod) -> list[Event]:
        pod = pods.pod(found, self.volumes, self._levels, self._interner)
        self._forget_claims(pod.uid)
        if pod.node is None and not pod.phase.ended:
            self._remember_claims(pod.uid, found)
        told: list[Event] = []
        if pod.owner is not None and pod.uid not in self._owners:
            told += self._meet(pod.owner, pod.uid)
        return [*told, PodSeen(pod)]

    def _pod_gone(self, _kind: type, namespace: str, name: str, uid: str) -> list[Event]:
        gone = Uid(uid)
        self._forget_claims(gone)
        owner = self._owners.pop(gone, None)
        told: list[Event] = [PodGone(gone, PodKey(namespace, name))]
        if owner is not None:
            self._owned[owner].discard(gone)
            if not self._owned[owner]:
                del self._owned[owner]
                told.append(OwnerGone(owner))
        return told

    def _meet(self, owner: Owner, uid: Uid) -> list[Event]:
        """An owner whose kind alone tells all is known as long as it has pods."""
        traits = owners.of_reference(owner)
        if traits is None:
            return []
        self._owners[uid] = owner.uid
        fresh = owner.uid not in self._owned
        self._owned.setdefault(owner.uid, set()).add(uid)
        return [OwnerSeen(traits)] if fresh else []

    def _remember_claims(self, uid: Uid, found: api.Pod) -> None:
        claims = claims_of(found)
        for claim in claims:
            self._claiming.setdefault(claim, {})[uid] = found
        if claims:
            self._claims[uid] = claims

    def _forget_claims(self, uid: Uid) -> None:
        for claim in self._claims.pop(uid, ()):
            waiting = self._claiming.get(claim)
            if waiting is not None:
                waiting.pop(uid, None)
                if not waiting:
                    del self._claiming[claim]

    # Storage

    def _again(self, claim: ClaimKey | None) -> list[Event]:
        """The pods without a node that use this claim: what they need may have changed."""
        waiting = self._claiming.get(claim) if claim else None
        return [event for found in list((waiting or {}).values()) for event in self._pod(found)]

    def _claim(self, found: api.PersistentVolumeClaim) -> list[Event]:
        return self._again(self.volumes.see_claim(found))

    def _claim_gone(self, _kind: type, namespace: str, name: str, _uid: str) -> list[Event]:
        key = ClaimKey(namespace, name)
        self.volumes.lose_claim(key)
        return self._again(key)

    def _volume(self, found: api.PersistentVolume) -> list[Event]:
        return self._again(self.volumes.see_volume(found))

    def _volume_gone(self, _kind: type, _namespace: str, name: str, _uid: str) -> list[Event]:
        return self._again(self.volumes.lose_volume(name))

    # Quotas and budgets

    def _quota(self, found: api.ResourceQuota) -> list[Event]:
        return [QuotaSeen(quotas.quota(found))]

    def _quota_gone(self, _kind: type, namespace: str, name: str, _uid: str) -> list[Event]:
        return [QuotaGone(namespace, name)]

    def _budget(self, found: api.PodDisruptionBudget) -> list[Event]:
        return [BudgetSeen(pod_disruption_budgets.budget(found))]

    def _budget_gone(self, _kind: type, namespace: str, name: str, _uid: str) -> list[Event]:
        return [BudgetGone(namespace, name)]

    # Everything else

    def _node(self, found: api.Node) -> list[Event]:
        node, complaints = nodes.node(found, self._interner)
        if complaints:
            self.node_complaints[node.name] = complaints
        else:
            self.node_complaints.pop(node.name, None)
        return [NodeSeen(node)]

    def _node_gone(self, _kind: type, _namespace: str, name: str, _uid: str) -> list[Event]:
        self.node_complaints.pop(name, None)
        return [NodeGone(name)]

    def _job(self, found: api.Job) -> list[Event]:
        return [OwnerSeen(owners.job(found, self._levels))]

    def _stateful_set(self, found: api.StatefulSet) -> list[Event]:
        return [OwnerSeen(owners.stateful_set(found))]

    def _owner_gone(self, _kind: type, _namespace: str, _name: str, uid: str) -> list[Event]:
        return [OwnerGone(uid)]

    def _group(self, found: api.PodGroup) -> list[Event]:
        return [GroupSeen(groups.group(found, self._levels))]

    def _group_gone(self, kind: type, namespace: str, name: str, _uid: str) -> list[Event]:
        return [GroupGone(groups.format_of(kind), GangKey(namespace, name))]
