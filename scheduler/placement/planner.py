"""The entry point of the planner: where does this gang go, which nodes suit this pod, how near is a fit.

Lives here: the order of the checks, and the answer to each.
Never here: state.  A caller may keep a `FeasibilityCache` and pass it in, which changes no answer.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from scheduler.model.admission import CORDON, label_keys
from scheduler.model.cluster import NOWHERE, Mask, Matrix, Snapshot
from scheduler.model.decision import Decision, Place, Reason, Refuse, Shortfall, Wait
from scheduler.model.demand import NO_NODES
from scheduler.model.policy import Policy
from scheduler.model.workload import Gang, Strategy, Uid
from scheduler.placement import feasibility, scoring
from scheduler.placement.feasibility import EmptySeats, FeasibilityCache
from scheduler.placement.member_order import COMPLETE
from scheduler.placement.neighbor_rules import NeighborRules, preference, rules_of
from scheduler.placement.node_candidates import (
    Batch,
    NodeCandidates,
    Scratch,
    SeatingProblem,
    batches,
    counted,
    gather,
    task_of,
    total,
)
from scheduler.placement.node_changes import Rows
from scheduler.placement.scoring import quality
from scheduler.placement.seating import blocked, describe, seat, seat_surplus, shortfall, unknown

_LEVEL_FIELD: Final = "gangwright.io/level"


@dataclass(frozen=True, slots=True)
class Ground:
    """A cluster to plan in: the real one, or the same without any pods.

    free: float64[n, r].  anchors: nodes of members that are already seated.  rules: about the pods around members.
    """

    snapshot: Snapshot
    gang: Gang
    masks: FeasibilityCache
    empty: bool
    free: Matrix
    anchors: tuple[int, ...]
    rules: NeighborRules | None

    @classmethod
    def of(
        cls, snapshot: Snapshot, gang: Gang, masks: FeasibilityCache, *, empty: bool, anchors: tuple[int, ...]
    ) -> Self:
        free = snapshot.capacity if empty else feasibility.free_for(snapshot, gang.priority)
        rules = rules_of(snapshot, gang, free, masks, empty=empty)
        return cls(snapshot, gang, masks, empty, free, anchors, rules)

    def obstacles(self, batch: Batch) -> dict[str, Mask]:
        """By kind bool[n]: the nodes that are excluded for this batch, regardless of free capacity."""
        found = dict(self.masks.of(self.snapshot, batch.demand).obstacles)
        if self.empty:
            found.pop(CORDON, None)
        return found | self._of_gang(batch)

    def _of_gang(self, batch: Batch) -> dict[str, Mask]:
        """By kind bool[n]: the nodes that are excluded for these members, but not for every pod of their demand."""
        found = {}
        if self.gang.barred and not self.empty:
            found["excluded"] = self.snapshot.named(self.gang.barred)
        if batch.allowed is not None and not self.empty:
            found["candidates"] = ~batch.allowed
        taken = None if self.empty else feasibility.ports_taken(self.snapshot, batch.demand)
        if taken is not None:
            found["ports"] = taken
        if self.rules is not None:
            found |= self.rules.closed(self.rules.number(batch.neighbors, batch.labels))
        if self.gang.required:
            found["level"] = ~self._in_level()
        return found

    def alone(self, batch: Batch) -> bool:
        """No two members of this batch may share a node, by their rules about neighbors."""
        if self.rules is None:
            return False
        kind = self.rules.number(batch.neighbors, batch.labels)
        return self.rules.keeps_apart(kind, kind)

    def _in_level(self) -> Mask:
        """bool[n]: nodes in a domain of the required level. With seated members, only their domains count."""
        codes = self.snapshot.topology.columns[self.snapshot.topology.level(self.gang.level) or 0]
        core = np.unique(codes[list(self.anchors)]) if self.anchors else codes[:0]
        core = core[core != NOWHERE]
        around_core = len(core) and self.gang.strategy is not Strategy.SPREAD
        inside: Mask = np.isin(codes, core) if around_core else codes != NOWHERE
        return inside

    def open_to(self, batch: Batch) -> Mask:
        """bool[n]: nodes without an obstacle."""
        where = self.masks.of(self.snapshot, batch.demand)
        out = where.matches if self.empty else where.open
        for mask in self._of_gang(batch).values():
            out = out & ~mask
        return out

    def eligible(self, members: list[Batch]) -> Mask:
        """bool[n]: nodes that could hold a member if empty. A required spread must be even over them."""
        out = np.zeros(len(self.snapshot.names), dtype=bool)
        if self.gang.strategy is not Strategy.SPREAD or not self.gang.required:
            return out
        barred = self.snapshot.named(self.gang.barred)
        for demand in {batch.demand: None for batch in members}:
            where = self.masks.of(self.snapshot, demand)
            room = counted(
                self.snapshot.capacity, self.snapshot.axis.index, demand, self.snapshot.idle_devices
            )
            out |= (where.matches if self.empty else where.open & ~barred) & (room > 0)
        return out

    def task(self, quorum: list[Batch], surplus: list[Batch]) -> SeatingProblem:
        """The problem of seating these batches in this cluster."""
        members = [*quorum, *surplus]
        pool = gather(
            self.snapshot,
            self.free,
            [(batch, self.open_to(batch)) for batch in members],
            self.masks.flavors(self.snapshot),
            self.rules,
            preference(self.snapshot, self.gang, self.free),
        )
        return task_of(self.snapshot, self.gang, pool, len(quorum), self.eligible(members), self.anchors)


def batches_of_quorum(gang: Gang, allowed: Mapping[Uid, Mask] | None) -> list[Batch]:
    """The members of the quorum, which are seated all together or not at all."""
    return [batch for role in gang.roles for batch in batches(role, role.quorum, allowed)]


def as_is(snapshot: Snapshot, gang: Gang, masks: FeasibilityCache) -> Ground:
    """The real cluster."""
    anchors = tuple(snapshot.index[name] for name in gang.anchors if name in snapshot.index)
    return Ground.of(snapshot, gang, masks, empty=False, anchors=anchors)


def decide(
    snapshot: Snapshot,
    gang: Gang,
    policy: Policy,
    allowed: Mapping[Uid, Mask] | None = None,
    masks: FeasibilityCache | None = None,
) -> Decision:
    """Seats for the whole quorum and then for the surplus, or the reason why none were found.

    allowed: by member bool[n], the only nodes that it may get. Members not listed may go anywhere.
    masks: the cache of earlier calls with snapshots of the same ledger.
    The same arguments give the same decision.
    """
    masks = masks or FeasibilityCache()
    refused = _unknown_level(snapshot, gang, policy)
    if refused is not None:
        return refused
    quorum = batches_of_quorum(gang, allowed)
    surplus = [b for role in gang.roles for b in batches(role, role.surplus, allowed)]
    if quorum and not snapshot.names:
        text = describe(quorum[0].demand)
        short = Shortfall(len(quorum[0].uids), text, gang.level, "", 0, {NO_NODES: 0})
        return Wait(Reason.EXCEEDS_CLUSTER, short)
    ground = as_is(snapshot, gang, masks)
    excluded = next((b for b in quorum if not masks.of(snapshot, b.demand).matches.any()), None)
    if excluded is not None:
        text, stands = describe(excluded.demand), _blocked(ground, excluded)
        return Wait(Reason.NO_MATCHING_NODES, Shortfall(len(excluded.uids), text, gang.level, "", 0, stands))
    task = ground.task(quorum, surplus)
    scratch = seat(task)
    if scratch is None:
        return _wait(ground, task)
    seat_surplus(task, scratch)
    return _place(task, scratch, masks)


def nearest(
    snapshot: Snapshot,
    gang: Gang,
    policy: Policy,
    allowed: Mapping[Uid, Mask] | None = None,
    masks: FeasibilityCache | None = None,
) -> tuple[Shortfall, ...]:
    """For each level with labeled nodes, finest first: the domain that fits most of the quorum, and how many members.

    Levels with a domain that fits the whole quorum are left out. The result is empty for a gang that is spread.
    """
    quorum = batches_of_quorum(gang, allowed)
    if gang.strategy is Strategy.SPREAD or not quorum or _unknown_level(snapshot, gang, policy) is not None:
        return ()
    masks, topology = masks or FeasibilityCache(), snapshot.topology
    found = []
    for level, known in zip(topology.levels, topology.known, strict=True):
        ground = as_is(snapshot, replace(gang, level=level.name, required=True), masks)
        task = ground.task(quorum, []) if known else None
        if task is not None and seat(task) is None:
            found.append(shortfall(task, ground.gang)[1])
    return tuple(found)


def _unknown_level(snapshot: Snapshot, gang: Gang, policy: Policy) -> Refuse | None:
    column = snapshot.topology.level(gang.level)
    if column is None:
        names = ", ".join(level.name for level in policy.levels)
        return Refuse(
            Reason.UNKNOWN_LEVEL, _LEVEL_FIELD, gang.level, f"use one of the configured levels: {names}"
        )
    topology = snapshot.topology
    if not gang.required or topology.known[column] or not snapshot.names:
        return None
    names = ", ".join(
        level.name for level, known in zip(topology.levels, topology.known, strict=True) if known
    )
    remedy = f"label nodes with {topology.levels[column].label}, make the level preferred, or use one of: {names or 'none'}"
    return Refuse(Reason.UNKNOWN_LEVEL, _LEVEL_FIELD, gang.level, remedy)


def _blocked(ground: Ground, batch: Batch) -> dict[str, int]:
    snapshot = ground.snapshot
    room = counted(ground.free, snapshot.axis.index, batch.demand, snapshot.devices) > 0
    return blocked(ground.obstacles(batch) | unknown(snapshot, batch.demand), room)


def _refusal(reason: Reason, ground: Ground, task: SeatingProblem) -> Wait:
    batch, short = shortfall(task, ground.gang)
    rules = () if ground.rules is None else ground.rules.words()
    return Wait(reason, replace(short, blocked=_blocked(ground, task.pool.batches[batch]), rules=rules))


def _wait(ground: Ground, task: SeatingProblem) -> Wait:
    """Why the quorum could not be seated. The empty cluster is checked first: if it does not fit there, waiting is futile."""
    snapshot, gang, masks = ground.snapshot, ground.gang, ground.masks
    easier = Strategy.SPREAD if gang.strategy is Strategy.SPREAD else Strategy.PACK
    quorum = batches_of_quorum(gang, None)

    def ask() -> Wait | EmptySeats | None:
        idle = replace(snapshot, devices=snapshot.idle_devices)
        emptied = Ground.of(idle, replace(gang, strategy=easier), masks, empty=True, anchors=())
        rows = _places(emptied, quorum)
        if rows is None:
            hope = emptied.task(quorum, [])
            if hope.pool.rules is not None and hope.pool.rules.ordered and len(hope.pool) > COMPLETE:
                return None  # the search may have missed seats, so this must not be final
            scratch = seat(hope)
            if scratch is None:
                return _refusal(Reason.EXCEEDS_CLUSTER, emptied, hope)
            rows = hope.pool.rows[np.any(scratch.takes, axis=0)]
        return _seats(emptied, rows)

    in_vain = masks.in_vain(snapshot, shape_if_empty(gang), ask)
    reason = Reason.TOPOLOGY_UNSATISFIED if gang.required else Reason.INSUFFICIENT_RESOURCES
    return in_vain or _refusal(reason, ground, task)


def shape_if_empty(gang: Gang) -> Hashable:
    """What decides whether this gang could be seated in an empty cluster."""
    easier = Strategy.SPREAD if gang.strategy is Strategy.SPREAD else Strategy.PACK
    quorum = batches_of_quorum(gang, None)
    sizes = tuple((batch.demand, batch.neighbors, batch.labels, len(batch.uids)) for batch in quorum)
    return sizes, easier, gang.level, gang.required


def _places(ground: Ground, quorum: list[Batch]) -> Rows | None:
    """int64[k]: nodes with enough places for these batches, each on nodes of its own, so that they can be seated.

    None: they cannot be seated, or numbers don't tell. Equally good nodes differ from quorum to quorum, so that a change
    of one node concerns few of them.
    """
    snapshot, gang = ground.snapshot, ground.gang
    if ground.rules is not None or (gang.required and gang.strategy is Strategy.SPREAD):
        return None
    needs = [len(batch.uids) for batch in quorum]
    units = [
        counted(ground.free, snapshot.axis.index, batch.demand, snapshot.devices) * ground.open_to(batch)
        for batch in quorum
    ]
    first = crc32(repr([batch.demand for batch in quorum]).encode())
    if gang.required:
        level = snapshot.topology.level(gang.level) or 0
        codes, domains = snapshot.topology.columns[level], len(snapshot.topology.domains[level])
        enough = [total(codes, own, domains) >= need for own, need in zip(units, needs, strict=True)]
        fitting = np.flatnonzero(np.all(enough, axis=0))
        if not len(fitting):
            return None
        units = [own * (codes == fitting[first % len(fitting)]) for own in units]
    line, taken = np.roll(np.arange(len(snapshot.names)), first), np.zeros(len(snapshot.names), dtype=bool)
    for own, need in zip(units, needs, strict=True):
        rows = line[(own > 0)[line] & ~taken[line]]
        last = int(np.searchsorted(np.cumsum(own[rows]), need))
        if last == len(rows):
            return None
        taken[rows[: last + 1]] = True
    return np.flatnonzero(taken)


def _seats(ground: Ground, rows: Rows) -> EmptySeats | None:
    """The seats on these nodes. None: they depend on other nodes too, or on single devices."""
    gang, snapshot = ground.gang, ground.snapshot
    spreads = gang.required and gang.strategy is Strategy.SPREAD
    if spreads or ground.rules is not None or snapshot.devices is not None:
        return None
    levels = snapshot.topology.levels[snapshot.topology.level(gang.level) or 0 :] if gang.required else ()
    labels = {key for role in gang.roles for key in label_keys(role.demand)} | {own.label for own in levels}
    return EmptySeats(frozenset(snapshot.names[row] for row in rows.tolist()), frozenset(labels))


def _place(task: SeatingProblem, scratch: Scratch, masks: FeasibilityCache) -> Place:
    seats: dict[Uid, str] = {}
    unseated: list[Uid] = []
    for batch, take in zip(task.pool.batches, scratch.takes, strict=True):
        nodes = _in_line(task.pool, take)
        seats.update(zip(batch.uids, nodes, strict=False))
        unseated.extend(batch.uids[len(nodes) :])
    if scratch.in_order is not None:
        seats = _in_turn(task.pool, scratch.in_order.sequence, seats)
    return Place(seats, tuple(unseated), quality(task.pool, scratch.takes, masks))


def _in_line(pool: NodeCandidates, take: NDArray[np.float64]) -> list[str]:
    """One node name per seat, with nearby nodes next to each other, so that adjacent members are placed close together."""
    places = np.flatnonzero(take)
    line = places[np.lexsort([pool.rows[places], *pool.coords[:, places]])]
    names = pool.snapshot.names
    return [names[row] for row in np.repeat(pool.rows[line], take[line].astype(np.int64)).tolist()]


def _in_turn(
    pool: NodeCandidates, sequence: Iterable[tuple[int, int]], seats: Mapping[Uid, str]
) -> dict[Uid, str]:
    """The same seats in the order in which they were taken: kube-scheduler accepts the members in this order."""
    waiting: dict[tuple[int, str], deque[Uid]] = {}
    for number, batch in enumerate(pool.batches):
        for uid in batch.uids:
            if uid in seats:
                waiting.setdefault((number, seats[uid]), deque()).append(uid)
    names = pool.snapshot.names
    keys = [(batch, names[pool.rows[place]]) for batch, place in sequence]
    return {waiting[key].popleft(): key[1] for key in keys}


def rank(
    snapshot: Snapshot, gang: Gang, policy: Policy, candidates: Mask, masks: FeasibilityCache | None = None
) -> tuple[Mask, NDArray[np.float64]]:
    """For a gang of one: bool[n], the candidates that can hold it now, and a score 0 … 1 for each of them.

    The best has 1, and the others are distributed evenly below by the gang's strategy. Nodes that cannot hold it have 0.
    For a larger gang, the first member is used. A level that is not configured leaves no candidate.
    """
    fits = np.zeros(len(snapshot.names), dtype=bool)
    role = next((role for role in gang.roles if role.quorum or role.surplus), None)
    if role is None or _unknown_level(snapshot, gang, policy) is not None:
        return fits, np.zeros(len(fits))
    ground = as_is(snapshot, gang, masks or FeasibilityCache())
    task = ground.task([Batch(role.demand, (Uid(""),), candidates, role.neighbors, role.labels)], [])
    if task.pool.rules is not None:
        state = task.pool.rules.at(task.pool.rows)
        task.pool.units[0][~state.open(task.pool.kinds[0])] = 0.0
    fits[task.pool.rows[task.pool.units[0] > 0]] = True
    return fits, scoring.spread_out(task.pool.rows, scoring.ranking(task), len(fits))
