"""Full clusters: who stands where, as units that may leave, and the picture with all of them in it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from scheduler.model.cluster import Snapshot
from scheduler.model.decision import Place
from scheduler.model.preemption_units import Kind, Unit
from scheduler.model.workload import Gang, GangKey, Uid
from scheduler.placement import planner
from tests.placement.support.asking import POLICY
from tests.support.builders import some_amounts

Stands = Sequence[tuple[str, Mapping[str, float]]]
"""Node by node what a pod uses there, as `some_amounts` takes it."""


def a_unit(
    snapshot: Snapshot,
    name: str,
    stands: Stands,
    *,
    kind: Kind = Kind.POD,
    of: str | None = None,
    priority: int = 0,
    lost: float = 0.0,
) -> Unit:
    """The pods of one unit; `of` is the gang of a surplus member. Every pod counts as one of `pods`."""
    uses = [snapshot.axis.vector(some_amounts(**{"pods": 1, **use})) for _, use in stands]
    return Unit(
        gang=GangKey("default", of or name),
        kind=kind,
        uids=tuple(Uid(f"{name}-{number}") for number in range(len(stands))),
        rows=np.array([snapshot.index[node] for node, _ in stands], dtype=np.int64),
        uses=np.array(uses).reshape(len(stands), len(snapshot.axis)),
        priority=priority,
        lost=lost,
    )


def filled(snapshot: Snapshot, units: Sequence[Unit]) -> Snapshot:
    """The picture with these units in it."""
    return freed(snapshot, units, -1.0)


def freed(snapshot: Snapshot, units: Sequence[Unit], sign: float = 1.0) -> Snapshot:
    """The picture without these units."""
    free = snapshot.free.copy()
    for unit in units:
        np.add.at(free, unit.rows, sign * unit.uses)
    free.flags.writeable = False
    return replace(snapshot, free=free)


def core(gang: Gang) -> Gang:
    return replace(gang, roles=tuple(replace(role, surplus=()) for role in gang.roles))


def fits(snapshot: Snapshot, gang: Gang, victims: Sequence[Unit], allowed=None) -> bool:
    """The planner seats the quorum once these have left."""
    return isinstance(planner.decide(freed(snapshot, victims), core(gang), POLICY, allowed), Place)


def forced(victims: Sequence[Unit]) -> list[Unit]:
    """Surplus whose gang leaves."""
    gangs = {unit.gang for unit in victims if unit.kind is Kind.GANG}
    return [unit for unit in victims if unit.kind is Kind.SURPLUS and unit.gang in gangs]


def closed(units: Sequence[Unit], victims: Sequence[Unit]) -> bool:
    """No surplus stays whose gang leaves."""
    gangs = {unit.gang for unit in victims if unit.kind is Kind.GANG}
    taken = {id(unit) for unit in victims}
    return all(id(u) in taken for u in units if u.kind is Kind.SURPLUS and u.gang in gangs)


def irreducible(snapshot: Snapshot, gang: Gang, victims: Sequence[Unit], allowed=None) -> bool:
    """Without any one of them, surplus of leaving gangs aside, the planner does not seat the gang."""
    must = {id(unit) for unit in forced(victims)}
    return not any(
        fits(snapshot, gang, [other for other in victims if other is not unit], allowed)
        for unit in victims
        if id(unit) not in must
    )
