"""API objects as events of the model: the entry point of this package.

Lives here: `Translator`, which turns seen and deleted objects into events. It stores only what one kind of object needs
from another: where claims are bound, which pods are concerned, and which owners are known by their kind alone. An object
of Dynamic Resource Allocation can concern many nodes and pods, so their events are made in `settle`, once for any number
of objects.
Never here: which pods are bound, held or waiting (`ledger`).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from scheduler.model import events as ev
from scheduler.model.cluster import DEFAULT_LEVELS, Level, Node
from scheduler.model.resources import amounts, is_device
from scheduler.model.workload import Complaint, GangKey, Owner, Phase, Pod, PodKey, Uid
from scheduler.objects import api, device_api, groups, nodes, owners, pod_disruption_budgets, pods, quotas
from scheduler.objects.device_claims import NO_DEVICES, Asked, DeviceClaims
from scheduler.objects.interner import Interner
from scheduler.objects.pod_demand import claims_of
from scheduler.objects.volumes import ClaimKey, Volumes

ENDED: Final = frozenset(phase.value for phase in Phase if phase.ended)

ROUNDS: Final = 4
"""Rounds of `settle` at most. The first evaluates what is new, the second counts it in the demands of pods."""


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
        self.devices = DeviceClaims()
        """The device claims of pods."""
        self._touched: set[str] = set()
        self._concerned: set[Uid] = set()
        self._nodes: dict[str, tuple[Node, Node]] = {}
        """Each node without its devices, and as it was last seen."""
        self._with_devices: dict[Uid, api.Pod | Pod] = {}
        """Pods with device claims. A bound one is kept as a pod of the model, which needs less memory."""

    def seen(self, found: api.ApiObject | device_api.DeviceObject) -> list[ev.Event]:
        """The events for an object that exists in this state."""
        match found:
            case api.Pod():
                return self._pod(found)
            case api.Node():
                return self._node(found)
            case api.PersistentVolume():
                return self._again(self.volumes.see_volume(found))
            case api.PersistentVolumeClaim():
                return self._again(self.volumes.see_claim(found))
            case device_api.ResourceSlice():
                self.devices.slices.see_slice(found)
            case device_api.DeviceClass():
                self.devices.slices.see_class(found)
            case device_api.DeviceTaintRule():
                self.devices.slices.see_rule(found)
            case device_api.ResourceClaim():
                self.devices.see_claim(found)
            case device_api.ResourceClaimTemplate():
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
                yield from self._renewed(uid)
            for name in sorted(self._touched):
                self._touched.discard(name)
                yield from self._node_changed(name)

    def gone(
        self, kind: type[api.ApiObject | device_api.DeviceObject], namespace: str, name: str, uid: str
    ) -> list[ev.Event]:
        """The events for an object that no longer exists."""
        if issubclass(kind, api.Pod):
            return self._pod_gone(Uid(uid), PodKey(namespace, name))
        if issubclass(kind, api.Node):
            self.node_complaints.pop(name, None)
            self._nodes.pop(name, None)
            self.devices.slices.see_node(name, ())
            return [ev.NodeGone(name)]
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
        if issubclass(kind, api.PodGroup):
            return [ev.GroupGone(groups.format_of(kind), GangKey(namespace, name))]
        self._device_object_gone(kind, ClaimKey(namespace, name))
        return []

    def _device_object_gone(self, kind: type[device_api.DeviceObject], key: ClaimKey) -> None:
        if issubclass(kind, device_api.ResourceSlice):
            self.devices.slices.lose_slice(key.name)
        elif issubclass(kind, device_api.DeviceClass):
            self.devices.slices.lose_class(key.name)
        elif issubclass(kind, device_api.DeviceTaintRule):
            self.devices.slices.lose_rule(key.name)
        elif issubclass(kind, device_api.ResourceClaim):
            self.devices.lose_claim(key)
        else:
            self.devices.lose_template(key)

    # Pods

    def _pod(self, found: api.Pod) -> list[ev.Event]:
        pod = pods.pod(found, self.volumes, self._levels, self._interner, self._asked(found))
        if pod.uid in self._with_devices and pod.node is not None:
            self._with_devices[pod.uid] = pod
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
        self._with_devices.pop(uid, None)
        self.devices.lose_pod(uid)
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

    # Devices

    def _asked(self, found: api.Pod) -> Asked:
        """What the pod's device claims add to its demand. From now on their changes are followed, until it ends."""
        uid = Uid(found.metadata.uid)
        if found.status.phase in ENDED:
            self.devices.lose_pod(uid)
            self._with_devices.pop(uid, None)
            return NO_DEVICES
        if found.spec.resource_claims:
            self._with_devices[uid] = found
        return self.devices.see_pod(found, pods.place(found) if found.spec.resource_claims else "")

    def _renewed(self, uid: Uid) -> list[ev.Event]:
        """The pod with what its claims add to its demand now."""
        known, change = self._with_devices.get(uid), self.devices.renewed(uid)
        if known is None or change is None:
            return []
        if isinstance(known, api.Pod):
            return self._pod(known)
        self._with_devices[uid] = pod = pods.recounted(known, *change, self._interner)
        return [ev.PodSeen(pod)]

    # Nodes

    def _node_changed(self, name: str) -> list[ev.Event]:
        """The node with its devices, if they have changed."""
        if name not in self._nodes:
            return []
        bare, before = self._nodes[name]
        devices = self.devices.slices.capacity(name)
        capacity = (
            self._interner.one(amounts({**devices, **dict(bare.capacity)})) if devices else bare.capacity
        )
        node = replace(bare, capacity=capacity, held=self.devices.held(name))
        if node == before:
            return []
        self._nodes[name] = (bare, node)
        return [ev.NodeSeen(node)]

    def _node(self, found: api.Node) -> list[ev.Event]:
        node, complaints = nodes.node(found, self._interner)
        if complaints:
            self.node_complaints[node.name] = complaints
        else:
            self.node_complaints.pop(node.name, None)
        self.devices.slices.see_node(node.name, (name for name, _ in node.capacity if is_device(name)))
        self._nodes[node.name] = (node, node)
        return self._node_changed(node.name) or [ev.NodeSeen(node)]
