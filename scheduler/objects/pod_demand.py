"""What a pod needs of a node, from its spec: how much, and where.

Never here: which nodes offer it (`placement`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from scheduler.model.demand import AnyOf, Demand, HostPort, Toleration
from scheduler.model.resources import PODS, Amounts, InvalidQuantity
from scheduler.model.workload import Complaint
from scheduler.objects import api
from scheduler.objects.affinity import can_be_narrowed, pinned_to, terms, unpinned
from scheduler.objects.parsing import shown
from scheduler.objects.requests import needs
from scheduler.objects.volumes import ClaimKey, Unsettled, Volumes

_UNSETTLED: Final = {
    Unsettled.MISSING: "spec.volumes: a claim does not exist yet",
    Unsettled.UNBOUND: "spec.volumes: a claim is not bound yet",
}
_ALONE: Final = "spec.volumes: a claim is ReadWriteOncePod"
_IN_TREE: Final = "spec.volumes: a disk is named directly"
_COMPARING: Final = "spec.tolerations: an operator other than Equal and Exists"
_EMPTY_TERM: Final = "spec.affinity.nodeAffinity: a term without requirements"
_JUST_ROOM: Final[Amounts] = ((PODS, 1),)


class Wanted(NamedTuple):
    """What a pod's spec asks for."""

    demand: Demand
    affinity: AnyOf = ()
    """Its own required node affinity."""
    pinned: str | None = None
    """The one node that this names."""
    unmodelled: tuple[str, ...] = ()
    """Fields that decide about nodes and that the planner does not model."""
    complaints: tuple[Complaint, ...] = ()


DEFAULT: Final = "default-scheduler"
"""Kubernetes' own."""


def wanted(pod: api.Pod, volumes: Volumes, pin: str = "") -> Wanted:
    """What the pod needs.

    Of a pod of the default scheduler that has its node only the room that it takes is of interest: nobody moves it. Of
    any other one also what it asks of nodes, without the pin that we gave it: what the next of its owner will ask.
    pin: the node that our pin names; empty: we gave none, and a node that the affinity names is its owner's wish.
    """
    amounts, complaints = _room(pod)
    ports = tuple(sorted(set(_ports(pod.spec)), key=_port_order))
    affinity = _required_affinity(pod.spec)
    pinned = pinned_to(affinity)
    if pod.spec.node_name and pod.spec.scheduler_name in {"", DEFAULT}:
        return Wanted(Demand(amounts, ports=ports), pinned=pinned, complaints=complaints)
    if pod.spec.node_name and pin == pod.spec.node_name:
        affinity = unpinned(affinity, pin)
    claims = claims_of(pod)
    reached = [volumes.reach(claim) for claim in claims]
    constraints = [affinity, *(found for found in reached if not isinstance(found, Unsettled))]
    demand = Demand(
        requests=amounts,
        selector=tuple(sorted((pod.spec.node_selector or {}).items())),
        constraints=tuple(dict.fromkeys(any_of for any_of in constraints if any_of)),
        tolerations=_tolerations(pod.spec.tolerations or ()),
        ports=ports,
    )
    if pod.spec.node_name:
        return Wanted(demand, pinned=pinned, complaints=complaints)
    gaps = [*_gaps(pod.spec, affinity), *_volume_gaps(pod.spec, claims, reached, volumes)]
    return Wanted(demand, affinity, pinned, tuple(dict.fromkeys(gaps)), complaints)


def _room(pod: api.Pod) -> tuple[Amounts, tuple[Complaint, ...]]:
    try:
        return needs(pod), ()
    except InvalidQuantity as wrong:
        remedy = "write quantities such as 500m, 4Gi or 2"
        return _JUST_ROOM, (Complaint("spec.containers.resources", shown(str(wrong)), remedy),)


def _required_affinity(spec: api.PodSpec) -> AnyOf:
    if spec.affinity is None or spec.affinity.node_affinity is None:
        return ()
    return terms(spec.affinity.node_affinity.required)


def _tolerations(said: Iterable[api.Toleration]) -> tuple[Toleration, ...]:
    """In a fixed order and without what makes no difference, so that equal demands compare equal."""
    kept = {
        Toleration(own.key, own.operator == "Exists", own.value, own.effect)
        for own in said
        if own.operator in {"", "Equal", "Exists"} and own.effect != "PreferNoSchedule"
    }
    return tuple(sorted(kept, key=lambda own: (own.key, own.exists, own.value, own.effect)))


def _ports(spec: api.PodSpec) -> Iterator[HostPort]:
    """Ports on the node itself: of containers, and of the sidecars that run as long as they do."""
    lasting = [own for own in spec.init_containers or () if own.restart_policy == "Always"]
    for container in (*lasting, *(spec.containers or ())):
        for port in container.ports or ():
            if port.host_port > 0:
                address = "" if port.host_ip == "0.0.0.0" else port.host_ip  # noqa: S104 - read, not bound
                yield HostPort(port.protocol or "TCP", port.host_port, address)


def _port_order(port: HostPort) -> tuple[str, int, str]:
    return port.protocol, port.port, port.address


def claims_of(pod: api.Pod) -> list[ClaimKey]:
    """The claims that the pod's volumes stand for; those of ephemeral volumes are named after pod and volume."""
    names = [
        volume.persistent_volume_claim.claim_name
        if volume.persistent_volume_claim is not None
        else f"{pod.metadata.name}-{volume.name}"
        for volume in pod.spec.volumes or ()
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None
    ]
    return [ClaimKey(pod.metadata.namespace, name) for name in names]


def _gaps(spec: api.PodSpec, affinity: AnyOf) -> Iterator[str]:
    """Fields that decide about nodes and that the planner does not model."""
    own = spec.affinity
    if own is not None and own.pod_affinity is not None and own.pod_affinity.required:
        yield "spec.affinity.podAffinity"
    if own is not None and own.pod_anti_affinity is not None and own.pod_anti_affinity.required:
        yield "spec.affinity.podAntiAffinity"
    if any(c.when_unsatisfiable == "DoNotSchedule" for c in spec.topology_spread_constraints or ()):
        yield "spec.topologySpreadConstraints"
    if spec.resource_claims:
        yield "spec.resourceClaims"
    if any(t.operator not in {"", "Equal", "Exists"} for t in spec.tolerations or ()):
        yield _COMPARING
    if not can_be_narrowed(affinity):
        yield _EMPTY_TERM


def _volume_gaps(
    spec: api.PodSpec, claims: Sequence[ClaimKey], reached: Sequence[AnyOf | Unsettled], volumes: Volumes
) -> Iterator[str]:
    for claim, found in zip(claims, reached, strict=True):
        if isinstance(found, Unsettled):
            yield _UNSETTLED[found]
        if volumes.for_one_pod(claim):
            yield _ALONE
    if any(
        v.gce_persistent_disk or v.aws_elastic_block_store or v.iscsi or v.rbd for v in spec.volumes or ()
    ):
        yield _IN_TREE
