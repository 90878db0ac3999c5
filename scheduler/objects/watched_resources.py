"""The watched resources: one row per kind.

Never here: how to watch (`kube`). Why a table: the service runs one reflector per row, and the table is easy to compare
with the RBAC role.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from scheduler.objects import api, device_api, storage_kinds

WatchedObject: TypeAlias = api.ApiObject | storage_kinds.StorageObject | device_api.DeviceObject


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection of the API, the type of its objects, and whether it may be missing."""

    path: str
    type: type[WatchedObject]
    optional: bool = False
    """The API server may not serve it: it belongs to a custom resource definition, or is new. Then it counts as empty."""
    dispensable: bool = False
    """Reading it may be forbidden. Then it counts as empty, so that a role of an earlier version still works."""
    decides: bool = False
    """Gangs are placed and evicted by its state, so nothing is done while its watch is unhealthy. The others may be stale
    for a while: kube-scheduler and the API server check volumes and quotas again, and a late group or owner only delays
    its gang."""


_STORAGE: Final = "/apis/storage.k8s.io/v1"

RESOURCES: Final = (
    Resource("/api/v1/nodes", api.Node, decides=True),
    Resource("/api/v1/namespaces", api.Namespace, dispensable=True),
    Resource(f"{_STORAGE}/storageclasses", storage_kinds.StorageClass, optional=True, dispensable=True),
    Resource(f"{_STORAGE}/csidrivers", storage_kinds.CSIDriver, optional=True, dispensable=True),
    Resource(
        f"{_STORAGE}/csistoragecapacities", storage_kinds.CSIStorageCapacity, optional=True, dispensable=True
    ),
    Resource(f"{_STORAGE}/csinodes", storage_kinds.CSINode, optional=True, dispensable=True),
    Resource("/api/v1/persistentvolumes", storage_kinds.PersistentVolume),
    Resource("/api/v1/persistentvolumeclaims", storage_kinds.PersistentVolumeClaim),
    Resource("/api/v1/resourcequotas", api.ResourceQuota),
    Resource("/apis/policy/v1/poddisruptionbudgets", api.PodDisruptionBudget, dispensable=True),
    Resource("/apis/batch/v1/jobs", api.Job),
    Resource("/apis/apps/v1/statefulsets", api.StatefulSet),
    Resource("/apis/scheduling.x-k8s.io/v1alpha1/podgroups", api.PluginsPodGroup, optional=True),
    Resource("/apis/scheduling.volcano.sh/v1beta1/podgroups", api.VolcanoPodGroup, optional=True),
    Resource("/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups", api.KoordinatorPodGroup, optional=True),
    Resource("/apis/scheduling.run.ai/v2alpha2/podgroups", api.KaiPodGroup, optional=True),
    *(
        Resource(f"/apis/resource.k8s.io/v1/{plural}", kind, optional=True, dispensable=True)
        for plural, kind in (
            ("deviceclasses", device_api.DeviceClass),
            ("devicetaintrules", device_api.DeviceTaintRule),
            ("resourceslices", device_api.ResourceSlice),
            ("resourceclaimtemplates", device_api.ResourceClaimTemplate),
            ("resourceclaims", device_api.ResourceClaim),
        )
    ),
    Resource("/api/v1/pods", api.Pod, decides=True),
)
"""Pods come last, so that the objects that they refer to are known first."""
