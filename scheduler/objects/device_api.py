"""API objects of `resource.k8s.io/v1` (Dynamic Resource Allocation), as far as Gangwright reads them.

Lives here: the shape, like in `api`, whose module is full. Never here: the meaning of a field (`device_slices`,
`device_claims`). Fields that Gangwright does not model are declared too, so that a claim that uses one is recognized.
"""

from typing import Any, TypeAlias

from msgspec import field

from scheduler.objects.api import Meta, Present, Quantity
from scheduler.objects.api_affinity import NodeSelector, Part


class _Object(Part):
    metadata: Meta


# Devices


class DeviceTaint(Part):
    key: str = ""
    value: str = ""
    effect: str = ""


class Capacity(Part):
    value: Quantity = 0


class Device(Part):
    """attributes: by name, with or without a domain, one of int, bool, string or version, or a list of one of them."""

    name: str = ""
    attributes: dict[str, dict[str, Any]] | None = None
    capacity: dict[str, Capacity] | None = None
    taints: list[DeviceTaint] | None = None
    consumes_counters: list[Present] | None = None
    binding_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None
    node_allocatable_resources: dict[str, Present] | None = None


class Pool(Part):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class SliceSpec(Part):
    driver: str = ""
    pool: Pool = field(default_factory=Pool)
    node_name: str | None = None
    devices: list[Device] | None = None


class ResourceSlice(_Object):
    """Some devices of one pool of one driver."""

    spec: SliceSpec = field(default_factory=SliceSpec)


class RuleSelector(Part):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class RuleSpec(Part):
    device_selector: RuleSelector | None = None
    taint: DeviceTaint = field(default_factory=DeviceTaint)


class DeviceTaintRule(_Object):
    """A taint for all devices that it selects."""

    spec: RuleSpec = field(default_factory=RuleSpec)


# Requests


class CelSelector(Part):
    expression: str = ""


class Selector(Part):
    cel: CelSelector | None = None


class ClassSpec(Part):
    selectors: list[Selector] | None = None
    extended_resource_name: str | None = None


class DeviceClass(_Object):
    """Devices that selectors select. Its extended resource name lets a container request them without a claim."""

    spec: ClassSpec = field(default_factory=ClassSpec)


class DeviceToleration(Part):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Exactly(Part):
    device_class_name: str = ""
    selectors: list[Selector] | None = None
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: Present | None = None
    derived_attributes: list[Present] | None = None


class DeviceRequest(Part):
    name: str = ""
    exactly: Exactly | None = None
    first_available: list[Present] | None = None


class Constraint(Part):
    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(Part):
    requests: list[DeviceRequest] | None = None
    constraints: list[Constraint] | None = None


class ResourceClaimSpec(Part):
    devices: DeviceClaim = field(default_factory=DeviceClaim)


class AllocatedDevice(Part):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None


class AllocatedDevices(Part):
    results: list[AllocatedDevice] | None = None


class Allocation(Part):
    devices: AllocatedDevices = field(default_factory=AllocatedDevices)
    node_selector: NodeSelector | None = None


class Consumer(Part):
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Part):
    allocation: Allocation | None = None
    reserved_for: list[Consumer] | None = None


class ResourceClaim(_Object):
    """Requested devices, and those that kube-scheduler allocated."""

    spec: ResourceClaimSpec = field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = field(default_factory=ResourceClaimStatus)


class ClaimTemplateSpec(Part):
    spec: ResourceClaimSpec = field(default_factory=ResourceClaimSpec)


class ResourceClaimTemplate(_Object):
    """The claims that are created for pods that name this template."""

    spec: ClaimTemplateSpec = field(default_factory=ClaimTemplateSpec)


DeviceObject: TypeAlias = (
    ResourceSlice | DeviceTaintRule | DeviceClass | ResourceClaim | ResourceClaimTemplate
)
