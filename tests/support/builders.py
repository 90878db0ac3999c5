"""Builders that make the world in one line: nodes, snapshots, demands, gangs.

    snapshot = a_cluster(racks=4, nodes=8, gpu=8)
    gang = a_gang(2, gpu=2, strategy="spread", level="host")

Amounts: `cpu` in cores, `memory` in GiB, `gpu` in devices; other resources by name in `more`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from scheduler.model.cluster import (
    DEFAULT_LEVELS,
    LabelColumn,
    Level,
    Mask,
    Node,
    Nomination,
    Snapshot,
    survey,
)
from scheduler.model.demand import AnyOf, Demand, HostPort, Taint, TaintEffect, Toleration
from scheduler.model.resources import CPU, MEMORY, PODS, Amounts, ResourceAxis, amounts
from scheduler.model.workload import Gang, GangKey, Role, Strategy, Uid
from scheduler.placement.reservation import Running

GPU = "nvidia.com/gpu"
GIB = 2**30
HOST, RACK, AREA = (level.label for level in DEFAULT_LEVELS)


def some_amounts(
    cpu: float = 0, memory: float = 0, gpu: int = 0, pods: int = 0, more: Mapping[str, int] | None = None
) -> Amounts:
    """Amounts in the units of a ResourceAxis."""
    plain = {CPU: round(cpu * 1000), MEMORY: round(memory * GIB), GPU: gpu, PODS: pods}
    return amounts({**plain, **(more or {})})


def a_taint(key: str, value: str = "", effect: TaintEffect = TaintEffect.NO_SCHEDULE) -> Taint:
    return Taint(key, value, effect)


def a_node(
    name: str = "node-0",
    *,
    cpu: float = 32,
    memory: float = 128,
    gpu: int = 0,
    pods: int = 110,
    more: Mapping[str, int] | None = None,
    rack: str | None = None,
    area: str | None = None,
    host: bool = True,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    schedulable: bool = True,
) -> Node:
    """One node. `host=False` leaves the host label away."""
    places = {HOST: name if host else None, RACK: rack, AREA: area}
    own = {key: value for key, value in places.items() if value is not None}
    capacity = some_amounts(cpu, memory, gpu, pods, more)
    return Node(name, capacity, {**own, **(labels or {})}, tuple(taints), schedulable)


def some_nodes(*, areas: int = 1, racks: int = 1, nodes: int = 1, **each) -> list[Node]:
    """`areas` × `racks` × `nodes` equal nodes, named so that their order is their place: a0-r1-n2."""
    return [
        a_node(f"a{area}-r{rack}-n{node}", rack=f"a{area}-r{rack}", area=f"a{area}", **each)
        for area in range(areas)
        for rack in range(racks)
        for node in range(nodes)
    ]


def a_demand(
    cpu: float = 0,
    memory: float = 0,
    gpu: int = 0,
    *,
    more: Mapping[str, int] | None = None,
    selector: Mapping[str, str] | None = None,
    constraints: Iterable[AnyOf] = (),
    tolerations: Iterable[Toleration] = (),
    ports: Iterable[int | HostPort] = (),
) -> Demand:
    """What one pod needs; it always counts itself as one of the resource `pods`. Plain ports are TCP."""
    return Demand(
        some_amounts(cpu, memory, gpu, 1, more),
        tuple(sorted((selector or {}).items())),
        tuple(constraints),
        tuple(tolerations),
        tuple(port if isinstance(port, HostPort) else HostPort("TCP", port) for port in ports),
    )


def some_uids(count: int, prefix: str = "pod") -> tuple[Uid, ...]:
    return tuple(Uid(f"{prefix}-{number}") for number in range(count))


def a_role(
    name: str = "", count: int = 1, *, surplus: int = 0, demand: Demand | None = None, **needs
) -> Role:
    """`count` members of the quorum and `surplus` above it, all of one demand (given, or made from `needs`)."""
    prefix = name or "pod"
    return Role(
        name, demand or a_demand(**needs), some_uids(count, prefix), some_uids(surplus, f"{prefix}-surplus")
    )


def a_gang(
    count: int = 1,
    *,
    roles: Iterable[Role] = (),
    surplus: int = 0,
    name: str = "gang",
    strategy: str | Strategy = Strategy.PACK,
    level: str = "rack",
    required: bool = False,
    priority: int = 0,
    anchors: Iterable[str] = (),
    barred: Iterable[str] = (),
    **needs,
) -> Gang:
    """A gang of `count` equal members that need `needs`, or of the roles given."""
    return Gang(
        key=GangKey("default", name),
        roles=tuple(roles) or (a_role("", count, surplus=surplus, **needs),),
        strategy=Strategy(strategy),
        level=level,
        required=required,
        priority=priority,
        anchors=tuple(anchors),
        barred=frozenset(barred),
    )


def a_snapshot(
    nodes: Sequence[Node],
    *,
    used: Mapping[str, Demand | Amounts] | None = None,
    ports: Mapping[str, Iterable[HostPort]] | None = None,
    nominations: Iterable[tuple[str, int, Demand]] = (),
    levels: tuple[Level, ...] = DEFAULT_LEVELS,
    version: int = 1,
) -> Snapshot:
    """The picture of these nodes. used, ports: by node. nominations: (node, priority, demand)."""
    nodes = sorted(nodes, key=lambda node: node.name)
    axis = ResourceAxis().extended(resource for node in nodes for resource, _ in node.capacity)
    names = tuple(node.name for node in nodes)
    index = {node: row for row, node in enumerate(names)}
    capacity = np.tile(axis.unnamed, (len(nodes), 1))
    for row, node in enumerate(nodes):
        for resource, amount in node.capacity:
            capacity[row, axis.index[resource]] = amount
    free = capacity.copy()
    for node, taken in (used or {}).items():
        free[index[node]] -= axis.vector(taken.requests if isinstance(taken, Demand) else taken)
    taken_ports = {port for own in (ports or {}).values() for port in own}
    picture = Snapshot(
        generation=version,
        nodes_version=version,
        axis=axis,
        names=names,
        index=index,
        free=free,
        capacity=capacity,
        topology=survey(levels, [node.labels for node in nodes]),
        schedulable=np.array([node.schedulable for node in nodes], dtype=bool),
        labels=_label_columns(nodes),
        taints=tuple(
            (taint, np.array([taint in node.taints for node in nodes]))
            for taint in sorted({t for node in nodes for t in node.taints}, key=lambda t: (t.key, t.value))
        ),
        ports=tuple(
            (port, np.array([port in (ports or {}).get(node, ()) for node in names]))
            for port in sorted(taken_ports, key=lambda p: (p.protocol, p.port, p.address))
        ),
        nominations=tuple(
            Nomination(index[node], priority, axis.vector(demand.requests))
            for node, priority, demand in nominations
        ),
    )
    for array in (picture.free, picture.capacity, picture.schedulable):
        array.flags.writeable = False
    return picture


def _label_columns(nodes: Sequence[Node]) -> dict[str, LabelColumn]:
    columns = {}
    for key in sorted({key for node in nodes for key in node.labels}):
        values = {
            value: code
            for code, value in enumerate(sorted({n.labels[key] for n in nodes if key in n.labels}))
        }
        codes = np.array([values.get(node.labels.get(key), -1) for node in nodes], dtype=np.int32)
        columns[key] = LabelColumn(codes, values)
    return columns


def a_cluster(
    *,
    areas: int = 1,
    racks: int = 1,
    nodes: int = 1,
    used: Mapping[str, Demand | Amounts] | None = None,
    **each,
) -> Snapshot:
    """The picture of `areas` × `racks` × `nodes` equal nodes; `each` as a_node takes it."""
    return a_snapshot(some_nodes(areas=areas, racks=racks, nodes=nodes, **each), used=used)


def with_free(snapshot: Snapshot, resource: str, free: Mapping[str, float]) -> Snapshot:
    """The same picture, with so much of one resource left on some nodes."""
    matrix = snapshot.free.copy()
    for node, left in free.items():
        matrix[snapshot.index[node], snapshot.axis.index[resource]] = left
    matrix.flags.writeable = False
    return replace(snapshot, free=matrix)


def a_mask(snapshot: Snapshot, *names: str) -> Mask:
    """bool[n]: True at these nodes."""
    return np.isin(np.array(snapshot.names), names)


def keys_of(running: Running) -> list[GangKey]:
    """The gangs that run, in their order."""
    return [
        stay.key for stay in (*running.first, *(running.stays[place] for place in running.places.tolist()))
    ]
