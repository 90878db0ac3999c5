"""What the nodes are, as columns, and the same columns after a few nodes have changed.

Lives here: everything about the nodes except what is used on them. Never here: when columns are renewed (node_table).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from scheduler.model.cluster import (
    LabelColumn,
    Level,
    Mask,
    Matrix,
    Node,
    Topology,
    label_columns,
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

    def has_rows_of(self, nodes: Iterable[Node | None]) -> bool:
        """These nodes are known, and they have the resources that they had: neither rows nor columns change."""
        return all(
            node is not None
            and (row := self.index.get(node.name)) is not None
            and self.nodes[row].resources == node.resources
            for node in nodes
        )

    def after(self, changed: Sequence[Node]) -> Self:
        """The columns after these nodes have changed, equal to new ones. A part without a change is the same object.

        Only if it `has_rows_of` them.
        """
        pairs = {row: (self.nodes[row], node) for node in changed if (row := self.index[node.name]) >= 0}
        nodes = list(self.nodes)
        for row, (_, node) in pairs.items():
            nodes[row] = node
        keys = {
            key
            for before, node in pairs.values()
            if before.labels != node.labels
            for key, _ in before.labels.items() ^ node.labels.items()
        }
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
            topology=self.topology if keys.isdisjoint(levels) else resurvey(self.topology, labels),
            schedulable=schedulable,
            labels=self._relabeled(nodes, keys) if keys else self.labels,
            taints=taint_masks(nodes) if tainted else self.taints,
        )

    def _relabeled(self, nodes: Sequence[Node], keys: set[str]) -> dict[str, LabelColumn]:
        kept = {key: column for key, column in self.labels.items() if key not in keys}
        return dict(sorted((kept | label_columns(nodes, keys)).items()))


def _fill(capacity: Matrix, axis: ResourceAxis, rows: Iterable[tuple[int, Node]]) -> None:
    """Write the amounts of these nodes. A resource that a node does not name is 0, or unlimited."""
    nothing = np.array([UNLIMITED if is_unlimited(name) else 0.0 for name in axis.names])
    for row, node in rows:
        capacity[row] = nothing
        for resource, value in node.capacity:
            capacity[row, axis.index[resource]] = value
