"""Units that may have to leave, as arrays: where they stand, what they give back, what their leaving costs.

Lives here: the sums over sets of units; a set is bool[u], in one fixed order of the units.
Never here: which set is best, and for whom.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Mask, Matrix, Snapshot
from scheduler.model.preemption_units import Kind, Unit
from scheduler.model.resources import Vector
from scheduler.placement import feasibility

Price: TypeAlias = tuple[float, ...]
"""What a set costs; smaller is better, see `Standing.price`."""

_TIE: Final = {Kind.SURPLUS: 0.01, Kind.POD: 0.1, Kind.GANG: 1.0}
_MEMBER: Final = 1e-5
"""What decides between sets that lose equally much work, as weights: gangs, then pods, then surplus, then members."""

_SLIGHT: Final = 1e-6
"""So small, next to the least work that anybody loses, is everything that decides only between equals."""


_MOST: Final = 1e15
"""Device-seconds, a thousand devices for thirty thousand years; more counts as much, so that sums stay finite."""


@dataclass(frozen=True, slots=True)
class Entries:
    """What each unit gives back on each node on which it stands: one entry a unit and node, sorted by both.

    owner: int64[e], the unit.  row: int64[e], the node.  use: float64[e, r].
    """

    owner: NDArray[np.int64]
    row: NDArray[np.int64]
    use: Matrix

    def of(self, kept: Mask) -> "Entries":
        """Those that bool[e] keeps."""
        return Entries(self.owner[kept], self.row[kept], self.use[kept])


def merged(owner: NDArray[np.int64], row: NDArray[np.int64], use: Matrix, nodes: int) -> Entries:
    """Entries in which a unit and a node meet only once."""
    keys, where = np.unique(owner * nodes + row, return_inverse=True)
    sums = np.zeros((len(keys), use.shape[1]))
    np.add.at(sums, where, use)
    return Entries(keys // max(nodes, 1), keys % max(nodes, 1), sums)


@dataclass(frozen=True)
class Standing:
    """Everybody who may be taken, and the room that is there without taking anybody.

    units: in the order that decides between equals.  free: float64[n, r].
    leader: int64[u], the gang whose leaving takes this surplus with it, or -1.
    level: int64[u], the rank of the priority among those that occur, 0 the lowest.
    """

    units: tuple[Unit, ...]
    free: Matrix
    entries: Entries
    leader: NDArray[np.int64]
    level: NDArray[np.int64]

    @cached_property
    def lost(self) -> Vector:
        """float64[u], device-seconds; what is not a number counts as nothing."""
        lost = np.array([unit.lost for unit in self.units], dtype=float)
        np.nan_to_num(lost, copy=False, nan=0.0, posinf=_MOST)
        return lost.clip(0.0, _MOST)

    @cached_property
    def kinds(self) -> Matrix:
        """float64[4, u]: is a gang, is a pod, is surplus; its pods."""
        kinds = np.array([unit.kind for unit in self.units])
        members = [len(unit.uids) for unit in self.units]
        return np.array([kinds == Kind.GANG, kinds == Kind.POD, kinds == Kind.SURPLUS, members], dtype=float)

    @cached_property
    def levels(self) -> int:
        """How many priorities occur."""
        return int(self.level.max(initial=-1)) + 1

    @cached_property
    def reach(self) -> NDArray[np.int64]:
        """int64[u]: the highest level among the unit and those whom it takes with it."""
        reach = self.level.copy()
        led = self.leader >= 0
        np.maximum.at(reach, self.leader[led], self.level[led])
        return reach

    def closed(self, taken: Mask) -> Mask:
        """The set, and all surplus of the gangs in it."""
        return taken | ((self.leader >= 0) & taken[self.leader])

    def forced(self, taken: Mask) -> Mask:
        """Who leaves because its gang does."""
        forced: Mask = taken & (self.leader >= 0) & taken[self.leader]
        return forced

    def room(self, taken: Mask) -> Matrix:
        """float64[n, r]: what is free once these have left."""
        return self.gained(self.free, taken)

    def gained(self, free: Matrix, taken: Mask) -> Matrix:
        """float64[n, r]: this room, and what these give back."""
        here = taken[self.entries.owner]
        room = free.copy()
        np.add.at(room, self.entries.row[here], self.entries.use[here])
        return room

    def whole(self, fixed: Mask) -> Entries:
        """The entries of everybody who is not in `fixed`, a gang's with those of the surplus that goes with it."""
        entries = self.entries.of(~fixed[self.entries.owner])
        leader = self.leader[entries.owner]
        led = leader >= 0
        led[led] = ~fixed[leader[led]]
        if not led.any():
            return entries
        owner, row, use = (
            np.concatenate((own, extra))
            for own, extra in zip(
                (entries.owner, entries.row, entries.use),
                (leader[led], entries.row[led], entries.use[led]),
                strict=True,
            )
        )
        return merged(owner, row, use, len(self.free))

    def price(self, taken: Mask) -> Price:
        """By level, highest first: work lost, gangs, pods, surplus, members."""
        own = self.level[taken]
        parts = np.stack(
            [np.bincount(own, weights[taken], self.levels) for weights in (self.lost, *self.kinds)]
        )
        return tuple(parts.T[::-1].ravel().tolist())

    def cost(self, level: int, fixed: Mask) -> Vector:
        """float64[u]: what taking each costs at this level, a gang with the surplus that is not taken yet.

        Who is of a lower level costs next to nothing, and only as far as it decides between equals.
        """
        here = self.level == level
        lost = np.where(here, self.lost, 0.0)
        least = lost[lost > 0].min(initial=np.inf)
        slight = _SLIGHT * (least if np.isfinite(least) else 1.0)
        kinds = np.array([_TIE[unit.kind] for unit in self.units]) + _MEMBER * self.kinds[3]
        below = np.where(self.level < level, self.lost, 0.0)
        lower = below / max(below.sum(), 1.0) + _SLIGHT * kinds
        cost = np.where(here, lost + slight * kinds, slight * _SLIGHT * lower)
        cost[fixed] = 0.0
        led = self.leader >= 0
        out: Vector = cost.copy()
        np.add.at(out, self.leader[led], cost[led])
        return out


def stand(snapshot: Snapshot, units: Sequence[Unit], priority: int) -> Standing:
    """These units on this picture, for a gang of this priority."""
    return standing_of(units, feasibility.free_for(snapshot, priority))


def standing_of(units: Sequence[Unit], free: Matrix) -> Standing:
    """These units where float64[n, r] is free without anybody leaving; rows of units count in it."""
    line = tuple(sorted(units, key=lambda unit: (unit.gang, unit.kind, unit.uids)))
    gangs = {unit.gang: place for place, unit in enumerate(line) if unit.kind is Kind.GANG}
    leader = [gangs.get(unit.gang, -1) if unit.kind is Kind.SURPLUS else -1 for unit in line]
    levels = {own: rank for rank, own in enumerate(sorted({unit.priority for unit in line}))}
    sizes = [len(unit.rows) for unit in line]
    return Standing(
        units=line,
        free=free,
        entries=merged(
            np.repeat(np.arange(len(line)), sizes),
            np.concatenate([np.zeros(0, dtype=np.int64), *(unit.rows for unit in line)]),
            np.concatenate([np.zeros((0, free.shape[1])), *(unit.uses for unit in line)]),
            len(free),
        ),
        leader=np.array(leader, dtype=np.int64),
        level=np.array([levels[unit.priority] for unit in line], dtype=np.int64),
    )
