"""What the nodes are, as columns, and the same columns after a few nodes have changed.

Lives here: everything about the nodes except what is used on them. Never here: when columns are renewed (node_table).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from scheduler.model.cluster import (
    NOWHERE,
    LabelColumn,
    Level,
    Mask,
    Matrix,
    Node,
    Topology,
    label_columns,
    relabeled,
    renumbered,
    resurvey,
    survey,
    taint_masks,
)
from scheduler.model.demand import Taint
from scheduler.model.resources import UNLIMITED, ResourceAxis, is_unlimited


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """The nodes in the order of their names, and their attributes. The fields are those of a Snapshot."""

    nodes: tuple[Node, ...]
    axis: ResourceAxis
    names: tuple[str, ...]
    index: Mapping[str, int]
    capacity: Matrix
    topology: Topology
    schedulable: Mask
    labels: Mapping[str, LabelColumn]
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
            axis=axis,
            names=names,
            index={name: row for row, name in enumerate(names)},
            capacity=capacity,
            topology=survey(levels, [node.labels for node in nodes]),
            schedulable=schedulable,
            labels=label_columns(nodes),
            taints=taint_masks(nodes),
        )

    def covers(self, nodes: Sequence[Node], gone: Iterable[str]) -> bool:
        """After these nodes have changed or were added, and those with these names deleted, there are the same resources."""
        names, leaving = set(self.axis.names), set(gone)
        for node in nodes:
            row = self.index.get(node.name)
            if (row is None and not names.issuperset(node.resources)) or (
                row is not None and self.nodes[row].resources != node.resources
            ):
                return False
        lost = {
            name for own in leaving if own in self.index for name in self.nodes[self.index[own]].resources
        }
        return not lost or any(
            node.name not in leaving and lost.issubset(node.resources) for node in self.nodes
        )

    def among(self, names: Sequence[str]) -> Self:
        """The columns of the nodes with these names, in this order. One that is not known has no attributes yet."""
        if list(names) == list(self.names):
            return self
        rows = np.array([self.index.get(name, -1) for name in names], dtype=np.int64)
        fresh = rows < 0
        nodes = tuple(
            self.nodes[row] if row >= 0 else Node(names[at], ()) for at, row in enumerate(rows.tolist())
        )
        gone = np.setdiff1d(np.arange(len(self.names)), rows)
        topology = resurvey(self.topology, {row: {} for row in gone.tolist()})
        coords, capacity, schedulable = (
            topology.coords[rows],
            self.capacity[rows],
            self.schedulable[rows] | fresh,
        )
        coords[fresh] = NOWHERE
        _fill(capacity, self.axis, ((row, nodes[row]) for row in np.flatnonzero(fresh).tolist()))
        for array in (coords, capacity, schedulable):
            array.flags.writeable = False
        labels = {
            key: renumbered(np.where(fresh, -1, own.codes[rows]).astype(np.int32), own.values)
            for key, own in self.labels.items()
        }
        masks = ((taint, mask[rows] & ~fresh) for taint, mask in self.taints)
        return replace(
            self,
            nodes=nodes,
            names=tuple(names),
            index={name: row for row, name in enumerate(names)},
            capacity=capacity,
            topology=replace(topology, coords=coords),
            schedulable=schedulable,
            labels={key: own for key, own in labels.items() if own.values},
            taints=tuple((taint, mask) for taint, mask in masks if mask.any()),
        )

    def after(self, changed: Sequence[Node]) -> Self:
        """The columns after these nodes have changed, equal to new ones. A part without a change is the same object.

        Only if they have rows, and it `covers` them.
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
        return replace(
            self,
            nodes=tuple(nodes),
            capacity=capacity,
            topology=self.topology if levels.isdisjoint(moved) else resurvey(self.topology, labels),
            schedulable=schedulable,
            labels=self._relabeled(moved) if moved else self.labels,
            taints=taint_masks(nodes) if tainted else self.taints,
        )

    def _relabeled(self, moved: Mapping[str, Mapping[int, str | None]]) -> dict[str, LabelColumn]:
        none = LabelColumn(np.full(len(self.names), -1, dtype=np.int32), {})
        found = {key: relabeled(self.labels.get(key, none), rows) for key, rows in moved.items()}
        return dict(sorted((key, own) for key, own in {**self.labels, **found}.items() if own.values))


def _fill(capacity: Matrix, axis: ResourceAxis, rows: Iterable[tuple[int, Node]]) -> None:
    """Write the amounts of these nodes. A resource that a node does not name is 0, or unlimited."""
    nothing = np.array([UNLIMITED if is_unlimited(name) else 0.0 for name in axis.names])
    for row, node in rows:
        capacity[row] = nothing
        for resource, value in node.capacity:
            capacity[row, axis.index[resource]] = value
