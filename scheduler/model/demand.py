"""What a pod requires of its node, and the text for obstacles. Does not load numpy."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from scheduler.model.resources import Amounts, is_device, of_class


class Operator(StrEnum):
    """How a requirement compares a label's value, in the terms of the Kubernetes API."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class TaintEffect(StrEnum):
    """The effect on pods that do not tolerate the taint. PreferNoSchedule forbids nothing and is dropped."""

    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a node label, or on the node's name in a term's `fields`."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels match under label selector semantics. `Gt` and `Lt` apply to nodes only."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels
            case _:
                return False


@dataclass(frozen=True, slots=True)
class Term:
    """Conditions that must all hold. A term without conditions matches no node, as in the API."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


AnyOf = tuple[Term, ...]
"""Terms of which at least one must hold."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A mark on a node that repels pods without a matching toleration."""

    key: str
    value: str
    effect: TaintEffect


UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)
"""The taint that a cordon implies: kube-scheduler treats a cordoned node as one with this taint."""


@dataclass(frozen=True, slots=True, order=True)
class Toleration:
    """A toleration. An empty key with Exists tolerates everything; an empty effect matches every effect."""

    key: str = ""
    exists: bool = False
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.exists or (bool(self.key) and self.value == taint.value)


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port on the node itself. An empty or unspecified address means every address."""

    protocol: str
    port: int
    address: str = ""

    def clashes(self, other: "HostPort") -> bool:
        same = self.protocol == other.protocol and self.port == other.port
        return same and (not self.address or not other.address or self.address == other.address)


@dataclass(frozen=True, slots=True)
class Demand:
    """Everything that decides which nodes fit a pod. The planner treats pods with equal demands as interchangeable.

    `requests` includes the pod itself as one unit of the resource `pods`.  `constraints` are the term lists that must
    hold besides the selector: the required node affinity of the pod, and the nodes of its volumes and claims.
    """

    requests: Amounts = ()
    selector: tuple[tuple[str, str], ...] = ()
    constraints: tuple[AnyOf, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    where: tuple[object, ...] = field(init=False, repr=False, compare=False)
    """All fields except amounts and ports: the key for cached node masks."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", (self.selector, self.constraints, self.tolerations))

    def untolerated(self, taints: Iterable[Taint]) -> tuple[Taint, ...]:
        """The taints among these that this demand does not tolerate."""
        return tuple(t for t in taints if not any(own.tolerates(t) for own in self.tolerations))


NO_NODES: Final = "no nodes"
"""The only obstacle that excludes no node: the cluster has none."""

_EXCLUDED_BY: Final = {
    "selector": "didn't match the node selector",
    "affinity": "didn't match the node affinity",
    "taint": "had untolerated taints",
    "cordon": "were cordoned",
    "excluded": "were excluded after failed placements",
    "resources": "had insufficient resources",
    "ports": "didn't have free ports",
    "anti-affinity": "didn't match pod anti-affinity rules",
    "pod-affinity": "didn't match pod affinity rules",
    "spread": "didn't match pod topology spread constraints",
    "level": "were outside the required domain",
    "candidates": "were excluded by kube-scheduler",
}


def blocked_nodes(blocked: Mapping[str, int]) -> str:
    """How many nodes each kind of obstacle excludes, in kube-scheduler's words: "4 node(s) had insufficient resources".
    A kind that is the name of an extended resource: no node has it. Empty if there are none.
    """
    if NO_NODES in blocked:
        return "Gangwright sees no nodes in the cluster"
    return ", ".join(
        f"no node has {_missing(kind)}"
        if is_device(kind)
        else f"{count} node(s) {_EXCLUDED_BY.get(kind, kind)}"
        for kind, count in sorted(blocked.items())
    )


def _missing(resource: str) -> str:
    of = of_class(resource)
    return f"a device {of}" if of else resource
