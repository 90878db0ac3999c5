"""Free room that changes by the hour, counted in members of the demands that wait for it.

Lives here: how many members of each demand every node holds, kept up to date row by row, and plain seats.
Never here: time, the queue, a choice that anybody is bound by.
Why not the planner for everything: a forecast seats a hundred gangs in a dozen scenarios.  A plain gang (one
demand, packed, no level required) fits exactly where enough of its members do, so counting answers for it, at a
twentieth of the cost of a decision; its seats are the planner's in kind, the snuggest host, else the roomiest ones.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Matrix, Snapshot
from scheduler.model.demand import Demand
from scheduler.model.resources import Vector
from scheduler.model.workload import Gang, Strategy
from scheduler.placement.distribution import MOST, Counts
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.node_candidates import held

Rows = NDArray[np.int64]


def is_plain(gang: Gang) -> bool:
    """Counting alone tells whether this gang fits."""
    roles = [role for role in gang.roles if role.quorum or role.surplus]
    simple = len(roles) == 1 and not roles[0].surplus and not roles[0].demand.ports
    free = not (gang.required or gang.anchors or gang.barred)
    return simple and free and gang.strategy is Strategy.PACK


class Demands:
    """The distinct demands of a queue, as a matrix.

    wants: float64[d, r].  open: bool[d, n], where each may go, whatever room there is.
    """

    def __init__(self, snapshot: Snapshot, demands: Sequence[Demand], masks: FeasibilityCache) -> None:
        axis = snapshot.axis
        self.wants: Final = np.zeros((len(demands), len(axis)))
        self.open: Final = np.zeros((len(demands), len(snapshot.names)), dtype=bool)
        for number, demand in enumerate(demands):
            if all(name in axis.index for name, _ in demand.requests):
                self.wants[number] = axis.vector(demand.requests)
                self.open[number] = masks.of(snapshot, demand).open
        self._divisor: Final = np.where(self.wants > 0, self.wants, 1.0)[:, None, :]
        self._most: Final = np.where(self.open, MOST, 0.0)
        self._unwanted: Final = np.where(self.wants > 0, 0.0, np.inf)[:, None, :]

    def count(self, free: Matrix, rows: Rows | slice = slice(None)) -> Counts:
        """Counts[d, k]: how many members of each demand fit these rows.  free: float64[k, r], their room."""
        parts = free / self._divisor
        parts += self._unwanted
        out: Counts = np.minimum.reduce(parts, axis=2)
        np.floor(out, out=out)
        np.maximum(out, 0.0, out=out)
        np.minimum(out, self._most[:, rows], out=out)
        return out

    def count_one(self, demand: int, free: Matrix, rows: Rows | slice = slice(None)) -> Counts:
        """Counts[k]: as `count`, of one demand."""
        wants = enumerate(self.wants[demand].tolist())
        amounts = ((free[:, column], wanted) for column, wanted in wants if wanted)
        return held(np.full(len(free), MOST), amounts) * self.open[demand, rows]


class ForecastCapacity:
    """Room, and what it holds.

    free: float64[n, r].  units: Counts[d, n].  totals: of each demand, how many members all rows hold.
    """

    def __init__(self, demands: Demands, free: Matrix, units: Counts | None = None) -> None:
        self.demands: Final = demands
        self.free: Final = free.copy()
        self.units: Final = demands.count(free) if units is None else units.copy()
        self._totals: Vector = self.units.sum(axis=1)
        self.totals: list[float] = self._totals.tolist()

    def put(self, rows: Rows, free: Matrix) -> None:
        """These rows have this room now.  rows: int64[k], distinct; free: float64[k, r]."""
        where = slice(row := int(rows[0]), row + 1) if len(rows) == 1 else rows  # a slice is found at once
        units = self.demands.count(free, where)
        self._totals += (units - self.units[:, where]).sum(axis=1)  # exact: these are whole numbers
        self.totals = self._totals.tolist()
        self.free[where] = free
        self.units[:, where] = units


def snug(units: Counts, members: int) -> tuple[Rows, Counts]:
    """Rows and how many members sit on each: the tightest row that holds all, else the roomiest and a tight last one.

    units: Counts[n], whose sum is at least `members`.
    """
    whole = np.where(units >= members, units, np.inf)
    tightest = int(whole.argmin())
    if whole[tightest] < np.inf:
        return np.array([tightest]), np.array([float(members)])
    rows = np.argsort(-units, kind="stable")
    taken = np.cumsum(units[rows])
    last = int(np.searchsorted(taken, members))
    counts = units[rows[: last + 1]]
    counts[-1] -= taken[last] - members
    holding = int(np.count_nonzero(units >= counts[-1]))
    return np.append(rows[:last], rows[max(holding - 1, last)]), counts


def merged(rows: Rows, uses: Matrix) -> tuple[Rows, Matrix]:
    """The same pods, one entry a row."""
    if len(rows) < 2:
        return rows, uses
    distinct, place = np.unique(rows, return_inverse=True)
    if len(distinct) == len(rows):
        return rows, uses
    out = np.zeros((len(distinct), uses.shape[1]))
    np.add.at(out, place, uses)
    return distinct, out


def growth(demands: Demands, demand: int, capacity: ForecastCapacity, rows: Rows, uses: Matrix) -> Vector:
    """float64[k]: how many members of one demand fit in all, after each of these pods in turn has left.

    Every row's room is summed up in the order of leaving, all rows at once.
    """
    if not len(rows):
        return np.zeros(0)
    units = capacity.units[demand]
    by_row = np.argsort(rows, kind="stable")
    row = rows[by_row]
    begins = np.append(True, row[1:] != row[:-1])
    summed = np.cumsum(uses[by_row], axis=0)
    before = np.where(begins[:, None], summed - uses[by_row], 0.0)
    group = np.cumsum(begins) - 1
    room = capacity.free[row] + summed - before[begins][group]
    after = demands.count_one(demand, room, row)
    more = after - np.where(begins, units[row], np.append(0.0, after[:-1]))
    out = np.empty(len(rows))
    out[by_row] = more
    total: Vector = units.sum() + np.cumsum(out)
    return total
