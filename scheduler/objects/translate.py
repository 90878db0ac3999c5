"""API objects as events of the model: the entry point of this package.

Lives here: `Translator`, which turns seen and deleted objects into events. It stores only what one kind of object needs
from another: where claims are bound, which unbound pods wait for that, and which owners are known by their kind alone.
Never here: which pods are bound, held or waiting (`ledger`).
"""

from scheduler.model import events as ev
from scheduler.model.cluster import DEFAULT_LEVELS, Level
from scheduler.model.workload import Complaint, GangKey, Owner, PodKey, Uid
from scheduler.objects import api, groups, nodes, owners, pod_disruption_budgets, pods, quotas
from scheduler.objects.interner import Interner
from scheduler.objects.pod_demand import claims_of
from scheduler.objects.volumes import ClaimKey, Volumes


class Translator:
    """Translates API objects.  levels: as configured, because formats name levels by their node labels."""

    def __init__(self, levels: tuple[Level, ...] = DEFAULT_LEVELS, interner: Interner | None = None) -> None:
        self.node_complaints: dict[str, tuple[Complaint, ...]] = {}
        """The invalid fields of each node, by its name."""
        self._levels = levels
        self._interner = interner or Interner()
        self.volumes = Volumes()
        """The bound volumes of claims."""
        self._claiming: dict[ClaimKey, dict[Uid, api.Pod]] = {}
        self._claims: dict[Uid, list[ClaimKey]] = {}
        self._owned: dict[str, set[Uid]] = {}
        self._owners: dict[Uid, str] = {}

    def seen(self, found: api.ApiObject) -> list[ev.Event]:
        """The events for an object that exists in this state."""
        match found:
            case api.Pod():
                return self._pod(found)
            case api.Node():
                return self._node(found)
            case api.Namespace():
                return [ev.NamespaceSeen(found.metadata.name, dict(found.metadata.labels or {}))]
            case api.PersistentVolume():
                return self._again(self.volumes.see_volume(found))
            case api.PersistentVolumeClaim():
                return self._again(self.volumes.see_claim(found))
            case api.Job():
                return [ev.OwnerSeen(owners.job(found, self._levels))]
            case api.StatefulSet():
                return [ev.OwnerSeen(owners.stateful_set(found))]
            case api.ResourceQuota():
                return [ev.QuotaSeen(quotas.quota(found))]
            case api.PodDisruptionBudget():
                return [ev.BudgetSeen(pod_disruption_budgets.budget(found))]
            case _:
                return [ev.GroupSeen(groups.group(found, self._levels))]

    def gone(self, kind: type[api.ApiObject], namespace: str, name: str, uid: str) -> list[ev.Event]:
        """The events for an object that no longer exists."""
        if issubclass(kind, api.Pod):
            return self._pod_gone(Uid(uid), PodKey(namespace, name))
        if issubclass(kind, api.Node):
            self.node_complaints.pop(name, None)
            return [ev.NodeGone(name)]
        if issubclass(kind, api.Namespace):
            return [ev.NamespaceSeen(name, None)]
        if issubclass(kind, api.PersistentVolume):
            return self._again(self.volumes.lose_volume(name))
        if issubclass(kind, api.PersistentVolumeClaim):
            self.volumes.lose_claim(key := ClaimKey(namespace, name))
            return self._again(key)
        if issubclass(kind, api.Job | api.StatefulSet):
            return [ev.OwnerGone(uid)]
        if issubclass(kind, api.ResourceQuota):
            return [ev.QuotaGone(namespace, name)]
        if issubclass(kind, api.PodDisruptionBudget):
            return [ev.BudgetGone(namespace, name)]
        return [ev.GroupGone(groups.format_of(kind), GangKey(namespace, name))]

    # Pods

    def _pod(self, found: api.Pod) -> list[ev.Event]:
        pod = pods.pod(found, self.volumes, self._levels, self._interner)
        self._forget_claims(pod.uid)
        if pod.node is None and not pod.phase.ended and (claims := claims_of(found)):
            self._claims[pod.uid] = claims
            for claim in claims:
                self._claiming.setdefault(claim, {})[pod.uid] = found
        told: list[ev.Event] = []
        if pod.owner is not None and pod.uid not in self._owners:
            told += self._meet(pod.owner, pod.uid)
        return [*told, ev.PodSeen(pod)]

    def _pod_gone(self, uid: Uid, key: PodKey) -> list[ev.Event]:
        self._forget_claims(uid)
        owner = self._owners.pop(uid, None)
        told: list[ev.Event] = [ev.PodGone(uid, key)]
        if owner is not None:
            self._owned[owner].discard(uid)
            if not self._owned[owner]:
                del self._owned[owner]
                told.append(ev.OwnerGone(owner))
        return told

    def _meet(self, owner: Owner, uid: Uid) -> list[ev.Event]:
        """Add an owner with traits that follow from its kind alone. It is known as long as it has pods."""
        traits = owners.of_reference(owner)
        if traits is None:
            return []
        self._owners[uid] = owner.uid
        fresh = owner.uid not in self._owned
        self._owned.setdefault(owner.uid, set()).add(uid)
        return [ev.OwnerSeen(traits)] if fresh else []

    def _forget_claims(self, uid: Uid) -> None:
        for claim in self._claims.pop(uid, ()):
            waiting = self._claiming.get(claim)
            if waiting is not None:
                waiting.pop(uid, None)
                if not waiting:
                    del self._claiming[claim]

    # Storage

    def _again(self, claim: ClaimKey | None) -> list[ev.Event]:
        """Translate the unbound pods that use this claim again, because their demand may have changed."""
        waiting = self._claiming.get(claim) if claim else None
        return [event for found in list((waiting or {}).values()) for event in self._pod(found)]

    # Nodes

    def _node(self, found: api.Node) -> list[ev.Event]:
        node, complaints = nodes.node(found, self._interner)
        if complaints:
            self.node_complaints[node.name] = complaints
        else:
            self.node_complaints.pop(node.name, None)
        return [ev.NodeSeen(node)]
