"""What is watched: one row a kind.

Never here: how one watches (`kube`). Why a table: the service drives one reflector a row, and what we read is seen
at one glance, beside what the role allows.
"""

from dataclasses import dataclass
from typing import Final

from scheduler.objects import api


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection of the API, the type of its objects, and whether it may be missing."""

    path: str
    type: type[api.ApiObject]
    optional: bool = False
    """It comes with a custom resource definition that need not be installed; missing is empty."""
    dispensable: bool = False
    """It may also be forbidden to us: then it counts as empty, so that a role of an earlier version still does."""
    decides: bool = False
    """Gangs are placed, and taken down, by what is seen of it: while its watch does not stand, nothing is done. Of the
    others the past does for a while: kube-scheduler and the API server look at volumes and quotas once more, and a
    group or an owner that is seen late makes its gang late."""


RESOURCES: Final = (
    Resource("/api/v1/nodes", api.Node, decides=True),
    Resource("/api/v1/persistentvolumes", api.PersistentVolume),
    Resource("/api/v1/persistentvolumeclaims", api.PersistentVolumeClaim),
    Resource("/api/v1/resourcequotas", api.ResourceQuota),
    Resource("/apis/policy/v1/poddisruptionbudgets", api.PodDisruptionBudget, dispensable=True),
    Resource("/apis/batch/v1/jobs", api.Job),
    Resource("/apis/apps/v1/statefulsets", api.StatefulSet),
    Resource("/apis/scheduling.x-k8s.io/v1alpha1/podgroups", api.PluginsPodGroup, optional=True),
    Resource("/apis/scheduling.volcano.sh/v1beta1/podgroups", api.VolcanoPodGroup, optional=True),
    Resource("/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups", api.KoordinatorPodGroup, optional=True),
    Resource("/apis/scheduling.run.ai/v2alpha2/podgroups", api.KaiPodGroup, optional=True),
    Resource("/api/v1/pods", api.Pod, decides=True),
)
"""Pods last: what they refer to is better known before them."""
