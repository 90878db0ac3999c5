"""Storage objects of the API, as far as Gangwright reads them.

Never here: the meaning of a field (`volumes`), or other kinds (`api`).
"""

from typing import TypeAlias

from msgspec import field

from scheduler.objects import api
from scheduler.objects.api_affinity import LabelSelector, NodeSelector, Part

# Volumes and claims


class VolumeAffinity(Part):
    required: NodeSelector | None = None


class ClaimReference(Part):
    namespace: str = ""
    name: str = ""


class CSISource(Part):
    driver: str = ""


class VolumeSpec(Part):
    node_affinity: VolumeAffinity | None = None
    access_modes: list[str] | None = None
    capacity: api.Amounts = None
    claim_ref: ClaimReference | None = None
    csi: CSISource | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    aws_elastic_block_store: api.Present | None = None
    azure_disk: api.Present | None = None
    cinder: api.Present | None = None
    gce_persistent_disk: api.Present | None = None
    portworx_volume: api.Present | None = None


class VolumeStatus(Part):
    phase: str = ""


class PersistentVolume(Part):
    metadata: api.Meta
    spec: VolumeSpec = field(default_factory=VolumeSpec)
    status: VolumeStatus = field(default_factory=VolumeStatus)


class ClaimSpec(Part):
    volume_name: str = ""
    access_modes: list[str] | None = None
    resources: api.ResourceRequirements | None = None
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class ClaimStatus(Part):
    phase: str = ""


class PersistentVolumeClaim(Part):
    metadata: api.Meta
    spec: ClaimSpec = field(default_factory=ClaimSpec)
    status: ClaimStatus = field(default_factory=ClaimStatus)


# Classes and drivers


class TopologyRequirement(Part):
    key: str = ""
    values: list[str] | None = None


class TopologyTerm(Part):
    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(Part):
    metadata: api.Meta
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class CSIDriverSpec(Part):
    storage_capacity: bool | None = None


class CSIDriver(Part):
    metadata: api.Meta
    spec: CSIDriverSpec = field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(Part):
    metadata: api.Meta
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: api.Quantity | None = None
    maximum_volume_size: api.Quantity | None = None


class VolumeLimit(Part):
    count: int | None = None


class NodeDriver(Part):
    name: str = ""
    allocatable: VolumeLimit | None = None


class CSINodeSpec(Part):
    drivers: list[NodeDriver] | None = None


class CSINode(Part):
    metadata: api.Meta
    spec: CSINodeSpec = field(default_factory=CSINodeSpec)


StorageObject: TypeAlias = (
    PersistentVolume | PersistentVolumeClaim | StorageClass | CSIDriver | CSIStorageCapacity | CSINode
)
