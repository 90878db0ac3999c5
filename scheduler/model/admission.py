"""Which nodes admit a demand, regardless of free resources: selector, affinity, taints, cordons.

Placement uses this test to choose a node, and the ledger uses it to hold a seat. Never here: amounts of resources, host
ports, memory.
Masks are used because a label is compared once per distinct value. The cost hardly grows with the cluster.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import LabelColumn, LabelColumns, Mask, Node, taint_masks
from scheduler.model.demand import UNSCHEDULABLE, AnyOf, Demand, Operator, Requirement, Taint, Term


class Nodes(Protocol):
    """The node attributes that these tests read. A Snapshot satisfies it."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def index(self) -> Mapping[str, int]: ...
    @property
    def schedulable(self) -> Mask: ...
    @property
    def labels(self) -> Mapping[str, LabelColumn]: ...
    @property
    def taints(self) -> tuple[tuple[Taint, Mask], ...]: ...


@dataclass(frozen=True, slots=True)
class NodePicture:
    """The minimum that these tests need."""

    names: tuple[str, ...]
    index: Mapping[str, int]
    schedulable: Mask
    labels: Mapping[str, LabelColumn]
    taints: tuple[tuple[Taint, Mask], ...]

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> Self:
        return cls(
            names=tuple(node.name for node in nodes),
            index={node.name: row for row, node in enumerate(nodes)},
            schedulable=np.array([node.schedulable for node in nodes], dtype=bool),
            labels=LabelColumns(nodes),
            taints=taint_masks(nodes),
        )


ALL: Final = slice(None)
"""Every node. A slice of one node makes each test cheap for that node alone."""


_WHOLE: Final = re.compile(r"[+-]?\d+", re.ASCII)


def _among(codes: NDArray[np.int32], column: LabelColumn, values: tuple[str, ...]) -> Mask:
    wanted = [column.values[value] for value in values if value in column.values]
    if len(wanted) == 1:
        single: Mask = codes == wanted[0]
        return single
    return np.isin(codes, wanted)


def _compared(codes: NDArray[np.int32], column: LabelColumn, values: tuple[str, ...], above: bool) -> Mask:
    """Gt and Lt: both sides must be whole numbers, with one value to compare. Anything else matches nothing."""
    if len(values) != 1 or not _WHOLE.fullmatch(values[0]):
        return np.zeros(len(codes), dtype=bool)
    bound = int(values[0])
    table = np.zeros(max(column.values.values(), default=-1) + 2, dtype=bool)
    for value, code in column.values.items():
        if _WHOLE.fullmatch(value):
            table[code] = int(value) > bound if above else int(value) < bound
    out: Mask = table[codes]  # code -1, a missing label, reads the last entry, which no value has
    return out


_COMPARE: Final[Mapping[Operator, Callable[[NDArray[np.int32], LabelColumn, tuple[str, ...]], Mask]]] = {
    Operator.IN: _among,
    Operator.NOT_IN: lambda codes, column, values: ~_among(codes, column, values),
    Operator.EXISTS: lambda codes, _column, _values: codes >= 0,
    Operator.DOES_NOT_EXIST: lambda codes, _column, _values: codes < 0,
    Operator.GREATER: lambda codes, column, values: _compared(codes, column, values, above=True),
    Operator.LESS: lambda codes, column, values: _compared(codes, column, values, above=False),
}
_WITHOUT_LABEL: Final = frozenset({Operator.NOT_IN, Operator.DOES_NOT_EXIST})
"""Operators that match a node without the label."""


def _label(nodes: Nodes, requirement: Requirement, rows: slice) -> Mask:
    column = nodes.labels.get(requirement.key)
    if column is None:
        return np.full(len(nodes.names[rows]), requirement.operator in _WITHOUT_LABEL)
    return _COMPARE[requirement.operator](column.codes[rows], column, requirement.values)


def _field(nodes: Nodes, requirement: Requirement, rows: slice) -> Mask:
    """The API supports one field, metadata.name, with two operators."""
    if requirement.key != "metadata.name" or requirement.operator not in {Operator.IN, Operator.NOT_IN}:
        return np.zeros(len(nodes.names[rows]), dtype=bool)
    named = np.zeros(len(nodes.names), dtype=bool)
    named[[nodes.index[name] for name in requirement.values if name in nodes.index]] = True
    return (named if requirement.operator is Operator.IN else ~named)[rows]


def _term(nodes: Nodes, term: Term, rows: slice) -> Mask:
    parts = [_label(nodes, requirement, rows) for requirement in term.labels]
    parts += [_field(nodes, requirement, rows) for requirement in term.fields]
    if not parts:
        return np.zeros(len(nodes.names[rows]), dtype=bool)
    return reduce(np.logical_and, parts)


def _any_of(nodes: Nodes, terms: AnyOf, rows: slice) -> Mask:
    nothing = np.zeros(len(nodes.names[rows]), dtype=bool)
    return reduce(np.logical_or, (_term(nodes, term, rows) for term in terms), nothing)


def _selector(nodes: Nodes, demand: Demand, rows: slice) -> list[Mask]:
    return [~_label(nodes, Requirement(key, Operator.IN, (value,)), rows) for key, value in demand.selector]


def _affinity(nodes: Nodes, demand: Demand, rows: slice) -> list[Mask]:
    return [~_any_of(nodes, terms, rows) for terms in demand.constraints]


def _taint(nodes: Nodes, demand: Demand, rows: slice) -> list[Mask]:
    foreign = (taint for taint, _ in nodes.taints if taint.key != UNSCHEDULABLE.key)
    unwelcome = set(demand.untolerated(foreign))
    return [mask[rows] for taint, mask in nodes.taints if taint in unwelcome]


def _cordon(nodes: Nodes, demand: Demand, rows: slice) -> list[Mask]:
    marks = [(taint, mask[rows]) for taint, mask in nodes.taints if taint.key == UNSCHEDULABLE.key]
    marks.append((UNSCHEDULABLE, ~nodes.schedulable[rows]))
    unwelcome = set(demand.untolerated(taint for taint, _ in marks))
    return [mask for taint, mask in marks if taint in unwelcome]


CORDON: Final = "cordon"

_OBSTACLES: Final[Mapping[str, Callable[[Nodes, Demand, slice], list[Mask]]]] = {
    "selector": _selector,
    "affinity": _affinity,
    "taint": _taint,
    CORDON: _cordon,
}
"""By kind, the masks of the nodes that one part of the demand excludes. The order decides which kind counts a node that
several kinds exclude."""

KINDS: Final = tuple(_OBSTACLES)
"""The kinds of obstacles, in this order."""


def obstacles(nodes: Nodes, demand: Demand, rows: slice = ALL) -> dict[str, Mask]:
    """By kind of obstacle, bool[rows]: the nodes that it excludes. A kind that excludes none may be missing."""
    found = {kind: test(nodes, demand, rows) for kind, test in _OBSTACLES.items()}
    return {kind: reduce(np.logical_or, masks) for kind, masks in found.items() if masks}


def label_keys(demand: Demand) -> set[str]:
    """The labels of nodes that the demand names."""
    terms = (term for any_of in demand.constraints for term in any_of)
    return {key for key, _ in demand.selector} | {own.key for term in terms for own in term.labels}


def admitted(nodes: Nodes, demand: Demand) -> Mask:
    """bool[n]: the nodes that no obstacle excludes."""
    nothing = np.zeros(len(nodes.names), dtype=bool)
    return ~reduce(np.logical_or, obstacles(nodes, demand).values(), nothing)
