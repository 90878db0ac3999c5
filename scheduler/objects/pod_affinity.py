"""Inter-pod affinity and topology spread of the API as rules of the model.

Never here: whether a node satisfies them (`placement`).
Source: InterPodAffinity and PodTopologySpread of kube-scheduler 1.37. The API server adds `matchLabelKeys` to the
selectors when it creates a pod. For pods that were not created yet, they are added here.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from scheduler.model.demand import AnyOf, Operator, Requirement, Toleration
from scheduler.model.neighbors import (
    NO_NEIGHBORS,
    Neighbors,
    PodSelector,
    PodTerm,
    PreferredTerm,
    TopologySpread,
)
from scheduler.model.workload import Complaint
from scheduler.objects import api
from scheduler.objects.affinity import label_requirements
from scheduler.objects.api_affinity import PodAffinity, PodAffinityTerm, SpreadConstraint
from scheduler.objects.parsing import shown

_AFFINITY: Final = "spec.affinity"
_SPREAD: Final = "spec.topologySpreadConstraints"
_HARD: Final = "DoNotSchedule"


def neighbors_of(
    pod: api.Pod, affinity: AnyOf, tolerations: tuple[Toleration, ...]
) -> tuple[Neighbors, tuple[Complaint, ...]]:
    """The rules of this pod, and complaints about invalid ones.

    affinity, tolerations: its own required node affinity and its tolerations, which spread constraints honor.
    A pod that is placed keeps only its anti-affinity, because kube-scheduler checks no other rule of it again.
    """
    own, spread = pod.spec.affinity, pod.spec.topology_spread_constraints
    if (own is None or not (own.pod_affinity or own.pod_anti_affinity)) and not spread:
        return NO_NEIGHBORS, ()
    complaints = tuple(_complaints(pod.spec))
    if complaints:
        return NO_NEIGHBORS, complaints
    near = (own.pod_affinity if own is not None else None) or PodAffinity()
    apart = (own.pod_anti_affinity if own is not None else None) or PodAffinity()
    anti_affinity = tuple(_term(pod, term) for term in apart.required or ())
    if pod.spec.node_name:
        return Neighbors(anti_affinity=anti_affinity), ()
    return Neighbors(
        affinity=tuple(_term(pod, term) for term in near.required or ()),
        anti_affinity=anti_affinity,
        spread=tuple(
            _spread(pod, constraint, affinity, tolerations)
            for constraint in spread or ()
            if constraint.when_unsatisfiable == _HARD
        ),
        preferred=(*_preferred(pod, near, 1), *_preferred(pod, apart, -1), *_evenly(pod)),
    ), ()


def _complaints(spec: api.PodSpec) -> Iterator[Complaint]:
    """Values that the API server rejects. A file that was never sent to it may have them."""
    own = spec.affinity
    for kind, said in (
        ("podAffinity", own.pod_affinity if own is not None else None),
        ("podAntiAffinity", own.pod_anti_affinity if own is not None else None),
    ):
        terms = [*(said.required or ()), *(w.pod_affinity_term for w in said.preferred or ())] if said else []
        if any(term is not None and not term.topology_key for term in terms):
            yield Complaint(f"{_AFFINITY}.{kind}.topologyKey", "", "name a node label")
    for constraint in spec.topology_spread_constraints or ():
        if not constraint.topology_key:
            yield Complaint(f"{_SPREAD}.topologyKey", "", "name a node label")
        if constraint.max_skew < 1:
            yield Complaint(f"{_SPREAD}.maxSkew", shown(str(constraint.max_skew)), "use 1 or more")
        if constraint.min_domains is not None and constraint.min_domains < 1:
            yield Complaint(f"{_SPREAD}.minDomains", shown(str(constraint.min_domains)), "use 1 or more")


def _term(pod: api.Pod, term: PodAffinityTerm) -> PodTerm:
    of_labels = None
    if term.namespace_selector is not None:
        of_labels = label_requirements(term.namespace_selector)
    named = set(term.namespaces or ())
    if not named and term.namespace_selector is None:
        named = {pod.metadata.namespace}
    labels = _with_keys(pod, label_requirements(term.label_selector), term.match_label_keys, Operator.IN)
    labels = _with_keys(pod, labels, term.mismatch_label_keys, Operator.NOT_IN)
    return PodTerm(term.topology_key, PodSelector(tuple(sorted(named)), of_labels, labels))


def _with_keys(
    pod: api.Pod, labels: tuple[Requirement, ...] | None, keys: Iterable[str] | None, operator: Operator
) -> tuple[Requirement, ...] | None:
    """The requirements, and the pod's own value of each of these keys that it has."""
    if labels is None or not keys:
        return labels
    mine = pod.metadata.labels or {}
    more = (Requirement(key, operator, (mine[key],)) for key in keys if key in mine)
    return tuple(dict.fromkeys((*labels, *more)))


def _spread(
    pod: api.Pod, said: SpreadConstraint, affinity: AnyOf, tolerations: tuple[Toleration, ...]
) -> TopologySpread:
    labels = _with_keys(pod, label_requirements(said.label_selector), said.match_label_keys, Operator.IN)
    honors = said.node_affinity_policy != "Ignore"
    return TopologySpread(
        topology_key=said.topology_key,
        pods=PodSelector((pod.metadata.namespace,), None, labels),
        max_skew=said.max_skew,
        min_domains=said.min_domains or 1,
        honors_affinity=honors,
        affinity=affinity if honors else (),
        selector=tuple(sorted((pod.spec.node_selector or {}).items())) if honors else (),
        tolerations=tolerations if said.node_taints_policy == "Honor" else None,
    )


def _evenly(pod: api.Pod) -> Iterator[PreferredTerm]:
    """A `ScheduleAnyway` constraint prefers domains with few of its pods, like preferred anti-affinity."""
    for own in pod.spec.topology_spread_constraints or ():
        if own.when_unsatisfiable != _HARD:
            spread = _spread(pod, own, (), ())
            yield PreferredTerm(PodTerm(spread.topology_key, spread.pods), -1)


def _preferred(pod: api.Pod, said: PodAffinity, sign: int) -> Iterator[PreferredTerm]:
    for own in said.preferred or ():
        if own.pod_affinity_term is not None and own.weight > 0:
            yield PreferredTerm(_term(pod, own.pod_affinity_term), sign * own.weight)
