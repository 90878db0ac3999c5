"""Where the volumes of pods are or can be: claims, with the volumes, classes and drivers behind them.

Lives here: `Volumes`, which its owner updates with the seen storage objects, and what one claim requires of a node.
Never here: pods. A bound claim limits its pods to the nodes that reach the volume. An unbound claim whose class waits for
the first consumer limits them to the nodes where kube-scheduler would bind it.
Source: VolumeBinding, VolumeZone and NodeVolumeLimits of kube-scheduler 1.37.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from scheduler.model.demand import AnyOf, Operator, Requirement, Term
from scheduler.model.resources import ATTACHED_VOLUMES
from scheduler.objects import storage_kinds as kinds
from scheduler.objects.affinity import NODE_NAME, label_requirements, terms
from scheduler.objects.local_volumes import Kind, LocalVolume, LocalVolumes, host_of
from scheduler.objects.provisioning import Provisioning, bytes_of

ALONE: Final = "ReadWriteOncePod"
"""The access mode that lets one pod in the cluster use a volume."""

ONE_NODE: Final = "ReadWriteOnce"
"""The access mode that lets the pods of one node use a volume."""

SELECTED: Final = "volume.kubernetes.io/selected-node"
"""The annotation of the node for which kube-scheduler lets a claim's volume be created."""

MISSING: Final = "spec.volumes: a claim does not exist yet"
DELETED: Final = "spec.volumes: a claim is being deleted"
UNBOUND: Final = "spec.volumes: a claim is not bound yet"
NO_CLASS: Final = "spec.volumes: a claim's StorageClass is unknown"
SHARED: Final = "spec.volumes: a claim that several pods share is not bound yet"
ON_SEVERAL: Final = "spec.volumes: a claim for several nodes is not bound yet"
REACHED_BY_SEVERAL: Final = "spec.volumes: a claim waits for an existing volume that several nodes reach"
TOO_MANY: Final = "spec.volumes: a claim waits for a local volume, like too many other kinds of claims"

_MIGRATED: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""By provisioner, the CSI driver that replaces it."""

_ZONES: Final = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""By label of a volume, the label of nodes that it limits."""


class ClaimKey(NamedTuple):
    namespace: str
    name: str


class ClaimNeeds(NamedTuple):
    """What a claim requires of the node of its pods.

    nodes: term lists that must all hold.  takes: resources of the node, one unit each.  gap: what is not modeled.
    """

    nodes: tuple[AnyOf, ...] = ()
    takes: tuple[str, ...] = ()
    gap: str = ""


class Touched(NamedTuple):
    """What a change may affect: the pods of these claims, the nodes with these names, the nodes with these hosts."""

    claims: Iterable[ClaimKey] = ()
    nodes: Iterable[str] = ()
    hosts: Iterable[str] = ()


class _Claim(NamedTuple):
    volume: str
    """The named volume."""
    bound: bool
    deleted: bool
    modes: frozenset[str]
    klass: str
    size: int | None
    selected: str
    kind: Kind | None
    """What it waits for, without a volume's name. None: it has a volume, or its selector is invalid."""


class _Volume(NamedTuple):
    nodes: tuple[AnyOf, ...]
    driver: str


class Volumes:
    """The storage objects that exist, as far as seen. Each change returns what it may affect."""

    def __init__(self) -> None:
        self._claims: dict[ClaimKey, _Claim] = {}
        self._volumes: dict[str, _Volume] = {}
        self._claimed: dict[str, ClaimKey] = {}
        """By volume, the claim that names it."""
        self._reserved: dict[ClaimKey, str] = {}
        """By claim, the volume that names it."""
        self._reserving: dict[str, ClaimKey] = {}
        self._waiting: dict[str, dict[ClaimKey, None]] = {}
        """By class, the claims without a volume."""
        self._shared: set[ClaimKey] = set()
        self._classes = Provisioning()
        self._local = LocalVolumes()
        self._limits: dict[str, dict[str, int]] = {}

    # Answers

    def needs(self, key: ClaimKey) -> ClaimNeeds:
        """What this claim requires of a node."""
        claim = self._claims.get(key)
        if claim is None:
            return ClaimNeeds(gap=MISSING)
        driver = self._driver(claim)
        takes = (ATTACHED_VOLUMES + "csi-" + driver,) if driver else ()
        volume = self._volumes.get(claim.volume) if claim.bound else None
        if claim.deleted or claim.volume:
            gap = DELETED if claim.deleted else "" if volume else UNBOUND
            return ClaimNeeds(volume.nodes if volume else (), takes, gap)
        # From here on, kube-scheduler binds the claim when it places the first pod.
        return self._unbound(key, claim, takes)

    def _unbound(self, key: ClaimKey, claim: _Claim, takes: tuple[str, ...]) -> ClaimNeeds:
        known = self._classes.get(claim.klass)
        if known is None or not known.late:
            return ClaimNeeds((), takes, NO_CLASS if known is None and claim.klass else UNBOUND)
        # Members that share a claim for one node go to one node. But each would count a local volume of its own.
        together = self.for_one_pod(key) or (self.for_one_node(key) and known.creates)
        gap = "" if claim.modes <= {ONE_NODE, ALONE} else ON_SEVERAL
        gap = SHARED if key in self._shared and not together else gap
        reserved = self._volumes.get(self._reserved.get(key, ""))
        if reserved is not None:
            return ClaimNeeds(reserved.nodes, takes, gap)
        if claim.selected:
            # Its capacity may be reported as used already, so only the node counts.
            node = Term(fields=(Requirement(NODE_NAME, Operator.IN, (claim.selected,)),))
            return ClaimNeeds(((node,),), takes, gap)
        if known.creates:
            # Existing volumes are left out: they can only add nodes.
            return ClaimNeeds(self._classes.nodes(claim.klass, claim.size), takes, gap)
        local = () if claim.kind is None else tuple(self._local.takes(claim.kind))
        if claim.kind is not None and self._local.is_shared(claim.kind):
            return ClaimNeeds((), takes, REACHED_BY_SEVERAL)
        return ClaimNeeds((), takes + local, gap or ("" if local else TOO_MANY))

    def is_settled(self, key: ClaimKey) -> bool:
        """The claim has its volume for good, so its needs no longer change."""
        claim = self._claims.get(key)
        return claim is not None and claim.bound and claim.volume in self._volumes

    def for_one_pod(self, key: ClaimKey) -> bool:
        """Only one pod in the cluster may use the claim at a time."""
        claim = self._claims.get(key)
        return claim is not None and ALONE in claim.modes

    def for_one_node(self, key: ClaimKey) -> bool:
        """Only the pods of one node may use the claim at a time."""
        claim = self._claims.get(key)
        return claim is not None and claim.modes == {ONE_NODE}

    def is_shared(self, key: ClaimKey) -> bool:
        """Several pods use the claim."""
        return key in self._shared

    def columns(self, node: str, host: str) -> dict[str, int]:
        """By resource, the volumes that the node can attach, and the available volumes of its host."""
        return self._limits.get(node, {}) | self._local.columns(host)

    def _driver(self, claim: _Claim) -> str:
        """The CSI driver that attaches the claim's volume. Empty: none. kube-scheduler asks the class without a volume."""
        volume = self._volumes.get(claim.volume)
        if volume is not None:
            return volume.driver
        known = self._classes.get(claim.klass)
        if known is None or not known.creates:
            return ""
        return _MIGRATED.get(known.provisioner, known.provisioner)

    # Claims

    def share(self, key: ClaimKey, *, shared: bool) -> bool:
        """Several pods use the claim, or no longer. Whether this is news."""
        if (key in self._shared) == shared:
            return False
        (self._shared.add if shared else self._shared.discard)(key)
        return True

    def see_claim(self, found: kinds.PersistentVolumeClaim) -> Touched:
        key = ClaimKey(found.metadata.namespace, found.metadata.name)
        return self._put_claim(key, _claim(found))

    def lose_claim(self, key: ClaimKey) -> Touched:
        return self._put_claim(key, None)

    def _put_claim(self, key: ClaimKey, new: _Claim | None) -> Touched:
        before = self._claims.pop(key, None)
        if before is not None and self._claimed.get(before.volume) == key:
            del self._claimed[before.volume]
        if new is not None:
            self._claims[key] = new
            if new.volume:
                self._claimed[new.volume] = key
        waits = new is not None and not new.volume
        for klass in {own.klass for own in (before, new) if own is not None}:
            group = self._waiting.setdefault(klass, {})
            group.pop(key, None)
            if waits and new is not None and new.klass == klass:
                group[key] = None
            if not group:
                del self._waiting[klass]
        return self._recounted(Touched((key,)), before, new)

    def _recounted(self, touched: Touched, before: _Claim | None, new: _Claim | None) -> Touched:
        """The effect of a claim on the kinds of claims that are counted."""
        old, now = (own.kind if own is not None else None for own in (before, new))
        if old == now:
            return touched
        changed = self._local.wait(now, 1) if now is not None else set()
        changed |= self._local.wait(old, -1) if old is not None else set()
        more = self._of_counted(changed)
        return Touched({*touched.claims, *more.claims}, hosts=more.hosts)

    def _of_counted(self, classes: set[str]) -> Touched:
        """The effect of other counted kinds in these classes. Their number is bounded, so one may replace another."""
        return Touched(self._of_classes(classes).claims, hosts=self._local.hosts()) if classes else Touched()

    # Volumes

    def see_volume(self, found: kinds.PersistentVolume) -> Touched:
        name, spec = found.metadata.name, found.spec
        reach = terms(spec.node_affinity.required if spec.node_affinity else None)
        nodes = tuple(own for own in (reach, _zones(found)) if own)
        # A released volume still names its last claim, and another claim may have that name now.
        named = spec.claim_ref if found.status.phase not in {"Released", "Failed"} else None
        claim = ClaimKey(named.namespace, named.name) if named is not None else None
        return self._put_volume(name, _Volume(nodes, _driver(spec)), claim, _available(found, reach))

    def lose_volume(self, name: str) -> Touched:
        return self._put_volume(name, None, None, None)

    def _put_volume(
        self, name: str, new: _Volume | None, claim: ClaimKey | None, available: LocalVolume | None
    ) -> Touched:
        before = self._volumes.pop(name, None)
        touched = set() if before == new or name not in self._claimed else {self._claimed[name]}
        if new is not None:
            self._volumes[name] = new
        old = self._reserving.pop(name, None)
        if old is not None and self._reserved.get(old) == name:
            del self._reserved[old]
        if claim is not None:
            self._reserving[name], self._reserved[claim] = claim, name
        if old != claim or before != new:
            touched |= {own for own in (old, claim) if own is not None}
        moved = self._local.put(name, available)
        # A volume that several nodes reach belongs to no count, so claims that it fits are not modeled.
        touched |= {own for each in moved if each.host is None for own in self._waiting.get(each.klass, ())}
        return Touched(touched, hosts=[own.host for own in moved if own.host is not None])

    # Classes, drivers, capacities and limits

    def see_class(self, found: kinds.StorageClass) -> Touched:
        return self._served(self._classes.see_class(found))

    def lose_class(self, name: str) -> Touched:
        return self._served(self._classes.lose_class(name))

    def _served(self, classes: set[str]) -> Touched:
        """The effect of classes that changed."""
        counted: set[str] = set()
        for name in classes:
            known = self._classes.get(name)
            counted |= self._local.serve(name, static=known is not None and known.late and not known.creates)
        more = self._of_counted(counted)
        return Touched({*self._of_classes(classes).claims, *more.claims}, hosts=more.hosts)

    def see_driver(self, found: kinds.CSIDriver) -> Touched:
        return self._of_classes(self._classes.see_driver(found))

    def lose_driver(self, name: str) -> Touched:
        return self._of_classes(self._classes.lose_driver(name))

    def see_capacity(self, found: kinds.CSIStorageCapacity) -> Touched:
        return self._of_classes(self._classes.see_capacity(found))

    def lose_capacity(self, namespace: str, name: str) -> Touched:
        return self._of_classes(self._classes.lose_capacity(namespace, name))

    def _of_classes(self, classes: set[str]) -> Touched:
        return Touched([claim for name in classes for claim in self._waiting.get(name, ())])

    def see_limits(self, found: kinds.CSINode) -> Touched:
        """The numbers of volumes that a node attaches. A driver without one, or with a negative one, has no limit."""
        limits: dict[str, int] = {}
        for own in found.spec.drivers or ():
            count = own.allocatable.count if own.allocatable is not None else None
            if own.name and count is not None and count >= 0:
                limits[ATTACHED_VOLUMES + "csi-" + own.name] = count
        return self._put_limits(found.metadata.name, limits)

    def lose_limits(self, node: str) -> Touched:
        return self._put_limits(node, {})

    def _put_limits(self, node: str, limits: dict[str, int]) -> Touched:
        if self._limits.get(node, {}) == limits:
            return Touched()
        if limits:
            self._limits[node] = limits
        else:
            del self._limits[node]
        return Touched(nodes=(node,))


def _claim(found: kinds.PersistentVolumeClaim) -> _Claim:
    meta, spec = found.metadata, found.spec
    annotations = meta.annotations or {}
    klass = annotations.get(_CLASS) or spec.storage_class_name or ""
    size = bytes_of((spec.resources.requests or {}).get("storage")) if spec.resources is not None else None
    modes = frozenset(spec.access_modes or ())
    selector = () if spec.selector is None else label_requirements(spec.selector)
    kind = None
    if not spec.volume_name and klass and selector is not None:
        attributes = spec.volume_attributes_class_name or ""
        kind = Kind(klass, size or 0, modes, spec.volume_mode or _FILES, attributes, selector)
    return _Claim(
        volume=spec.volume_name,
        bound=bool(spec.volume_name) and found.status.phase == "Bound",
        deleted=meta.deletion_timestamp is not None,
        modes=modes,
        klass=klass,
        size=size,
        selected=annotations.get(SELECTED, ""),
        kind=kind,
    )


_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""The annotation that takes precedence over the field."""

_FILES: Final = "Filesystem"


def _available(found: kinds.PersistentVolume, reach: AnyOf) -> LocalVolume | None:
    """The volume, if a claim may be bound to it. One with an invalid capacity counts as none."""
    meta, spec = found.metadata, found.spec
    size = bytes_of((spec.capacity or {}).get("storage"))
    if (
        found.status.phase != "Available"
        or spec.claim_ref is not None
        or meta.deletion_timestamp is not None
        or size is None
    ):
        return None
    return LocalVolume(
        host=host_of(reach),
        klass=(meta.annotations or {}).get(_CLASS) or spec.storage_class_name,
        size=size,
        modes=frozenset(spec.access_modes or ()),
        mode=spec.volume_mode or _FILES,
        attributes=spec.volume_attributes_class_name or "",
        labels=meta.labels or {},
    )


def _driver(spec: kinds.VolumeSpec) -> str:
    if spec.csi is not None:
        return spec.csi.driver
    sources = (
        (spec.aws_elastic_block_store, "kubernetes.io/aws-ebs"),
        (spec.azure_disk, "kubernetes.io/azure-disk"),
        (spec.cinder, "kubernetes.io/cinder"),
        (spec.gce_persistent_disk, "kubernetes.io/gce-pd"),
        (spec.portworx_volume, "kubernetes.io/portworx-volume"),
    )
    return next((_MIGRATED[name] for source, name in sources if source is not None), "")


def _zones(found: kinds.PersistentVolume) -> AnyOf:
    """The zones in the volume's labels. A node without any zone or region label may use it too."""
    labels = found.metadata.labels or {}
    said = {_ZONES[key]: tuple(value.split("__")) for key, value in labels.items() if key in _ZONES}
    limits = tuple(Requirement(key, Operator.IN, some) for key, some in sorted(said.items()) if all(some))
    nowhere = tuple(Requirement(key, Operator.DOES_NOT_EXIST) for key in _ZONES)
    return (Term(limits), Term(nowhere)) if limits else ()
