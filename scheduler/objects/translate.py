"""API objects as events of the model: the entry point of this package.

Lives here: `Translator`, which turns seen and deleted objects into events. It stores only what one kind of object needs
from another: what is behind claims, which nodes depend on it, and which owners are known by their kind alone. An object of
Dynamic Resource Allocation can concern many nodes and pods, so their events are created in `settle`, once for any number of
objects.
Never here: which pods are bound, held or waiting (`ledger`), or which of them depend on claims (`claiming_pods`).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from scheduler.model import events as ev
from scheduler.model.cluster import DEFAULT_LEVELS, Level, Node
from scheduler.model.resources import amounts, is_device
from scheduler.model.workload import Complaint, GangKey, Owner, PodKey, Uid
from scheduler.objects import api, groups, nodes, owners, pod_disruption_budgets, quotas, storage_kinds
from scheduler.objects import device_api as devices
from scheduler.objects.claiming_pods import ClaimingPods
from scheduler.objects.interner import Interner
from scheduler.objects.local_volumes import HOSTNAME
from scheduler.objects.volumes import ClaimKey, Touched
from scheduler.objects.watched_resources import WatchedObject

ROUNDS: Final = 4
"""Rounds of `settle` at most. The first evaluates what is new, the second counts it in the demands of pods."""


class Translator:
    """Translates API objects.  levels: as configured, because formats name levels by their node labels."""

    def __init__(self, levels: tuple[Level, ...] = DEFAULT_LEVELS, interner: Interner | None = None) -> None:
        self.node_complaints: dict[str, tuple[Complaint, ...]] = {}
        """The invalid fields of each node, by its name."""
        self._levels = levels
        self._interner = interner or Interner()
        self._pods = ClaimingPods(levels, self._interner)
        self.volumes = self._pods.volumes
        """The storage behind claims."""
        self.devices = self._pods.devices
        """The device claims of pods."""
        self._touched: set[str] = set()
        self._concerned: set[Uid] = set()
        self._owned: dict[str, set[Uid]] = {}
        self._owners: dict[Uid, str] = {}
        self._nodes: dict[str, tuple[Node, Node]] = {}
        """By name, each node without volumes and devices, and as last reported."""
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
            case devices.ResourceSlice():
                self.devices.slices.see_slice(found)
            case devices.DeviceClass():
                self.devices.slices.see_class(found)
            case devices.DeviceTaintRule():
                self.devices.slices.see_rule(found)
            case devices.ResourceClaim():
                self.devices.see_claim(found)
            case devices.ResourceClaimTemplate():
                self.devices.see_template(found)
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
        return []

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
        if issubclass(kind, api.PodGroup):
            return [ev.GroupGone(groups.format_of(kind), GangKey(namespace, name))]
        self._device_object_gone(kind, ClaimKey(namespace, name))
        return []

    def settle(self) -> Iterator[ev.Event]:
        """The events that follow from objects of Dynamic Resource Allocation since the last call.

        If it raises, the next call continues behind the pod or the node that made it raise.
        """
        for _ in range(ROUNDS):
            names, uids = self.devices.settle()
            self._touched |= names
            self._concerned |= uids
            if not self._touched and not self._concerned:
                break
            for uid in sorted(self._concerned):
                self._concerned.discard(uid)
                yield from self._pods.renewed(uid)
            for name in sorted(self._touched):
                self._touched.discard(name)
                yield from self._node_again(name)

    # Pods

    def _pod(self, found: api.Pod) -> list[ev.Event]:
        pod, changed = self._pods.see(found)
        told: list[ev.Event] = []
        if pod.owner is not None and pod.uid not in self._owners:
            told += self._meet(pod.owner, pod.uid)
        return [*told, ev.PodSeen(pod), *self._pods.again(changed)]

    def _pod_gone(self, uid: Uid, key: PodKey) -> list[ev.Event]:
        changed = self._pods.lose(uid)
        owner = self._owners.pop(uid, None)
        told: list[ev.Event] = [ev.PodGone(uid, key), *self._pods.again(changed)]
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

    # Storage and devices

    def _again(self, touched: Touched) -> list[ev.Event]:
        """Translate the pods and nodes again that depend on these objects. Equal results are no events."""
        told: list[ev.Event] = list(self._pods.again(touched.claims))
        names = {*touched.nodes, *(self._hosts.get(host, "") for host in touched.hosts)}
        return [*told, *(event for name in sorted(names) for event in self._node_again(name))]

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

    def _device_object_gone(self, kind: type[devices.DeviceObject], key: ClaimKey) -> None:
        if issubclass(kind, devices.ResourceSlice):
            self.devices.slices.lose_slice(key.name)
        elif issubclass(kind, devices.DeviceClass):
            self.devices.slices.lose_class(key.name)
        elif issubclass(kind, devices.DeviceTaintRule):
            self.devices.slices.lose_rule(key.name)
        elif issubclass(kind, devices.ResourceClaim):
            self.devices.lose_claim(key)
        else:
            self.devices.lose_template(key)

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
        self.devices.slices.see_node(node.name, (name for name, _ in node.capacity if is_device(name)))
        reported = self._with_claimed(node)
        self._nodes[node.name] = (node, reported)
        return [ev.NodeSeen(reported)]

    def _node_gone(self, name: str) -> list[ev.Event]:
        self.node_complaints.pop(name, None)
        self._forget_host(name)
        self._nodes.pop(name, None)
        self.devices.slices.see_node(name, ())
        return [ev.NodeGone(name)]

    def _node_again(self, name: str) -> Iterator[ev.Event]:
        node, before = self._nodes.get(name, (None, None))
        if node is not None and (reported := self._with_claimed(node)) != before:
            self._nodes[name] = (node, reported)
            yield ev.NodeSeen(reported)

    def _with_claimed(self, node: Node) -> Node:
        """The node with its volumes and devices as resources. A node without any of them stays the same object."""
        devices = amounts(self.devices.slices.capacity(node.name))
        volumes = self.volumes.columns(node.name, node.labels.get(HOSTNAME, ""))
        held = self.devices.held(node.name)
        if not devices and not volumes and not held:
            return node
        # The node's own amounts of devices come from device plugins. A limit of zero volumes is kept: without it, there
        # is no limit.
        capacity = tuple(sorted((dict(devices) | dict(node.capacity) | volumes).items()))
        return replace(node, capacity=self._interner.one(capacity), held=held)

    def _forget_host(self, name: str) -> None:
        node, _ = self._nodes.get(name, (None, None))
        host = node.labels.get(HOSTNAME, "") if node is not None else ""
        if self._hosts.get(host) == name:
            del self._hosts[host]
