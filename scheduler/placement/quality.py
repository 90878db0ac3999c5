"""How good a placement is, and how broken up the free room is.

Lives here: figures about placements; nothing here chooses one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Snapshot
from scheduler.model.decision import Quality
from scheduler.model.demand import Demand
from scheduler.model.resources import NATIVE
from scheduler.model.topology import Topology
from scheduler.placement import scoring
from scheduler.placement.distribution import Counts
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.node_candidates import NodeCandidates, counted

_NOBODY: Final = np.zeros(0, dtype=np.int64)

Seated: TypeAlias = Sequence[Counts]
"""For each batch of a pool Counts[m], how many of it sit on each place, in the order of sitting down."""


def quality(pool: NodeCandidates, takes: Seated, masks: FeasibilityCache) -> Quality:
    """Domains spanned at each level, and the mean alignment."""
    return Quality(_spans(pool, takes, masks), _alignment(pool, takes))


def _spans(pool: NodeCandidates, takes: Seated, masks: FeasibilityCache) -> dict[str, tuple[int, int]]:
    """By level that any node has: domains spanned, nodes outside of all counting as one more; and the fewest."""
    topology = pool.snapshot.topology
    sat = _sat(takes)
    if not len(sat):
        return {}
    spanned = [len(np.unique(codes)) for codes in pool.coords[:, sat]]
    room = _empty_room(pool, takes, masks) if max(spanned, default=1) > 1 else []
    return {
        level.name: (
            spanned[column],
            _fewest(topology, column, room, spanned[column]),
        )
        for column, level in enumerate(topology.levels)
        if pool.domains(column)
    }


def _sat(takes: Seated) -> NDArray[np.int64]:
    """The places that anybody took."""
    return np.flatnonzero(np.logical_or.reduce([take > 0 for take in takes])) if takes else _NOBODY


def _empty_room(pool: NodeCandidates, takes: Seated, masks: FeasibilityCache) -> list[tuple[Counts, float]]:
    """What n nodes give when empty, and how much of it is needed: members of each demand, amounts of each resource."""
    snapshot = pool.snapshot
    members: dict[Demand, float] = {}
    for batch, take in zip(pool.batches, takes, strict=True):
        members[batch.demand] = members.get(batch.demand, 0.0) + float(take.sum())
    index = snapshot.axis.index
    capacity = np.ascontiguousarray(snapshot.capacity.T).T  # all below goes column by column
    out = [
        (counted(capacity, index, demand) * masks.of(snapshot, demand).matches, need)
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
    """The fewest domains that together have all that is needed, at most those that are spanned.

    Exact for one demand, a lower bound for several.
    """
    fewest = 1
    codes, domains = topology.columns[level], len(topology.domains[level])
    inside = None if topology.lone[level] and domains == len(codes) else codes + 1  # outside of all: one more
    for amounts, need in room:
        if fewest == spanned:
            break
        each = amounts if inside is None else np.bincount(inside, amounts, domains + 1)
        if each.max() * fewest < need:
            largest = np.partition(each, -spanned)[-spanned:]
            enough = np.searchsorted(np.cumsum(-np.sort(-largest)), need) + 1
            fewest = min(max(fewest, int(enough)), spanned)
    return fewest


def _alignment(pool: NodeCandidates, takes: Seated) -> float:
    """The mean over members of the cosine between demand and the node's free vector before the member sat down."""
    axis, sat = pool.snapshot.axis, _sat(takes)
    free = {c: pool.free[c][sat] for c in scoring.compared(axis)}
    scores: list[NDArray[np.float64]] = []
    for batch, everywhere in zip(pool.batches, takes, strict=True):
        wanted = scoring.shape(axis, pool.scale, batch.demand)
        take = everywhere[sat]
        places = np.flatnonzero(take)
        times = take[places].astype(np.int64)
        repeated = np.repeat(places, times)
        nth = np.arange(len(repeated)) - np.repeat(np.cumsum(times) - times, times)
        before = [
            np.maximum(free[column][repeated] / pool.scale[column] - nth * want, 0)
            for column, want in zip(free, wanted, strict=True)
        ]
        scores.append(np.minimum(scoring.cosine(before, wanted), 1.0))
        free = {
            column: free[column] - take * want * pool.scale[column]
            for column, want in zip(free, wanted, strict=True)
        }
    every = np.concatenate(scores) if scores else np.zeros(0)
    return float(every.mean()) if len(every) else 0.0


def fragmentation(
    snapshot: Snapshot, demands: Iterable[Demand], masks: FeasibilityCache | None = None
) -> Mapping[str, float]:
    """By extended resource, 0 … 1: the share of its free units that the demands cannot use where they are.

    The mean, over those of the demands that ask for the resource, of its free units on nodes that cannot hold
    the demand, over all its free units.  0 where nothing is free or nobody asks.
    After the fragmentation measure of FGD (Weng et al., USENIX ATC '23), for whole devices.
    """
    masks = masks or FeasibilityCache()
    kept: dict[str, list[float]] = {name: [] for name in snapshot.axis.names if name not in NATIVE}
    for demand in demands:
        asked = [name for name, _ in demand.requests if name in kept]
        if not asked:
            continue
        room = counted(snapshot.free, snapshot.axis.index, demand)
        useless = ~((room > 0) & masks.of(snapshot, demand).open)
        for name in asked:
            free = np.maximum(snapshot.free[:, snapshot.axis.index[name]], 0)
            kept[name].append(float(free[useless].sum() / max(free.sum(), 1.0)))
    return {name: sum(shares) / len(shares) if shares else 0.0 for name, shares in kept.items()}
