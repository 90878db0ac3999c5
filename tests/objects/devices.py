"""Objects of Dynamic Resource Allocation, briefly written."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.workload import Pod
from scheduler.objects import api, device_api
from scheduler.objects.translate import Translator

DRIVER = "gpu.example.com"
PLAIN = "deviceclass.resource.kubernetes.io/gpu"


def _read(kind: Any, **text: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(text), type=kind)


def named(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "uid": f"uid-{name}", **more}


def node_of(name: str, **allocatable: str) -> api.Node:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", **allocatable}
    return _read(api.Node, metadata=named(name), status={"allocatable": amounts})


def device(name: str, taints: Iterable[Mapping[str, str]] = (), **attributes: Any) -> dict[str, Any]:
    kinds = {str: "string", bool: "bool", int: "int"}
    said = {key: {kinds[type(value)]: value} for key, value in attributes.items()}
    return {"name": name, "attributes": said, "taints": list(taints)}


def slice_of(
    node: str, devices: Iterable[Any], name: str = "", generation: int = 1, count: int = 1, **more: Any
) -> device_api.ResourceSlice:
    pool = {"name": node, "generation": generation, "resourceSliceCount": count}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": list(devices), **more}
    return _read(device_api.ResourceSlice, metadata=named(name or f"slice-{node}"), spec=spec)


def class_of(name: str = "gpu", *selectors: str, resource: str | None = None) -> device_api.DeviceClass:
    spec = {
        "selectors": [{"cel": {"expression": own}} for own in selectors],
        "extendedResourceName": resource,
    }
    return _read(device_api.DeviceClass, metadata=named(name), spec=spec)


def request(of: str = "gpu", count: int = 1, *selectors: str, **more: Any) -> dict[str, Any]:
    own = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count}
    said = [{"cel": {"expression": text}} for text in selectors]
    return {"name": f"r-{of}", "exactly": {**own, "selectors": said, **more}}


def spec_of(*requests: Any, constraints: Iterable[Any] = ()) -> dict[str, Any]:
    return {"devices": {"requests": list(requests), "constraints": list(constraints)}}


def template_of(name: str, *requests: Any, **more: Any) -> device_api.ResourceClaimTemplate:
    return _read(
        device_api.ResourceClaimTemplate,
        metadata=named(name, "team"),
        spec={"spec": spec_of(*requests, **more)},
    )


def claim_of(
    name: str,
    *requests: Any,
    devices: Iterable[tuple[str, str]] | None = None,
    owner: str = "",
    reserved: Iterable[str] = (),
    extended: bool = False,
    constraints: Iterable[Any] = (),
) -> device_api.ResourceClaim:
    """devices: node and device of each allocated one; None: not allocated.  owner, reserved: names of pods."""
    meta = named(name, "team")
    if owner:
        own = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}
        meta["ownerReferences"] = [own]
    if extended:
        meta["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    status: dict[str, Any] = {
        "reservedFor": [{"resource": "pods", "name": n, "uid": f"uid-{n}"} for n in reserved]
    }
    if devices is not None:
        found = [{"request": "r", "driver": DRIVER, "pool": node, "device": own} for node, own in devices]
        where = sorted({own["pool"] for own in found})
        field = {"key": "metadata.name", "operator": "In", "values": where}
        status["allocation"] = {
            "devices": {"results": found},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        }
    return _read(
        device_api.ResourceClaim,
        metadata=meta,
        spec=spec_of(*requests, constraints=constraints),
        status=status,
    )


def pod_of(
    name: str,
    template: str = "",
    claim: str = "",
    made: str = "",
    node: str = "",
    scheduler: str = "gangwright",
    phase: str = "",
    seat: str = "",
    **resources: str,
) -> api.Pod:
    """template, claim: what its only claim names.  made: the claim that was created for it."""
    said = {"name": "d"}
    said |= {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    spec = {
        "schedulerName": scheduler,
        "nodeName": node,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", **resources}}}],
        "resourceClaims": [said] if template or claim else [],
    }
    status = {"phase": phase, "nominatedNodeName": seat}
    if made:
        status["resourceClaimStatuses"] = [{"name": "d", "resourceClaimName": made}]
    return _read(api.Pod, metadata=named(name, "team"), spec=spec, status=status)


class Desk:
    """A translator, and the last state of each node and pod that it told."""

    def __init__(self) -> None:
        self.translator = Translator()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.told: list[ev.Event] = []

    def see(self, *objects: Any) -> list[ev.Event]:
        """One batch of objects. Returns the events."""
        return self._take([event for own in objects for event in self.translator.seen(own)])

    def lose(self, *objects: Any) -> list[ev.Event]:
        gone = []
        for own in objects:
            meta = own.metadata
            gone += self.translator.gone(type(own), meta.namespace, meta.name, meta.uid)
        return self._take(gone)

    def _take(self, events: list[ev.Event]) -> list[ev.Event]:
        events += self.translator.settle()
        for event in events:
            match event:
                case ev.NodeSeen():
                    self.nodes[event.node.name] = event.node
                case ev.PodSeen():
                    self.pods[event.pod.key.name] = event.pod
                case ev.PodGone():
                    self.pods.pop(event.key.name, None)
        return events

    def capacity(self, node: str, resource: str = PLAIN) -> int:
        return dict(self.nodes[node].capacity).get(resource, 0)

    def asks(self, pod: str, resource: str = PLAIN) -> int:
        return dict(self.pods[pod].demand.requests).get(resource, 0)

    def free(self, node: str, resource: str = PLAIN) -> int:
        """What the ledger computes: capacity less what is held, and less the demands of the pods there."""
        used = dict(self.nodes[node].held).get(resource, 0)
        used += sum(
            self.asks(name, resource)
            for name, pod in self.pods.items()
            if not pod.phase.ended and node in {pod.node, pod.nominated if pod.node is None else None}
        )
        return self.capacity(node, resource) - used
