"""Free capacity: what every node has free, and the places for workers that one sizing call takes.

Lives here: arrays of amounts, and arithmetic on them. Never here: which job gets a place, or the watches of nodes and
pods (`scheduler.elastic.controller.node_usage`).
Nodes are counted one by one, because leftovers on several nodes are not enough for a worker. Only the scheduler decides
where a worker runs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.elastic.sizing.job_view import SLOT

Matrix: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
_Rows: TypeAlias = list[list[float]]


@dataclass(frozen=True, slots=True, eq=False)
class Free:
    """What is free. Capacity that another gang waits for counts as free, because surplus is preempted at once.

    resources: the columns, r of them.
    amounts: float64[n, r], at least 0, in whole units: CPU in thousandths of a core, memory in bytes, others in pieces.
    eligible: bool[k, n], for each kind of worker the nodes that admit it: selector, affinity, taints.
    unlimited: free capacity is unknown. A job may ask for any size, and its pods wait at their gates.
    """

    resources: tuple[str, ...]
    amounts: Matrix
    eligible: Mask
    unlimited: bool = False


UNLIMITED: Final = Free((), np.zeros((0, 0)), np.zeros((0, 0), dtype=bool), unlimited=True)

PLENTY: Final = 1e18
"""Amount of each resource if nothing is known: a million workers of a terabyte each take no more."""


def free_on(nodes: Iterable[Mapping[str, float]]) -> Free:
    """These amounts, by resource, on nodes that admit every worker."""
    rows = list(nodes)
    resources = tuple(sorted({name for row in rows for name in row}))
    amounts = np.array([[row.get(name, 0.0) for name in resources] for row in rows], dtype=float)
    return Free(resources, amounts.reshape(len(rows), len(resources)), np.ones((1, len(rows)), dtype=bool))


def slots(count: int) -> Free:
    """Capacity for so many identical workers."""
    return free_on([{SLOT: float(count)}])


class Seats:
    """Places for one kind of worker, on nodes that other kinds use as well."""

    def __init__(self, rows: _Rows, needs: list[tuple[int, float]], nodes: list[int]) -> None:
        self._rows = rows
        self._needs = needs
        self._nodes = nodes
        """Nodes that may have a place, in reverse order. A node without a place gets none in this call."""

    def take(self, count: int) -> bool:
        """Take `count` places, at least one, on the first nodes that have them; or none."""
        left, taken = count, list[tuple[int, int]]()
        for node in reversed(self._nodes):
            here = self._seats(node, left)
            if here:
                taken.append((node, here))
                left -= here
            elif node == self._nodes[-1]:
                self._nodes.pop()
            if not left:
                break
        else:
            return False
        for node, here in taken:
            row = self._rows[node]
            for column, amount in self._needs:
                row[column] -= here * amount
        return True

    def _seats(self, node: int, most: int) -> int:
        row = self._rows[node]
        for column, amount in self._needs:
            if row[column] < most * amount:
                most = int(row[column] // amount)
        return most


class Capacity:
    """Free capacity, less what was taken in this call."""

    def __init__(self, free: Free) -> None:
        self._free = free
        # A list for each node: a place changes a few cells, and numpy is slow at single ones.
        self._rows: _Rows = free.amounts.tolist()
        self._kinds: dict[tuple[int, tuple[tuple[str, float], ...]], Seats] = {}

    def seats(self, worker: Mapping[str, float], kind: int) -> Seats:
        """Places for workers that take these amounts, all above 0; `kind`: their row in `Free.eligible`."""
        key = kind, tuple(worker.items())
        if key not in self._kinds:
            self._kinds[key] = self._made(worker, kind)
        return self._kinds[key]

    def _made(self, worker: Mapping[str, float], kind: int) -> Seats:
        free = self._free
        if free.unlimited:
            return Seats([[PLENTY] * len(worker)], list(enumerate(worker.values())), [0])
        if not worker.keys() <= set(free.resources):
            return Seats(self._rows, [], [])
        columns = [free.resources.index(name) for name in worker]
        holds = (free.amounts[:, columns] >= list(worker.values())).all(axis=1) & free.eligible[kind]
        needs = list(zip(columns, worker.values(), strict=True))
        return Seats(self._rows, needs, np.flatnonzero(holds)[::-1].tolist())
