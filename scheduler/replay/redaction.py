"""A snapshot without names: everything that a person chose is a number, and the same thing is decided.

Lives here: which texts of the model are no names and stay: KEPT. Every other text goes, also those of fields that
nobody has thought of yet. Labels of nodes that no gang asks for are left out, and complaints say no more what they
quote.

Why names are cut into parts: ties are broken by the order of names, of nodes, pods and domains, and a domain's path
joins labels with `/`. A name's parts, between `-`, `.` and `/`, become numbers in the order of all parts, and what
joins them stays, since it sorts before whatever a part may hold. So any two names, and any two paths made of them,
lie to each other as before.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from scheduler.model.cluster import Level, Node
from scheduler.model.demand import Demand, HostPort, Operator, Requirement, Taint, Toleration
from scheduler.model.policy import Policy
from scheduler.model.queueing import Share
from scheduler.model.workload import (
    Asleep,
    Complaint,
    GangKey,
    Group,
    Membership,
    Owner,
    Pending,
    Pod,
    Quota,
    Wish,
    labels_text,
    read_labels,
)
from scheduler.replay.snapshot import Document

T = TypeVar("T")
Rename: TypeAlias = Callable[[str], str]

KEPT: Final[Mapping[type, frozenset[str]]] = {
    Node: frozenset({"capacity"}),
    Taint: frozenset({"key"}),
    Toleration: frozenset({"key", "effect"}),
    HostPort: frozenset({"protocol"}),
    Demand: frozenset({"requests"}),
    Requirement: frozenset({"key"}),
    Level: frozenset({"name", "label"}),
    Policy: frozenset({"scheduler_names", "level"}),
    Share: frozenset({"guaranteed", "ceiling"}),
    Pod: frozenset({"scheduler", "unmodelled"}),
    Pending: frozenset({"reason"}),
    Membership: frozenset({"format"}),
    Group: frozenset({"format"}),
    Wish: frozenset({"level"}),
    Owner: frozenset({"kind", "api_version"}),
    Asleep: frozenset({"scheduler"}),
    Quota: frozenset({"hard"}),
}
"""By type: fields whose texts are words of Kubernetes, of a closed list, or of the cluster's set-up."""

HIDDEN: Final = "(redacted)"

_JOINTS: Final = re.compile(r"([-./])")
_ALONE: Final = "uid:"
"""How the key of a gang of one begins (`workload.gang_of_one`); names that sort before it must go on doing so."""
_COMPARED: Final = {Operator.GREATER, Operator.LESS}


def redact(document: Document) -> Document:
    """The document without names."""
    return _Hand(document, renaming(document)).document()


def renaming(document: Document) -> Rename:
    """What every name of this document becomes; texts that are no name of it come back as they are."""
    met: dict[str, None] = {}

    def meet(text: str) -> str:
        met.setdefault(text)
        return text

    _Hand(document, meet).document()
    parts = sorted({part for text in met for part in _JOINTS.split(text)[::2] if part})
    width = len(str(len(parts)))
    number = {
        part: f"{'n' if part < _ALONE else 'z'}{position:0{width}}"
        for position, part in enumerate(parts, start=1)
    }
    return lambda text: "".join(number.get(part, part) for part in _JOINTS.split(text))


class _Hand:
    """Goes over a document and passes every name through `rename`."""

    def __init__(self, document: Document, rename: Rename) -> None:
        self._document = document
        self._rename = rename
        asked = list(_requirements(document))
        self._numbers = {own.key for own in asked if own.operator in _COMPARED}
        """Labels whose values are compared as numbers: they stay."""
        self._asked = {
            *(own.key for own in asked),
            *(key for pod in document.pods for key, _ in pod.demand.selector),
            *(level.label for level in document.policy.levels),
        }
        self._known: dict[Demand, Demand] = {}
        self._special: Mapping[type, Callable[[Any], Any]] = {
            GangKey: self._gang,
            Complaint: _silenced,
            Node: self._node,
            Demand: self._demand,
            Requirement: self._requirement,
            Pod: self._pod,
        }

    def document(self) -> Document:
        own = self._document
        return msgspec.structs.replace(
            own,
            redacted=True,
            policy=self._any(own.policy),
            nodes=self._any(own.nodes),
            groups=self._any(own.groups),
            owners=self._any(own.owners),
            quotas=self._any(own.quotas),
            budgets=self._any(own.budgets),
            pods=self._any(own.pods),
        )

    def _any(self, value: T) -> T:
        """The same value with every name in it renamed."""
        found: Any = value
        special = self._special.get(type(value))
        if special is not None:
            found = special(value)
        elif isinstance(value, str) and not isinstance(value, Enum):
            found = self._rename(value)
        elif is_dataclass(value):
            found = self._parts(value)
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            found = type(value)(**{name: self._field(value, name) for name in value._fields})
        elif isinstance(value, tuple | frozenset):
            found = type(value)(self._any(part) for part in value)
        elif isinstance(value, Mapping):
            found = {self._any(key): self._any(part) for key, part in value.items()}
        return found  # type: ignore[no-any-return]

    def _parts(self, value: Any) -> Any:
        changed = {field.name: self._field(value, field.name) for field in fields(value) if field.init}
        return replace(value, **changed)

    def _field(self, value: Any, name: str) -> Any:
        part = getattr(value, name)
        return part if name in KEPT.get(type(value), ()) else self._any(part)

    # What is not renamed field by field

    def _gang(self, own: GangKey) -> GangKey:
        alone = own.name.startswith(_ALONE)
        name = _ALONE + self._rename(own.name.removeprefix(_ALONE)) if alone else self._rename(own.name)
        return GangKey(self._rename(own.namespace), name)

    def _node(self, own: Node) -> Node:
        labels = {key: self._value(key, text) for key, text in own.labels.items() if key in self._asked}
        bare: Node = self._parts(replace(own, labels={}))
        return replace(bare, labels=labels)

    def _pod(self, own: Pod) -> Pod:
        labels = {key: self._value(key, text) for key, text in read_labels(own.labels).items()}
        bare: Pod = self._parts(replace(own, labels=""))
        return replace(bare, labels=labels_text(labels))

    def _demand(self, own: Demand) -> Demand:
        """Most pods demand alike, and stay so: one value for all of them."""
        if own not in self._known:
            selector = tuple((key, self._value(key, text)) for key, text in own.selector)
            self._known[own] = replace(self._parts(replace(own, selector=())), selector=selector)
        return self._known[own]

    def _requirement(self, own: Requirement) -> Requirement:
        return replace(own, values=tuple(self._value(own.key, text) for text in own.values))

    def _value(self, key: str, text: str) -> str:
        return text if key in self._numbers else self._rename(text)


def _requirements(document: Document) -> Iterator[Requirement]:
    """Every condition on a node's labels that any gang has."""
    for demand in {pod.demand for pod in document.pods}:
        yield from _labels(demand.constraints)
    yield from _labels(pod.affinity for pod in document.pods)


def _labels(constraints: Iterable[Iterable[Any]]) -> Iterator[Requirement]:
    for any_of in constraints:
        for term in any_of:
            yield from term.labels


def _silenced(own: Complaint) -> Complaint:
    """Complaints quote what people wrote; that there are some decides, and what they say does not."""
    return Complaint(HIDDEN, HIDDEN, HIDDEN, own.fatal)
