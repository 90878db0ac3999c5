"""Terms on who leaves together: no more than was borrowed, and by a claim only for what is claimed.

Lives here: whether a set keeps its terms, and which units to choose among when the cheapest of all break them.
Never here: the choice itself (victim_selection), or who set the terms.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Mask, Matrix
from scheduler.model.preemption_units import By, Kind, Terms, Unit
from scheduler.model.resources import ResourceAxis, Vector
from scheduler.model.workload import Gang, GangKey, Uid
from scheduler.placement.victims import Standing, merged
from scheduler.placement.victims_seats import Ask

_SLACK: Final = 1e-6
"""Sums of amounts that are equal may differ by so much."""

_PLACES: Final = 64
"""Nodes and domains whose units are offered first, at most: those where the fewest others would leave along."""

Numbers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Held:
    """Terms, on the units of one standing.

    limit, unit: int64[e], value: float64[e], what a unit takes of a limit; few units take of more than one.
    most: float64[l].  claims: bool[u], may leave by its claim alone.  columns: int64[c], the resources that are claimed.
    """

    limit: Numbers
    unit: Numbers
    value: Vector
    most: Vector
    claims: Mask
    columns: Numbers

    def keeps(self, taken: Mask) -> bool:
        """The set bool[u] is within every limit."""
        here = taken[self.unit]
        sums = np.bincount(self.limit[here], self.value[here], len(self.most))
        return bool((sums <= self.most + _SLACK).all())

    @cached_property
    def by_unit(self) -> Mapping[int, Mapping[int, float]]:
        """What each unit takes of which limits, where it takes of any."""
        takes: dict[int, dict[int, float]] = {}
        entries = zip(self.limit.tolist(), self.unit.tolist(), self.value.tolist(), strict=True)
        for limit, unit, value in entries:
            takes.setdefault(unit, {})[limit] = value
        return takes

    def needless(self, standing: Standing, taken: Mask, left: Matrix) -> Mask:
        """bool[u]: who leaves by a claim, and without whom the gang would lack nothing of what is claimed where it
        sits.

        left: float64[n, r], what is free once these have left and the gang sits.  Surplus goes with its gang.
        """
        asked = self.claims & taken & ~standing.forced(taken)
        if not asked.any():
            return asked
        entries = standing.entries.of(taken[standing.entries.owner])
        leader = standing.leader[entries.owner]
        owner = np.where((leader >= 0) & taken[leader], leader, entries.owner)
        gone = merged(owner, entries.row, entries.use, len(standing.free))
        lacks = gone.use[:, self.columns] > np.maximum(left[gone.row][:, self.columns], 0.0) + _SLACK
        needed = np.zeros_like(asked)
        needed[gone.owner[lacks.any(axis=1)]] = True
        return asked & ~needed


def held(standing: Standing, terms: Terms, axis: ResourceAxis) -> Held:
    """These terms on these units, without limits that all of them together do not pass."""
    units = standing.units
    owner = {uid: number for number, unit in enumerate(units) for uid in unit.uids} if terms.limits else {}
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
    return Held(
        np.array([limit for limit, _, _ in entries], dtype=np.int64),
        np.array([unit for _, unit, _ in entries], dtype=np.int64),
        np.array([value for _, _, value in entries], dtype=float),
        np.array(most, dtype=float),
        np.array([unit.by is By.CLAIM for unit in units], dtype=bool),
        np.array([axis.index[name] for name in sorted(terms.claimed) if name in axis.index], dtype=np.int64),
    )


def claimed_alone(gang: Gang, claimed: frozenset[str]) -> Gang:
    """The gang as if it asked for nothing but what is claimed."""
    roles = (
        replace(
            role,
            demand=replace(
                role.demand, requests=tuple(own for own in role.demand.requests if own[0] in claimed)
            ),
        )
        for role in gang.roles
    )
    return replace(gang, roles=tuple(roles))


def able(units: Sequence[Unit], terms: Terms) -> list[Unit]:
    """Those who may leave within the limits, were nobody else to: a gang with its surplus."""
    if not terms.limits:
        return list(units)
    surplus: dict[GangKey, list[Unit]] = {}
    for unit in units:
        if unit.kind is Kind.SURPLUS:
            surplus.setdefault(unit.gang, []).append(unit)
    under: dict[Uid, list[int]] = {}
    for number, limit in enumerate(terms.limits):
        for uid in limit.uses:
            under.setdefault(uid, []).append(number)

    def keeps(unit: Unit) -> bool:
        along = surplus.get(unit.gang, []) if unit.kind is Kind.GANG else []
        takes: dict[int, float] = {}
        for uid in (uid for own in (unit, *along) for uid in own.uids):
            for number in under.get(uid, ()):
                takes[number] = takes.get(number, 0.0) + terms.limits[number].uses[uid]
        return all(most <= terms.limits[number].most + _SLACK for number, most in takes.items())

    return [unit for unit in units if keeps(unit)]


def offers(standing: Standing, terms: Held, asks: Sequence[Ask]) -> Iterator[tuple[Unit, ...]]:
    """Units to choose among when the cheapest of all take more than may be taken, the most promising first.

    The cheapest that keep the limits together; all, priced by how much of the limits they take, of as low a priority as
    can be, and of any; and those that keep the limits together, of one place first, for each where that may suffice.
    """
    if not len(terms.most):
        return
    price = np.lexsort((np.arange(len(standing.units)), standing.lost, standing.level))
    yield _chosen(standing, _within(standing, terms, price))
    parts = terms.value / np.maximum(terms.most, _SLACK)[terms.limit]
    weight: Vector = np.zeros(len(standing.units))
    np.add.at(weight, terms.unit, parts)
    frugal = [replace(unit, lost=own) for unit, own in zip(standing.units, weight.tolist(), strict=True)]
    yield tuple(frugal)
    yield tuple(replace(unit, priority=0) for unit in frugal)
    for inside in _places(standing, weight, asks):
        order = np.lexsort((standing.lost, standing.level, -inside))
        taken = _within(standing, terms, order)
        if any_domain(standing, taken, asks):
            yield _chosen(standing, taken)


def any_domain(standing: Standing, taken: Mask, asks: Sequence[Ask]) -> bool:
    """Counting does not say that these are too few."""
    room = standing.room(taken)
    return bool(np.logical_and.reduce([ask.found(room) >= ask.need for ask in asks]).any())


def _chosen(standing: Standing, taken: Mask) -> tuple[Unit, ...]:
    return tuple(standing.units[unit] for unit in np.flatnonzero(taken).tolist())


def _within(standing: Standing, terms: Held, order: Numbers) -> Mask:
    """bool[u]: as many in this order as keep the limits together; a gang comes with its surplus."""
    led: dict[int, list[int]] = {}
    for unit in np.flatnonzero(standing.leader >= 0).tolist():
        led.setdefault(int(standing.leader[unit]), []).append(unit)
    taken: Mask = np.ones(len(standing.units), dtype=bool)
    taken[terms.unit] = False
    takes, left = terms.by_unit, (terms.most + _SLACK).tolist()
    for unit in order[~taken[order]].tolist():
        if taken[unit]:
            continue  # it comes with its gang
        new, sums = [unit], takes[unit]
        if unit in led:
            new += [one for one in led[unit] if not taken[one]]
            sums = {}
            for limit, value in (own for one in new for own in takes.get(one, {}).items()):
                sums[limit] = sums.get(limit, 0.0) + value
        for limit, value in sums.items():
            if value > left[limit]:
                break
        else:
            for limit, value in sums.items():
                left[limit] -= value
            taken[new] = True
    return taken & ~_torn(standing, taken)


def _torn(standing: Standing, taken: Mask) -> Mask:
    """bool[u]: gangs of which some surplus is not in the set."""
    torn = np.zeros_like(taken)
    torn[standing.leader[(standing.leader >= 0) & ~taken]] = True
    return torn


def _places(standing: Standing, weight: Vector, asks: Sequence[Ask]) -> Iterator[Vector]:
    """float64[u], for one domain or node after the other, how much of each unit stands there."""
    sizes = np.array([len(unit.rows) for unit in standing.units])
    owner = np.repeat(np.arange(len(sizes)), sizes)
    row = np.concatenate([unit.rows for unit in standing.units])
    for place in (asks[0].domain[row], row) if asks[0].domains > 1 else (row,):
        pairs, pods = np.unique(np.stack((place, owner)), axis=1, return_counts=True)
        part = pods / sizes[pairs[1]]
        names, where = np.unique(pairs[0], return_inverse=True)
        along = np.bincount(where, weight[pairs[1]] * (1.0 - part))
        limited = np.bincount(where, weight[pairs[1]]) > 0
        line = np.lexsort((names, along))
        for own in line[limited[line]][:_PLACES].tolist():
            inside = np.zeros(len(sizes))
            here = where == own
            inside[pairs[1][here]] = part[here]
            yield inside
