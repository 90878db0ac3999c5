"""The cluster at one moment, as the planner sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.model.demand import HostPort, Taint
from scheduler.model.resources import Amounts, ResourceAxis, Vector
from scheduler.model.topology import Topology

Mask: TypeAlias = NDArray[np.bool_]
"""bool[n]: one truth a node."""

Matrix: TypeAlias = NDArray[np.float64]
"""float64[n, r]: one row a node, one column a resource, in the units of the ResourceAxis."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node, reduced to what decides about it. `name` is its place in every fixed order."""

    name: str
    capacity: Amounts
    """Allocatable, in the units of the ResourceAxis."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    schedulable: bool = True
    """Not cordoned."""


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """One label over all nodes: `codes[n]` is the number of the node's value, -1 where the label is missing."""

    codes: NDArray[np.int32]
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Nomination:
    """Room that kube-scheduler keeps for a pod of another scheduler's, against equal and lower priority."""

    node: int
    priority: int
    needs: Vector


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One picture of the cluster. Nodes are in the order of their names; arrays are write-protected.

    free: float64[n, r], allocatable less bound, held and foreign pods; may be below zero where others overdrew.
    capacity: float64[n, r], allocatable.
    schedulable: bool[n].
    labels: by key, for every key that any node has.
    taints: every distinct taint, with the nodes that have it.
    ports: every host port in use, with the nodes on which it is.
    nodes_version: changes when anything but `free`, `ports` and `nominations` does: masks may be cached by it.
    """

    generation: int
    nodes_version: int
    axis: ResourceAxis
    names: tuple[str, ...]
    index: Mapping[str, int]
    free: Matrix
    capacity: Matrix
    topology: Topology
    schedulable: Mask
    labels: Mapping[str, LabelColumn] = field(default_factory=dict)
    taints: tuple[tuple[Taint, Mask], ...] = ()
    ports: tuple[tuple[HostPort, Mask], ...] = ()
    nominations: tuple[Nomination, ...] = ()

    def freed(self, *leaving: tuple[NDArray[np.int64], Matrix]) -> "Snapshot":
        """This picture once these pods have left.  leaving: rows, int64[k], which may repeat, and uses, float64[k, r]."""
        free = self.free.copy()
        for rows, uses in leaving:
            np.add.at(free, rows, uses)
        free.flags.writeable = False
        return replace(self, free=free)

    @property
    def scale(self) -> Vector:
        """float64[r]: the largest node's amount of each resource, 1 where no node has any.

        The unit in which vectors of different resources are compared (alignment, tightness).
        """
        if not len(self.names):
            return np.ones(len(self.axis))
        # turned first, for along short rows it takes ten times as long
        top = np.ascontiguousarray(self.capacity.T).max(axis=1)
        return np.where(top > 0, top, 1.0)
