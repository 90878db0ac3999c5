"""How many seats a gang of one demand finds in given room: counted, without placing any pod.

Lives here: the question that most gangs come down to (so many seats, in one domain or anywhere), and which of a set
of victims are not needed for it.
Never here: gangs whose members differ, or that must lie evenly (victim_selection).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import NOWHERE, Mask, Matrix, Snapshot
from scheduler.model.demand import Demand
from scheduler.model.resources import Vector
from scheduler.model.workload import Gang, Strategy, Uid
from scheduler.placement import feasibility
from scheduler.placement.distribution import MOST, Counts
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.node_candidates import Batch, batches, total
from scheduler.placement.victims import Standing


@dataclass(frozen=True, slots=True)
class Ask:
    """So many seats of one demand in one domain.

    columns: int64[c], the resources asked for.  wants: float64[c], of each.  most: seats that one node may give.
    domain: int64[n], where a node counts, -1 for nowhere.
    """

    need: int
    columns: NDArray[np.int64]
    wants: Vector
    most: float
    domain: NDArray[np.int64]
    domains: int

    def within(self, inside: Mask) -> "Ask":
        """The same, asked of these nodes only: bool[n], one domain."""
        return replace(self, domain=np.where(inside, 0, NOWHERE), domains=1)

    def seats(self, room: Matrix) -> Counts:
        """Counts[...]: seats in each row of room, float64[..., c] in the columns asked for."""
        counts = np.full(room.shape[:-1], self.most)
        for place, wanted in enumerate(self.wants):
            np.minimum(counts, np.floor(room[..., place] / wanted), out=counts)
        np.maximum(counts, 0.0, out=counts)
        return counts

    def found(self, room: Matrix) -> Counts:
        """Counts[d]: seats in each domain; room is float64[n, r]."""
        return total(self.domain, self.seats(room[:, self.columns]), self.domains)


def asks_of(
    snapshot: Snapshot, gang: Gang, allowed: Mapping[Uid, Mask] | None, masks: FeasibilityCache
) -> tuple[Ask, ...]:
    """What each kind of members of the quorum needs, were they alone; the gang has no seats when one of these fails.

    Empty when no node has a resource that is asked for.
    """
    asks: dict[tuple[Demand, bytes], Ask] = {}
    domain, domains = _domains(snapshot, gang)
    for role in gang.roles:
        for batch in batches(role.demand, role.quorum, allowed):
            if any(name not in snapshot.axis.index for name, _ in batch.demand.requests):
                return ()
            kind = (batch.demand, b"" if batch.allowed is None else batch.allowed.tobytes())
            known = asks.get(kind)
            new = known or _ask(snapshot, gang, batch, masks, domain, domains)
            asks[kind] = replace(new, need=len(batch.uids) + (known.need if known else 0))
    return tuple(asks.values())


def countable(gang: Gang, asks: tuple[Ask, ...]) -> bool:
    """So many seats are room for the gang: its members are alike, and need not lie evenly."""
    return len(asks) == 1 and not (gang.required and gang.strategy is Strategy.SPREAD)


def _ask(
    snapshot: Snapshot,
    gang: Gang,
    batch: Batch,
    masks: FeasibilityCache,
    domain: NDArray[np.int64],
    domains: int,
) -> Ask:
    index, wanted = snapshot.axis.index, batch.demand.requests
    return Ask(
        need=len(batch.uids),
        columns=np.array([index[name] for name, _ in wanted], dtype=np.int64),
        wants=np.array([float(amount) for _, amount in wanted]),
        most=1.0 if batch.demand.ports else MOST,
        domain=np.where(open_to(snapshot, gang, batch, masks), domain, NOWHERE),
        domains=domains,
    )


def open_to(snapshot: Snapshot, gang: Gang, batch: Batch, masks: FeasibilityCache) -> Mask:
    """bool[n]: nodes that may hold these members of the gang, whatever room they have."""
    demand, allowed = batch.demand, batch.allowed
    out = masks.of(snapshot, demand).open.copy()
    out[[snapshot.index[name] for name in gang.barred if name in snapshot.index]] = False
    taken = feasibility.ports_taken(snapshot, demand) if demand.ports else None
    if taken is not None:
        out &= ~taken
    return out if allowed is None else out & allowed


def _domains(snapshot: Snapshot, gang: Gang) -> tuple[NDArray[np.int64], int]:
    """The domains in one of which a required gang must lie; everything is one where it need not lie in one."""
    if not gang.required:
        return np.zeros(len(snapshot.names), dtype=np.int64), 1
    level = snapshot.topology.level(gang.level) or 0
    codes = snapshot.topology.columns[level]
    if gang.strategy is Strategy.SPREAD:
        return np.where(codes == NOWHERE, NOWHERE, 0), 1
    core = np.unique(codes[[snapshot.index[name] for name in gang.anchors if name in snapshot.index]])
    core = core[core != NOWHERE]
    if len(core):
        codes = np.where(np.isin(codes, core), codes, NOWHERE)
    return codes, len(snapshot.topology.domains[level])


def filled_back(
    standing: Standing, ask: Ask, taken: Mask, rank: Vector, *, kept: Mask, per_seat: bool
) -> Mask | None:
    """bool[u]: the set less the units that are not needed, the largest rank first; None where it does not suffice.

    rank: float64[u].  kept: bool[u], units that stay in the set.  per_seat: the rank is divided by the seats that are lost.
    """
    inside = ask.domain != NOWHERE
    entries = standing.entries.of(taken[standing.entries.owner] & inside[standing.entries.row])
    owner, row, use = entries.owner, entries.row, entries.use[:, ask.columns]
    room = standing.room(taken)[:, ask.columns]
    seats = np.where(inside, ask.seats(room), 0.0)
    after = ask.seats(room[row] - use)  # of the node of each entry, were this unit put back
    excess = float(seats.sum()) - ask.need
    if excess < 0:
        return None
    taken, first = taken.copy(), np.searchsorted(owner, np.arange(len(taken) + 1)).tolist()
    while True:
        losses = np.bincount(owner, seats[row] - after, len(taken))
        units = np.flatnonzero(taken & ~kept & (losses <= excess) & ~standing.forced(taken))
        if not len(units):
            return taken
        weight = rank[units] / np.maximum(losses[units], 0.5) if per_seat else rank[units]
        # Units that share no node change nothing for each other: they are put back at once.
        touched, back = np.zeros(len(seats), dtype=bool), np.zeros_like(taken)
        for unit in units[np.argsort(-weight, kind="stable")].tolist():
            rows = row[first[unit] : first[unit + 1]]
            if losses[unit] <= excess and not touched[rows].any():
                touched[rows], back[unit] = True, True
                excess -= float(losses[unit])
        taken &= ~back
        own = back[owner]
        room[row[own]] -= use[own]
        seats[row[own]] = after[own]
        near = touched[row]
        left = ask.seats(room[row[near]] - use[near])
        after[near] = np.where(taken[owner[near]], left, seats[row[near]])
