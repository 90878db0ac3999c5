"""What a pod requires of the pods around it: inter-pod affinity, anti-affinity and topology spread.

Lives here: the rules as values, which pods a selector selects, and the columns that count pods. Never here: where a
member may go (`placement.neighbor_rules`), or the counts themselves (`ledger.neighbor_table`).

Counts of pods are columns of a snapshot's matrices, beside the resources: the free amount is minus the number of pods
that count on the node. So a pod that leaves, or that is placed in a trial, changes the counts like it changes the free
resources. Only snapshots for gangs with such rules have these columns.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

from scheduler.model.demand import AnyOf, Requirement, Toleration

NODE: Final = ":node"
"""A topology key that no label has, because of the colon: every node is a domain."""

CLUSTER: Final = ":cluster"
"""A topology key that no label has: all nodes are one domain."""

NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The label that every namespace has: its name."""

Namespaces: TypeAlias = Mapping[str, Mapping[str, str]]
"""By name, the labels of each namespace."""


def labels_text(labels: Mapping[str, str]) -> str:
    """Labels as one text, equal for equal labels. Neither `=` nor `,` can occur in a label."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def read_labels(text: str) -> dict[str, str]:
    """The inverse of `labels_text`."""
    return {key: value for key, _, value in (own.partition("=") for own in text.split(",") if own)}


def user_of(kind: str, claim: tuple[str, str]) -> str:
    """The key of a label that pods have because they use this claim (namespace and name) of this kind.

    The colon keeps it from users' labels, and the hash keeps the claim's name out of snapshots without names.
    """
    return f":{kind}-{blake2b('/'.join(claim).encode(), digest_size=8).hexdigest()}"


class PodLabels(NamedTuple):
    """A pod as selectors see it: its namespace, and its labels in a fixed order."""

    namespace: str
    labels: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, namespace: str, text: str, keys: frozenset[str] | None = None) -> "PodLabels":
        """The pod with labels in the form of `labels_text`.  keys: leave out all other labels. None: keep all."""
        known = read_labels(text).items()
        return cls(namespace, tuple(own for own in known if keys is None or own[0] in keys))


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods by namespace and labels.

    namespaces: their names, sorted.  namespace_labels: also the namespaces with these labels; None: no others.
    labels: requirements on the pod's labels; None: no pod.
    """

    namespaces: tuple[str, ...]
    namespace_labels: tuple[Requirement, ...] | None
    labels: tuple[Requirement, ...] | None

    def selects(self, pod: PodLabels, namespaces: Namespaces) -> bool:
        """Whether this pod is one of them."""
        if self.labels is None or not self.reaches(pod.namespace, namespaces):
            return False
        labels = _labels(pod)
        return all(own.holds(labels) for own in self.labels)

    def reaches(self, namespace: str, namespaces: Namespaces) -> bool:
        """Whether pods of this namespace may be among them."""
        if namespace in self.namespaces:
            return True
        if self.namespace_labels is None:
            return False
        known = namespaces.get(namespace) or {NAME_LABEL: namespace}
        return all(own.holds(known) for own in self.namespace_labels)

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that it reads."""
        return frozenset(own.key for own in self.labels or ())


@lru_cache(maxsize=4096)
def _labels(pod: PodLabels) -> dict[str, str]:
    return dict(pod.labels)


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A term of required affinity or anti-affinity: these pods, in the same domain of this node label."""

    topology_key: str
    pods: PodSelector


@dataclass(frozen=True, slots=True)
class TopologySpread:
    """A `DoNotSchedule` spread constraint: the domains of this node label may differ by `max_skew` pods.

    min_domains: with fewer eligible domains, the least count is 0.  affinity, selector: the pod's own node requirements,
    which decide the eligible nodes; empty if `nodeAffinityPolicy` is Ignore.  tolerations: likewise for taints; None if
    `nodeTaintsPolicy` is Ignore.  honors_affinity: `nodeAffinityPolicy` is Honor.
    """

    topology_key: str
    pods: PodSelector
    max_skew: int
    min_domains: int = 1
    honors_affinity: bool = True
    affinity: AnyOf = ()
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] | None = None


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A preferred affinity term. A negative weight is preferred anti-affinity."""

    term: PodTerm
    weight: int


@dataclass(frozen=True, slots=True)
class Neighbors:
    """All rules of one pod about the pods around it.

    beside: terms of affinity that each hold on their own, unlike those of `affinity`, which the same pods must satisfy:
    a claim that the pods of one node share.
    """

    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[TopologySpread, ...] = ()
    preferred: tuple[PreferredTerm, ...] = ()
    beside: tuple[PodTerm, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.affinity or self.anti_affinity or self.spread or self.preferred or self.beside)

    @property
    def selectors(self) -> Iterable[PodSelector]:
        """Every selector of these rules."""
        yield from (own.pods for own in (*self.affinity, *self.anti_affinity, *self.beside))
        yield from (constraint.pods for constraint in self.spread)
        yield from (preferred.term.pods for preferred in self.preferred)

    @property
    def topology_keys(self) -> Iterable[str]:
        """Every label of nodes by which these rules group them."""
        yield from (own.topology_key for own in (*self.affinity, *self.anti_affinity, *self.beside))
        yield from (constraint.topology_key for constraint in self.spread)
        yield from (preferred.term.topology_key for preferred in self.preferred)

    @property
    def pinnable(self) -> bool:
        """A pod that is pinned to one node passes kube-scheduler's test wherever these rules hold.

        With `nodeAffinityPolicy: Honor`, kube-scheduler counts only the pinned node, so there is one domain. That is
        never too uneven, unless `minDomains` asks for more domains.
        """
        return not any(own.honors_affinity and own.min_domains > 1 for own in self.spread)

    def has_order(self, *, pinned: bool) -> bool:
        """Whether kube-scheduler accepts the members of a gang only in a certain order."""
        return bool(self.affinity) or any(not (pinned and own.honors_affinity) for own in self.spread)


NO_NEIGHBORS: Final = Neighbors()


@dataclass(frozen=True, slots=True)
class Selected:
    """A column: how many pods all of these selectors select.  living: without pods that are terminating."""

    selectors: tuple[PodSelector, ...]
    living: bool = False

    def counts(self, pod: PodLabels | None, _carried: tuple[PodTerm, ...], namespaces: Namespaces) -> bool:
        return pod is not None and all(own.selects(pod, namespaces) for own in self.selectors)


@dataclass(frozen=True, slots=True)
class Repelling:
    """A column: how many pods carry this term of anti-affinity."""

    term: PodTerm

    def counts(self, _pod: PodLabels | None, carried: tuple[PodTerm, ...], _namespaces: Namespaces) -> bool:
        return self.term in carried


Counted: TypeAlias = Selected | Repelling


@dataclass(frozen=True, slots=True)
class NeighborColumns:
    """The columns of a snapshot that count pods. Column `first + i` belongs to `counted[i]`.

    changes: the number of changes of what counts, when the columns were made.
    """

    first: int
    counted: tuple[Counted, ...]
    namespaces: Namespaces
    changes: int = 0

    def index(self, what: Counted) -> int | None:
        """Its column. None: the snapshot counts none of these pods."""
        return self.first + self.counted.index(what) if what in self.counted else None


def counted_for(
    members: Iterable[tuple[PodLabels | None, Neighbors]],
    repelling: Iterable[PodTerm],
    namespaces: Namespaces,
) -> tuple[Counted, ...]:
    """The columns that these members' rules read.  repelling: the anti-affinity terms of placed pods."""
    found: dict[Counted, None] = {}
    others = tuple(repelling)
    for pod, rules in members:
        if rules.affinity:
            found[Selected(tuple(own.pods for own in rules.affinity))] = None
        for term in (*rules.anti_affinity, *rules.beside, *(own.term for own in rules.preferred)):
            found[Selected((term.pods,))] = None
        for constraint in rules.spread:
            found[Selected((constraint.pods,), living=True)] = None
        if pod is not None:
            for term in others:
                if term.pods.selects(pod, namespaces):
                    found[Repelling(term)] = None
    return tuple(found)
