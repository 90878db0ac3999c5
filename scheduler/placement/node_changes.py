"""Which nodes differ between two snapshots, and which rows belong together."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Node, Snapshot

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class NodeChanges:
    """The difference between the nodes of an earlier and a later snapshot, regardless of their use.

    labels: by node that changed, came or left, its labels with other values. None: more than labels and a cordon differs.
    gone: int64[k], the earlier rows of the nodes that changed or left.
    come: int64[k], the later rows of the nodes that changed or came.
    rows: int64[n], for each later row the earlier one, or -1 if the node came.
    """

    labels: Mapping[str, frozenset[str] | None]
    gone: Rows
    come: Rows
    rows: Rows

    @classmethod
    def between(cls, before: Snapshot, after: Snapshot) -> Self | None:
        """Nodes are compared by identity: an unchanged node is the same object. None: a snapshot lists none."""
        if not before.nodes or not after.nodes:
            return None
        lost, new = _others(before, after), _others(after, before)
        # Both are in the order of the names, so the other nodes are in the same order.
        earlier = np.delete(np.arange(len(before.names)), lost)
        later = np.delete(np.arange(len(after.names)), new)
        rows = np.full(len(after.names), -1)
        rows[later] = earlier
        kept = map(before.nodes.__getitem__, earlier.tolist()) if len(lost) else before.nodes
        seen = map(after.nodes.__getitem__, later.tolist()) if len(new) else after.nodes
        same = np.fromiter(map(operator.is_, kept, seen), dtype=np.bool_, count=len(later))
        gone, come = np.append(earlier[~same], lost), np.append(later[~same], new)
        labels: dict[str, frozenset[str] | None] = {before.names[row]: None for row in gone.tolist()}
        for row in come.tolist():
            old, node = int(rows[row]), after.nodes[row]
            labels[node.name] = None if old < 0 else _labels(before.nodes[old], node)
        return cls(labels, gone, come, rows)


def _others(own: Snapshot, other: Snapshot) -> Rows:
    """The rows of the nodes that the other snapshot does not have."""
    same = own.index is other.index
    found = () if same else (row for row, name in enumerate(own.names) if name not in other.index)
    return np.fromiter(found, dtype=np.int64)


def _labels(before: Node, node: Node) -> frozenset[str] | None:
    if before.capacity != node.capacity or before.taints != node.taints:
        return None
    return frozenset(key for key, _ in before.labels.items() ^ node.labels.items())
