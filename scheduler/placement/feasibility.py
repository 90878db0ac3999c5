"""Which nodes can hold a pod, and how many of its kind: admission, resources and host ports; cached by demand.

Never here: why a node is closed to a demand (admission), or the choice between nodes.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, Self

import numpy as np

from scheduler.model.admission import CORDON, label_keys, obstacles
from scheduler.model.cluster import LabelColumn, Mask, Matrix, Snapshot
from scheduler.model.decision import Wait
from scheduler.model.demand import Demand, HostPort
from scheduler.placement.distribution import Codes
from scheduler.placement.flavors import flavors
from scheduler.placement.node_changes import NodeChanges


@dataclass(frozen=True, slots=True)
class Where:
    """Where a demand may go, regardless of free capacity.

    open: bool[n], now.  matches: bool[n], if no node were cordoned.
    """

    open: Mask
    matches: Mask
    obstacles: Mapping[str, Mask]


def where(snapshot: Snapshot, demand: Demand) -> Where:
    """Where this demand may go."""
    found = obstacles(snapshot, demand)
    nothing = np.zeros(len(snapshot.names), dtype=bool)
    lasting = [mask for kind, mask in found.items() if kind != CORDON]
    matches = ~reduce(np.logical_or, lasting, nothing)
    return Where(matches & ~found.get(CORDON, nothing), matches, found)


def clash(some: tuple[HostPort, ...], others: tuple[HostPort, ...]) -> bool:
    """Pods with these host ports cannot share a node."""
    return any(one.clashes(other) for one in some for other in others)


def ports_taken(snapshot: Snapshot, demand: Demand) -> Mask | None:
    """bool[n]: nodes where a host port of the demand is in use. None: no such node."""
    parts = [mask for port, mask in snapshot.ports if clash(demand.ports, (port,))] if demand.ports else []
    return reduce(np.logical_or, parts) if parts else None


def free_for(snapshot: Snapshot, priority: float) -> Matrix:
    """float64[n, r]: free capacity for a gang of this priority, minus nominations of equal or higher priority."""
    kept = [nomination for nomination in snapshot.nominations if nomination.priority >= priority]
    if not kept:
        return snapshot.free
    free, rows = snapshot.free.copy(), [nomination.node for nomination in kept]
    np.subtract.at(free, rows, np.stack([nomination.needs for nomination in kept]))
    return free


@dataclass(frozen=True, slots=True, eq=False)
class _Basis:
    """The columns that masks were made of. They are compared by identity: columns never change."""

    nodes: tuple[object, ...]
    labels: tuple[tuple[str, LabelColumn | None], ...]

    @classmethod
    def of(cls, snapshot: Snapshot, demand: Demand) -> Self:
        """The columns that `where` reads for this demand."""
        labels = tuple((key, snapshot.labels.get(key)) for key in label_keys(demand))
        return cls((snapshot.names, snapshot.schedulable, snapshot.taints), labels)

    def is_same(self, snapshot: Snapshot) -> bool:
        """This snapshot has the same ones."""
        names, schedulable, taints = self.nodes
        if snapshot.names is not names or snapshot.schedulable is not schedulable:
            return False
        known = snapshot.labels
        return snapshot.taints is taints and all(known.get(key) is column for key, column in self.labels)


class EmptySeats(NamedTuple):
    """Seats in an empty cluster.

    nodes: by name.  labels: those that the seats depend on.
    """

    nodes: frozenset[str]
    labels: frozenset[str]

    def hold(self, changes: NodeChanges) -> bool:
        """They are possible after these changes too."""
        for name in changes.labels.keys() & self.nodes:
            labels = changes.labels[name]
            if labels is None or not labels.isdisjoint(self.labels):
                return False
        return True


class FeasibilityCache:
    """Caches what depends on the nodes alone. It changes no answer and only saves work.

    Masks are valid while the columns that they were made of are the same objects, whatever else changes about nodes.
    One instance serves the snapshots of one ledger, because versions of different ledgers mean different clusters.
    """

    def __init__(self, limit: int = 256, gangs: int = 16_384) -> None:
        """limit: distinct demands, each with masks of all nodes. Most clusters see fewer between two node changes.

        gangs: distinct gangs that were compared with an empty cluster.
        """
        self._limit, self._gangs = limit, gangs
        self._snapshot: Snapshot | None = None
        """The newest with other nodes."""
        self._kept: dict[tuple[object, ...], tuple[Where, _Basis]] = {}
        self._vain: dict[Hashable, Wait | EmptySeats | None] = {}
        self._flavors: Codes | None = None
        self._changes: tuple[object, object, NodeChanges | None] = (None, None, None)

    def of(self, snapshot: Snapshot, demand: Demand) -> Where:
        """Like `where`, but cached."""
        self._renew(snapshot)
        kept = self._kept.get(demand.where)
        if kept is not None and kept[1].is_same(snapshot):
            return kept[0]
        if len(self._kept) >= self._limit:
            self._kept.clear()
        found = where(snapshot, demand)
        self._kept[demand.where] = found, _Basis.of(snapshot, demand)
        return found

    def flavors(self, snapshot: Snapshot) -> Codes:
        """Like `flavors.flavors`, but cached."""
        self._renew(snapshot)
        if self._flavors is None:
            self._flavors = flavors(snapshot)
        return self._flavors

    def in_vain(
        self, snapshot: Snapshot, shape: Hashable, ask: Callable[[], Wait | EmptySeats | None]
    ) -> Wait | None:
        """Why this shape could not be seated in an empty cluster, cached. None: it could.

        ask: returns the reason, or seats that it could get. None: it could, but a change of any node may matter.
        """
        self._renew(snapshot)
        if shape not in self._vain:
            if len(self._vain) >= self._gangs:
                self._vain.clear()
            self._vain[shape] = ask()
        found = self._vain[shape]
        return found if isinstance(found, Wait) else None

    def has_seats_if_empty(self, snapshot: Snapshot, shape: Hashable) -> bool:
        """It is known that this shape could be seated in an empty cluster."""
        self._renew(snapshot)
        found = self._vain.get(shape, False)
        return found is not False and not isinstance(found, Wait)

    def changes(self, before: Snapshot, after: Snapshot) -> NodeChanges | None:
        """Like `NodeChanges.between`, but cached."""
        if self._changes[0] is not before.nodes or self._changes[1] is not after.nodes:
            self._changes = before.nodes, after.nodes, NodeChanges.between(before, after)
        return self._changes[2]

    def _renew(self, snapshot: Snapshot) -> None:
        before = self._snapshot
        if before is not None and snapshot.nodes_version == before.nodes_version:
            return
        self._snapshot, self._flavors = snapshot, None
        changes = None if before is None else self.changes(before, snapshot)
        self._vain = {
            shape: found
            for shape, found in ({} if changes is None else self._vain).items()
            if changes and isinstance(found, EmptySeats) and found.hold(changes)
        }
