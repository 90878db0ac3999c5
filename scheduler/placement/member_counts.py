"""How many members of each demand the free capacity holds: in total and by domain, kept from snapshot to snapshot.

Lives here: the counts for one matrix of free capacity, and how they follow it. Only the rows that differ are counted
again, for all demands at once. The old counts of these rows come from the old matrix, so no count per node is kept.
Never here: whether a gang fits (standing_answers).
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import NOWHERE, Mask, Matrix, Snapshot
from scheduler.model.demand import Demand
from scheduler.placement.distribution import MOST, Codes, Counts
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.node_candidates import counted, total

AT_ONCE: Final = 1 << 18
"""Numbers of one intermediate array: 2 MiB."""

Rows = NDArray[np.int64]


def changed_rows(before: Matrix, after: Matrix) -> Rows:
    """int64[k], ascending: the rows in which these matrices differ."""
    found: Rows = np.unique(np.flatnonzero(before != after) // max(1, before.shape[1]))
    return found


class CountedDemands:
    """Demands with the nodes that count for them, for one version of the nodes.

    Each demand is counted on the nodes that are open to it. With a level, only its labeled nodes count, by domain.
    """

    def __init__(self, snapshot: Snapshot, masks: FeasibilityCache) -> None:
        self._snapshot: Final = snapshot
        self._masks: Final = masks
        self._numbers: Final[dict[tuple[Demand, int | None], int]] = {}
        self._keys: Final[list[tuple[Demand, int | None]]] = []
        self._masks_of: Final[dict[tuple[object, ...], int]] = {}
        self._open: Final[list[Mask]] = []
        """Where demands may go. Most of them may go to the same nodes."""
        self._mask: Final[list[int]] = []
        """By demand, its number in `_open`."""
        self._wants: Matrix = np.zeros((0, len(snapshot.axis)))
        self.domains = 0
        """The numbers that the sums by domain of all demands have together."""
        self.masked = 0
        """The nodes of all masks together."""

    def __len__(self) -> int:
        return len(self._keys)

    def number(self, demand: Demand, level: int | None) -> int:
        """The number of this demand, new or known. Every resource that it requests must be on the axis."""
        key = (demand, level)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
            self._mask.append(self._place(demand, level))
            self._wants = np.vstack((self._wants, self._snapshot.axis.vector(demand.requests)))
            self.domains += 0 if level is None else len(self._snapshot.topology.domains[level])
        return number

    def _place(self, demand: Demand, level: int | None) -> int:
        shared = (demand.where, level)
        if shared not in self._masks_of:
            found = self._masks.of(self._snapshot, demand).open
            self._masks_of[shared] = len(self._open)
            self.masked += len(found)
            self._open.append(found if level is None else found & (self.codes(level) != NOWHERE))
        return self._masks_of[shared]

    def codes(self, level: int) -> Codes:
        """Codes[n]: the domain of each node at this level."""
        codes: Codes = self._snapshot.topology.columns[level]
        return codes

    def level(self, number: int) -> int | None:
        """The level by which this demand is counted."""
        return self._keys[number][1]

    def all_nodes(self, number: int, free: Matrix) -> Counts:
        """Counts[n]: how many members of one demand each node holds."""
        return (
            counted(free, self._snapshot.axis.index, self._keys[number][0]) * self._open[self._mask[number]]
        )

    def by_domain(self, number: int, units: Counts) -> Counts | None:
        """Counts[g]: the sums of Counts[n] by domain. None: this demand has no level."""
        level = self.level(number)
        if level is None:
            return None
        return total(self.codes(level), units, len(self._snapshot.topology.domains[level]))

    def on_rows(self, number: int, rows: Rows, free: Matrix) -> Counts:
        """Counts[k]: how many members of one demand these rows hold.  free: float64[k, r]."""
        units = counted(free, self._snapshot.axis.index, self._keys[number][0])
        return units * self._open[self._mask[number]][rows]

    def some_nodes(self, rows: Rows, free: Matrix, first: int) -> Counts:
        """Counts[d, k]: how many members of the first `first` demands these rows hold.  free: float64[k, r]."""
        wants = self._wants[:first, None, :]
        parts = np.where(wants > 0, free / np.where(wants > 0, wants, 1.0), np.inf)
        most = np.minimum(np.floor(parts.min(axis=2, initial=np.inf)), MOST)
        open_ = np.array([mask[rows] for mask in self._open])[self._mask[:first]]
        out: Counts = np.maximum(most, 0.0) * open_
        return out


class MemberCounts:
    """The counts in one matrix of free capacity, float64[n, r], which `follow` replaces.

    total: Counts[d], the members that all nodes hold.  nodes: Counts[d], nodes that hold one or more.
    domains: by demand with a level, Counts[g].
    """

    def __init__(self, demands: CountedDemands, free: Matrix) -> None:
        self._demands: Final = demands
        self.free = free
        self.total: Counts = np.zeros(0)
        self.nodes: Counts = np.zeros(0)
        self.domains: Final[dict[int, Counts]] = {}

    def copy(self) -> "MemberCounts":
        """The same counts, which may follow another matrix."""
        other = MemberCounts(self._demands, self.free)
        other.total, other.nodes = self.total.copy(), self.nodes.copy()
        other.domains.update((number, sums.copy()) for number, sums in self.domains.items())
        return other

    def extend(self) -> None:
        """Count the demands that are new."""
        first, most = len(self.total), len(self._demands)
        if first == most:
            return
        self.total, self.nodes = (np.append(own, np.zeros(most - first)) for own in (self.total, self.nodes))
        for number in range(first, most):
            units = self._demands.all_nodes(number, self.free)
            self.total[number], self.nodes[number] = units.sum(), np.count_nonzero(units)
            sums = self._demands.by_domain(number, units)
            if sums is not None:
                self.domains[number] = sums

    def follow(self, free: Matrix) -> list[int]:
        """Take this matrix instead. Returns the demands of which some node holds more or fewer members now."""
        if free is self.free:
            return []
        before, self.free = self.free, free
        first = len(self.total)
        moved = np.zeros(first, dtype=bool)
        for rows in self._portions(changed_rows(before, free)) if first else ():
            old = self._demands.some_nodes(rows, before[rows], first)
            new = self._demands.some_nodes(rows, free[rows], first)
            more = new - old
            differs = more.any(axis=1)
            self.total += more.sum(axis=1)
            self.nodes += np.count_nonzero(new, axis=1) - np.count_nonzero(old, axis=1)
            for number in np.flatnonzero(differs).tolist():
                level = self._demands.level(number)
                # A node without the label has the code -1, and no more members than before.
                if level is not None:
                    np.add.at(self.domains[number], self._demands.codes(level)[rows], more[number])
            moved |= differs
        found: list[int] = np.flatnonzero(moved).tolist()
        return found

    def _portions(self, rows: Rows) -> Iterator[Rows]:
        size = max(1, AT_ONCE // max(1, len(self.total) * self.free.shape[1]))
        for start in range(0, len(rows), size):
            yield rows[start : start + size]
