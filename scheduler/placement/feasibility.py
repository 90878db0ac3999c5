"""Which nodes may hold a demand, whatever room they have: selector, affinity, taints, cordons, host ports.

Never here: amounts of resources (see pool), the choice between nodes, a memory (see masks).
Why masks: a label is compared once per distinct value, so the cost hardly grows with the cluster.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import LabelColumn, Mask, Matrix, Snapshot
from scheduler.model.demand import UNSCHEDULABLE, AnyOf, Demand, HostPort, Operator, Requirement, Term

ALL: Final = slice(None)
"""Every node. A slice of one node makes each test here cheap for that node alone."""


_WHOLE: Final = re.compile(r"[+-]?\d+", re.ASCII)


def _among(codes: NDArray[np.int32], column: LabelColumn, values: tuple[str, ...]) -> Mask:
    wanted = [column.values[value] for value in values if value in column.values]
    if len(wanted) == 1:
        single: Mask = codes == wanted[0]
        return single
    return np.isin(codes, wanted)


def _compared(codes: NDArray[np.int32], column: LabelColumn, values: tuple[str, ...], above: bool) -> Mask:
    """Gt and Lt: whole numbers on both sides, one value to compare with; anything else matches nothing."""
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
"""What a node matches that does not have the label at all."""


def _label(snapshot: Snapshot, requirement: Requirement, rows: slice) -> Mask:
    column = snapshot.labels.get(requirement.key)
    if column is None:
        return np.full(len(snapshot.names[rows]), requirement.operator in _WITHOUT_LABEL)
    return _COMPARE[requirement.operator](column.codes[rows], column, requirement.values)


def _field(snapshot: Snapshot, requirement: Requirement, rows: slice) -> Mask:
    """The API knows one field, metadata.name, and two operators for it."""
    if requirement.key != "metadata.name" or requirement.operator not in {Operator.IN, Operator.NOT_IN}:
        return np.zeros(len(snapshot.names[rows]), dtype=bool)
    named = np.zeros(len(snapshot.names), dtype=bool)
    named[[snapshot.index[name] for name in requirement.values if name in snapshot.index]] = True
    return (named if requirement.operator is Operator.IN else ~named)[rows]


def _term(snapshot: Snapshot, term: Term, rows: slice) -> Mask:
    parts = [_label(snapshot, requirement, rows) for requirement in term.labels]
    parts += [_field(snapshot, requirement, rows) for requirement in term.fields]
    if not parts:
        return np.zeros(len(snapshot.names[rows]), dtype=bool)
    return reduce(np.logical_and, parts)


def _any_of(snapshot: Snapshot, terms: AnyOf, rows: slice) -> Mask:
    nothing = np.zeros(len(snapshot.names[rows]), dtype=bool)
    return reduce(np.logical_or, (_term(snapshot, term, rows) for term in terms), nothing)


def _selector(snapshot: Snapshot, demand: Demand, rows: slice) -> Mask | None:
    wants = [Requirement(key, Operator.IN, (value,)) for key, value in demand.selector]
    parts = [_label(snapshot, requirement, rows) for requirement in wants]
    return ~reduce(np.logical_and, parts) if parts else None


def _affinity(snapshot: Snapshot, demand: Demand, rows: slice) -> Mask | None:
    parts = [_any_of(snapshot, terms, rows) for terms in demand.constraints]
    return ~reduce(np.logical_and, parts) if parts else None


def _taint(snapshot: Snapshot, demand: Demand, rows: slice) -> Mask | None:
    unwelcome = set(demand.untolerated(taint for taint, _ in snapshot.taints))
    parts = [
        mask[rows] for taint, mask in snapshot.taints if taint in unwelcome and taint.key != UNSCHEDULABLE.key
    ]
    return reduce(np.logical_or, parts) if parts else None


def _cordon(snapshot: Snapshot, demand: Demand, rows: slice) -> Mask | None:
    unwelcome = set(demand.untolerated([UNSCHEDULABLE, *(taint for taint, _ in snapshot.taints)]))
    parts = [
        mask[rows] for taint, mask in snapshot.taints if taint in unwelcome and taint.key == UNSCHEDULABLE.key
    ]
    if UNSCHEDULABLE in unwelcome:
        parts.append(~snapshot.schedulable[rows])
    return reduce(np.logical_or, parts) if parts else None


CORDON: Final = "cordon"

_OBSTACLES: Final[Mapping[str, Callable[[Snapshot, Demand, slice], Mask | None]]] = {
    "selector": _selector,
    "affinity": _affinity,
    "taint": _taint,
    CORDON: _cordon,
}
"""In the order in which a node that several rule out is counted."""


def obstacles(snapshot: Snapshot, demand: Demand, rows: slice = ALL) -> dict[str, Mask]:
    """By kind of obstacle, bool[rows]: the nodes that it rules out. A kind that rules out none may be missing."""
    found = {kind: test(snapshot, demand, rows) for kind, test in _OBSTACLES.items()}
    return {kind: mask for kind, mask in found.items() if mask is not None}


@dataclass(frozen=True, slots=True)
class Where:
    """Where a demand may go, whatever room there is.

    open: bool[n], now.  matches: bool[n], once every cordon is lifted.
    """

    open: Mask
    matches: Mask
    obstacles: Mapping[str, Mask]


def where(snapshot: Snapshot, demand: Demand) -> Where:
    """Where this demand may go."""
    found = obstacles(snapshot, demand)
    nothing = np.zeros(len(snapshot.names), dtype=bool)
    lasting = [mask for kind, mask in found.items() if kind != CORDON]
    matches = ~reduce(np.logical_or, lasting, nothing)
    return Where(matches & ~found.get(CORDON, nothing), matches, found)


def clash(some: tuple[HostPort, ...], others: tuple[HostPort, ...]) -> bool:
    """These two cannot share a node."""
    return any(one.clashes(other) for one in some for other in others)


def ports_taken(snapshot: Snapshot, demand: Demand) -> Mask | None:
    """bool[n]: a host port that the demand wants is in use there. None: nowhere."""
    parts = [mask for port, mask in snapshot.ports if clash(demand.ports, (port,))]
    return reduce(np.logical_or, parts) if parts else None


def free_for(snapshot: Snapshot, priority: int) -> Matrix:
    """float64[n, r]: free room for a gang of this priority, less what others of equal or higher one are promised."""
    kept = [nomination for nomination in snapshot.nominations if nomination.priority >= priority]
    if not kept:
        return snapshot.free
    free = snapshot.free.copy()
    np.subtract.at(
        free, [nomination.node for nomination in kept], np.stack([nomination.needs for nomination in kept])
    )
    return free


def fits(snapshot: Snapshot, demand: Demand, node: int) -> bool:
    """This demand fits this node now: nothing rules it out, the ports and the room are free."""
    rows = slice(node, node + 1)
    if any(mask[0] for mask in obstacles(snapshot, demand, rows).values()):
        return False
    if any(mask[node] and clash(demand.ports, (port,)) for port, mask in snapshot.ports):
        return False
    column = snapshot.axis.index
    return all(
        name in column and bool(snapshot.free[node, column[name]] >= wanted)
        for name, wanted in demand.requests
    )
