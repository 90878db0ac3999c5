"""What a pod requires of a node, from its spec: how much, as kube-scheduler 1.37 counts it, and where.

Lives here: sums over containers; selectors, affinity, tolerations and host ports; and the names of the rules that the
planner does not model. Never here: which nodes fit (`placement`).

Containers add up. Init containers run one after the other, each beside the sidecars (`restartPolicy: Always`) that
started before it, and the pod counts as the maximum at any time. Pod-level requests replace that sum, and the overhead
is added. A pod on a node also counts with what it was given: after a resize, the maximum of requested, allocated and
actuated resources.
Source: `k8s.io/component-helpers/resource`, `PodRequests`, and NodeInfo and NodeResourcesFit of kube-scheduler 1.37.

Quantities are kept in whole thousandths, rounded up, as the API server stores them. Whole units are computed from the
sum, not from its parts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from scheduler.model.demand import AnyOf, Demand, HostPort, Operator, Requirement, Toleration
from scheduler.model.neighbors import CLUSTER, NO_NEIGHBORS, NODE, Neighbors, PodSelector, PodTerm, user_of
from scheduler.model.resources import (
    ATTACHED_VOLUMES,
    CPU,
    EPHEMERAL_STORAGE,
    EXACT,
    HUGE_PAGES,
    MEMORY,
    PODS,
    Amounts,
    InvalidQuantity,
    amounts,
    combined,
    parse_quantity,
)
from scheduler.model.workload import Complaint
from scheduler.objects import api, api_affinity
from scheduler.objects.affinity import can_be_narrowed, pinned_to, terms, unpinned
from scheduler.objects.device_claims import NO_DEVICES, Asked
from scheduler.objects.parsing import shown
from scheduler.objects.pod_affinity import neighbors_of
from scheduler.objects.volumes import ClaimKey, ClaimNeeds, Volumes

Counted: TypeAlias = dict[str, int]
"""Thousandths by resource."""

_NATIVE: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
_PREFIXED: Final = (HUGE_PAGES, ATTACHED_VOLUMES)
_Reading: TypeAlias = Callable[[api.Container], api.Amounts]


def needs(pod: api.Pod) -> Amounts:
    """What the pod takes from a node, including one of `pods` for itself. Raises InvalidQuantity."""
    found = whole(_requests(pod))
    found[PODS] = 1
    return amounts(found)


def whole(counted: Mapping[str, int]) -> dict[str, int]:
    """Whole units of the resources that kube-scheduler counts. Raises InvalidQuantity."""
    units = {
        name: value if name == CPU else -(-value // 1000)
        for name, value in counted.items()
        if is_counted(name)
    }
    for name, value in units.items():
        if value > EXACT:
            raise InvalidQuantity(f"more than {EXACT} of {name}")
    return units


def is_counted(name: str) -> bool:
    """kube-scheduler counts cpu, memory, ephemeral storage, huge pages, and every resource with a domain in its name."""
    return name in _NATIVE or "/" in name or name.startswith(_PREFIXED)


@lru_cache(maxsize=4096)
def thousandths(text: api.Quantity) -> int:
    """A quantity in thousandths, rounded up. Raises InvalidQuantity for an invalid or negative quantity."""
    exact = parse_quantity(str(text))
    value = int((exact * 1000).to_integral_value(rounding=ROUND_CEILING))
    if value < 0:
        raise InvalidQuantity(f"{text!r} is negative")
    return value


def _counted(said: api.Amounts) -> Counted:
    return {name: thousandths(text) for name, text in said.items()} if said else {}


def _of_spec(container: api.Container) -> api.Amounts:
    """The requests. A limit without a request counts as the request, as the API server defaults it."""
    resources = container.resources
    if resources is None:
        return None
    if not resources.limits:
        return resources.requests
    return {**resources.limits, **(resources.requests or {})}


def _add(total: Counted, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _most(*lists: Mapping[str, int]) -> Counted:
    names = {name for found in lists for name in found}
    return {name: max(found.get(name, 0) for found in lists) for name in names}


def _requests(pod: api.Pod) -> Counted:
    given = pod.spec.node_name and _is_resized(pod)
    total = _in_force(pod) if given else _together(pod.spec, _of_spec)
    _put_pod_level(pod, total)
    _add(total, _counted(pod.spec.overhead))
    return total


def _together(spec: api.PodSpec, reading: _Reading) -> Counted:
    """The maximum at any time, with the amounts that `reading` returns for each container."""
    total: Counted = {}
    for container in spec.containers or ():
        _add(total, _counted(reading(container)))
    if not spec.init_containers:
        return total
    sidecars: Counted = {}
    starting: Counted = {}
    for container in spec.init_containers:
        own = _counted(reading(container))
        if container.restart_policy == "Always":
            _add(total, own)
            _add(sidecars, own)
            starting = _most(starting, sidecars)
        else:
            _add(own, sidecars)
            starting = _most(starting, own)
    return _most(total, starting)


def _put_pod_level(pod: api.Pod, total: Counted) -> None:
    """Replace the containers' sum with pod-level requests."""
    own = pod.spec.resources
    if own is None:
        return
    asked = {name: value for name, value in _counted(own.requests).items() if _is_pod_level(name)}
    for name, value in _counted(own.limits).items():
        # A limit without a request: the containers' sum applies if it exists, except for huge pages.
        if _is_pod_level(name) and name not in asked and (name not in total or name.startswith(HUGE_PAGES)):
            asked[name] = value
    status = pod.status
    if asked and pod.spec.node_name and status.resources is not None:
        spec = {} if _is_infeasible(status) else asked
        given = _most(spec, _counted(status.resources.requests), _counted(status.allocated_resources))
        asked = {name: value for name, value in given.items() if _is_pod_level(name)}
    total.update(asked)


def _is_pod_level(name: str) -> bool:
    return name in {CPU, MEMORY} or name.startswith(HUGE_PAGES)


# A pod that was resized in place


def _is_infeasible(status: api.PodStatus) -> bool:
    """The kubelet will never grant the current requests of the spec."""
    pending = next((c for c in status.conditions or () if c.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"


def _statuses(status: api.PodStatus) -> Iterable[api.ContainerStatus]:
    yield from status.init_container_statuses or ()
    yield from status.container_statuses or ()  # of two equal names, the later counts


def _is_resized(pod: api.Pod) -> bool:
    """Allocated or actuated resources differ from the spec. For most pods they do not."""
    if pod.status.allocated_resources is not None or _is_infeasible(pod.status):
        return True
    spec = pod.spec
    asked = {c.name: _of_spec(c) or {} for c in (*(spec.init_containers or ()), *(spec.containers or ()))}
    for status in _statuses(pod.status):
        given = (status.allocated_resources, status.resources.requests if status.resources else None)
        if any(part is not None and part != asked.get(status.name) for part in given):
            return True
    return False


def _in_force(pod: api.Pod) -> Counted:
    """The maximum of requested, allocated and actuated resources."""
    spec, status = pod.spec, pod.status
    infeasible = _is_infeasible(status)
    known = {found.name: found for found in _statuses(status)}

    def allocated(container: api.Container) -> api.Amounts:
        found = known.get(container.name)
        if found is not None and found.allocated_resources is not None:
            return found.allocated_resources
        return None if infeasible else _of_spec(container)

    def actuated(container: api.Container) -> api.Amounts:
        found = known.get(container.name)
        if found is not None and found.resources is not None and found.resources.requests is not None:
            return found.resources.requests
        return allocated(container)

    if status.allocated_resources is not None and status.resources and status.resources.requests is not None:
        given = [_counted(status.allocated_resources), _counted(status.resources.requests)]
    else:
        given = [_together(spec, allocated), _together(spec, actuated)]
    return _most(*given) if infeasible else _most(_together(spec, _of_spec), *given)


class Wanted(NamedTuple):
    """The requirements in a pod's spec."""

    demand: Demand
    affinity: AnyOf = ()
    """The pod's own required node affinity."""
    pinned: str | None = None
    """The one node that the affinity names."""
    unmodeled: tuple[str, ...] = ()
    """Fields that limit the nodes and that the planner does not model."""
    complaints: tuple[Complaint, ...] = ()
    neighbors: Neighbors = NO_NEIGHBORS
    """What it requires of other pods."""
    users: tuple[str, ...] = ()
    """Labels that it has because it uses a claim, see `model.neighbors.user_of`."""


DEFAULT: Final = "default-scheduler"
"""The scheduler of Kubernetes itself."""


def wanted(pod: api.Pod, volumes: Volumes, pin: str = "", asked: Asked = NO_DEVICES) -> Wanted:
    """The requirements of the pod.

    For a bound pod of the default scheduler only its resources matter, because Gangwright never moves it. For any other
    pod, its node requirements matter too, without Gangwright's pin: its owner's next pod will have the same.
    pin: the node in Gangwright's pin. Empty: there is no pin, and a node in the affinity is the owner's choice.
    asked: what its device claims add.
    """
    claims = claims_of(pod)
    needed = [volumes.needs(claim) for claim in claims]
    amounts, complaints = _room(pod, needed, asked.requests)
    ports = tuple(sorted(set(_ports(pod.spec))))
    near = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    affinity = terms(near.required if near is not None else None)
    pinned, tolerations = pinned_to(affinity), _tolerations(pod.spec.tolerations or ())
    neighbors, wrong = neighbors_of(pod, affinity, tolerations)
    neighbors, users = _with_claims(neighbors, claims, volumes, asked)
    complaints = (*complaints, *wrong)
    if pod.spec.node_name and pod.spec.scheduler_name in {"", DEFAULT}:
        demand = Demand(amounts, ports=ports)
        return Wanted(demand, pinned=pinned, complaints=complaints, neighbors=neighbors, users=users)
    if pod.spec.node_name and pin == pod.spec.node_name:
        affinity = unpinned(affinity, pin)
    bound = [any_of for own in needed for any_of in own.nodes]
    constraints = [affinity, *bound, *(() if pod.spec.node_name else asked.constraints)]
    demand = Demand(
        requests=amounts,
        selector=tuple(sorted((pod.spec.node_selector or {}).items())),
        constraints=tuple(dict.fromkeys(any_of for any_of in constraints if any_of)),
        tolerations=tolerations,
        ports=ports,
    )
    if pod.spec.node_name:
        return Wanted(demand, pinned=pinned, complaints=complaints, neighbors=neighbors, users=users)
    gaps = [*_gaps(pod.spec, affinity), *_volume_gaps(pod.spec, needed), *asked.gaps]
    return Wanted(demand, affinity, pinned, tuple(dict.fromkeys(gaps)), complaints, neighbors, users)


def _with_claims(
    rules: Neighbors, claims: Sequence[ClaimKey], volumes: Volumes, asked: Asked
) -> tuple[Neighbors, tuple[str, ...]]:
    """The rules, and those about pods that share a claim: one pod in the cluster, or all on one node.

    Also returns the labels of the users of such claims. A claim of a single pod needs no rule.
    """
    if not claims and not asked.beside:
        return rules, ()
    alone = [own for own in claims if volumes.for_one_pod(own)]
    near = [own for own in claims if volumes.for_one_node(own)]
    anti = tuple(PodTerm(CLUSTER, _users("volume", own)) for own in alone if volumes.is_shared(own))
    beside = (
        *(PodTerm(NODE, _users("volume", own)) for own in near if volumes.is_shared(own)),
        *(PodTerm(NODE, _users("device", own)) for own in asked.beside),
    )
    users = (
        *(user_of("volume", own) for own in (*alone, *near)),
        *(user_of("device", own) for own in asked.beside),
    )
    if not anti and not beside:
        return rules, users
    return replace(rules, anti_affinity=(*rules.anti_affinity, *anti), beside=beside), users


def _users(kind: str, claim: ClaimKey) -> PodSelector:
    return PodSelector((claim.namespace,), None, (Requirement(user_of(kind, claim), Operator.EXISTS),))


def _room(
    pod: api.Pod, claims: Sequence[ClaimNeeds], devices: Amounts
) -> tuple[Amounts, tuple[Complaint, ...]]:
    """What the pod, its volumes and its device claims take from a node."""
    try:
        own = needs(pod)
        if claims:
            own = amounts({**dict(own), **Counter(name for claim in claims for name in claim.takes)})
        return combined(own, devices) if devices else own, ()
    except InvalidQuantity as wrong:
        remedy = "use quantities such as 500m, 4Gi or 2"
        return ((PODS, 1),), (Complaint("spec.containers.resources", shown(str(wrong)), remedy),)


def _tolerations(said: Iterable[api_affinity.Toleration]) -> tuple[Toleration, ...]:
    """The tolerations in a fixed order, without irrelevant ones, so that equal demands compare equal."""
    kept = {
        Toleration(own.key, own.operator == "Exists", own.value, own.effect)
        for own in said
        if own.operator in {"", "Equal", "Exists"} and own.effect != "PreferNoSchedule"
    }
    return tuple(sorted(kept))


def _ports(spec: api.PodSpec) -> Iterator[HostPort]:
    """Ports on the node itself: of containers, and of sidecars, which run just as long."""
    lasting = [own for own in spec.init_containers or () if own.restart_policy == "Always"]
    for container in (*lasting, *(spec.containers or ())):
        for port in container.ports or ():
            if port.host_port > 0:
                address = "" if port.host_ip == "0.0.0.0" else port.host_ip  # noqa: S104 - read, not bound
                yield HostPort(port.protocol or "TCP", port.host_port, address)


def claims_of(pod: api.Pod) -> list[ClaimKey]:
    """The distinct claims of the pod's volumes. Those of ephemeral volumes are named after pod and volume."""
    names = [
        volume.persistent_volume_claim.claim_name
        if volume.persistent_volume_claim is not None
        else f"{pod.metadata.name}-{volume.name}"
        for volume in pod.spec.volumes or ()
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None
    ]
    return [ClaimKey(pod.metadata.namespace, name) for name in dict.fromkeys(names)]


def _gaps(spec: api.PodSpec, affinity: AnyOf) -> Iterator[str]:
    """Fields that limit the nodes and that the planner does not model."""
    if any(t.operator not in {"", "Equal", "Exists"} for t in spec.tolerations or ()):
        yield "spec.tolerations: an operator other than Equal and Exists"
    if not can_be_narrowed(affinity):
        yield "spec.affinity.nodeAffinity: a term without requirements"


def _volume_gaps(spec: api.PodSpec, needed: Iterable[ClaimNeeds]) -> Iterator[str]:
    yield from (found.gap for found in needed if found.gap)
    if any(
        v.gce_persistent_disk or v.aws_elastic_block_store or v.iscsi or v.rbd for v in spec.volumes or ()
    ):
        yield "spec.volumes: a disk is named directly"
