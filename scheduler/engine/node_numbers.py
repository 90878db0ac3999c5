"""A number for every node that stays when other nodes come and go, and the row of each number in the current snapshot.

Lives here: what lets rows of running pods outlive a change of nodes. Never here: what is on a node (ledger).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.ledger import Ledger
from scheduler.model.cluster import Snapshot
from scheduler.model.resources import ResourceAxis

GONE_KEPT: Final = 64
"""Numbers of deleted nodes beyond the number of nodes. Then all nodes are numbered from 0 again."""


class NodeNumbers:
    """Nodes are numbered when a snapshot first has them. A deleted node keeps its number, without a row."""

    def __init__(self, ledger: Ledger) -> None:
        self.version = 0
        """Changes when numbers or columns of uses mean something else than before."""
        self.rows: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """By number, the row of the node in the snapshot that was followed last; -1: none. The array never changes."""
        self._ledger = ledger
        self._numbers: dict[str, int] = {}
        self._names: Sequence[str] = ()
        self._axis: ResourceAxis | None = None

    def follow(self, snapshot: Snapshot) -> None:
        """Renew `rows` if the snapshot has other nodes than the last one."""
        axis, names = self._ledger.nodes.axis, snapshot.names
        if names is self._names and axis == self._axis:
            return
        if axis != self._axis or len(self._numbers) > 2 * len(names) + GONE_KEPT:
            self._numbers = {}
            self.version += 1
        self._names, self._axis = names, axis
        for name in names:
            self._numbers.setdefault(name, len(self._numbers))
        self.rows = np.array([snapshot.index.get(name, -1) for name in self._numbers], dtype=np.int64)

    def of(self, node: str | None) -> int | None:
        """The number of a node with a row. None: it has no row."""
        number = None if node is None else self._numbers.get(node)
        return number if number is not None and self.rows[number] >= 0 else None
