"""A snapshot without names: each name becomes a keyed hash, the same one everywhere in one snapshot.

Lives here: which texts of the model are not names and are kept: KEPT. Every other text is replaced, also in fields that
are added later. Node labels that no gang uses are left out. A text with a space is not a name but may quote one, so all
of it is removed. Decisions on the document stay the same, except for ties, which the order of names breaks.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any, Final

import msgspec

from scheduler.model.cluster import Level, Node
from scheduler.model.demand import Demand, HostPort, Operator, Requirement, Taint, Toleration
from scheduler.model.neighbors import PodTerm, TopologySpread, labels_text, read_labels
from scheduler.model.policy import Policy
from scheduler.model.queueing import Share
from scheduler.model.workload import (
    Asleep,
    Group,
    Membership,
    Owner,
    Pending,
    Pod,
    Quota,
    Wish,
)
from scheduler.replay.snapshot import Document

KEPT: Final[Mapping[type, frozenset[str]]] = {
    Document: frozenset({"kind", "gangwright"}),
    Node: frozenset({"capacity", "held"}),
    Taint: frozenset({"key"}),
    Toleration: frozenset({"key", "effect"}),
    HostPort: frozenset({"protocol"}),
    Demand: frozenset({"requests"}),
    Requirement: frozenset({"key"}),
    Level: frozenset({"name", "label"}),
    Policy: frozenset({"scheduler_names", "level"}),
    Share: frozenset({"guaranteed", "ceiling"}),
    Pod: frozenset({"scheduler", "unmodeled", "told"}),
    Pending: frozenset({"reason"}),
    Membership: frozenset({"format"}),
    Group: frozenset({"format"}),
    Wish: frozenset({"level"}),
    Owner: frozenset({"kind", "api_version"}),
    Asleep: frozenset({"scheduler"}),
    Quota: frozenset({"hard"}),
    PodTerm: frozenset({"topology_key"}),
    TopologySpread: frozenset({"topology_key"}),
}
"""By type: fields with texts from Kubernetes, from a closed list, or from the cluster's configuration."""

HIDDEN: Final = "(redacted)"

_HEAD: Final = re.compile(r"uid:|kube-|gangwright-system$")
"""Prefixes of names that affect decisions: a pod without a gang, and namespaces whose pods are never preempted."""


def redact(document: Document, key: bytes) -> Document:
    """The document without names.  key: at most 64 random bytes. Anyone with the key can recognize a name."""
    found: Document = _Hand(document, hashing(key)).of(document)
    return msgspec.structs.replace(found, redacted=True)


def hashing(key: bytes) -> Callable[[str], str]:
    """A function that redacts a text with this key: a name becomes 16 hexadecimal digits, any other text HIDDEN."""

    def hashed(text: str) -> str:
        if " " in text or not text:
            return HIDDEN if text else ""
        head = _HEAD.match(text)
        if head is not None:
            return head.group() + hashed(text[head.end() :])
        return blake2b(text.encode(), key=key, digest_size=8).hexdigest()

    return hashed


class _Hand:
    """Walks over a document and passes every name through `hashed`."""

    def __init__(self, document: Document, hashed: Callable[[str], str]) -> None:
        self._hashed = hashed
        asked = {
            own
            for pod in document.pods
            for any_of in (*pod.demand.constraints, pod.affinity)
            for term in any_of
            for own in term.labels
        }
        self._numbers = {own.key for own in asked if own.operator in {Operator.GREATER, Operator.LESS}}
        """Labels with values that are compared as numbers, which are kept."""
        self._asked = {
            *(own.key for own in asked),
            *(label for pod in document.pods for label, _ in pod.demand.selector),
            *(level.label for level in document.policy.levels),
            *(key for pod in document.pods for key in _topology_keys(pod)),
        }

    def of(self, own: Any) -> Any:
        """The same value with every name in it hashed."""
        match own:
            case Enum():
                return own
            case str():
                return self._hashed(own)
            case Node(labels=labels):
                asked = {label: text for label, text in labels.items() if label in self._asked}
                return self._made(own, labels=dict(self._labels(asked)))
            case Pod(labels=labels):
                return self._made(own, labels=labels_text(dict(self._labels(read_labels(labels)))))
            case Demand(selector=selector):
                return self._made(own, selector=self._labels(dict(selector)))
            case Document(namespaces=namespaces):
                hashed = {self._hashed(name): dict(self._labels(said)) for name, said in namespaces.items()}
                return self._made(own, namespaces=hashed)
            case Requirement(key=label, values=values):
                values = tuple(self._value(label, text) for text in values)
                return self._made(own, key=self._key(label), values=values)
            case Mapping():
                return {self.of(name): self.of(part) for name, part in own.items()}
            case tuple() | frozenset() if not hasattr(own, "_fields"):
                return type(own)(map(self.of, own))
            case _:
                return self._made(own) if _names(own) else own

    def _made(self, own: Any, **given: Any) -> Any:
        """A value of the same type. Fields that are neither given nor kept are redacted."""
        kept = KEPT.get(type(own), frozenset())
        values = {name: getattr(own, name) for name in _names(own)}
        looked = {name: part if name in kept else self.of(part) for name, part in values.items()}
        return type(own)(**looked | given)

    def _labels(self, labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        return tuple((self._key(label), self._value(label, text)) for label, text in labels.items())

    def _key(self, label: str) -> str:
        """The key of a label. One that stands for a claim is a hash of its name without a key, so it is hashed again."""
        return f":{self._hashed(label)}" if label.startswith(":") else label

    def _value(self, label: str, text: str) -> str:
        return text if label in self._numbers else self._hashed(text)


def _topology_keys(pod: Pod) -> Iterator[str]:
    own = pod.neighbors
    terms = (*own.affinity, *own.anti_affinity, *(preferred.term for preferred in own.preferred))
    yield from (term.topology_key for term in terms)
    yield from (constraint.topology_key for constraint in own.spread)


def _names(own: Any) -> tuple[str, ...]:
    """The fields of a NamedTuple, a Struct or a dataclass. Other values have none."""
    if is_dataclass(own):
        return tuple(field.name for field in fields(own) if field.init)
    return getattr(own, "_fields", ()) or getattr(own, "__struct_fields__", ())
