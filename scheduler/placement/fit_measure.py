"""How well waiting gangs fit the free capacity: the measure of the order `fit`.

A pod fits a node by the dot product of the pod's demand and the node's free capacity, each in units of the largest node
(the alignment of Tetris: Grandl et al., SIGCOMM 2014, section 3.2). A gang's measure sums this over its quorum, with
each member on the best node that has room for it. So a gang ranks higher the more it uses of what is free most.
Never here: the other parts of a turn (order), or seats (planner).
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Matrix, Snapshot
from scheduler.model.demand import Demand
from scheduler.model.resources import Vector, lacks
from scheduler.model.workload import Gang, Role
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.reservation import could_hold
from scheduler.placement.scoring import compared

NO_FIT: Final = 1.0
"""The measure of gangs that do not fit: behind all that fit. Among them the oldest goes first."""

DIGITS: Final = 9
"""Measures are rounded, so that the order of a sum does not move a gang."""

AT_ONCE: Final = 500_000
"""Amounts that are compared at a time, which bounds the memory."""


def misfits(snapshot: Snapshot, gangs: Sequence[Gang], masks: FeasibilityCache) -> list[float]:
    """The measure of each gang, smaller first: minus its dot products, or NO_FIT.

    Whether a gang fits is counted, without priorities and rules between pods. The planner may still reject it.
    """
    numbers: dict[Demand, int] = {}
    needs = [
        [(numbers.setdefault(role.demand, len(numbers)), members) for role, members in _wanted(gang)]
        for gang in gangs
    ]
    fits, best = _by_demand(snapshot, list(numbers), masks)

    def measure(gang: Gang, wanted: Sequence[tuple[int, int]]) -> float:
        if any(fits[demand] < members for demand, members in wanted):
            return NO_FIT
        if gang.required and not could_hold(snapshot, snapshot.free, gang, masks):
            return NO_FIT
        return misfit(wanted, best)

    return list(map(measure, gangs, needs))


def misfit(needs: Iterable[tuple[int, int]], best: Sequence[float]) -> float:
    """The measure of a gang that fits.

    needs: numbers of demands, with members.  best: by demand, the dot product of a member with its best node.
    """
    return -round(sum(members * best[demand] for demand, members in needs), DIGITS)


def _wanted(gang: Gang) -> list[tuple[Role, int]]:
    """The roles that are placed together, with their members. Without a quorum, surplus is placed singly."""
    quorum = [(role, len(role.quorum)) for role in gang.roles if role.quorum]
    return quorum or [(role, 1) for role in gang.roles[:1]]


def _by_demand(
    snapshot: Snapshot, demands: Sequence[Demand], masks: FeasibilityCache
) -> tuple[list[float], list[float]]:
    """For each demand: how many members fit in total, and the dot product of one member with its best node."""
    axis, columns = snapshot.axis, list(compared(snapshot.axis))
    alike: dict[object, list[int]] = {}
    for number, demand in enumerate(demands):
        if not lacks(axis.index, demand.requests):
            alike.setdefault(demand.where, []).append(number)
    fits, best = np.zeros(len(demands)), np.zeros(len(demands))
    for group in alike.values():
        wants = np.array([axis.vector(demands[number].requests) for number in group])
        free = snapshot.free[masks.of(snapshot, demands[group[0]]).open]
        least = wants.min(axis=0)
        free = free[(free[:, least > 0] >= least[least > 0]).all(axis=1)]
        if len(free):
            free, nodes = np.unique(free, axis=0, return_counts=True)
            most = np.array([1.0 if demands[number].ports else np.inf for number in group])
            fits[group], best[group] = _counted(wants, most, free, nodes, columns, snapshot.scale)
    return fits.tolist(), best.tolist()


def _counted(
    wants: Matrix, most: Vector, free: Matrix, nodes: NDArray[np.int64], columns: list[int], scale: Vector
) -> tuple[Vector, Vector]:
    """float64[d] each: how many members fit, and the best dot product.

    wants: float64[d, r].  most: float64[d], per node, because of host ports.  free: float64[k, r], distinct.
    nodes: int64[k], how many nodes have this free capacity.
    """
    fits, best = np.zeros(len(wants)), np.zeros(len(wants))
    step = max(1, AT_ONCE // len(free))
    for start in range(0, len(wants), step):
        some = wants[start : start + step]
        units = np.repeat(most[start : start + step, None], len(free), axis=1)
        for column in np.flatnonzero(some.any(axis=0)).tolist():
            wanted = some[:, column, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                each = np.where(wanted > 0, free[:, column] / wanted, np.inf)
            np.minimum(units, each, out=units)
        np.maximum(np.floor(units, out=units), 0.0, out=units)
        fits[start : start + step] = (units * nodes).sum(axis=1)
        best[start : start + step] = dot_products(some[:, columns], free[:, columns], units, scale[columns])
    return fits, best


def dot_products(wants: Matrix, free: Matrix, units: Matrix, scale: Vector) -> Vector:
    """float64[d]: the dot product of one member of each demand with its best node, 0 if no node has room.

    wants: float64[d, c] and free: float64[n, c] over the compared columns.  units: float64[d, n], how many members fit.
    """
    dots = (wants / scale) @ (np.maximum(free, 0.0) / scale).T
    best: Vector = np.where(units > 0, dots, 0.0).max(axis=1, initial=0.0)
    return best
