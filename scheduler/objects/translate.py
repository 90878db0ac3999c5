"""API objects as events of the model: the entry point of this package.

Lives here: `Translator`, which turns seen and deleted objects into events. It stores only what one kind of object needs
from another: the storage behind claims, which pods and nodes depend on it, and which owners are known by their kind alone.
Never here: which pods are bound, held or waiting (`ledger`).
"""

from collections.abc import Iterator
from dataclasses import replace

from scheduler.model import events as ev
from scheduler.model.cluster import DEFAULT_LEVELS, Level, Node
from scheduler.model.workload import Complaint, GangKey, Owner, Phase, Pod, PodKey, Uid
from scheduler.objects import api, groups, nodes, owners, pod_disruption_budgets, pods, quotas, storage_kinds
from scheduler.objects.interner import Interner
from scheduler.objects.local_volumes import HOSTNAME
from scheduler.objects.pod_demand import claims_of
from scheduler.objects.volumes import ClaimKey, Touched, Volumes
from scheduler.objects.watched_resources import WatchedObject


class Translator:
    """Translates API objects.  levels: as configured, because formats name levels by their node labels."""

    def __init__(self, levels: tuple[Level, ...] = DEFAULT_LEVELS, interner: Interner | None = None) -> None:
        self.node_complaints: dict[str, tuple[Complaint, ...]] = {}
        """The invalid fields of each node, by its name."""
        self._levels = levels
        self._interner = interner or Interner()
        self.volumes = Volumes()
        """The storage behind claims."""
        self._claiming: dict[ClaimKey, dict[Uid, tuple[api.Pod, Pod]]] = {}
        """By claim, the pods that depend on it: as read, and as last reported."""
        self._claims: dict[Uid, list[ClaimKey]] = {}
        self._owned: dict[str, set[Uid]] = {}
        self._owners: dict[Uid, str] = {}
        self._nodes: dict[str, tuple[Node, Node]] = {}
        """By name, each node without volumes, and as last reported."""
        self._hosts: dict[str, str] = {}
        """By value of the host label, the name of the node."""

    def seen(self, found: WatchedObject) -> list[ev.Event]:
        """The events for an object that exists in this state."""
        match found:
            case api.Pod():
                return self._pod(found)
            case api.Node():
                return self._node(found)
            case api.Namespace():
                return [ev.NamespaceSeen(found.metadata.name, dict(found.metadata.labels or {}))]
            case storage_kinds.PersistentVolume():
                return self._again(self.volumes.see_volume(found))
            case storage_kinds.PersistentVolumeClaim():
                return self._again(self.volumes.see_claim(found))
            case storage_kinds.StorageClass():
                return self._again(self.volumes.see_class(found))
            case storage_kinds.CSIDriver():
                return self._again(self.volumes.see_driver(found))
            case storage_kinds.CSIStorageCapacity():
                return self._again(self.volumes.see_capacity(found))
            case storage_kinds.CSINode():
                return self._again(self.volumes.see_limits(found))
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

    def gone(self, kind: type[WatchedObject], namespace: str, name: str, uid: str) -> list[ev.Event]:
        """The events for an object that no longer exists."""
        if issubclass(kind, api.Pod):
            return self._pod_gone(Uid(uid), PodKey(namespace, name))
        if issubclass(kind, api.Node):
            return self._node_gone(name)
        if issubclass(kind, api.Namespace):
            return [ev.NamespaceSeen(name, None)]
        if issubclass(kind, storage_kinds.StorageObject):
            return self._again(self._storage_gone(kind, namespace, name))
        if issubclass(kind, api.Job | api.StatefulSet):
            return [ev.OwnerGone(uid)]
        if issubclass(kind, api.ResourceQuota):
            return [ev.QuotaGone(namespace, name)]
        if issubclass(kind, api.PodDisruptionBudget):
            return [ev.BudgetGone(namespace, name)]
        return [ev.GroupGone(groups.format_of(kind), GangKey(namespace, name))]

    # Pods

    def _pod(self, found: api.Pod) -> list[ev.Event]:
        uid, claims = Uid(found.metadata.uid), claims_of(found)
        if self._is_final(found):
            claims = []
        changed = self._use(uid, claims)
        pod = pods.pod(found, self.volumes, self._levels, self._interner)
        for claim in claims:
            self._claiming[claim][uid] = (found, pod)
        told: list[ev.Event] = []
        if pod.owner is not None and pod.uid not in self._owners:
            told += self._meet(pod.owner, pod.uid)
        return [*told, ev.PodSeen(pod), *self._again(Touched(changed))]

    def _pod_gone(self, uid: Uid, key: PodKey) -> list[ev.Event]:
        changed = self._use(uid, [])
        owner = self._owners.pop(uid, None)
        told: list[ev.Event] = [ev.PodGone(uid, key), *self._again(Touched(changed))]
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

    # Storage

    def _is_final(self, found: api.Pod) -> bool:
        """Storage no longer changes what the pod requires: it ended, or it has a node and all of its volumes."""
        ended = found.status.phase in {Phase.SUCCEEDED, Phase.FAILED}
        return ended or (bool(found.spec.node_name) and all(map(self.volumes.is_settled, claims_of(found))))

    def _use(self, uid: Uid, claims: list[ClaimKey]) -> list[ClaimKey]:
        """The pod depends on these claims alone. Returns the claims that several pods share now, or no longer."""
        before = self._claims.pop(uid, [])
        if claims:
            self._claims[uid] = claims
        changed = []
        for claim in dict.fromkeys((*before, *claims)):
            users = self._claiming.setdefault(claim, {})
            if claim not in claims:
                users.pop(uid, None)
            shared = len(users.keys() | {uid} if claim in claims else users) > 1
            if self.volumes.share(claim, shared=shared):
                changed.append(claim)
            if not users and claim not in claims:
                del self._claiming[claim]
        return changed

    def _again(self, touched: Touched) -> list[ev.Event]:
        """Translate the pods and nodes again that depend on these objects. Equal results are no events."""
        found = {uid: user for claim in touched.claims for uid, user in self._claiming.get(claim, {}).items()}
        told = [event for uid, (pod, before) in found.items() for event in self._pod_again(uid, pod, before)]
        names = {*touched.nodes, *(self._hosts.get(host, "") for host in touched.hosts)}
        return [*told, *(event for name in sorted(names) for event in self._node_again(name))]

    def _pod_again(self, uid: Uid, found: api.Pod, before: Pod) -> Iterator[ev.Event]:
        pod = pods.pod(found, self.volumes, self._levels, self._interner)
        if self._is_final(found):
            self._use(uid, [])
        for claim in self._claims.get(uid, ()):
            self._claiming[claim][uid] = (found, pod)
        if pod != before:
            yield ev.PodSeen(pod)

    def _storage_gone(self, kind: type[WatchedObject], namespace: str, name: str) -> Touched:
        if issubclass(kind, storage_kinds.PersistentVolume):
            return self.volumes.lose_volume(name)
        if issubclass(kind, storage_kinds.PersistentVolumeClaim):
            return self.volumes.lose_claim(ClaimKey(namespace, name))
        if issubclass(kind, storage_kinds.StorageClass):
            return self.volumes.lose_class(name)
        if issubclass(kind, storage_kinds.CSIDriver):
            return self.volumes.lose_driver(name)
        if issubclass(kind, storage_kinds.CSIStorageCapacity):
            return self.volumes.lose_capacity(namespace, name)
        return self.volumes.lose_limits(name)

    # Nodes

    def _node(self, found: api.Node) -> list[ev.Event]:
        node, complaints = nodes.node(found, self._interner)
        if complaints:
            self.node_complaints[node.name] = complaints
        else:
            self.node_complaints.pop(node.name, None)
        self._forget_host(node.name)
        if host := node.labels.get(HOSTNAME):
            self._hosts[host] = node.name
        reported = self._with_volumes(node)
        self._nodes[node.name] = (node, reported)
        return [ev.NodeSeen(reported)]

    def _node_gone(self, name: str) -> list[ev.Event]:
        self.node_complaints.pop(name, None)
        self._forget_host(name)
        self._nodes.pop(name, None)
        return [ev.NodeGone(name)]

    def _node_again(self, name: str) -> Iterator[ev.Event]:
        node, before = self._nodes.get(name, (None, None))
        if node is not None and (reported := self._with_volumes(node)) != before:
            self._nodes[name] = (node, reported)
            yield ev.NodeSeen(reported)

    def _with_volumes(self, node: Node) -> Node:
        """The node with its volumes as resources."""
        volumes = self.volumes.columns(node.name, node.labels.get(HOSTNAME, ""))
        if not volumes:
            return node
        capacity = tuple(sorted((dict(node.capacity) | volumes).items()))
        return replace(node, capacity=self._interner.one(capacity))

    def _forget_host(self, name: str) -> None:
        node, _ = self._nodes.get(name, (None, None))
        host = node.labels.get(HOSTNAME, "") if node is not None else ""
        if self._hosts.get(host) == name:
            del self._hosts[host]
