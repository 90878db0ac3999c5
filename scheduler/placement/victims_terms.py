"""Terms on who leaves together: no more than was borrowed, and by a claim only for what is claimed.

Lives here: whether a set keeps its terms, and which units to choose among when the cheapest of all break them.
Never here: the choice itself (preemption), or who set the terms.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Mask, Matrix
from scheduler.model.resources import ResourceAxis, Vector
from scheduler.model.victims import By, Kind, Terms, Unit
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

    takes: float64[l, u], what each unit takes of each limit.  most: float64[l].  claims: bool[u], may leave by its
    claim alone.  columns: int64[c], the resources that are claimed.
    """

    takes: Matrix
    most: Vector
    claims: Mask
    columns: Numbers

    def keeps(self, taken: Mask) -> bool:
        """The set bool[u] is within every limit."""
        return bool((self.takes @ taken <= self.most + _SLACK).all())

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
    """These terms on these units."""
    units = standing.units
    owner = {uid: number for number, unit in enumerate(units) for uid in unit.uids} if terms.limits else {}
    takes = np.zeros((len(terms.limits), len(units)))
    for number, limit in enumerate(terms.limits):
        for uid, value in limit.uses.items():
            if uid in owner:
                takes[number, owner[uid]] += value
    return Held(
        takes,
        np.array([limit.most for limit in terms.limits], dtype=float),
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
    weight = (terms.takes / np.maximum(terms.most, _SLACK)[:, None]).sum(axis=0)
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
    taken: Mask = ~np.logical_or.reduce(terms.takes > 0)
    left = terms.most + _SLACK
    for unit in order[~taken[order]].tolist():
        new = [one for one in (unit, *led.get(unit, ())) if not taken[one]]
        sums = terms.takes[:, new].sum(axis=1)
        if (sums <= left).all():
            left = left - sums
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
