"""Storage objects of the API, as far as Gangwright reads them.

Never here: the meaning of a field (`volumes`), or other kinds (`api`).
"""

from typing import TypeAlias

from msgspec import Struct, field

from scheduler.objects import api


class _Part(Struct, rename="camel", gc=False):
    """A part of an object, or an object."""


# Volumes and claims


class VolumeAffinity(_Part):
    required: api.NodeSelector | None = None


class ClaimReference(_Part):
    namespace: str = ""
    name: str = ""


class CSISource(_Part):
    driver: str = ""


class VolumeSpec(_Part):
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


class VolumeStatus(_Part):
    phase: str = ""


class PersistentVolume(_Part):
    metadata: api.Meta
    spec: VolumeSpec = field(default_factory=VolumeSpec)
    status: VolumeStatus = field(default_factory=VolumeStatus)


class ClaimSpec(_Part):
    volume_name: str = ""
    access_modes: list[str] | None = None
    resources: api.ResourceRequirements | None = None
    selector: api.LabelSelector | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class ClaimStatus(_Part):
    phase: str = ""


class PersistentVolumeClaim(_Part):
    metadata: api.Meta
    spec: ClaimSpec = field(default_factory=ClaimSpec)
    status: ClaimStatus = field(default_factory=ClaimStatus)


# Classes and drivers


class TopologyRequirement(_Part):
    key: str = ""
    values: list[str] | None = None


class TopologyTerm(_Part):
    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(_Part):
    metadata: api.Meta
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class CSIDriverSpec(_Part):
    storage_capacity: bool | None = None


class CSIDriver(_Part):
    metadata: api.Meta
    spec: CSIDriverSpec = field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(_Part):
    metadata: api.Meta
    storage_class_name: str = ""
    node_topology: api.LabelSelector | None = None
    capacity: api.Quantity | None = None
    maximum_volume_size: api.Quantity | None = None


class VolumeLimit(_Part):
    count: int | None = None


class NodeDriver(_Part):
    name: str = ""
    allocatable: VolumeLimit | None = None


class CSINodeSpec(_Part):
    drivers: list[NodeDriver] | None = None


class CSINode(_Part):
    metadata: api.Meta
    spec: CSINodeSpec = field(default_factory=CSINodeSpec)


StorageObject: TypeAlias = (
    PersistentVolume | PersistentVolumeClaim | StorageClass | CSIDriver | CSIStorageCapacity | CSINode
)
