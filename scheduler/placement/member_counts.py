"""How many members of each demand the free capacity holds: in total and by domain, kept from snapshot to snapshot.

Lives here: the counts for one matrix of free capacity, and how they follow it, also when nodes change, come or leave. Only
the rows that differ are counted again, for all demands at once. The old counts of these rows come from the old matrix, so
no count per node is kept.
Never here: whether a gang fits (standing_answers).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.admission import KINDS, NodePicture, obstacles
from scheduler.model.cluster import NOWHERE, Mask, Matrix, Snapshot
from scheduler.model.demand import Demand
from scheduler.model.resources import Vector
from scheduler.placement.distribution import MOST, Codes, Counts
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.node_candidates import counted, total
from scheduler.placement.node_changes import NodeChanges, Rows
from scheduler.placement.seating import blocked

AT_ONCE: Final = 1 << 18
"""Numbers of one intermediate array: 2 MiB."""

DEMANDS_KEPT: Final = 65_536
"""Demands that are counted, also those of gangs without a kept answer."""

SUMS_KEPT: Final = 1 << 21
"""Sums by domain that are kept for each matrix: 16 MiB. A required level `host` has as many domains as nodes."""

MASKS_KEPT: Final = 1 << 27
"""Nodes in all masks of nodes that are open to a demand: 128 MiB. Demands with equal selectors and tolerations share one."""

CLOSED: Final = (*KINDS, "level")
"""The obstacles besides resources."""


def _open(found: Mapping[str, Mask], nodes: int) -> tuple[Mask, dict[str, int]]:
    """bool[n]: the nodes that none of these obstacles excludes, and by obstacle how many nodes count for it."""
    open_ = ~reduce(np.logical_or, found.values(), np.zeros(nodes, dtype=bool))
    counts = blocked(found, np.ones(nodes, dtype=bool))
    return open_, {kind: counts.get(kind, 0) for kind in CLOSED}


def changed_rows(before: Matrix, after: Matrix) -> Rows:
    """int64[k], ascending: the rows in which these matrices differ."""
    found: Rows = np.unique(np.flatnonzero(before != after) // max(1, before.shape[1]))
    return found


@dataclass(slots=True, eq=False)
class OpenNodes:
    """The nodes that count for all demands with the same node requirements, by the same level.

    demand: one of them.  open: bool[n].  closed: by obstacle, how many nodes it excludes, as `seating.blocked` counts.
    """

    demand: Demand
    level: int | None
    open: Mask
    closed: dict[str, int]


class CountedDemands:
    """Demands with the nodes that count for them.

    Each demand is counted on the nodes that are open to it. With a level, only its labeled nodes count, by domain.
    """

    def __init__(self, snapshot: Snapshot, masks: FeasibilityCache) -> None:
        self.snapshot = snapshot
        self._masks: Final = masks
        self._numbers: Final[dict[tuple[Demand, int | None], int]] = {}
        self._keys: Final[list[tuple[Demand, int | None]]] = []
        self._places: Final[dict[tuple[object, ...], int]] = {}
        self._nodes: Final[list[OpenNodes]] = []
        """Most demands may go to the same nodes."""
        self._place: Final[list[int]] = []
        """By demand, its number in `_nodes`."""
        self._wants: list[Vector] = []
        self.domains = 0
        """The numbers that the sums by domain of all demands have together."""

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def is_full(self) -> bool:
        """No more should be counted."""
        masked = len(self._nodes) * len(self.snapshot.names)
        return len(self) >= DEMANDS_KEPT or self.domains > SUMS_KEPT or masked > MASKS_KEPT

    def number(self, demand: Demand, level: int | None) -> int:
        """The number of this demand, new or known. Every resource that it requests must be on the axis."""
        key = (demand, level)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
            place = self._places.setdefault((demand.where, level), len(self._nodes))
            if place == len(self._nodes):
                found = dict(self._masks.of(self.snapshot, demand).obstacles)
                if level is not None:
                    found["level"] = self.codes(level) == NOWHERE
                self._nodes.append(OpenNodes(demand, level, *_open(found, len(self.snapshot.names))))
            self._place.append(place)
            self._wants.append(self.snapshot.axis.vector(demand.requests))
            self.domains += self._groups(level)
        return number

    def follow(self, snapshot: Snapshot, changes: NodeChanges) -> list[int]:
        """Take these nodes instead. Only the nodes that differ are tested again, each against all demands.

        Returns the demands to which more or fewer nodes are closed.
        """
        moved = []
        before, self.snapshot = self.snapshot, snapshot
        if self._wants:
            self._wants = list(snapshot.axis.moved(np.array(self._wants), before.axis))
        self.domains = sum(self._groups(level) for _, level in self._keys)
        sides = [
            (NodePicture.of([own.nodes[row] for row in rows.tolist()]), own.topology.columns[:, rows])
            for own, rows in ((before, changes.gone), (snapshot, changes.come))
        ]
        for place, nodes in enumerate(self._nodes):
            found = [obstacles(picture, nodes.demand) for picture, _ in sides]
            if nodes.level is not None:
                for own, (_, codes) in zip(found, sides, strict=True):
                    own["level"] = codes[nodes.level] == NOWHERE
            (_, less), (open_, more) = (
                _open(own, len(picture.names)) for own, (picture, _) in zip(found, sides, strict=True)
            )
            nodes.open = nodes.open[changes.rows]
            nodes.open[changes.come] = open_
            if more != less or len(changes.gone) != len(changes.come):
                nodes.closed = {kind: nodes.closed[kind] + more[kind] - less[kind] for kind in CLOSED}
                moved.append(place)
        return np.flatnonzero(np.isin(self._place, moved)).tolist()

    def _groups(self, level: int | None) -> int:
        return 0 if level is None else len(self.snapshot.topology.domains[level])

    def codes(self, level: int) -> Codes:
        """Codes[n]: the domain of each node at this level."""
        codes: Codes = self.snapshot.topology.columns[level]
        return codes

    def closed(self, number: int) -> dict[str, int]:
        """By obstacle other than resources: the nodes that it excludes for one demand."""
        return {kind: count for kind, count in self._of(number).closed.items() if count}

    def open(self, number: int) -> int:
        """How many nodes no obstacle excludes for one demand."""
        return len(self.snapshot.names) - sum(self._of(number).closed.values())

    def _of(self, number: int) -> OpenNodes:
        return self._nodes[self._place[number]]

    def level(self, number: int) -> int | None:
        """The level by which this demand is counted."""
        return self._keys[number][1]

    def all_nodes(self, number: int, free: Matrix) -> Counts:
        """Counts[n]: how many members of one demand each node holds."""
        return counted(free, self.snapshot.axis.index, self._keys[number][0]) * self._of(number).open

    def by_domain(self, number: int, units: Counts) -> Counts | None:
        """Counts[g]: the sums of Counts[n] by domain. None: this demand has no level."""
        level = self.level(number)
        if level is None:
            return None
        return total(self.codes(level), units, self._groups(level))

    def on_rows(self, number: int, rows: Rows, free: Matrix) -> Counts:
        """Counts[k]: how many members of one demand these rows hold.  free: float64[k, r]."""
        units = counted(free, self.snapshot.axis.index, self._keys[number][0])
        return units * self._of(number).open[rows]

    def some_nodes(self, rows: Rows, free: Matrix, first: int) -> Counts:
        """Counts[d, k]: how many members of the first `first` demands these rows hold.  free: float64[k, r]."""
        wants = np.array(self._wants[:first])[:, None]
        parts = np.where(wants > 0, free / np.where(wants > 0, wants, 1.0), np.inf)
        most = np.minimum(np.floor(parts.min(axis=2, initial=np.inf)), MOST)
        open_ = np.array([nodes.open[rows] for nodes in self._nodes])[self._place[:first]]
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

    def extend(self, most: int | None = None) -> bool:
        """Count the demands that are new.  most: only so many.  Returns whether there are more."""
        first, every = len(self.total), len(self._demands)
        if first == every:
            return False
        last = every if most is None else min(every, first + most)
        more = np.zeros(last - first)
        self.total, self.nodes = np.append(self.total, more), np.append(self.nodes, more)
        for number in range(first, last):
            units = self._demands.all_nodes(number, self.free)
            self.total[number], self.nodes[number] = units.sum(), np.count_nonzero(units)
            sums = self._demands.by_domain(number, units)
            if sums is not None:
                self.domains[number] = sums
        return last < every

    def follow(self, free: Matrix) -> list[int]:
        """Take this matrix instead. Returns the demands of which some node holds more or fewer members now."""
        if free is self.free:
            return []
        before, self.free = self.free, free
        first = len(self.total)
        moved = np.zeros(first, dtype=bool)
        for rows in self._portions(changed_rows(before, free)):
            old = self._demands.some_nodes(rows, before[rows], first)
            new = self._demands.some_nodes(rows, free[rows], first)
            moved |= self._add(rows, new - old, np.count_nonzero(new, axis=1) - np.count_nonzero(old, axis=1))
        found: list[int] = np.flatnonzero(moved).tolist()
        return found

    def leave(self, changes: NodeChanges) -> list[int]:
        """Stop counting the nodes that changed or left. Call it before the demands follow. Returns those with fewer."""
        differs = np.zeros(len(self.total), dtype=bool)
        for rows in self._portions(changes.gone):
            old = self._demands.some_nodes(rows, self.free[rows], len(self.total))
            differs |= self._add(rows, -old, -np.count_nonzero(old, axis=1))
        found: list[int] = np.flatnonzero(differs).tolist()
        return found

    def enter(self, before: Snapshot, changes: NodeChanges) -> None:
        """Take the new rows, columns and domains. On nodes that changed or came, nothing is free yet. Call it after `leave`.

        before: the earlier nodes.
        """
        now = self._demands.snapshot
        free = now.axis.moved(self.free, before.axis, now.axis.unnamed)[changes.rows]
        free[changes.come] = 0.0
        self.free = free
        names = now.topology.domains
        for level, earlier in enumerate(before.topology.domains):
            counted_here = [number for number in self.domains if self._demands.level(number) == level]
            if not counted_here or earlier == names[level]:
                continue
            place = {name: number for number, name in enumerate(names[level])}
            moved = np.array([place.get(name, -1) for name in earlier], dtype=np.int64)
            for number in counted_here:
                sums, self.domains[number] = self.domains[number], np.zeros(len(place))
                self.domains[number][moved[moved >= 0]] = sums[moved >= 0]
        for rows in self._portions(changes.come):
            new = self._demands.some_nodes(rows, free[rows], len(self.total))
            self._add(rows, new, np.count_nonzero(new, axis=1))

    def _add(self, rows: Rows, more: Counts, nodes: NDArray[np.int64]) -> Mask:
        """bool[d], the demands with other counts.  more: Counts[d, k], by row.  nodes: int64[d], more nodes with places."""
        differs: Mask = np.any(more, axis=1)
        self.total += more.sum(axis=1)
        self.nodes += nodes
        for number in np.flatnonzero(differs).tolist():
            level = self._demands.level(number)
            # A node without the label has the code -1, and no more members than before.
            if level is not None:
                np.add.at(self.domains[number], self._demands.codes(level)[rows], more[number])
        return differs

    def _portions(self, rows: Rows) -> Iterator[Rows]:
        size = max(1, AT_ONCE // max(1, len(self.total) * self.free.shape[1]))
        for start in range(0, len(rows) if len(self.total) else 0, size):
            yield rows[start : start + size]
