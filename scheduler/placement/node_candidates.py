"""The candidate nodes of a gang, its members in batches of equal ones, and the seating problem over both.

Lives here: batches, domains, the requested level as numbers of places, and the members that already have seats.
Never here: a choice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import NOWHERE, Devices, Mask, Matrix, Snapshot
from scheduler.model.demand import Demand
from scheduler.model.neighbors import NO_NEIGHBORS, Neighbors, PodLabels
from scheduler.model.resources import Vector, lacks
from scheduler.model.workload import Gang, Role, Strategy, Uid
from scheduler.placement.distribution import MOST, Codes, Counts, ascending
from scheduler.placement.feasibility import clash
from scheduler.placement.flavors import free_share
from scheduler.placement.neighbor_rules import NeighborRules
from scheduler.placement.shared_devices import limited, seated


@dataclass(frozen=True, slots=True)
class Batch:
    """Interchangeable members: one demand, the same neighbors, and the same allowed nodes (None: all that match)."""

    demand: Demand
    uids: tuple[Uid, ...]
    allowed: Mask | None = None
    neighbors: Neighbors = NO_NEIGHBORS
    labels: PodLabels | None = None


def batches(role: Role, uids: Sequence[Uid], allowed: Mapping[Uid, Mask] | None) -> list[Batch]:
    """These members of one role, split by allowed nodes, in the given order."""
    alike = role.demand, role.neighbors, role.labels
    if not allowed:
        return [Batch(role.demand, tuple(uids), None, *alike[1:])] if uids else []
    groups: dict[bytes | None, list[Uid]] = {}
    masks: dict[bytes | None, Mask | None] = {}
    texts: dict[int, bytes] = {}
    for uid in uids:
        mask = allowed.get(uid)
        text = None if mask is None else texts.setdefault(id(mask), mask.tobytes())
        groups.setdefault(text, []).append(uid)
        masks[text] = mask
    return [Batch(role.demand, tuple(own), masks[text], *alike[1:]) for text, own in groups.items()]


def total(codes: Codes, weights: Counts, groups: int) -> Counts:
    """Counts[g]: the sum of the weights of each group's places. Code -1 belongs to no group."""
    out: Counts = np.bincount(codes + 1, weights, groups + 1)[1:].astype(np.float64, copy=False)
    return out


def counted(
    free: Matrix, axis_index: Mapping[str, int], demand: Demand, devices: Devices | None = None
) -> Counts:
    """Counts[n]: how many members of this demand each row of free capacity holds. 0 for an unknown resource.

    devices: the single devices of the same rows, if pods share them.
    Amounts are whole numbers up to 2**53, for which the floor of a float64 quotient is exact.
    """
    if lacks(axis_index, demand.requests):
        return np.zeros(len(free))
    most = np.full(len(free), 1.0 if demand.ports else MOST)
    known = [(axis_index[name], wanted) for name, wanted in demand.requests if name in axis_index]
    held(most, ((free[:, column], wanted) for column, wanted in known))
    return limited(most, devices, known)


def held(most: Counts, amounts: Iterable[tuple[Vector, float]]) -> Counts:
    """The array `most`, lowered to how many members fit.  amounts: for each resource, the free amount and the request.

    It is rounded once, because the floor of the minimum is the minimum of the floors.
    """
    for free, wanted in amounts:
        np.minimum(most, free if wanted == 1 else free / wanted, out=most)
    np.floor(most, out=most)
    return np.maximum(most, 0, out=most)


@dataclass(frozen=True, slots=True)
class NodeCandidates:
    """Nodes that can hold at least one member, in the order in which ties are broken.

    The order: fewest free devices first, then the order of nodes.
    rows: int[m], the node of each place.  free: float64[r, m], all resources.  devices: float64[m], the free
    devices of each, every kind in units of the node that has most.  asks: a member requests devices.
    share: float64[m], the free share of all devices of each node's flavor, 0 if no member requests devices.
    units: for each batch Counts[m], 0 where it may not go.  coords: int[l, m], as in Topology.
    requests: for each batch, its (column, amount) pairs.
    apart: bool[b, b], batches whose members cannot share a node: host ports, anti-affinity.
    rules: the gang's rules about neighbors, if it has any.  kinds: for each batch, its kind in these rules.
    """

    snapshot: Snapshot
    batches: tuple[Batch, ...]
    rows: NDArray[np.int64]
    free: Matrix
    devices: Vector
    asks: bool
    share: Vector
    scale: Vector
    units: tuple[Counts, ...]
    coords: Codes
    requests: tuple[tuple[tuple[int, int], ...], ...]
    apart: NDArray[np.bool_]
    rules: NeighborRules | None = None
    kinds: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def needed_devices(self, batch: int) -> float:
        """How much of `devices` one member takes."""
        devices = self.snapshot.axis.devices
        return sum(float(want / self.scale[c]) for c, want in self.requests[batch] if c in devices)

    def domains(self, level: int) -> int:
        """How many domains the level has in the whole cluster."""
        return len(self.snapshot.topology.domains[level])


def gather(
    snapshot: Snapshot,
    free: Matrix,
    members: Iterable[tuple[Batch, Mask]],
    flavor: Codes,
    rules: NeighborRules | None = None,
    preferred: Vector | None = None,
) -> NodeCandidates:
    """The pool of these batches, each with bool[n]: where it may go regardless of free capacity.

    free: float64[n, r].  flavor: Codes[n].  Ties go to the fewest free devices, then to the preferred nodes
    (float64[n]), then by the order of nodes.
    """
    pairs = tuple(members)
    index = snapshot.axis.index
    free = np.ascontiguousarray(free.T).T  # the code below works column by column
    demands = {batch.demand for batch, _ in pairs}
    known = {demand: counted(free, index, demand, snapshot.devices) for demand in demands}
    kinds = () if rules is None else tuple(rules.number(b.neighbors, b.labels) for b, _ in pairs)
    apart = _apart([batch for batch, _ in pairs], rules, kinds)
    everywhere = [
        (np.minimum(known[batch.demand], 1.0) if apart[own, own] else known[batch.demand]) * mask
        for own, (batch, mask) in enumerate(pairs)
    ]
    rows = np.flatnonzero(anywhere(everywhere, len(free)))
    scale, columns = snapshot.scale, snapshot.axis.devices
    by_kind = [free[:, column][rows] for column in columns]
    devices = sum((kind / scale[c] for c, kind in zip(columns, by_kind, strict=True)), np.zeros(len(rows)))
    first = by_kind[0] if len(by_kind) == 1 else devices
    order = ascending(first) if preferred is None else np.lexsort((-preferred[rows], first))
    rows = rows[order]
    asked = {name for batch, _ in pairs for name, _ in batch.demand.requests}
    asks = any(snapshot.axis.names[column] in asked for column in columns)
    return NodeCandidates(
        snapshot,
        tuple(batch for batch, _ in pairs),
        rows,
        free.T.take(rows, axis=1),
        devices[order],
        asks,
        free_share(snapshot, free, flavor)[rows] if asks else np.zeros(len(rows)),
        scale,
        tuple(units[rows] for units in everywhere),
        snapshot.topology.columns.take(rows, axis=1),
        tuple(
            tuple((index[name], wanted) for name, wanted in batch.demand.requests if name in index)
            for batch, _ in pairs
        ),
        apart,
        rules,
        kinds,
    )


def _apart(members: Sequence[Batch], rules: NeighborRules | None, kinds: Sequence[int]) -> NDArray[np.bool_]:
    """bool[b, b], see `NodeCandidates`."""
    out = np.zeros((len(members), len(members)), dtype=bool)
    if rules is not None:
        every = range(len(rules.kinds))
        by_kind = np.array([[rules.keeps_apart(one, two) for two in every] for one in every])
        out |= by_kind[np.ix_(kinds, kinds)]
    with_ports = [number for number, own in enumerate(members) if own.demand.ports]
    for one in with_ports:
        for two in with_ports:
            out[one, two] |= clash(members[one].demand.ports, members[two].demand.ports)
    return out


def anywhere(counts: Iterable[Counts], places: int) -> Mask:
    """bool[m]: places where any of these counts, each Counts[m], is above 0."""
    return reduce(np.logical_or, (own > 0 for own in counts), np.zeros(places, dtype=bool))


class SeatedInOrder(Protocol):
    """Members seated one by one, see `member_order`."""

    @property
    def sequence(self) -> list[tuple[int, int]]:
        """Batch and place of each seat, in order."""

    def more(self, batch: int, members: int) -> None:
        """Seat as many further members of this batch as fit."""

    def take(self, batch: int) -> Counts:
        """Counts[m]: the seats of this batch so far."""


class Scratch:
    """One trial: the seats so far, and the capacity that they leave. It never changes its pool.

    takes: for each batch Counts[m].  used: bool[m], nodes with members of the gang, including anchors.
    in_order: the search that seated the members one by one. None: their order does not matter.
    """

    def __init__(self, pool: NodeCandidates, used: Mask) -> None:
        self._pool: Final = pool
        self._free: Final = {column: pool.free[column] for own in pool.requests for column, _ in own}
        self._units: Final = dict(enumerate(pool.units))
        self._closed: Final[dict[int, Mask]] = {}
        self._stale: Final[set[int]] = set()
        self._owed: Final[list[tuple[int, Counts]]] = []
        shared = pool.snapshot.devices
        self._devices = None if shared is None else replace(shared, free=shared.free[pool.rows])
        self.used = used
        self.in_order: SeatedInOrder | None = None
        self.takes: Final = [np.zeros(len(pool)) for _ in pool.batches]

    def units(self, batch: int) -> Counts:
        """Counts[m]: how many more of this batch each node holds."""
        if batch in self._stale:
            self._settle()
            most = self._pool.units[batch].copy()  # capacity only shrinks
            wants = self._pool.requests[batch]
            self._units[batch] = held(most, ((self._free[column], wanted) for column, wanted in wants))
            limited(most, self._devices, wants)
            if batch in self._closed:
                most[self._closed[batch]] = 0
            self._stale.discard(batch)
        return self._units[batch]

    def free(self, column: int) -> Vector:
        """float64[m]: what is left of one resource."""
        self._settle()
        left: Vector = self._free.get(column, self._pool.free[column])
        return left

    def _settle(self) -> None:
        """Subtract new seats from the free capacity. This is done on demand: after the last seat it is not needed."""
        for batch, take in self._owed:
            for column, wanted in self._pool.requests[batch]:
                self._free[column] = self._free[column] - take * wanted
            if self._devices is not None:
                self._devices = seated(self._devices, self._pool.requests[batch], take)
        self._owed.clear()

    def sat(self) -> Mask:
        """bool[m]: places taken in this trial."""
        return anywhere(self.takes, len(self._pool))

    def put(self, batch: int, take: Counts) -> None:
        """Seat take[m] members of this batch. The array is kept, so do not write to it afterward."""
        seated = take > 0
        self._owed.append((batch, take))
        self.used = self.used | seated
        self.takes[batch] += take
        self._stale.update(range(len(self._pool.batches)))
        for other in np.flatnonzero(self._pool.apart[batch]).tolist():
            self._closed[other] = self._closed.get(other, seated) | seated


def around(pool: NodeCandidates, nodes: Iterable[int]) -> Codes:
    """Codes[m]: the distance of each place from the nearest of these nodes.

    0 on such a node, 1 within its domain of the finest level that is wider than a host, and so on upward. Beyond all
    common levels it is one more. A level with single-node domains adds no distance.
    """
    topology = pool.snapshot.topology
    here = np.fromiter(nodes, dtype=np.int64)
    distance = np.full(len(pool), len(topology.levels) + 1, dtype=np.int64)
    for level in reversed(range(len(topology.levels))):
        theirs = topology.coords[here, level]
        near = np.zeros(pool.domains(level) + 1, dtype=bool)
        near[theirs[theirs != NOWHERE]] = True
        distance[near[pool.coords[level]]] = level + 1
    distance[np.isin(pool.rows, here)] = 0
    return distance


@dataclass(frozen=True)
class SeatingProblem:
    """Seat these batches of the pool.

    quorum: how many leading batches are the quorum. The others are surplus.
    level: the column to pack into or spread over: the requested level or, if no node has its label, the next coarser
    level with a label on some node.
    codes: Codes[m], domains of that level, -1 for none.  domains: their number.
    have: Counts[d], members already seated in each domain.
    eligible: bool[d], the domains that a required spread must be even over.
    anchors: the nodes of members that are already seated.
    """

    pool: NodeCandidates
    quorum: int
    strategy: Strategy
    required: bool
    level: int
    codes: Codes
    domains: int
    have: Counts
    eligible: Mask
    anchors: tuple[int, ...] = ()

    @cached_property
    def needs(self) -> list[int]:
        """Members of each batch of the quorum."""
        return [len(batch.uids) for batch in self.pool.batches[: self.quorum]]

    @property
    def lone(self) -> bool:
        """No two places share a domain."""
        lone = self.pool.snapshot.topology.lone
        return self.level < len(lone) and lone[self.level]

    @cached_property
    def sums(self) -> dict[int, int]:
        """By column, the needs of the whole quorum."""
        out: dict[int, int] = {}
        for own, need in zip(self.pool.requests, self.needs, strict=False):
            for column, wanted in own:
                out[column] = out.get(column, 0) + wanted * need
        return out

    @cached_property
    def distance(self) -> Codes:
        """Codes[m]: the distance from the anchors, or 0 everywhere if the gang has none."""
        return around(self.pool, self.anchors) if self.anchors else np.zeros(len(self.pool), dtype=np.int64)

    @cached_property
    def slack(self) -> Counts:
        """float64[m]: how often each place could hold each batch of the quorum on its own, summed. Least is tightest."""
        held_by = zip(self.pool.units, self.needs, strict=False)
        return sum((units / need for units, need in held_by), np.zeros(len(self.pool)))

    def scratch(self) -> Scratch:
        """A fresh trial without seats, except for the anchors."""
        none = np.zeros(len(self.pool), dtype=bool)
        return Scratch(self.pool, np.isin(self.pool.rows, self.anchors) if self.anchors else none)


def effective(snapshot: Snapshot, level: int) -> int | None:
    """The level itself or, if no node has its label, the next coarser level with a label on some node."""
    known = snapshot.topology.known
    return next((up for up in range(level, len(known)) if known[up]), None)


def task_of(
    snapshot: Snapshot,
    gang: Gang,
    pool: NodeCandidates,
    quorum: int,
    eligible: Mask,
    anchors: tuple[int, ...],
) -> SeatingProblem:
    """The task of seating this gang in this pool.

    eligible: bool[n], nodes that could hold a member if they were empty.
    """
    asked = snapshot.topology.level(gang.level) or 0
    level = effective(snapshot, asked)
    if level is not None:
        everywhere, domains = snapshot.topology.columns[level], pool.domains(level)
    elif gang.strategy is Strategy.SPREAD:  # without domains, spread over single nodes
        everywhere, domains = np.arange(len(snapshot.names)), len(snapshot.names)
    else:
        everywhere, domains = np.full(len(snapshot.names), NOWHERE, dtype=np.int64), 0
    here = everywhere[list(anchors)] if anchors else everywhere[:0]
    might = np.zeros(domains + 1, dtype=bool)
    might[everywhere[eligible]] = True  # nodes without a domain (-1) mark the last entry
    return SeatingProblem(
        pool=pool,
        quorum=quorum,
        strategy=gang.strategy,
        required=gang.required,
        level=len(snapshot.topology.levels) if level is None else level,
        codes=everywhere[pool.rows],
        domains=domains,
        have=total(here, np.ones(len(here)), domains),
        eligible=might[:-1],
        anchors=anchors,
    )
