"""The common input of all scenarios of one forecast: capacity, the shapes of waiting gangs, and the running gangs.

Lives here: gangs with the same answer, gangs that never fit, how many members of each demand every node holds (updated
row by row), and the namespaces' usage against their ceilings. Never here: time (simulation), or a binding choice.

Why not the planner for everything: a forecast seats a hundred gangs in a dozen scenarios. A plain gang (one demand,
packed, no level required) fits exactly if enough of its members fit, so counting decides at a twentieth of the cost of
a planner decision. Its seats resemble the planner's: the snuggest host, otherwise the roomiest ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Matrix, Snapshot
from scheduler.model.decision import Place
from scheduler.model.demand import Demand
from scheduler.model.policy import Policy
from scheduler.model.queueing import Stay, Usage, Waiting
from scheduler.model.resources import ResourceAxis, Vector, lacks
from scheduler.model.workload import Gang, Strategy
from scheduler.placement import planner
from scheduler.placement.distribution import MOST, Counts
from scheduler.placement.feasibility import FeasibilityCache, free_for
from scheduler.placement.node_candidates import held
from scheduler.placement.reservation import leaves


class Ceilings:
    """Usage of the namespaces that have a ceiling. The name "" stands for all others.

    A ceiling on a resource that no node has does not count, because a gang that requests it fits nowhere anyway.
    """

    def __init__(self, axis: ResourceAxis, usages: Mapping[str, Usage]) -> None:
        limited = {name: own for name, own in usages.items() if own.share.ceiling}
        self._most: Final = {
            name: _row(axis, dict(own.share.ceiling), np.inf) for name, own in limited.items()
        }
        self._used: Final = {name: _row(axis, own.used, 0.0) for name, own in limited.items()}

    def copy(self) -> "Ceilings":
        """The same sums, for another scenario."""
        other = Ceilings(ResourceAxis(), {})
        other._most.update(self._most)
        other._used.update(self._used)
        return other

    def of(self, namespace: str) -> str:
        """The namespace if it has a ceiling, otherwise ""."""
        return namespace if namespace in self._most else ""

    def put(self, namespace: str, uses: Matrix) -> None:
        """Add to the usage of this namespace.  uses: float64[k, r]."""
        if namespace in self._used:
            self._used[namespace] = self._used[namespace] + uses.sum(axis=0)

    def take(self, namespace: str, uses: Matrix) -> None:
        """Subtract from the usage of this namespace.  uses: float64[k, r]."""
        self.put(namespace, -uses)

    def is_passed(self, namespace: str, needs: Vector) -> bool:
        """A quorum with these needs, float64[r], would take the namespace above its ceiling."""
        if namespace not in self._most:
            return False
        above = self._used[namespace] + needs > self._most[namespace]
        return bool((above & (needs > 0)).any())


def _row(axis: ResourceAxis, amounts: Mapping[str, float], otherwise: float) -> Vector:
    return np.array([amounts.get(name, otherwise) for name in axis.names], dtype=np.float64)


Rows = NDArray[np.int64]


def is_plain(gang: Gang) -> bool:
    """Counting alone decides whether this gang fits."""
    roles = [role for role in gang.roles if role.quorum or role.surplus]
    simple = len(roles) == 1 and not roles[0].surplus and not roles[0].demand.ports and not roles[0].neighbors
    free = not (gang.required or gang.anchors or gang.barred)
    return simple and free and gang.strategy is Strategy.PACK


class Demands:
    """The distinct demands of a queue, as a matrix.

    wants: float64[d, r].  open: bool[d, n], where each may go, regardless of free capacity.
    """

    def __init__(self, snapshot: Snapshot, demands: Sequence[Demand], masks: FeasibilityCache) -> None:
        axis = snapshot.axis
        self.wants: Final = np.zeros((len(demands), len(axis)))
        self.open: Final = np.zeros((len(demands), len(snapshot.names)), dtype=bool)
        for number, demand in enumerate(demands):
            if not lacks(axis.index, demand.requests):
                self.wants[number] = axis.vector(demand.requests)
                self.open[number] = masks.of(snapshot, demand).open
        self._divisor: Final = np.where(self.wants > 0, self.wants, 1.0)[:, None, :]
        self._most: Final = np.where(self.open, MOST, 0.0)
        self._unwanted: Final = np.where(self.wants > 0, 0.0, np.inf)[:, None, :]

    def count(self, free: Matrix, rows: Rows | slice = slice(None)) -> Counts:
        """Counts[d, k]: how many members of each demand fit on these rows.  free: float64[k, r], their free capacity."""
        parts = free / self._divisor
        parts += self._unwanted
        out: Counts = np.minimum.reduce(parts, axis=2)
        np.floor(out, out=out)
        np.maximum(out, 0.0, out=out)
        np.minimum(out, self._most[:, rows], out=out)
        return out

    def count_one(self, demand: int, free: Matrix, rows: Rows | slice = slice(None)) -> Counts:
        """Counts[k]: like `count`, for one demand."""
        wants = enumerate(self.wants[demand].tolist())
        amounts = ((free[:, column], wanted) for column, wanted in wants if wanted)
        return held(np.full(len(free), MOST), amounts) * self.open[demand, rows]


class ForecastCapacity:
    """Free capacity, and how many members fit in it.

    free: float64[n, r].  units: Counts[d, n].  totals: for each demand, how many members all rows hold.
    """

    def __init__(self, demands: Demands, free: Matrix, units: Counts | None = None) -> None:
        self.demands: Final = demands
        self.free: Final = free.copy()
        self.units: Final = demands.count(free) if units is None else units.copy()
        self._totals: Vector = self.units.sum(axis=1)
        self.totals: list[float] = self._totals.tolist()

    def put(self, rows: Rows, free: Matrix) -> None:
        """Set the free capacity of these rows.  rows: int64[k], distinct; free: float64[k, r]."""
        where = slice(row := int(rows[0]), row + 1) if len(rows) == 1 else rows  # a slice is faster
        units = self.demands.count(free, where)
        self._totals += (units - self.units[:, where]).sum(axis=1)  # exact: these are whole numbers
        self.totals = self._totals.tolist()
        self.free[where] = free
        self.units[:, where] = units


def snug(units: Counts, members: int) -> tuple[Rows, Counts]:
    """Rows and their members: the tightest row that holds all, otherwise the roomiest rows and a tight last one.

    units: Counts[n], whose sum is at least `members`.
    """
    whole = np.where(units >= members, units, np.inf)
    tightest = int(whole.argmin())
    if whole[tightest] < np.inf:
        return np.array([tightest]), np.array([float(members)])
    rows = np.argsort(-units, kind="stable")
    taken = np.cumsum(units[rows])
    last = int(np.searchsorted(taken, members))
    counts = units[rows[: last + 1]]
    counts[-1] -= taken[last] - members
    holding = int(np.count_nonzero(units >= counts[-1]))
    return np.append(rows[:last], rows[max(holding - 1, last)]), counts


def merged(rows: Rows, uses: Matrix) -> tuple[Rows, Matrix]:
    """The same pods, with one entry per row."""
    if len(rows) < 2:
        return rows, uses
    distinct, place = np.unique(rows, return_inverse=True)
    if len(distinct) == len(rows):
        return rows, uses
    out = np.zeros((len(distinct), uses.shape[1]))
    np.add.at(out, place, uses)
    return distinct, out


def growth(demands: Demands, demand: int, capacity: ForecastCapacity, rows: Rows, uses: Matrix) -> Vector:
    """float64[k]: how many members of one demand fit in total after each of these pods in turn has ended.

    The freed capacity of every row is summed up in the order of the ends, for all rows at once.
    """
    if not len(rows):
        return np.zeros(0)
    units = capacity.units[demand]
    by_row = np.argsort(rows, kind="stable")
    row = rows[by_row]
    begins = np.append(True, row[1:] != row[:-1])
    summed = np.cumsum(uses[by_row], axis=0)
    before = np.where(begins[:, None], summed - uses[by_row], 0.0)
    group = np.cumsum(begins) - 1
    room = capacity.free[row] + summed - before[begins][group]
    after = demands.count_one(demand, room, row)
    more = after - np.where(begins, units[row], np.append(0.0, after[:-1]))
    out = np.empty(len(rows))
    out[by_row] = more
    total: Vector = units.sum() + np.cumsum(out)
    return total


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything of a gang that decides its placement.

    needs: (number of the demand, members) of each role's quorum.  plain: counting decides whether it fits.
    namespace: the namespace with the ceiling that applies; "" if none does.
    """

    gang: Gang
    plain: bool
    needs: tuple[tuple[int, int], ...]
    namespace: str


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """A gang or pod that uses capacity.

    expected: when it is expected to end.  rows: int64[k], distinct.  uses: float64[k, r], what it uses there.
    namespace: the namespace that its usage counts for.
    """

    expected: float
    rows: Rows
    uses: Matrix
    namespace: str


@dataclass(frozen=True, slots=True, eq=False)
class ForecastSetup:
    """The common input of all scenarios.

    running: the stays.  shape: the index in `shapes` for each waiting gang.  expected: float64[w], the seconds that it
    is expected to run.  queue: the places of gangs that can ever start, ascending.
    quorum: float64[r] for each shape, the needs of its quorum.  ceilings: the usage of the namespaces now.
    """

    snapshot: Snapshot
    waiting: Sequence[Waiting]
    running: tuple[Runs, ...]
    policy: Policy
    now: float
    masks: FeasibilityCache
    demands: Demands
    capacity: ForecastCapacity
    shapes: tuple[Shape, ...]
    shape: tuple[int, ...]
    expected: Vector
    queue: tuple[int, ...]
    quorum: tuple[Vector, ...]
    ceilings: Ceilings


def forecast_setup_of(
    snapshot: Snapshot,
    waiting: Sequence[Waiting],
    stays: Sequence[Stay],
    policy: Policy,
    now: float,
    masks: FeasibilityCache,
    usages: Mapping[str, Usage] | None = None,
) -> ForecastSetup:
    """Build the input of all scenarios.  Nominated capacity of other pods counts as used.

    usages: the current usage by namespace, including the stays. A missing namespace has no ceiling.
    The planner runs once for each shape that counting cannot decide.
    """
    bare = replace(snapshot, free=free_for(snapshot, -np.inf), nominations=())
    ceilings = Ceilings(bare.axis, usages or {})
    numbers: dict[object, int] = {}
    demands: dict[Demand, int] = {}
    shapes: list[Shape] = []
    shape: list[int] = []
    for one in waiting:
        namespace = ceilings.of(one.gang.key.namespace)
        number = numbers.setdefault((namespace, one.gang.shape), len(shapes))
        if number == len(shapes):
            needs = tuple(
                (demands.setdefault(role.demand, len(demands)), len(role.quorum))
                for role in one.gang.roles
                if role.quorum
            )
            shapes.append(Shape(one.gang, is_plain(one.gang), needs, namespace))
        shape.append(number)
    wants = Demands(bare, list(demands), masks)
    nothing = np.zeros(len(bare.axis))
    quorum = tuple(sum((n * wants.wants[d] for d, n in shape.needs), nothing) for shape in shapes)
    passed = _passed(ceilings.copy(), stays, shapes, quorum)
    known = (stay for stay in stays if np.isfinite(stay.ends.middle))
    emptied = bare.freed(*((stay.rows, stay.uses) for stay in known))
    never = passed | _never(emptied, wants, shapes, policy, masks)
    queue = tuple(place for place, number in enumerate(shape) if number not in never)
    return ForecastSetup(
        snapshot=bare,
        waiting=waiting,
        running=tuple(
            Runs(stay.ends.middle, *merged(stay.rows, stay.uses), stay.namespace) for stay in stays
        ),
        policy=policy,
        now=now,
        masks=masks,
        demands=wants,
        capacity=ForecastCapacity(wants, bare.free),
        shapes=tuple(shapes),
        shape=tuple(shape),
        expected=np.array([leaves(one, policy, 0.0) for one in waiting], dtype=np.float64),
        queue=queue,
        quorum=quorum,
        ceilings=ceilings,
    )


def _never(
    emptied: Snapshot, demands: Demands, shapes: Sequence[Shape], policy: Policy, masks: FeasibilityCache
) -> frozenset[int]:
    """The shapes that do not fit even after all known ends."""
    capacity = ForecastCapacity(demands, emptied.free)

    def fits(shape: Shape) -> bool:
        if not holds(capacity, shape):
            return False
        if shape.plain and emptied.topology.level(shape.gang.level) is not None:
            return True
        return isinstance(planner.decide(emptied, shape.gang, policy, None, masks), Place)

    return frozenset(number for number, shape in enumerate(shapes) if not fits(shape))


def _passed(
    ceilings: Ceilings, stays: Sequence[Stay], shapes: Sequence[Shape], quorum: Sequence[Vector]
) -> frozenset[int]:
    """The shapes that exceed their namespace's ceiling even after all known ends."""
    for stay in stays:
        if np.isfinite(stay.ends.middle):
            ceilings.take(stay.namespace, stay.uses)
    above = (ceilings.is_passed(own.namespace, needs) for own, needs in zip(shapes, quorum, strict=True))
    return frozenset(number for number, passed in enumerate(above) if passed)


def holds(capacity: ForecastCapacity, shape: Shape) -> bool:
    """The capacity holds each role on its own."""
    totals = capacity.totals
    for demand, members in shape.needs:  # noqa: SIM110 - runs at every step, and a generator is slower
        if totals[demand] < members:
            return False
    return True
