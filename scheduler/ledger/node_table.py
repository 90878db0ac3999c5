"""The columns of the cluster: capacity and use of every node, maintained incrementally.

A pod uses resources in exactly one place: on its node, or else on the node of its held seat. Both go through `put`,
keyed by the pod's uid, so no order of events can count a pod twice.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.ledger.node_columns import NodeColumns
from scheduler.model.admission import label_keys, obstacles
from scheduler.model.cluster import PRODUCTS, Level, Mask, Matrix, Node, Nomination, Snapshot
from scheduler.model.demand import Demand, HostPort
from scheduler.model.neighbors import NO_NEIGHBORS, Neighbors
from scheduler.model.resources import Amounts, ResourceAxis, Vector, lacks
from scheduler.model.sharded_dict import ShardedDict
from scheduler.model.workload import Uid

VECTORS_KEPT: Final = 4096
"""Cached vectors of distinct requests."""

ANSWERS_KEPT: Final = 16_384
"""Answers of `admits` that are cached until a node changes: one for every seat in progress."""

KEYS_KEPT: Final = 1024
"""Label keys of nodes that pods ask about. Beyond that, every label counts as asked about."""

FEW: Final = 256
"""Changed nodes after which columns are adapted at the latest, in some milliseconds on 15,000 nodes. While nodes are
listed, columns grow with them."""

GONE_KEPT: Final = 64
"""Numbers of deleted nodes beyond the number of nodes. Then columns are built, and nodes numbered from 0 again."""


class NodeTable:
    """Nodes by name, and the place of every pod that uses resources."""

    def __init__(self, levels: tuple[Level, ...]) -> None:
        self._levels = levels
        self._nodes: dict[str, Node] = {}
        self._node_of: ShardedDict[Uid, str] = ShardedDict()
        self._pods: dict[str, dict[Uid, Demand]] = {}
        """By node, known or not: the pods that use resources on it."""
        self._ports: dict[str, dict[Uid, tuple[HostPort, ...]]] = {}
        self._vectors: dict[Amounts, Vector] = {}
        self._admits: dict[tuple[object, ...], bool] = {}
        self._keys = {level.label for level in levels} | set(PRODUCTS)
        """Labels of nodes that levels, flavors and pods ask about."""
        self._columns: NodeColumns | None = None
        self._stale: set[str] = set()
        """Nodes that have changed since the columns were made."""
        self._used: Matrix = np.zeros((0, 0))
        """float64[n, r]: what is used, in the rows of `_columns`."""
        self._unserved: dict[str, Counter[str]] = {}
        """By resource that no node has, and by node of `_columns`: what pods use of it."""
        self._numbering = 0
        self.version = 0
        """Changes with everything except resource use and labels that nothing asks about."""
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
        if before is None or not self._is_unasked(before, node):
            self._changed(node.name)
        elif before.labels != node.labels:
            self._stale.add(node.name)
            self.generation += 1
            self._renew_many()
        self._hold(node.name, node.held)
        return True

    def _is_unasked(self, before: Node, node: Node) -> bool:
        """The node differs only in labels that nothing asks about, and in devices that no pod's demand counts."""
        if replace(before, labels=node.labels, held=node.held) != node:
            return False
        differ = before.labels.items() ^ node.labels.items()
        return not differ or (len(self._keys) < KEYS_KEPT and self._keys.isdisjoint(key for key, _ in differ))

    def asked(self, demand: Demand, neighbors: Neighbors = NO_NEIGHBORS) -> None:
        """A pod with this demand exists, so the labels that it names count from now on."""
        names = demand.selector or demand.constraints or neighbors
        if names and len(self._keys) < KEYS_KEPT:
            self._keys.update(label_keys(demand), neighbors.topology_keys)

    def gone(self, name: str) -> bool:
        if self._nodes.pop(name, None) is None:
            return False
        self._hold(name, ())
        self._changed(name)
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
        at = self._node_of.get(uid)
        if at == node:
            before = self._pods[node][uid]
            # A pin changes a pod's node requirements, not its resource needs.
            if before.requests == demand.requests and before.ports == demand.ports:
                self._pods[node][uid] = demand
                return
        if at is not None:
            self.take(uid)
        self._node_of[uid] = node
        self._pods.setdefault(node, {})[uid] = demand
        if demand.ports:
            self._ports.setdefault(node, {})[uid] = demand.ports
            self._ports_version += 1
        self._use(node, demand, 1.0)

    def take(self, uid: Uid) -> None:
        """This pod no longer uses resources."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        demand = self._pods[node].pop(uid)
        if not self._pods[node]:
            del self._pods[node]
        if demand.ports and uid in self._ports.get(node, {}):
            del self._ports[node][uid]
            self._ports_version += 1
            if not self._ports[node]:
                del self._ports[node]
        self._use(node, demand, -1.0)
        self.grew()

    def place(self, uid: Uid) -> str | None:
        return self._node_of.get(uid)

    def places(self) -> Iterator[tuple[Uid, str, Demand]]:
        for node, pods in self._pods.items():
            for uid, demand in pods.items():
                yield uid, node, demand

    def on(self, node: str) -> Collection[Uid]:
        """The pods that use resources on this node, whether or not it is known."""
        return self._pods.get(node, {}).keys()

    @property
    def numbering(self) -> int:
        """Changes when nodes get other numbers."""
        self._now()
        return self._numbering

    @property
    def axis(self) -> ResourceAxis:
        """The resources of snapshots. The same object until they change."""
        return self._now().axis

    @property
    def rows(self) -> NDArray[np.int64]:
        """int64 by number of a node: its row in a snapshot, -1 if it is deleted. The array never changes.

        A node keeps its number when other nodes come and go, until `numbering` changes.
        """
        return self._now().rows

    def number(self, uid: Uid) -> int | None:
        """The number of the node on which this pod uses resources. None: there is none."""
        columns = self._now()
        row = columns.index.get(self._node_of.get(uid) or "")
        return None if row is None else int(columns.numbers[row])

    def vector(self, demand: Demand) -> Vector:
        """float64[r]: the demand on the axis. Resources that no node has are left out."""
        return self._vector(self._now().axis, demand)

    def _vector(self, axis: ResourceAxis, demand: Demand) -> Vector:
        row = self._vectors.get(demand.requests)
        if row is None:
            row = axis.part(demand.requests)
            if len(self._vectors) >= VECTORS_KEPT:
                self._vectors.clear()
            self._vectors[demand.requests] = row
        return row

    def used_by(self, node: str, uids: Iterable[Uid]) -> Vector:
        """float64[r]: what these pods use together on this node."""
        used = np.zeros(len(self._now().axis.names))
        for uid in uids:
            if self.place(uid) == node:
                used += self.vector(self._pods[node][uid])
        return used

    def admits(self, node: str, demand: Demand) -> bool:
        """The node exists, and admits this demand by selector, affinity, taints and cordon."""
        columns, key = self._now(), (node, *demand.where)
        row, known = columns.index.get(node), self._admits.get(key)
        if row is None or known is not None:
            return row is not None and known is True
        if len(self._admits) >= ANSWERS_KEPT:
            self._admits.clear()
        self.asked(demand)
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
            nodes=columns.nodes,
        )

    def reopened(self) -> None:
        """Every verdict may differ now, also a lasting one."""
        self.version += 1
        self.generation += 1
        self.grew()

    def grew(self) -> None:
        """Free resources may have grown."""
        self.room_version += 1

    def _changed(self, name: str) -> None:
        self._stale.add(name)
        self._admits.clear()
        self.version += 1
        self.generation += 1
        self.grew()
        self._renew_many()

    def renew(self) -> bool:
        """Renew the columns after a change of nodes. False: there was none."""
        if self._columns is not None and not self._stale:
            return False
        self._now()
        return True

    def _renew_many(self) -> None:
        """Renew the columns when so many nodes have changed that a later step would take long."""
        if len(self._stale) >= FEW:
            self._now()

    def _use(self, node: str, demand: Demand, sign: float) -> None:
        self.generation += 1
        if self._columns is not None and node in self._columns.index:
            self._count(self._columns, node, demand, sign)

    def _count(self, columns: NodeColumns, node: str, demand: Demand, sign: float) -> None:
        self._used[columns.index[node]] += sign * self._vector(columns.axis, demand)
        for name, value in demand.requests:
            if name not in columns.axis.index:
                own = self._unserved.setdefault(name, Counter())
                own[node] += int(sign) * value
                if not own[node]:
                    del own[node]

    def _now(self) -> NodeColumns:
        """The columns, renewed after a change of nodes."""
        before = self._columns
        if before is not None and not self._stale:
            return before
        changed = [self._nodes[name] for name in sorted(self._stale) if name in self._nodes]
        adapted = None if before is None or not before.names else self._adapted(before, changed)
        if adapted is not None:
            now, added = adapted
        else:
            now = NodeColumns.of([self._nodes[name] for name in sorted(self._nodes)], self._levels)
            added = now.names
            self._used = np.zeros(now.capacity.shape)
            self._unserved.clear()
            self._vectors.clear()
            self._numbering += 1
        self._columns = now
        self._stale.clear()
        for name in added:
            for demand in self._pods.get(name, {}).values():
                self._count(now, name, demand, 1.0)
        return now

    def _adapted(
        self, before: NodeColumns, changed: Sequence[Node]
    ) -> tuple[NodeColumns, Sequence[str]] | None:
        """The columns and what is used, adapted, and the nodes of which the use is still 0. None: too much changed."""
        gone = {name for name in self._stale if name in before.index and name not in self._nodes}
        if len(self._stale) > FEW or len(before.rows) > 2 * len(self._nodes) + GONE_KEPT:
            return None
        added = [node.name for node in changed if node.name not in before.index]
        axis = before.axis_after(changed, gone)
        self._move(before, axis)
        for own in self._unserved.values():
            for name in gone:
                own.pop(name, None)
        self._unserved = {name: own for name, own in self._unserved.items() if own}
        now = before.on(axis).among(added, gone).after(changed)
        if added or gone:
            rows = np.append(before.rows, np.full(len(added), -1))[now.numbers]
            self._used = np.where((rows >= 0)[:, np.newaxis], self._used[rows], 0.0)
        return now, added

    def _move(self, before: NodeColumns, axis: ResourceAxis) -> None:
        """Move what is used to the columns of this axis, in the same rows."""
        if axis is before.axis:
            return
        for name in before.axis.index.keys() - axis.index.keys():
            used = self._used[:, before.axis.index[name]]
            rows = np.flatnonzero(used)
            users = map(before.names.__getitem__, rows.tolist())
            self._unserved[name] = Counter(dict(zip(users, used[rows].astype(int).tolist(), strict=True)))
        self._used = axis.moved(self._used, before.axis)
        for name in self._unserved.keys() & axis.index.keys():
            own = self._unserved.pop(name)
            self._used[[before.index[node] for node in own], axis.index[name]] = list(own.values())
        self._vectors.clear()

    def _port_masks(self, columns: NodeColumns) -> tuple[tuple[HostPort, Mask], ...]:
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
