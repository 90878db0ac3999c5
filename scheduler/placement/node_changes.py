"""Which nodes differ between two snapshots, and which rows belong together."""

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
        old, new = (np.fromiter(map(id, own.nodes), dtype=np.int64) for own in (before, after))
        stays, stayed = (np.isin(*pair, assume_unique=True) for pair in ((old, new), (new, old)))
        rows = np.full(len(new), -1)
        rows[stayed] = np.flatnonzero(stays)  # both are in the order of the names
        gone, come = np.flatnonzero(~stays), np.flatnonzero(~stayed)
        labels: dict[str, frozenset[str] | None] = {before.names[row]: None for row in gone.tolist()}
        for row in come.tolist():
            node = after.nodes[row]
            rows[row] = earlier = before.index.get(node.name, -1)
            labels[node.name] = None if earlier < 0 else _labels(before.nodes[earlier], node)
        return cls(labels, gone, come, rows)


def _labels(before: Node, node: Node) -> frozenset[str] | None:
    if before.capacity != node.capacity or before.taints != node.taints:
        return None
    return frozenset(key for key, _ in before.labels.items() ^ node.labels.items())
