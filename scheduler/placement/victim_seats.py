"""How many seats a gang of one demand finds in given capacity: counted, without placing any pod.

Lives here: the question that most gangs reduce to (a number of seats, in one domain or anywhere), and which of a set
of victims are not needed for it.
Never here: gangs with members that differ or that must be spread evenly (victim_selection).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import NOWHERE, Mask, Matrix, Snapshot
from scheduler.model.resources import Vector, lacks
from scheduler.model.workload import Gang, Strategy, Uid
from scheduler.placement import planner
from scheduler.placement.distribution import MOST, Counts
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.node_candidates import total
from scheduler.placement.victims import Standing


@dataclass(frozen=True, slots=True)
class Ask:
    """A number of seats of one demand in one domain.

    columns: int64[c], the requested resources.  wants: float64[c], the amounts.  most: seats per node at most.
    domain: int64[n], the domain that a node counts for, -1 for none.
    """

    need: int
    columns: NDArray[np.int64]
    wants: Vector
    most: float
    domain: NDArray[np.int64]
    domains: int

    def within(self, inside: Mask) -> "Ask":
        """The same, limited to these nodes: bool[n], one domain."""
        return replace(self, domain=np.where(inside, 0, NOWHERE), domains=1)

    def seats(self, room: Matrix) -> Counts:
        """Counts[...]: seats in each row of room, float64[..., c] in the requested columns."""
        least: Counts = (room / self.wants).min(axis=-1, initial=self.most)
        return np.maximum(np.floor(least), 0.0)

    def found(self, room: Matrix) -> Counts:
        """Counts[d]: seats in each domain; room is float64[n, r]."""
        return total(self.domain, self.seats(room[:, self.columns]), self.domains)


def asks_of(
    snapshot: Snapshot, gang: Gang, allowed: Mapping[Uid, Mask] | None, masks: FeasibilityCache
) -> tuple[Ask, ...]:
    """What each kind of members of the quorum needs on its own. If one of these fails, the gang does not fit.

    Empty if no node has a requested resource.
    """
    asks: dict[tuple[object, ...], Ask] = {}
    ground, index = planner.as_is(snapshot, gang, masks), snapshot.axis.index
    domain, domains = np.zeros(len(snapshot.names), dtype=np.int64), 1
    if gang.required and gang.strategy is not Strategy.SPREAD:
        level = snapshot.topology.level(gang.level) or 0
        domain, domains = snapshot.topology.columns[level], len(snapshot.topology.domains[level])
    for batch in planner.batches_of_quorum(gang, allowed):
        demand, wanted = batch.demand, batch.demand.requests
        if lacks(index, wanted):
            return ()
        wanted = tuple(own for own in wanted if own[0] in index)
        kind = (
            demand,
            b"" if batch.allowed is None else batch.allowed.tobytes(),
            batch.neighbors,
            batch.labels,
        )
        known = asks.get(kind) or Ask(
            need=0,
            columns=np.array([index[name] for name, _ in wanted], dtype=np.int64),
            wants=np.array([float(amount) for _, amount in wanted]),
            most=1.0 if demand.ports or ground.alone(batch) else MOST,
            domain=np.where(ground.open_to(batch), domain, NOWHERE),
            domains=domains,
        )
        asks[kind] = replace(known, need=known.need + len(batch.uids))
    return tuple(asks.values())


def countable(gang: Gang, asks: tuple[Ask, ...]) -> bool:
    """Counting seats decides whether the gang fits: its members are alike, and are not spread evenly."""
    spread = any(role.neighbors.affinity or role.neighbors.spread for role in gang.roles)
    return len(asks) == 1 and not (spread or (gang.required and gang.strategy is Strategy.SPREAD))


def filled_back(
    standing: Standing, ask: Ask, taken: Mask, rank: Vector, *, kept: Mask, per_seat: bool
) -> Mask | None:
    """bool[u]: the set without the units that are not needed, the largest rank first. None: the set is not enough.

    rank: float64[u].  kept: bool[u], units that stay in the set.  per_seat: divide the rank by the seats lost.
    """
    inside = ask.domain != NOWHERE
    entries = standing.entries.of(taken[standing.entries.owner] & inside[standing.entries.row])
    owner, row, use = entries.owner, entries.row, entries.use[:, ask.columns]
    room = standing.room(taken)[:, ask.columns]
    seats = np.where(inside, ask.seats(room), 0.0)
    after = ask.seats(room[row] - use)  # of the node of each entry, if this unit were put back
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
        # Units that share no node do not affect each other, so they are put back together.
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
