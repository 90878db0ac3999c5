"""Which nodes differ between two snapshots, and which rows belong together."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Node, Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class NodeChanges:
    """The difference between the nodes of an earlier and a later snapshot, regardless of their use.

    labels: by node that changed, came or left, its labels with other values. None: more than labels and a cordon differs.
    gone: int64[k], the earlier rows of the nodes that changed or left.
    come: int64[k], the later rows of the nodes that changed or came.
    rows: int64[n], for each later row the earlier one, or -1 if the node came.
    """

    labels: Mapping[str, frozenset[str] | None]
    gone: NDArray[np.int64]
    come: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def between(cls, before: Snapshot, after: Snapshot) -> Self | None:
        """Nodes are compared by identity: an unchanged node is the same object. None: a snapshot lists none."""
        if not before.nodes or not after.nodes:
            return None
        if before.names is after.names:
            same = map(operator.is_, before.nodes, after.nodes)
            changed = [row for row, is_same in enumerate(same) if not is_same]
            gone = come = np.array(changed, dtype=np.int64)
            rows = np.arange(len(after.names))
        else:
            known, later = before.index, after.index
            rows = np.array([known.get(name, -1) for name in after.names], dtype=np.int64)
            pairs = zip(rows.tolist(), after.nodes, strict=True)
            fresh = [new for new, (old, node) in enumerate(pairs) if old < 0 or before.nodes[old] is not node]
            come = np.array(fresh, dtype=np.int64)
            lost = [row for row, name in enumerate(before.names) if name not in later]
            gone = np.array([*lost, *(old for old in rows[come].tolist() if old >= 0)], dtype=np.int64)
        labels: dict[str, frozenset[str] | None] = {before.names[row]: None for row in gone.tolist()}
        for row in come.tolist():
            old, node = int(rows[row]), after.nodes[row]
            labels[node.name] = None if old < 0 else _labels(before.nodes[old], node)
        return cls(labels, gone, come, rows)


def _labels(before: Node, node: Node) -> frozenset[str] | None:
    if before.capacity != node.capacity or before.taints != node.taints:
        return None
    return frozenset(key for key, _ in before.labels.items() ^ node.labels.items())
