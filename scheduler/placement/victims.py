"""Units that may be preempted, as arrays: their nodes, the capacity that they free, and the cost of preempting them.

Lives here: sums over sets of units, and the limits on a set. A set is bool[u], in one fixed order of the units.
Never here: which set is best, and for which gang (victim_search).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Mask, Matrix
from scheduler.model.preemption_units import By, Kind, Terms, Unit
from scheduler.model.resources import ResourceAxis, Vector

Price: TypeAlias = tuple[float, ...]
"""The cost of a set. Smaller is better, see `Standing.price`."""

Rows: TypeAlias = NDArray[np.int64]
"""int64: positions in another array."""

_TIE: Final = {Kind.SURPLUS: 0.01, Kind.POD: 0.1, Kind.GANG: 1.0}
_MEMBER: Final = 1e-5
"""Weights that decide between sets with equal lost work: gangs, then pods, then surplus, then members."""

_SLIGHT: Final = 1e-6
"""The size of tie-breakers relative to the least work that a unit loses."""

_MOST: Final = 1e15
"""A cap in device-seconds, which keeps sums finite: a thousand devices for thirty thousand years."""

_SLACK: Final = 1e-6
"""Tolerance for sums of equal amounts."""


@dataclass(frozen=True, slots=True)
class Entries:
    """What each unit frees on each of its nodes: one entry per unit and node, sorted by both.

    owner: int64[e], the unit.  row: int64[e], the node.  use: float64[e, r].
    """

    owner: Rows
    row: Rows
    use: Matrix

    def of(self, kept: Mask) -> "Entries":
        """The entries in bool[e]."""
        return Entries(self.owner[kept], self.row[kept], self.use[kept])


def merged(owner: Rows, row: Rows, use: Matrix, nodes: int) -> Entries:
    """Entries with at most one entry per unit and node."""
    keys, where = np.unique(owner * nodes + row, return_inverse=True)
    sums = np.zeros((len(keys), use.shape[1]))
    np.add.at(sums, where, use)
    return Entries(keys // max(nodes, 1), keys % max(nodes, 1), sums)


@dataclass(frozen=True)
class Standing:
    """All units that may be preempted, and the free capacity without preemption.

    units: in the order that decides between equals.  free: float64[n, r].
    leader: int64[u], the gang that takes this surplus with it, or -1.
    level: int64[u], the rank of the unit's priority among all units, 0 is the lowest.
    """

    units: tuple[Unit, ...]
    free: Matrix
    entries: Entries
    leader: Rows
    level: Rows

    @cached_property
    def lost(self) -> Vector:
        """float64[u], device-seconds. NaN counts as 0."""
        lost = np.array([unit.lost for unit in self.units], dtype=float)
        np.nan_to_num(lost, copy=False, nan=0.0, posinf=_MOST)
        return lost.clip(0.0, _MOST)

    @cached_property
    def kinds(self) -> Matrix:
        """float64[4, u]: is a gang, is a pod, is surplus, and its number of pods."""
        kinds = np.array([unit.kind for unit in self.units])
        members = [len(unit.uids) for unit in self.units]
        return np.array([kinds == Kind.GANG, kinds == Kind.POD, kinds == Kind.SURPLUS, members], dtype=float)

    @cached_property
    def levels(self) -> int:
        """The number of distinct priorities."""
        return int(self.level.max(initial=-1)) + 1

    @cached_property
    def reach(self) -> Rows:
        """int64[u]: the highest level among the unit and the units that it takes with it."""
        reach = self.level.copy()
        led = self.leader >= 0
        np.maximum.at(reach, self.leader[led], self.level[led])
        return reach

    @cached_property
    def whole(self) -> Entries:
        """The entries of all units. A gang's include those of its surplus."""
        own, leader = self.entries, self.leader[self.entries.owner]
        led = leader >= 0
        return merged(
            np.concatenate((own.owner, leader[led])),
            np.concatenate((own.row, own.row[led])),
            np.concatenate((own.use, own.use[led])),
            len(self.free),
        )

    def closed(self, taken: Mask) -> Mask:
        """The set, and all surplus of the gangs in it."""
        return taken | ((self.leader >= 0) & taken[self.leader])

    def forced(self, taken: Mask) -> Mask:
        """bool[u]: the unit leaves because its gang does."""
        forced: Mask = taken & (self.leader >= 0) & taken[self.leader]
        return forced

    def upto(self, level: int) -> Mask:
        """bool[u]: all units that affect no level above this one."""
        return self.reach <= level

    def room(self, taken: Mask) -> Matrix:
        """float64[n, r]: the free capacity after these units are preempted."""
        return self.gained(self.free, taken)

    def gained(self, free: Matrix, taken: Mask) -> Matrix:
        """float64[n, r]: this free capacity plus what these units free."""
        here = taken[self.entries.owner]
        room = free.copy()
        np.add.at(room, self.entries.row[here], self.entries.use[here])
        return room

    def price(self, taken: Mask) -> Price:
        """By level, highest first: work lost, gangs, pods, surplus, members."""
        own = self.level[taken]
        parts = np.stack(
            [np.bincount(own, weights[taken], self.levels) for weights in (self.lost, *self.kinds)]
        )
        return tuple(parts.T[::-1].ravel().tolist())

    def by_price(self) -> Vector:
        """float64[u]: the rank of each unit by its level, then by the work lost. 0 is the cheapest."""
        return np.argsort(np.lexsort((self.lost, self.level))).astype(np.float64)

    def cost(self, level: int) -> Vector:
        """float64[u]: the cost of each unit at this level, a gang with its surplus.

        A unit of a lower level costs almost nothing, only enough to decide between equals.
        """
        here = self.level == level
        lost = np.where(here, self.lost, 0.0)
        slight = _SLIGHT * lost[lost > 0].min(initial=1.0)
        ties = np.array([_TIE[unit.kind] for unit in self.units]) + _MEMBER * self.kinds[3]
        return self.with_surplus(lost + slight * np.where(here, ties, _SLIGHT * ties))

    def with_surplus(self, own: Vector) -> Vector:
        """float64[u]: this figure for each unit. A gang's includes that of its surplus."""
        led = self.leader >= 0
        out: Vector = own.copy()
        np.add.at(out, self.leader[led], own[led])
        return out


def standing_of(units: Sequence[Unit], free: Matrix) -> Standing:
    """These units with the free capacity float64[n, r] without preemption. Rows of units index into it."""
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


@dataclass(frozen=True)
class Limits:
    """How much may be preempted together, for the units of one standing.

    limit, unit: int64[e], value: float64[e], how much a unit takes of a limit. Few units take of more than one.
    most: float64[l].
    """

    limit: Rows
    unit: Rows
    value: Vector
    most: Vector

    def keeps(self, taken: Mask) -> bool:
        """The set bool[u] is within every limit."""
        here = taken[self.unit]
        sums = np.bincount(self.limit[here], self.value[here], len(self.most))
        return bool((sums <= self.most + _SLACK).all())

    def part(self, units: int) -> Vector:
        """float64[u]: how much of the limits each unit takes, as a sum of shares."""
        parts = self.value / np.maximum(self.most, _SLACK)[self.limit]
        return np.bincount(self.unit, parts, units).astype(np.float64, copy=False)


def limits_of(standing: Standing, terms: Terms) -> Limits:
    """The limits of these terms on these units, without limits that all units together stay within."""
    owner = {uid: number for number, unit in enumerate(standing.units) for uid in unit.uids}
    most: list[float] = []
    entries: list[tuple[int, int, float]] = []
    for limit in terms.limits:
        takes: dict[int, float] = {}
        for uid, value in limit.uses.items():
            if uid in owner:
                takes[owner[uid]] = takes.get(owner[uid], 0.0) + value
        if sum(takes.values()) > limit.most + _SLACK:
            entries += [(len(most), unit, value) for unit, value in takes.items()]
            most.append(limit.most)
    return Limits(
        np.array([limit for limit, _, _ in entries], dtype=np.int64),
        np.array([unit for _, unit, _ in entries], dtype=np.int64),
        np.array([value for _, _, value in entries], dtype=float),
        np.array(most, dtype=float),
    )


def needless(standing: Standing, taken: Mask, left: Matrix, terms: Terms, axis: ResourceAxis) -> Mask:
    """bool[u]: units taken by a claim that frees no claimed resource which the gang needs on its nodes.

    left: float64[n, r], the free capacity after the preemption with the gang seated.  Surplus goes with its gang.
    """
    claims = np.array([unit.by is By.CLAIM for unit in standing.units], dtype=bool)
    asked: Mask = claims & taken & ~standing.forced(taken)
    if not asked.any():
        return asked
    columns = [axis.index[name] for name in sorted(terms.claimed) if name in axis.index]
    entries = standing.entries.of(taken[standing.entries.owner])
    leader = standing.leader[entries.owner]
    owner = np.where((leader >= 0) & taken[leader], leader, entries.owner)
    gone = merged(owner, entries.row, entries.use, len(standing.free))
    lacks = gone.use[:, columns] > np.maximum(left[gone.row][:, columns], 0.0) + _SLACK
    needed = np.zeros_like(asked)
    needed[gone.owner[lacks.any(axis=1)]] = True
    return asked & ~needed
