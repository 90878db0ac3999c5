"""What the nodes are, as columns, and the same columns after a few nodes have changed.

Lives here: everything about the nodes except what is used on them. Never here: when columns are renewed (node_table).
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import (
    NOWHERE,
    LabelColumn,
    LabelColumns,
    Level,
    Mask,
    Matrix,
    Node,
    Topology,
    relabeled,
    renumbered,
    resurvey,
    survey,
    taint_masks,
)
from scheduler.model.demand import Taint
from scheduler.model.resources import NATIVE, ResourceAxis


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """The nodes in the order of their names, and their attributes. The other fields are those of a Snapshot.

    numbers: int64[n], a number of each node that it keeps when other nodes come and go.
    rows: int64 by number, the row of the node; -1: it is deleted. No number is used again.
    """

    nodes: tuple[Node, ...]
    numbers: NDArray[np.int64]
    rows: NDArray[np.int64]
    axis: ResourceAxis
    names: tuple[str, ...]
    index: Mapping[str, int]
    capacity: Matrix
    topology: Topology
    schedulable: Mask
    labels: LabelColumns
    taints: tuple[tuple[Taint, Mask], ...]

    @classmethod
    def of(cls, nodes: Sequence[Node], levels: tuple[Level, ...]) -> Self:
        """nodes: in the order of their names."""
        axis = ResourceAxis().extended(name for node in nodes for name, _ in node.capacity)
        names = tuple(node.name for node in nodes)
        capacity = np.zeros((len(nodes), len(axis)))
        _fill(capacity, axis, enumerate(nodes))
        schedulable = np.fromiter((node.schedulable for node in nodes), dtype=np.bool_, count=len(nodes))
        for array in (capacity, schedulable):
            array.flags.writeable = False
        return cls(
            nodes=tuple(nodes),
            numbers=np.arange(len(nodes)),
            rows=np.arange(len(nodes)),
            axis=axis,
            names=names,
            index={name: row for row, name in enumerate(names)},
            capacity=capacity,
            topology=survey(levels, [node.labels for node in nodes]),
            schedulable=schedulable,
            labels=LabelColumns(tuple(nodes)),
            taints=taint_masks(nodes),
        )

    def axis_after(self, changed: Iterable[Node], gone: Iterable[str]) -> ResourceAxis:
        """The resources after these nodes have changed or were added, and those with these names deleted."""
        now = {node.name: node.resources for node in changed}
        rows = [self.index[name] for name in {*now, *gone} if name in self.index]
        came = {name for own in now.values() for name in own}
        others = np.ones(len(self.names), dtype=np.bool_)
        others[rows] = False
        had = {name for row in rows for name in self.nodes[row].resources}
        lost = self.axis.index.keys() & had - came - {*NATIVE}
        for name in sorted(lost):
            column = self.axis.index[name]
            if (others & (self.capacity[:, column] != self.axis.unnamed[column])).any():
                lost.remove(name)
        if not lost and came <= self.axis.index.keys():
            return self.axis
        return ResourceAxis().extended(came.union(self.axis.names) - lost)

    def on(self, axis: ResourceAxis) -> Self:
        """The same nodes with the columns of this axis."""
        if axis is self.axis:
            return self
        capacity = axis.moved(self.capacity, self.axis, axis.unnamed)
        capacity.flags.writeable = False
        return replace(self, axis=axis, capacity=capacity)

    def among(self, added: Collection[str], gone: Collection[str]) -> Self:
        """The columns with these nodes added, which have no attributes yet, and those with these names deleted."""
        if not added and not gone:
            return self
        names, nodes = list(self.names), list(self.nodes)
        left = sorted(self.index[name] for name in gone)
        for row in reversed(left):
            del names[row], nodes[row]
        rows = np.delete(np.arange(len(self.names)), left)
        rows = np.insert(rows, [bisect_left(names, name) for name in sorted(added)], -1)
        fresh = rows < 0
        at = np.flatnonzero(fresh).tolist()
        for row, name in zip(at, sorted(added), strict=True):
            names.insert(row, name)
            nodes.insert(row, Node(name, ()))
        topology = resurvey(self.topology, {self.index[name]: {} for name in gone}) if gone else self.topology
        coords, capacity, schedulable = (
            topology.coords[rows],
            self.capacity[rows],
            self.schedulable[rows] | fresh,
        )
        coords[fresh] = NOWHERE
        _fill(capacity, self.axis, ((row, nodes[row]) for row in at))
        for array in (coords, capacity, schedulable):
            array.flags.writeable = False
        labels = {}
        for key, own in self.labels.made.items():
            codes = np.where(fresh, np.int32(-1), own.codes[rows])
            labels[key] = renumbered(codes, own.values) if gone else LabelColumn(codes, own.values)
        masks = ((taint, mask[rows] & ~fresh) for taint, mask in self.taints)
        numbers, listed = self.numbers[rows], tuple(nodes)
        numbers[fresh] = np.arange(len(self.rows), len(self.rows) + len(at))
        return replace(
            self,
            nodes=listed,
            names=tuple(names),
            index=dict(zip(names, range(len(names)), strict=True)),
            numbers=numbers,
            rows=_inverse(numbers, len(self.rows) + len(at)),
            capacity=capacity,
            topology=replace(topology, coords=coords),
            schedulable=schedulable,
            labels=LabelColumns(listed, labels),
            taints=tuple((taint, mask) for taint, mask in masks if mask.any()),
        )

    def after(self, changed: Sequence[Node]) -> Self:
        """The columns after these nodes have changed, equal to new ones. A part without a change is the same object.

        Only if they have rows, and their resources columns.
        """
        pairs = {self.index[node.name]: (self.nodes[self.index[node.name]], node) for node in changed}
        nodes, moved = list(self.nodes), dict[str, dict[int, str | None]]()
        for row, (before, node) in pairs.items():
            nodes[row] = node
            for key, _ in before.labels.items() ^ node.labels.items() if before.labels != node.labels else ():
                moved.setdefault(key, {})[row] = node.labels.get(key)
        capacity, schedulable = self.capacity, self.schedulable
        if any(before.capacity != node.capacity for before, node in pairs.values()):
            capacity = capacity.copy()
            _fill(capacity, self.axis, ((row, node) for row, (_, node) in pairs.items()))
        if any(before.schedulable != node.schedulable for before, node in pairs.values()):
            schedulable = schedulable.copy()
            schedulable[list(pairs)] = [node.schedulable for _, node in pairs.values()]
        for array in (capacity, schedulable):
            array.flags.writeable = False
        levels = {level.label for level in self.topology.levels}
        labels = {row: node.labels for row, (_, node) in pairs.items()}
        tainted = any(before.taints != node.taints for before, node in pairs.values())
        listed = tuple(nodes)
        return replace(
            self,
            nodes=listed,
            capacity=capacity,
            topology=self.topology if levels.isdisjoint(moved) else resurvey(self.topology, labels),
            schedulable=schedulable,
            labels=LabelColumns(listed, self._relabeled(moved)) if moved else self.labels,
            taints=taint_masks(nodes) if tainted else self.taints,
        )

    def _relabeled(self, moved: Mapping[str, Mapping[int, str | None]]) -> dict[str, LabelColumn]:
        made = self.labels.made
        return made | {key: relabeled(made[key], rows) for key, rows in moved.items() if key in made}


def _inverse(numbers: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    rows = np.full(count, -1, dtype=np.int64)
    rows[numbers] = np.arange(len(numbers))
    return rows


def _fill(capacity: Matrix, axis: ResourceAxis, rows: Iterable[tuple[int, Node]]) -> None:
    """Write the amounts of these nodes. A resource that a node does not name is 0, or unlimited."""
    nothing = axis.unnamed
    for row, node in rows:
        capacity[row] = nothing
        for resource, value in node.capacity:
            capacity[row, axis.index[resource]] = value
