"""The cluster at one moment, as the planner sees it: nodes, their free resources, levels and domains.

A level is a node label: by default host, rack and area, from the finest to the coarsest.  A domain is its full path
from the coarsest level down (`area/rack/host`), so racks of one name in two areas are two domains.
A node without a level's label is in no domain of that level.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.model.demand import HostPort, Taint
from scheduler.model.neighbors import NeighborColumns
from scheduler.model.resources import Amounts, ResourceAxis, Vector
from scheduler.model.workload import Role

NOWHERE: Final = -1
"""The domain number of a node without the level's label."""

Coords: TypeAlias = NDArray[np.int32]
"""int32[n, l]: column l is the node's domain number at level l, or NOWHERE."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level: its name and the node label that carries it."""

    name: str
    label: str


DEFAULT_LEVELS: Final = (
    Level("host", "kubernetes.io/hostname"),
    Level("rack", "gangwright.io/rack"),
    Level("area", "topology.kubernetes.io/zone"),
)
"""Finest first.  The keys are in common use. No shared key for racks exists, so that one is Gangwright's."""


@dataclass(frozen=True)
class Topology:
    """The position of every node, coords[n, l], and the path of every domain.

    `domains[l][d]` is the path of domain d of level l, for example "area-1/rack-7".  Domains are numbered in the order
    of their paths, so numbers don't depend on the order in which nodes appeared.
    """

    levels: tuple[Level, ...]
    coords: Coords
    domains: tuple[tuple[str, ...], ...]

    @cached_property
    def columns(self) -> NDArray[np.int64]:
        """int64[l, n]: coords transposed, so that the numbers of one level are contiguous. Write-protected."""
        turned = np.ascontiguousarray(self.coords.T, dtype=np.int64)
        turned.flags.writeable = False
        return turned

    @cached_property
    def known(self) -> tuple[bool, ...]:
        """For each level: at least one node has its label."""
        return tuple(bool((codes != NOWHERE).any()) for codes in self.columns)

    @cached_property
    def lone(self) -> tuple[bool, ...]:
        """For each level: no two nodes share a domain of it, as usual for hosts."""
        counts = [np.bincount(codes + 1)[1:] for codes in self.columns]
        return tuple(bool((count <= 1).all()) for count in counts)

    def level(self, name: str) -> int | None:
        """The column of a level, or None if no such level is configured."""
        return next((i for i, level in enumerate(self.levels) if level.name == name), None)


def survey(levels: tuple[Level, ...], labels: Sequence[Mapping[str, str]]) -> Topology:
    """The topology of nodes with these labels, one mapping per node, in the order of the node axis."""
    coords = np.full((len(labels), len(levels)), NOWHERE, dtype=np.int32)
    domains: list[tuple[str, ...]] = []
    for column in range(len(levels)):
        paths = [_path(levels[column:], own) for own in labels]
        names = sorted({path for path in paths if path is not None})
        number = {name: position for position, name in enumerate(names)}
        coords[:, column] = [NOWHERE if path is None else number[path] for path in paths]
        domains.append(tuple(names))
    coords.flags.writeable = False
    return Topology(levels, coords, tuple(domains))


def _path(levels: tuple[Level, ...], labels: Mapping[str, str]) -> str | None:
    """The path of the domain of the first of these levels. None: the node is in none."""
    if levels[0].label not in labels:
        return None
    return "/".join(labels.get(up.label, "") for up in reversed(levels))


def resurvey(topology: Topology, changed: Mapping[int, Mapping[str, str]]) -> Topology:
    """The topology after the nodes of these rows got these labels: what `survey` finds, without the other nodes."""
    coords = topology.coords.copy()
    domains = [
        _moved(
            coords[:, column],
            names,
            {row: _path(topology.levels[column:], own) for row, own in changed.items()},
        )
        for column, names in enumerate(topology.domains)
    ]
    coords.flags.writeable = False
    return Topology(topology.levels, coords, tuple(domains))


def _moved(
    codes: NDArray[np.int32], names: tuple[str, ...], changed: Mapping[int, str | None]
) -> tuple[str, ...]:
    """The paths of the domains after these rows moved. codes: int32[n], the number of each row's path, is adapted."""
    paths = list(names)
    for row, path in changed.items():
        before = int(codes[row])
        codes[row] = NOWHERE
        if before != NOWHERE and paths[before] != path and not (codes == before).any():
            del paths[before]
            codes[codes > before] -= 1
        if path is not None:
            place = bisect_left(paths, path)
            if place == len(paths):
                paths.append(path)
            elif paths[place] != path:
                paths.insert(place, path)
                codes[codes >= place] += 1
            codes[row] = place
    return tuple(paths)


PRODUCTS: Final = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator")
"""Labels with the product of a node's devices, as NVIDIA's GPU feature discovery, AMD's node labeller and Google
Kubernetes Engine write them."""

Mask: TypeAlias = NDArray[np.bool_]
"""bool[n]: one value per node."""

Matrix: TypeAlias = NDArray[np.float64]
"""float64[n, r]: one row per node, one column per resource, in the units of the ResourceAxis."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node, reduced to what affects placement. `name` is its position in every fixed order."""

    name: str
    capacity: Amounts
    """Allocatable, in the units of the ResourceAxis."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    schedulable: bool = True
    """Not cordoned."""
    held: Amounts = ()
    """Devices in use that no pod's demand counts."""

    @property
    def resources(self) -> tuple[str, ...]:
        """What it has amounts of."""
        return tuple(name for name, _ in self.capacity)


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """One label across all nodes: `codes[n]` is the number of the node's value, -1 if the label is missing."""

    codes: NDArray[np.int32]
    values: Mapping[str, int]


LABELS_KEPT: Final = 256
"""Columns of labels that are kept. Beyond that, they are computed again."""


class LabelColumns(Mapping[str, LabelColumn]):
    """By key, the column of each label that any node has, made when it is first read: of most labels nothing asks."""

    def __init__(self, nodes: Sequence[Node], made: Mapping[str, LabelColumn] | None = None) -> None:
        """made: the columns that are known already."""
        self._nodes = nodes
        self._made = dict(made or {})
        """One without values is of a label that no node has."""

    @property
    def made(self) -> dict[str, LabelColumn]:
        """A copy of the columns so far, because a planning thread may read more of them meanwhile."""
        return dict(self._made)

    def __getitem__(self, key: str) -> LabelColumn:
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= LABELS_KEPT:
                self._made.clear()
            found = self._made[key] = _label_column(self._nodes, key)
        if not found.values:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({key for node in self._nodes for key in node.labels}))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _label_column(nodes: Sequence[Node], key: str) -> LabelColumn:
    """Values are numbered in the order of the nodes."""
    values: dict[str, int] = {}
    found = (node.labels.get(key) for node in nodes)
    codes = np.array(
        [-1 if value is None else values.setdefault(value, len(values)) for value in found], dtype=np.int32
    )
    codes.flags.writeable = False
    return LabelColumn(codes, values)


def renumbered(codes: NDArray[np.int32], values: Mapping[str, int]) -> LabelColumn:
    """The column of one label, numbered in the order of the nodes.

    codes: int32[n], -1 or the number of the value.  values: numbered from 0, in this order.
    """
    first = np.full(len(values) + 1, len(codes))
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # of equal codes the first node is written last
    order = np.argsort(first[:-1], kind="stable")
    order = order[first[order] < len(codes)]
    if not np.array_equal(order, np.arange(len(values))):
        number = np.full(len(values) + 1, -1, dtype=np.int32)  # the last entry is for a missing label, -1
        number[order] = np.arange(len(order))
        codes, names = number[codes], list(values)
        values = dict(zip(map(names.__getitem__, order.tolist()), range(len(order)), strict=True))
    codes.flags.writeable = False
    return LabelColumn(codes, values)


def relabeled(column: LabelColumn, changed: Mapping[int, str | None]) -> LabelColumn:
    """The column after the nodes of these rows got these values; None: they lost the label."""
    codes, values = column.codes.copy(), dict(column.values)
    for row, value in changed.items():
        codes[row] = -1 if value is None else values.setdefault(value, len(values))
    return renumbered(codes, values)


def taint_masks(nodes: Sequence[Node]) -> tuple[tuple[Taint, Mask], ...]:
    """Every distinct taint of these nodes, with the nodes that have it."""
    masks: dict[Taint, Mask] = {}
    for row, node in enumerate(nodes):
        for taint in node.taints:
            masks.setdefault(taint, np.zeros(len(nodes), dtype=np.bool_))[row] = True
    return tuple(sorted(masks.items(), key=lambda item: (item[0].key, item[0].value, item[0].effect)))


@dataclass(frozen=True, slots=True)
class Nomination:
    """Resources that kube-scheduler reserves for a pod of another scheduler against equal and lower priority."""

    node: int
    priority: int
    needs: Vector


DEVICE: Final = 1000.0
"""One device, in the unit of `Devices`: thousandths."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The single devices of one resource, where pods share them. Nodes of a real cluster do not report any.

    column: the resource. In a snapshot with devices its amounts are thousandths of a device, also in requests: 460 is
    a share of one device, 2000 are two whole devices. `free` and `capacity` have the sum over the devices of a node.
    free: float64[n, d], 0 … DEVICE, the free part of each device, or -1 where a node has fewer than d devices.
    """

    column: int
    free: Matrix

    @property
    def idle(self) -> "Devices":
        """The same devices without any pods."""
        return replace(self, free=np.where(self.free < 0, self.free, DEVICE))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of the cluster. Nodes are sorted by name; arrays are write-protected.

    free: float64[n, r], allocatable minus bound, held and foreign pods. Negative where other schedulers overcommitted.
    capacity: float64[n, r], allocatable.
    schedulable: bool[n].
    labels: by key, for every key that any node has.
    taints: every distinct taint, with the nodes that have it.
    ports: every host port in use, with the nodes that use it.
    nodes_version: changes with anything except `free`, `ports`, `nominations`, `devices` and labels that nothing asks
    about, so answers may be cached by it.
    neighbors: the columns of `free` and `capacity` that count pods. None: no column does.
    devices: single devices that pods share, which seats respect besides `free`. Preemption and reservations do not.
    nodes: by row; an unchanged node is the same object in the next snapshot. Empty: not known.
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
    neighbors: NeighborColumns | None = None
    devices: Devices | None = None
    nodes: tuple[Node, ...] = ()

    def freed(self, *leaving: tuple[NDArray[np.int64], Matrix]) -> "Snapshot":
        """This snapshot after these pods left.  leaving: rows, int64[k], which may repeat, and uses, float64[k, r]."""
        free = self.free.copy()
        for rows, uses in leaving:
            np.add.at(free, rows, uses)
        free.flags.writeable = False
        return replace(self, free=free)

    def vector(self, role: Role) -> Vector:
        """float64[r]: what one member of this role uses, and where it counts as a neighbor.

        Raises KeyError for a resource that no node has.
        """
        row, known = self.axis.vector(role.demand.requests), self.neighbors
        if known is not None:
            carried = role.neighbors.anti_affinity
            row[known.first :] = [
                what.counts(role.labels, carried, known.namespaces) for what in known.counted
            ]
        return row

    def named(self, names: Iterable[str]) -> Mask:
        """bool[n]: the nodes with these names. Unknown names are ignored."""
        out = np.zeros(len(self.names), dtype=bool)
        out[[row for name in names if (row := self.index.get(name)) is not None]] = True
        return out

    @property
    def idle_devices(self) -> Devices | None:
        """The devices if no pod ran, None if there are none."""
        return None if self.devices is None else self.devices.idle

    @property
    def scale(self) -> Vector:
        """float64[r]: the largest node's amount of each resource, 1 if no node has any.

        It is the unit for comparing vectors of different resources (alignment, tightness).
        """
        if not len(self.names):
            return np.ones(len(self.axis))
        # transposed first: a reduction along short rows takes ten times as long
        top = np.ascontiguousarray(self.capacity.T).max(axis=1)
        return np.where(top > 0, top, 1.0)
