"""What all scenarios of one forecast have in common: room, who waits in which shape, who runs.

Lives here: gangs that one answer serves, and those that will never fit.
Never here: time (simulation).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.model.cluster import Matrix, Snapshot
from scheduler.model.decision import Place
from scheduler.model.demand import Demand
from scheduler.model.policy import Policy
from scheduler.model.queueing import Stay, Usage, Waiting
from scheduler.model.resources import Vector
from scheduler.model.workload import Gang
from scheduler.placement import planner
from scheduler.placement.ceilings import Ceilings
from scheduler.placement.feasibility import FeasibilityCache, free_for
from scheduler.placement.forecast_capacity import Demands, ForecastCapacity, Rows, is_plain, merged
from scheduler.placement.reservation import leaves


@dataclass(frozen=True, slots=True)
class Shape:
    """All of a gang that decides about its placement.

    needs: (number of the demand, members) of each role's quorum.  plain: counting tells whether it fits.
    namespace: the one whose ceiling it may go above; "" where that has none.
    """

    gang: Gang
    plain: bool
    needs: tuple[tuple[int, int], ...]
    namespace: str


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Somebody who uses room.

    expected: when it is expected to leave.  rows: int64[k], distinct.  uses: float64[k, r], what it uses there.
    namespace: the one of whose use it is a part.
    """

    expected: float
    rows: Rows
    uses: Matrix
    namespace: str


@dataclass(frozen=True, slots=True, eq=False)
class ForecastSetup:
    """What all scenarios have in common.

    running: the stays.  shape: of each waiting gang, its number among the shapes.  expected: float64[w], the seconds it
    is expected to run.  queue: the places of those that can ever begin, ascending.
    quorum: of each shape float64[r], what its quorum needs.  ceilings: what namespaces use now.
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
    """The stage of all scenarios.  Room that is promised to pods of others counts as used.

    usages: by namespace, what it uses now, that of the stays included; one that is missing has no ceiling.
    The planner is asked once for each shape that counting cannot tell about.
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
    """The shapes that fit not even then."""
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
    """The shapes that go above their namespace's ceiling even then."""
    for stay in stays:
        if np.isfinite(stay.ends.middle):
            ceilings.take(stay.namespace, stay.uses)
    above = (ceilings.is_passed(own.namespace, needs) for own, needs in zip(shapes, quorum, strict=True))
    return frozenset(number for number, passed in enumerate(above) if passed)


def holds(capacity: ForecastCapacity, shape: Shape) -> bool:
    """Each role, as if it were alone."""
    totals = capacity.totals
    for demand, members in shape.needs:  # noqa: SIM110 - asked at every step: a generator takes longer
        if totals[demand] < members:
            return False
    return True
