"""The columns of the cluster: capacity and use of every node, maintained incrementally.

A pod uses resources in exactly one place: on its node, or else on the node of its held seat. Both go through `put`,
keyed by the pod's uid, so no order of events can count a pod twice.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from scheduler.model.admission import obstacles
from scheduler.model.cluster import (
    LabelColumn,
    Level,
    Mask,
    Matrix,
    Node,
    Nomination,
    Snapshot,
    Topology,
    label_columns,
    survey,
    taint_masks,
)
from scheduler.model.demand import Demand, HostPort, Taint
from scheduler.model.resources import UNLIMITED, Amounts, ResourceAxis, Vector, is_unlimited, lacks
from scheduler.model.workload import Uid

VECTORS_KEPT: Final = 4096
"""Cached vectors of distinct requests."""

ANSWERS_KEPT: Final = 16_384
"""Answers of `admits` that are cached until a node changes: one for every seat in progress."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """Attributes of the nodes that rarely change."""

    axis: ResourceAxis
    names: tuple[str, ...]
    index: Mapping[str, int]
    capacity: Matrix
    topology: Topology
    schedulable: Mask
    labels: Mapping[str, LabelColumn]
    taints: tuple[tuple[Taint, Mask], ...]


class NodeTable:
    """Nodes by name, and the place of every pod that uses resources."""

    def __init__(self, levels: tuple[Level, ...]) -> None:
        self._levels = levels
        self._nodes: dict[str, Node] = {}
        self._places: dict[Uid, tuple[str, Demand]] = {}
        self._ports: dict[str, dict[Uid, tuple[HostPort, ...]]] = {}
        self._vectors: dict[Amounts, Vector] = {}
        self._admits: dict[tuple[object, ...], bool] = {}
        self._columns: _Columns | None = None
        self._used: Matrix = np.zeros((0, 0))
        self.version = 0
        """Changes with everything except resource use."""
        self.generation = 0
        """Changes with everything."""
        self.room_version = 0
        """Changes when free resources may have grown anywhere: what did not fit may fit now."""
        self._ports_version = 0
        self._port_picture: tuple[object, tuple[tuple[HostPort, Mask], ...]] = (None, ())

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def seen(self, node: Node) -> bool:
        """Add or update a node. False if nothing changed."""
        before = self._nodes.get(node.name)
        if before == node:
            return False
        self._nodes[node.name] = node
        if before is None or replace(before, held=node.held) != node:
            self._changed()
        self._hold(node.name, node.held)
        return True

    def gone(self, name: str) -> bool:
        if self._nodes.pop(name, None) is None:
            return False
        self._hold(name, ())
        self._changed()
        return True

    def _hold(self, node: str, held: Amounts) -> None:
        """Devices in use that no pod's demand counts use the node like one more pod."""
        user = Uid(f"devices of {node}")
        if held:
            self.put(user, node, Demand(held))
        else:
            self.take(user)

    def put(self, uid: Uid, node: str, demand: Demand) -> None:
        """This pod uses resources on this node, and on no other."""
        before = self._places.get(uid)
        # A pin changes a pod's node requirements, not its resource needs.
        room = (node, demand.requests, demand.ports)
        if before is not None and (before[0], before[1].requests, before[1].ports) == room:
            self._places[uid] = (node, demand)
            return
        self.take(uid)
        self._places[uid] = (node, demand)
        if demand.ports:
            self._ports.setdefault(node, {})[uid] = demand.ports
            self._ports_version += 1
        self._use(node, demand, 1.0)

    def take(self, uid: Uid) -> None:
        """This pod no longer uses resources."""
        place = self._places.pop(uid, None)
        if place is None:
            return
        node, demand = place
        if demand.ports and uid in self._ports.get(node, {}):
            del self._ports[node][uid]
            self._ports_version += 1
            if not self._ports[node]:
                del self._ports[node]
        self._use(node, demand, -1.0)
        self.grew()

    def place(self, uid: Uid) -> str | None:
        place = self._places.get(uid)
        return place[0] if place else None

    def places(self) -> Iterator[tuple[Uid, str, Demand]]:
        for uid, (node, demand) in self._places.items():
            yield uid, node, demand

    def vector(self, demand: Demand) -> Vector:
        """float64[r]: the demand on the axis. Resources that no node has are left out."""
        axis = self._now().axis
        row = self._vectors.get(demand.requests)
        if row is None:
            row = axis.vector(tuple((name, value) for name, value in demand.requests if name in axis.index))
            if len(self._vectors) >= VECTORS_KEPT:
                self._vectors.clear()
            self._vectors[demand.requests] = row
        return row

    def used_by(self, node: str, uids: Iterable[Uid]) -> Vector:
        """float64[r]: what these pods use together on this node."""
        used = np.zeros(len(self._now().axis.names))
        for uid in uids:
            if self.place(uid) == node:
                used += self.vector(self._places[uid][1])
        return used

    def admits(self, node: str, demand: Demand) -> bool:
        """The node exists, and admits this demand by selector, affinity, taints and cordon."""
        columns, key = self._now(), (node, *demand.where)
        row, known = columns.index.get(node), self._admits.get(key)
        if row is None or known is not None:
            return row is not None and known is True
        if len(self._admits) >= ANSWERS_KEPT:
            self._admits.clear()
        closed = obstacles(columns, demand, slice(row, row + 1)).values()
        self._admits[key] = is_open = not any(bool(mask[0]) for mask in closed)
        return is_open

    def admits_all(self, seats: Iterable[tuple[str, Demand]]) -> bool:
        """Each of these nodes admits its demand."""
        return all(self.admits(node, demand) for node, demand in seats)

    def has_room(self, node: str, demand: Demand) -> bool:
        """The node has enough free resources and host ports for one more of this demand."""
        columns = self._now()
        row = columns.index.get(node)
        if row is None or lacks(columns.axis.index, demand.requests):
            return False
        free = columns.capacity[row] - self._used[row]
        needs = self.vector(demand)
        if bool(((free < needs) & (needs > 0)).any()):
            return False
        taken = [port for ports in self._ports.get(node, {}).values() for port in ports]
        return not any(own.clashes(port) for own in demand.ports for port in taken)

    def is_overdrawn(self, node: str, demand: Demand, but: Collection[Uid] = ()) -> bool:
        """The node is overcommitted in a resource that this demand requests, even without the pods in `but`."""
        columns = self._now()
        row = columns.index.get(node)
        if row is None:
            return True
        short = columns.capacity[row] - self._used[row] + self.used_by(node, but) < 0
        return bool((short & (self.vector(demand) > 0)).any())

    def is_any_overdrawn(self, seats: Iterable[tuple[str, Demand]], but: Collection[Uid] = ()) -> bool:
        """One of these nodes is overcommitted for its demand."""
        return any(self.is_overdrawn(node, demand, but) for node, demand in seats)

    def snapshot(self, nominations: Sequence[tuple[str, int, Demand]]) -> Snapshot:
        """A snapshot of the cluster. Its arrays never change afterward."""
        columns = self._now()
        free = columns.capacity - self._used
        free.flags.writeable = False
        return Snapshot(
            generation=self.generation,
            nodes_version=self.version,
            axis=columns.axis,
            names=columns.names,
            index=columns.index,
            free=free,
            capacity=columns.capacity,
            topology=columns.topology,
            schedulable=columns.schedulable,
            labels=columns.labels,
            taints=columns.taints,
            ports=self._port_masks(columns),
            nominations=tuple(
                Nomination(columns.index[node], priority, self.vector(demand))
                for node, priority, demand in nominations
                if node in columns.index
            ),
        )

    def reopened(self) -> None:
        """Every verdict may differ now, also a lasting one."""
        self.version += 1
        self.generation += 1
        self.grew()

    def grew(self) -> None:
        """Free resources may have grown."""
        self.room_version += 1

    def _changed(self) -> None:
        self._columns = None
        self._admits.clear()
        self.version += 1
        self.generation += 1
        self.grew()

    def _use(self, node: str, demand: Demand, sign: float) -> None:
        self.generation += 1
        if self._columns is not None and (row := self._columns.index.get(node)) is not None:
            self._used[row] += sign * self.vector(demand)

    def _now(self) -> _Columns:
        """The columns, rebuilt after a change of nodes."""
        if self._columns is None:
            nodes = [self._nodes[name] for name in sorted(self._nodes)]
            axis = ResourceAxis().extended(name for node in nodes for name, _ in node.capacity)
            self._columns = _columns(nodes, axis, self._levels)
            self._vectors.clear()
            self._used = np.zeros((len(nodes), len(axis)))
            for name, demand in self._places.values():
                row = self._columns.index.get(name)
                if row is not None:
                    self._used[row] += self.vector(demand)
        return self._columns

    def _port_masks(self, columns: _Columns) -> tuple[tuple[HostPort, Mask], ...]:
        """Host ports in use, with their nodes. Rebuilt only when a pod with host ports came or left."""
        made_for = (self.version, self._ports_version)
        if self._port_picture[0] != made_for:
            masks: dict[HostPort, Mask] = {}
            for name, users in self._ports.items():
                row = columns.index.get(name)
                for port in () if row is None else (port for ports in users.values() for port in ports):
                    if port not in masks:
                        masks[port] = np.zeros(len(columns.names), dtype=np.bool_)
                    masks[port][row] = True
            order = sorted(masks.items(), key=lambda item: (item[0].protocol, item[0].port, item[0].address))
            self._port_picture = (made_for, tuple(order))
        return self._port_picture[1]


def _columns(nodes: Sequence[Node], axis: ResourceAxis, levels: tuple[Level, ...]) -> _Columns:
    names = tuple(node.name for node in nodes)
    capacity = np.zeros((len(nodes), len(axis)))
    capacity[:, [is_unlimited(name) for name in axis.names]] = UNLIMITED
    for row, node in enumerate(nodes):
        for resource, value in node.capacity:
            capacity[row, axis.index[resource]] = value
    schedulable = np.fromiter((node.schedulable for node in nodes), dtype=np.bool_, count=len(nodes))
    for array in (capacity, schedulable):
        array.flags.writeable = False
    return _Columns(
        axis=axis,
        names=names,
        index={name: row for row, name in enumerate(names)},
        capacity=capacity,
        topology=survey(levels, [node.labels for node in nodes]),
        schedulable=schedulable,
        labels=label_columns(nodes),
        taints=taint_masks(nodes),
    )
