"""Selectors, affinity, tolerations and spread constraints of API objects: the part of a pod that names other objects.

See `api`, which declares the objects themselves.
"""

from typing import TypeAlias

from msgspec import Struct, field

Texts: TypeAlias = dict[str, str] | None


class Part(Struct, rename="camel", gc=False):
    """A part of an object. Trees cannot hold cycles, so garbage collection need not look at them."""


class SelectorRequirement(Part):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class SelectorTerm(Part):
    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelector(Part):
    node_selector_terms: list[SelectorTerm] | None = None


class NodeAffinity(Part):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class LabelSelector(Part):
    match_labels: Texts = None
    match_expressions: list[SelectorRequirement] | None = None


class PodAffinityTerm(Part):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Part):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(Part):
    required: list[PodAffinityTerm] | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedPodAffinityTerm] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Part):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Part):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class SpreadConstraint(Part):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None
