"""Answers to waiting gangs that still hold after free capacity has changed, with the figures of the new capacity.

Lives here: the gangs for which counting is enough, and their answers by counts. An answer is the planner's, to the last
figure, or there is none: then the planner must be asked.
Never here: the counts (member_counts), or which gang is asked about (engine.equivalence).

Why counting is enough: a gang fits in no place where one of its demands has too few places on its own. The figures of a
rejection name the first demand, in the planner's order, that is short. If that demand is short on its own, or in every
domain at most one demand has any place, then its count is the figure. In the few domains where several demands have
places, the planner seats them, in these domains alone.
Not covered: host ports, rules about neighbors (also of placed pods), seated or excluded members, nominations, shared devices.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import numpy as np

from scheduler.model.cluster import Mask, Matrix, Snapshot
from scheduler.model.decision import Decision, Reason, Shortfall, Wait
from scheduler.model.workload import Gang, GangKey, Role, Strategy
from scheduler.placement.distribution import Counts, ascending, share
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.member_counts import CountedDemands, MemberCounts
from scheduler.placement.node_candidates import Batch, NodeCandidates, SeatingProblem
from scheduler.placement.node_changes import Rows
from scheduler.placement.packing import one_domain, tried
from scheduler.placement.planner import as_is, batches_of_quorum, shape_if_empty
from scheduler.placement.seating import describe

SHAPES_KEPT: Final = 16_384
"""Shapes whose answers are kept. Beyond that, all are forgotten and learned again."""

NODES_FOLLOWED: Final = 256
"""Changed nodes up to which answers are adapted."""

CONTESTED: Final = 2_000
"""Nodes in domains where several demands have places. With more, asking the planner costs as much."""

RESOURCES: Final = "resources"


@dataclass(slots=True, eq=False)
class Shape:
    """A gang that stands for all of its shape.

    roles: those with a quorum.  needs: by role, its quorum.  demands: by role, the number of its demand on the nodes where it may go.
    kept_for: by role, the number of its demand on the nodes that count for a reservation.
    texts: by role, its demand.  sizes: by role, the largest share of a node.
    eligible: bool[g], the domains over which a required spread must be even.  level: the column of a required level.
    if_empty: what decides whether an empty cluster could hold it.
    """

    gang: Gang
    roles: tuple[Role, ...]
    needs: tuple[int, ...]
    level: int | None
    demands: tuple[int, ...]
    kept_for: tuple[int, ...]
    texts: tuple[str, ...]
    sizes: tuple[float, ...]
    eligible: Mask | None
    if_empty: Hashable


@dataclass(slots=True, eq=False)
class Told:
    """The answers in one context: free capacity, or what a reservation leaves of it.

    stale: shapes with other counts since.  held_for: the gang of the reservation.
    """

    answers: dict[int, Wait] = field(default_factory=dict)
    stale: set[int] = field(default_factory=set)
    held_for: GangKey | None = None


class StandingAnswers:
    """The answers that hold in the newest snapshot, `snapshot`, by the number of the shape.

    When nodes change, an answer holds while seats in an empty cluster are known that these changes do not touch.
    """

    def __init__(self, snapshot: Snapshot, masks: FeasibilityCache) -> None:
        self.snapshot = snapshot
        self._masks: Final = masks
        self._scale = snapshot.scale
        self._demands: Final = CountedDemands(snapshot, masks)
        self._shapes: Final[dict[int, Shape]] = {}
        self._users: Final[dict[int, set[int]]] = {}
        """By demand, the shapes with it."""
        self._counts: Final = [MemberCounts(self._demands, snapshot.free)]
        """In what is free and, as soon as there is a reservation, in what it leaves of it."""
        self._told, self._told_behind = Told(), Told()
        self.labeled: Final[dict[int, Gang]] = {}
        """Shapes with labels that selectors read. Their answers hold if no placed pod keeps them away."""

    def __len__(self) -> int:
        return len(self._shapes)

    def follow(self, snapshot: Snapshot) -> bool:
        """Take the nodes of this snapshot, which is the newest. False: too much has changed, and nothing holds."""
        before = self.snapshot
        if before.nodes_version == snapshot.nodes_version:
            self.snapshot = self._demands.snapshot = snapshot  # with labels that nothing asked about before
            return True
        changes = self._masks.changes(before, snapshot)
        # 1. Sizes are shares of the largest node. For many nodes, asking again costs as much.
        axis, scale = snapshot.axis, snapshot.scale
        sizes = axis.moved(self._scale[np.newaxis], before.axis, scale)[0]
        comparable = before.axis.index.keys() <= axis.index.keys() and np.array_equal(sizes, scale)
        if changes is None or not comparable or len(changes.labels) > NODES_FOLLOWED:
            return False
        # 2. The counts move to the new rows and domains.
        demands = [demand for own in self._counts for demand in own.leave(changes)]
        self.snapshot, self._scale = snapshot, scale
        demands += self._demands.follow(snapshot, changes)
        for own in self._counts:
            own.enter(before, changes)
        # 3. A gang that might not fit even in an empty cluster gets another answer. A spread may have other domains.
        fits = self._masks.has_seats_if_empty
        for number, shape in list(self._shapes.items()):
            if shape.eligible is not None or not fits(snapshot, shape.if_empty):
                self._forget(number)
        stale = self._users_of(demands) | {n for n, own in self._shapes.items() if own.level is not None}
        self._told.stale |= stale
        self._told_behind.stale |= stale
        return True

    def _forget(self, number: int) -> None:
        shape = self._shapes.pop(number)
        for demand in {*shape.demands, *shape.kept_for}:
            self._users[demand].discard(number)
        for told in (self._told, self._told_behind):
            told.answers.pop(number, None)
            told.stale.discard(number)
        self.labeled.pop(number, None)

    def is_full(self, most: int = SHAPES_KEPT) -> bool:
        """It keeps no more shapes.  most: shapes that it should keep."""
        return self._demands.is_full or len(self) >= min(most, SHAPES_KEPT)

    def extend(self, most: int) -> bool:
        """Count so many new demands beforehand. Returns whether there are more."""
        return any(own.extend(most) for own in self._counts)

    # ── answers ─────────────────────────────────────────────────────────────────────────────────────────

    def free(self, snapshot: Snapshot, most: int | None = None) -> dict[int, Wait]:
        """The answers in this snapshot.  most: renew only so many of the `stale` ones."""
        self._count(snapshot.free)
        return self._known(snapshot, self._told, most, self._counts[0])

    def behind(
        self, snapshot: Snapshot, left: Matrix, held_for: GangKey, most: int | None = None
    ) -> dict[int, Wait]:
        """The answers to gangs that may use only what a reservation leaves, float64[n, r].

        held_for: the gang of the reservation.  most: as in `free`.
        """
        self._count(snapshot.free)
        seats = self._count_left(left)
        if held_for != self._told_behind.held_for:
            self._told_behind = Told(self._told_behind.answers, set(self._shapes), held_for)
        return self._known(snapshot, self._told_behind, most, seats, self._counts[0])

    def stale(self, *, behind: bool) -> int:
        """How many answers are of earlier capacity.  behind: those to gangs behind a reservation."""
        return len(self._told_behind.stale if behind else self._told.stale)

    def _known(
        self, snapshot: Snapshot, told: Told, most: int | None, *counts: MemberCounts
    ) -> dict[int, Wait]:
        for number in list(islice(told.stale, most)):
            found = self._answer(self._shapes[number], told.held_for, *counts)
            if found is None:
                told.answers.pop(number, None)
            elif found != told.answers.get(number):
                told.answers[number] = found
            told.stale.discard(number)
        above = max((own.priority for own in snapshot.nominations), default=None)
        if above is None:
            return dict(told.answers)
        return {n: own for n, own in told.answers.items() if self._shapes[n].gang.priority > above}

    def _count(self, free: Matrix) -> None:
        """Count in this matrix instead, and note the shapes with other counts."""
        changed = self._users_of(self._counts[0].follow(free))
        self._counts[0].extend()
        self._told.stale |= changed
        self._told_behind.stale |= changed

    def _count_left(self, left: Matrix) -> MemberCounts:
        if len(self._counts) == 1:
            self._counts.append(self._counts[0].copy())
        self._told_behind.stale |= self._users_of(self._counts[1].follow(left))
        self._counts[1].extend()
        return self._counts[1]

    def _users_of(self, demands: Iterable[int]) -> set[int]:
        return {number for demand in demands for number in self._users.get(demand, ())}

    # ── learning ────────────────────────────────────────────────────────────────────────────────────────

    def learn(
        self, number: int, gang: Gang, snapshot: Snapshot, kept: Matrix | None, decision: Decision
    ) -> None:
        """The planner's answer to a gang of this shape, in this snapshot of the same nodes.

        kept: float64[n, r], the free capacity with the reserved part, if the snapshot excludes that part.
        """
        if not isinstance(decision, Wait) or decision.shortfall is None or self.is_full():
            return
        nominated = any(own.priority >= gang.priority for own in snapshot.nominations)
        if nominated or snapshot.neighbors is not None or snapshot.devices is not None:
            return
        shape = self._shapes.get(number) or self._shape(gang, snapshot)
        if shape is None:
            return
        self._count(snapshot.free if kept is None else kept)
        counts = self._counts[:1] if kept is None else [self._count_left(snapshot.free), self._counts[0]]
        if self._answer(shape, decision.held_for, *counts) != decision:
            return
        self._shapes[number] = shape
        if any(role.labels is not None for role in gang.roles):
            self.labeled[number] = gang
        for demand in (*shape.demands, *shape.kept_for):
            self._users.setdefault(demand, set()).add(number)
        self._told.stale.add(number)
        self._told_behind.stale.add(number)

    def _shape(self, gang: Gang, snapshot: Snapshot) -> Shape | None:
        bare = not any(role.neighbors or role.demand.ports for role in gang.roles)
        if not bare or not gang.quorum or gang.anchors or gang.barred:
            return None
        level = snapshot.topology.level(gang.level) if gang.required else None
        roles = tuple(role for role in gang.roles if role.quorum)
        spreads = gang.required and gang.strategy is Strategy.SPREAD
        index, scale = snapshot.axis.index, self._scale
        if any(name not in index for role in roles for name, _ in role.demand.requests):
            return None
        demands, kept_for = (
            tuple(self._demands.number(role.demand, by) for role in roles)
            for by in (level, None if spreads else level)
        )
        return Shape(
            gang,
            roles,
            tuple(len(role.quorum) for role in roles),
            level,
            demands,
            kept_for,
            tuple(describe(role.demand) for role in roles),
            tuple(
                max((want / scale[index[n]] for n, want in own.demand.requests), default=0.0) for own in roles
            ),
            self._eligible(gang, snapshot, level) if spreads and level is not None else None,
            shape_if_empty(gang),
        )

    def _eligible(self, gang: Gang, snapshot: Snapshot, level: int) -> Mask:
        batches = [
            *batches_of_quorum(gang, None),
            *(Batch(r.demand, r.surplus) for r in gang.roles if r.surplus),
        ]
        nodes = as_is(snapshot, gang, self._masks).eligible(batches)
        out = np.zeros(len(snapshot.topology.domains[level]) + 1, dtype=bool)
        out[self._demands.codes(level)[nodes]] = True
        return out[:-1]

    # ── one answer ──────────────────────────────────────────────────────────────────────────────────────

    def _answer(
        self, shape: Shape, held_for: GangKey | None, seats: MemberCounts, kept: MemberCounts | None = None
    ) -> Wait | None:
        """The planner's answer. None: the gang may fit, or counting does not give the figures.

        kept: the counts of all that is free, if the gang may use only a part of it.
        """
        short = self._short(shape, seats)
        if short is None:
            return None
        role, best, domain = short
        demand = shape.demands[role]
        closed, resources = (
            self._demands.closed(demand),
            self._demands.open(demand) - int(seats.nodes[demand]),
        )
        closed |= {RESOURCES: resources} if resources else {}
        own = Shortfall(shape.needs[role], shape.texts[role], shape.gang.level, domain, best, closed)
        if kept is not None and self._could_hold(shape, kept):
            return Wait(Reason.CAPACITY_RESERVED, own, held_for=held_for)
        required = shape.gang.required
        return Wait(Reason.TOPOLOGY_UNSATISFIED if required else Reason.INSUFFICIENT_RESOURCES, own)

    def _could_hold(self, shape: Shape, kept: MemberCounts) -> bool:
        """See `reservation.could_hold`."""
        for role, demand in enumerate(shape.kept_for):
            sums = kept.domains.get(demand)
            most = kept.total[demand] if sums is None else sums.max(initial=0)
            if most < shape.needs[role]:
                return False
        return True

    def _short(self, shape: Shape, seats: MemberCounts) -> tuple[int, int, str] | None:
        """The role that is short, how many members of it fit, and in which domain; see `seating.shortfall`.

        None: the gang may fit, or counting does not tell.
        """
        order = [0]
        if len(shape.roles) > 1:
            sizes, nodes, demands = shape.sizes, seats.nodes, shape.demands
            order = sorted(range(len(sizes)), key=lambda role: (-sizes[role], nodes[demands[role]]))
        if shape.level is None:
            first = order[0]
            best = int(seats.total[shape.demands[first]])
            return (first, best, "") if best < shape.needs[first] else None
        if shape.eligible is not None:
            return self._uneven(shape, order, seats)
        return self._in_one_domain(shape, order, shape.level, seats)

    def _uneven(self, shape: Shape, order: list[int], seats: MemberCounts) -> tuple[int, int, str] | None:
        """For a required spread. The gang may fit if no role is short on its own."""
        first, eligible = order[0], shape.eligible
        room, need = seats.domains[shape.demands[first]], shape.needs[first]
        least = room[eligible].min() + 1 if eligible is not None and eligible.any() else np.inf
        if all(seats.total[demand] >= own for demand, own in zip(shape.demands, shape.needs, strict=True)):
            given = share(np.zeros(len(room)), room, need)
            low = given[eligible].min(initial=np.inf)
            if len(order) > 1 or given.max(initial=0.0) <= low + 1:
                return None
        found = min(need, int(np.minimum(room, least).sum()))
        return (first, found, "") if found < need else None

    def _in_one_domain(
        self, shape: Shape, order: list[int], level: int, seats: MemberCounts
    ) -> tuple[int, int, str] | None:
        """For a required level: the domain in which most of the members have places."""
        needs = shape.needs
        seated = np.array([seats.domains[demand] for demand in shape.demands])
        np.minimum(seated, np.array(needs, dtype=float)[:, None], out=seated)
        if (seated == np.array(needs)[:, None]).all(axis=0).any():
            return None
        contested = np.count_nonzero(seated, axis=0) > 1
        if contested.any():
            places = np.flatnonzero(np.append(contested, False)[self._demands.codes(level)])
            if len(places) > CONTESTED:
                return None
            seated[:, contested] = self._seated(shape, order, level, places, seats.free)[:, contested]
        group = int(seated.sum(axis=0).argmax())
        role = next((own for own in order if seated[own, group] < needs[own]), order[-1])
        best = int(seated[role, group])
        return role, best, self.snapshot.topology.domains[level][group] if best else ""

    def _seated(self, shape: Shape, order: Iterable[int], level: int, rows: Rows, free: Matrix) -> Counts:
        """Counts[b, g]: the members of each role that the planner seats in each domain with these rows, int64[k]."""
        snapshot, axis = self.snapshot, self.snapshot.axis
        scale, kinds = self._scale, axis.devices
        by_kind = [free[rows, column] for column in kinds]
        devices = sum((own / scale[c] for c, own in zip(kinds, by_kind, strict=True)), np.zeros(len(rows)))
        by = ascending(by_kind[0] if len(by_kind) == 1 else devices)
        rows = rows[by]
        here = np.ascontiguousarray(free[rows].T)
        pool = NodeCandidates(
            snapshot,
            tuple(Batch(role.demand, role.quorum) for role in shape.roles),
            rows,
            here,
            devices[by],
            asks=False,
            share=np.zeros(len(rows)),
            scale=scale,
            units=tuple(self._demands.on_rows(demand, rows, here.T) for demand in shape.demands),
            coords=snapshot.topology.columns.take(rows, axis=1),
            requests=tuple(
                tuple((axis.index[name], wanted) for name, wanted in role.demand.requests)
                for role in shape.roles
            ),
            apart=np.zeros((len(shape.roles), len(shape.roles)), dtype=bool),
        )
        domains = pool.domains(level)
        task = SeatingProblem(
            pool=pool,
            quorum=len(shape.roles),
            strategy=shape.gang.strategy,
            required=True,
            level=level,
            codes=self._demands.codes(level)[rows],
            domains=domains,
            have=np.zeros(domains),
            eligible=np.zeros(domains, dtype=bool),
        )
        return tried(task, one_domain(task), tuple(order)).seated
