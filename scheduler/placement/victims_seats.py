"""How many seats a gang of one demand finds in given room: counted, without placing anybody.

Lives here: the question that most gangs come down to (so many seats, in one domain or anywhere), and who of a set
of victims is not needed for it.
Never here: gangs whose members differ, or that must lie evenly (preempt_mixed).
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
    """What each kind of members of the quorum needs, were they alone; nobody sits when one of these fails.

    Empty when nobody could ever sit, because no node has a resource that is asked for.
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
    """Whoever has so many seats has room for the gang: its members are alike, and need not lie evenly."""
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


class Trimming:
    """A set of victims in one domain that suffices, from which one after the other is let go.

    It counts in the domain alone.  `excess` is how many seats more there are than are needed.
    """

    def __init__(self, standing: Standing, ask: Ask, inside: Mask, taken: Mask) -> None:
        """inside: bool[n], the nodes of the domain."""
        self._standing = standing
        self._ask = ask
        entries = standing.entries
        kept = taken[entries.owner] & inside[entries.row]
        self._owner, self._row = entries.owner[kept], entries.row[kept]
        self._use = entries.use[kept][:, ask.columns]
        self._room = standing.room(taken)[:, ask.columns]
        self._seats = np.where(inside, ask.seats(self._room), 0.0)
        self._alive = np.ones(len(self._owner), dtype=bool)
        self._after = np.zeros(len(self._owner))
        self._recount(np.arange(len(self._row)))
        self.taken = taken.copy()
        self.excess = float(self._seats.sum()) - ask.need

    def _recount(self, entries: NDArray[np.int64]) -> None:
        """How many seats the node of each of these entries keeps without it."""
        left = self._room[self._row[entries]] - self._use[entries]
        self._after[entries] = self._ask.seats(left)

    def losses(self) -> Counts:
        """Counts[u]: how many seats are lost when each unit stays after all."""
        weights = (self._seats[self._row] - self._after) * self._alive
        return np.bincount(self._owner, weights, len(self.taken)).astype(np.float64, copy=False)

    def spare(self, units: NDArray[np.int64]) -> None:
        """Let these stay, no two of whom stand on one node."""
        staying = np.zeros(len(self.taken), dtype=bool)
        staying[units] = True
        own = staying[self._owner] & self._alive
        rows = self._row[own]
        self._room[rows] -= self._use[own]
        before = self._seats[rows].sum()
        self._seats[rows] = self._ask.seats(self._room[rows])
        self.excess -= float(before - self._seats[rows].sum())
        self._alive &= ~own
        touched = np.zeros(len(self._seats), dtype=bool)
        touched[rows] = True
        self._recount(np.flatnonzero(self._alive & touched[self._row]))
        self.taken[units] = False

    def run(self, rank: Vector, *, per_seat: bool, kept: Mask) -> Mask:
        """Let go whoever is not needed, the largest rank first (per seat lost, or whatever the seats).

        rank: float64[u].  kept: bool[u], who is not to be looked at.
        """
        while True:
            losses = self.losses()
            free = self.taken & ~kept & (losses <= self.excess) & ~self._standing.forced(self.taken)
            units = np.flatnonzero(free)
            if not len(units):
                return self.taken
            weight = rank[units] / np.maximum(losses[units], 0.5) if per_seat else rank[units]
            line = units[np.argsort(-weight, kind="stable")]
            self.spare(self._apart(line, losses))

    def _apart(self, line: NDArray[np.int64], losses: Counts) -> NDArray[np.int64]:
        """The first of the line, and those behind him who stand on no node with anybody before them.

        Each by itself changes nothing for the others, so all may go at once as long as seats are left.
        """
        place = np.full(len(self.taken), len(line))
        place[line] = np.arange(len(line))
        mine = place[self._owner]
        first = np.full(len(self._seats), len(line))
        np.minimum.at(first, self._row[self._alive], mine[self._alive])
        beaten = self._alive & (mine > first[self._row])
        alone = np.ones(len(self.taken), dtype=bool)
        alone[self._owner[beaten]] = False
        chosen = line[alone[line]]
        upto = int(np.searchsorted(np.cumsum(losses[chosen]), self.excess, side="right"))
        return chosen[: max(upto, 1)]
