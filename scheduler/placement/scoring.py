"""Which node of several for one more member (tightness, evenness, alignment), and the quality of a whole placement.

Lives here: the sort keys of nodes, the table of strategies, and figures about placements. Ties end in a fixed order.
Never here: free capacity (node_candidates), more than one member at a time.

Why `snug` counts devices before whole demands: a training cluster runs out of devices first. On the openb trace of FGD
(ATC '23), the tightest node by whole demands leaves 9% of the GPUs unused, and the node with the fewest free devices
leaves 5%.

Alignment is the cosine between the free vector of a node and a demand, over devices and the CPU and memory that are
requested, each in units of the node that has most of it. For members with devices, the free share of all devices of
the node's flavor is added, which keeps scarce products free. `OPENING` is subtracted on a node where no device is in
use, which keeps whole nodes free. The sum is rounded to steps of 5%. Unrounded, two nodes never tie, and then nothing
keeps free devices together.

`pack` uses the same sum for one host, but free CPU and memory that the free devices of a node cannot use do not count.
Otherwise pods that request little CPU would avoid the last devices of a node, and no node would stay whole for gangs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import mul
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Snapshot, Topology
from scheduler.model.decision import Quality
from scheduler.model.demand import Demand
from scheduler.model.resources import CPU, MEMORY, NATIVE, ResourceAxis, Vector, is_shown
from scheduler.model.workload import Strategy
from scheduler.placement.distribution import Counts
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.node_candidates import (
    NodeCandidates,
    Scratch,
    SeatingProblem,
    anywhere,
    counted,
    total,
)

STEPS: Final = 20
"""Alignment is rounded to steps of 1/20."""

OPENING: Final = 0.15
"""Subtracted from the alignment of a node where no device is in use. Chosen on five mixes of the openb trace of FGD: with
0.1 to 0.2 the mean allocation stays within 0.2 points of the best.
"""

_TINY: Final = 1e-300
"""Keeps the cosine with an empty vector at 0."""

Number: TypeAlias = Any
"""A float, or float64[m]: the formulas below work for one node and for all nodes at once."""


def cosine(free: Sequence[Number], demand: Sequence[float]) -> Number:
    """0 … 1: how closely the free vector and the demand point in the same direction."""
    across = sum(map(mul, free, demand))
    lengths = sum(map(mul, free, free)) * sum(map(mul, demand, demand))
    return across / (lengths**0.5 + _TINY)


def compared(axis: ResourceAxis) -> tuple[int, ...]:
    """The columns that alignment is over: CPU, memory and devices."""
    return (axis.index[CPU], axis.index[MEMORY], *axis.devices)


def shape(axis: ResourceAxis, scale: Vector, demand: Demand) -> tuple[float, ...]:
    """The demand over the compared columns, in units of `scale`."""
    wanted = dict(demand.requests)
    return tuple(wanted.get(axis.names[column], 0) / float(scale[column]) for column in compared(axis))


class Alignment:
    """How well each of p places suits members with one request: the alignment in whole steps, larger is better."""

    def __init__(
        self,
        pool: NodeCandidates,
        scratch: Scratch,
        request: Mapping[int, float],
        places: NDArray[np.int64],
        *,
        capped: bool = False,
    ) -> None:
        """request: by column, the amount.  places: int64[p].

        capped: free CPU and memory count up to what the free devices of the place can use.
        """
        axis, rows = pool.snapshot.axis, pool.rows[places]
        columns = [column for column in compared(axis) if column in axis.devices or request.get(column)]
        self._wanted: Final = [request.get(column, 0.0) / float(pool.scale[column]) for column in columns]
        self._free = [np.maximum(scratch.free(c)[places], 0) / pool.scale[c] for c in columns]
        idle, self._share = np.zeros(len(places), dtype=bool), np.zeros(len(places))
        asked = [column for column in axis.devices if request.get(column)]
        if asked:
            capacity = pool.snapshot.capacity
            unused = (scratch.free(column)[places] >= capacity[rows, column] for column in axis.devices)
            idle, self._share = reduce(np.logical_and, unused), pool.share[places]
        if asked and capped:
            members = reduce(np.minimum, (scratch.free(c)[places] / request[c] for c in asked))
            self._free = [
                have if column in axis.devices else np.minimum(have, members * want)
                for column, have, want in zip(columns, self._free, self._wanted, strict=True)
            ]
        self.steps: Final = _steps(cosine(self._free, self._wanted) + self._share - OPENING * idle)
        """float64[p]: before another member is seated."""

    def after(self, place: int, seats: int) -> float:
        """The steps of one of the places after so many members were seated there, at least one."""
        free = [
            max(have.item(place) - seats * want, 0.0)
            for have, want in zip(self._free, self._wanted, strict=True)
        ]
        return float(_steps(cosine(free, self._wanted) + self._share.item(place)))


def _steps(alignment: Number) -> Number:
    return (alignment * STEPS + 0.5) // 1


Keys: TypeAlias = Sequence[NDArray[Any]]
"""Keys[k][m]: the first key that differs decides, and lower is better."""


def of_domain(task: SeatingProblem, value: Counts) -> NDArray[np.float64]:
    """A domain's value at each of its places, and 0 outside of all domains."""
    return np.append(value, 0.0)[task.codes]


def _room(task: SeatingProblem) -> NDArray[np.float64]:
    """At each place, how many members fit in its domain."""
    return of_domain(task, total(task.codes, task.pool.units[0], task.domains))


def snug(pool: NodeCandidates, room: Counts) -> Keys:
    """The node with the fewest free devices, then by how well the free capacity fits.

    room: float64[m], how often the gang fits on a node.  A gang without devices gets the tightest node. A gang with
    devices gets the roomiest of the nodes with equally many free devices.
    """
    return [pool.devices, -room if pool.asks else room]


def best_host(task: SeatingProblem, request: Mapping[int, float], room: Counts) -> Keys:
    """The best aligned host for all members together, if they request devices; then by `snug`.

    request: by column, of all members.  room: float64[m], how often they fit on a node.
    """
    pool = task.pool
    keys = snug(pool, room)
    if not pool.asks:
        return keys
    return [-Alignment(pool, task.scratch(), request, np.arange(len(pool)), capped=True).steps, *keys]


def tightest(task: SeatingProblem) -> Keys:
    """The nearest first, then the best host, then the domain that fits the fewest members."""
    pool = task.pool
    return [
        task.codes < 0,
        task.distance,
        *best_host(task, dict(pool.requests[0]), pool.units[0]),
        _room(task),
    ]


def evenest(task: SeatingProblem) -> Keys:
    """The domain with the fewest members, then the roomiest domain, then the tightest node in it."""
    have = of_domain(task, task.have)
    return [task.codes < 0, have, -_room(task), task.codes, task.pool.units[0]]


def aligned(task: SeatingProblem) -> Keys:
    """The nearest first, then the best aligned node."""
    pool = task.pool
    score = Alignment(pool, task.scratch(), dict(pool.requests[0]), np.arange(len(pool)))
    return [task.codes < 0, task.distance, -score.steps]


STRATEGIES: Final[Mapping[Strategy, Callable[[SeatingProblem], Keys]]] = {
    Strategy.PACK: tightest,
    Strategy.SPREAD: evenest,
    Strategy.COSINE: aligned,
}
"""The sort keys of nodes in each strategy, for a task of one single member."""


def ranking(task: SeatingProblem) -> NDArray[np.int64]:
    """The places that fit, best first."""
    live = np.flatnonzero(task.pool.units[0] > 0)
    keys = [live, *(key[live] for key in reversed(STRATEGIES[task.strategy](task)))]
    return live[np.lexsort(keys)]


def spread_out(places: NDArray[np.int64], best_first: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Scores[size] from a ranking of `places`: 1 for the best, the others evenly from 0.9 down to 0.

    The gap below the best survives the rounding to whole points that kube-scheduler requires.
    """
    scores = np.zeros(size)
    if len(best_first):
        others = np.linspace(0.9, 0.0, len(best_first) - 1) if len(best_first) > 2 else np.zeros(1)
        scores[places[best_first[1:]]] = others[: len(best_first) - 1]
        scores[places[best_first[0]]] = 1.0
    return scores


Seated: TypeAlias = Sequence[Counts]
"""Counts[m] for each batch of a pool: how many of its members each place takes, in the order of seating."""


def quality(pool: NodeCandidates, takes: Seated, masks: FeasibilityCache) -> Quality:
    """Domains spanned at each level, and the mean alignment."""
    sat = np.flatnonzero(anywhere(takes, len(pool)))
    return Quality(_spans(pool, takes, sat, masks), _alignment(pool, takes, sat))


def _spans(
    pool: NodeCandidates, takes: Seated, sat: NDArray[np.int64], masks: FeasibilityCache
) -> dict[str, tuple[int, int]]:
    """By level that any node has: the domains spanned, and the fewest possible. Nodes outside of all count as one more."""
    topology = pool.snapshot.topology
    if not len(sat):
        return {}
    spanned = [len(np.unique(codes)) for codes in pool.coords[:, sat]]
    room = _empty_room(pool, takes, masks) if max(spanned, default=1) > 1 else []
    return {
        level.name: (spanned[column], _fewest(topology, column, room, spanned[column]))
        for column, level in enumerate(topology.levels)
        if pool.domains(column)
    }


def _empty_room(pool: NodeCandidates, takes: Seated, masks: FeasibilityCache) -> list[tuple[Counts, float]]:
    """What n nodes hold if empty, and how much of it is needed: members of each demand, amounts of each resource."""
    snapshot = pool.snapshot
    members: dict[Demand, float] = {}
    for batch, take in zip(pool.batches, takes, strict=True):
        members[batch.demand] = members.get(batch.demand, 0.0) + float(take.sum())
    index, devices = snapshot.axis.index, snapshot.idle_devices
    capacity = np.ascontiguousarray(snapshot.capacity.T).T  # the code below works column by column
    out = [
        (counted(capacity, index, demand, devices) * masks.of(snapshot, demand).matches, need)
        for demand, need in members.items()
        if need
    ]
    if len(out) > 1:
        some = np.logical_or.reduce([room > 0 for room, _ in out])
        wanted = np.zeros(len(snapshot.axis))
        for demand, need in members.items():
            wanted += need * snapshot.axis.vector(demand.requests if need else ())
        out += [(capacity[:, c] * some, float(wanted[c])) for c in np.flatnonzero(wanted).tolist()]
    return out


def _fewest(topology: Topology, level: int, room: Sequence[tuple[Counts, float]], spanned: int) -> int:
    """The fewest domains that together hold everything needed, at most `spanned`.

    Exact for one demand, a lower bound for several.
    """
    fewest = 1
    codes, domains = topology.columns[level], len(topology.domains[level])
    inside = None if topology.lone[level] and domains == len(codes) else codes + 1  # one more: outside of all
    for amounts, need in room:
        if fewest == spanned:
            break
        each = amounts if inside is None else np.bincount(inside, amounts, domains + 1)
        if each.max() * fewest < need:
            largest = np.partition(each, -spanned)[-spanned:]
            enough = np.searchsorted(np.cumsum(-np.sort(-largest)), need) + 1
            fewest = min(max(fewest, int(enough)), spanned)
    return fewest


def _alignment(pool: NodeCandidates, takes: Seated, sat: NDArray[np.int64]) -> float:
    """The mean over members of the cosine between demand and the node's free vector before the member was seated."""
    axis = pool.snapshot.axis
    free = {c: pool.free[c][sat] for c in compared(axis)}
    scores: list[NDArray[np.float64]] = []
    for batch, everywhere in zip(pool.batches, takes, strict=True):
        wanted = shape(axis, pool.scale, batch.demand)
        take = everywhere[sat]
        places = np.flatnonzero(take)
        times = take[places].astype(np.int64)
        repeated = np.repeat(places, times)
        nth = np.arange(len(repeated)) - np.repeat(np.cumsum(times) - times, times)
        before = [
            np.maximum(free[column][repeated] / pool.scale[column] - nth * want, 0)
            for column, want in zip(free, wanted, strict=True)
        ]
        scores.append(np.minimum(cosine(before, wanted), 1.0))
        free = {
            column: free[column] - take * want * pool.scale[column]
            for column, want in zip(free, wanted, strict=True)
        }
    every = np.concatenate(scores) if scores else np.zeros(0)
    return float(every.mean()) if len(every) else 0.0


def fragmentation(
    snapshot: Snapshot, demands: Iterable[Demand], masks: FeasibilityCache | None = None
) -> Mapping[str, float]:
    """By extended resource, 0 … 1: the share of its free units that the demands cannot use on their nodes.

    For each demand that requests the resource: its free units on nodes that cannot hold the demand, divided by all its
    free units. The result is the mean over these demands, or 0 if nothing is free or no gang requests the resource.
    Based on the fragmentation measure of FGD (Weng et al., USENIX ATC '23), for whole devices.
    """
    masks = masks or FeasibilityCache()
    kept: dict[str, list[float]] = {
        name: [] for name in snapshot.axis.names if name not in NATIVE and is_shown(name)
    }
    for demand in demands:
        asked = [name for name, _ in demand.requests if name in kept]
        if not asked:
            continue
        room = counted(snapshot.free, snapshot.axis.index, demand, snapshot.devices)
        useless = ~((room > 0) & masks.of(snapshot, demand).open)
        for name in asked:
            free = np.maximum(snapshot.free[:, snapshot.axis.index[name]], 0)
            kept[name].append(float(free[useless].sum() / max(free.sum(), 1.0)))
    return {name: sum(shares) / len(shares) if shares else 0.0 for name, shares in kept.items()}
