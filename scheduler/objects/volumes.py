"""Where the volumes of pods are: claims and their bound volumes.

Lives here: `Volumes`, which its owner updates with the seen claims and volumes. Never here: a pod.
A bound claim limits its pods to the nodes that can reach the volume. kube-scheduler binds an unbound claim to a node
that it chooses itself, which cannot be predicted.
"""

from enum import Enum
from typing import Final, NamedTuple

from scheduler.model.demand import AnyOf
from scheduler.objects import api
from scheduler.objects.affinity import terms

ALONE: Final = "ReadWriteOncePod"
"""The access mode that lets one pod in the cluster use a volume."""


class ClaimKey(NamedTuple):
    namespace: str
    name: str


class Unsettled(Enum):
    """Why the nodes of a claim are unknown."""

    MISSING = "missing"
    UNBOUND = "unbound"


class _Claim(NamedTuple):
    volume: str
    alone: bool


class Volumes:
    """The claims and volumes that exist, as far as seen."""

    def __init__(self) -> None:
        self._claims: dict[ClaimKey, _Claim] = {}
        self._reach: dict[str, AnyOf] = {}
        self._claimed: dict[str, ClaimKey] = {}

    def reach(self, key: ClaimKey) -> AnyOf | Unsettled:
        """The nodes that can reach the claim's volume. No terms: all nodes."""
        claim = self._claims.get(key)
        if claim is None:
            return Unsettled.MISSING
        return self._reach.get(claim.volume, Unsettled.UNBOUND) if claim.volume else Unsettled.UNBOUND

    def for_one_pod(self, key: ClaimKey) -> bool:
        """Only one pod in the cluster may use the claim at a time."""
        claim = self._claims.get(key)
        return claim is not None and claim.alone

    def see_claim(self, claim: api.PersistentVolumeClaim) -> ClaimKey:
        key = ClaimKey(claim.metadata.namespace, claim.metadata.name)
        bound = claim.spec.volume_name if claim.status.phase == "Bound" else ""
        self.lose_claim(key)
        self._claims[key] = _Claim(bound, ALONE in (claim.spec.access_modes or ()))
        if bound:
            self._claimed[bound] = key
        return key

    def lose_claim(self, key: ClaimKey) -> None:
        before = self._claims.pop(key, None)
        if before is not None and self._claimed.get(before.volume) == key:
            del self._claimed[before.volume]

    def see_volume(self, volume: api.PersistentVolume) -> ClaimKey | None:
        """Add the volume. Returns the claim that is bound to it, if that was seen before."""
        affinity = volume.spec.node_affinity
        self._reach[volume.metadata.name] = terms(affinity.required if affinity else None)
        return self._claimed.get(volume.metadata.name)

    def lose_volume(self, name: str) -> ClaimKey | None:
        self._reach.pop(name, None)
        return self._claimed.get(name)
