"""Victims that kube-scheduler proposes for a single pod, node by node, made the cheapest that break no gang.

Lives here: the answer to its preempt verb, as a function of what stands on each candidate node.
Never here: room for a gang (victim_selection): the verb names victims of one node only.
Why not always the cheapest: kube-scheduler also knows reasons that are not room (a host port, an anti-affinity).  A
victim that its proposal could spare as far as room goes was named for such a reason, and is kept.

A list that comes empty (from 1.38 on: the pod would fit, were it not for us) may stay empty or be filled; a list that
does not come empty never becomes empty, which would be an error in every version.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from scheduler.model.cluster import Mask
from scheduler.model.preemption_units import Kind, Unit
from scheduler.model.resources import Vector
from scheduler.model.workload import Uid
from scheduler.placement.victims import Standing, standing_of
from scheduler.placement.victims_counted import counted
from scheduler.placement.victims_exact import FEW, cheapest_first
from scheduler.placement.victims_seats import Ask

Survive: TypeAlias = Callable[[frozenset[Uid]], bool]
"""Whether every gang keeps its quorum when these pods leave."""

_ONE: Final = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Here:
    """One candidate node.

    free: float64[r], room that the pod would find there now: less what is held for others.
    units: who stands there and has lower priority, each a single pod; a member of a quorum as Kind.GANG, which is
    never taken.
    """

    free: Vector
    units: tuple[Unit, ...]


def cheapest(
    offers: Mapping[str, tuple[Uid, ...]], nodes: Mapping[str, Here], needs: Vector, survive: Survive
) -> dict[str, tuple[Uid, ...]]:
    """The candidates that remain, each with its cheapest victims, the most important of them first.

    offers: by node, whom kube-scheduler would take.  needs: float64[r], of the pod.
    A node is left out when it is not among `nodes`, when a proposed victim is not known there, and when no set makes
    room without breaking a gang.  Cost is compared as in `victim_selection.choose`.
    """
    found = {
        node: _rewritten(offered, nodes[node], needs, survive)
        for node, offered in offers.items()
        if node in nodes
    }
    return {node: uids for node, uids in found.items() if uids is not None}


def _rewritten(
    offered: tuple[Uid, ...], here: Here, needs: Vector, survive: Survive
) -> tuple[Uid, ...] | None:
    known = {unit.uids[0]: unit for unit in here.units}
    if any(uid not in known for uid in offered):
        return None
    kept = _kept([known[uid] for uid in offered], here.free, needs)
    if any(unit.kind is Kind.GANG for unit in kept):
        return None
    others = [unit for unit in here.units if unit.kind is not Kind.GANG and unit not in kept]
    chosen = _completed(kept, others, here.free, needs, survive)
    return None if chosen is None else _in_line(chosen)


def _room(free: Vector, units: list[Unit]) -> Vector:
    return free + sum((unit.uses.sum(axis=0) for unit in units), np.zeros_like(free))


def _fits(room: Vector, needs: Vector) -> bool:
    return bool((room >= needs)[needs > 0].all())


def _kept(offered: list[Unit], free: Vector, needs: Vector) -> list[Unit]:
    """Those of the proposal who must not be exchanged.

    Where the proposal makes room: whoever could stay as far as room goes.  Where it does not, for we hold room that
    kube-scheduler does not know of, nothing tells the reasons apart, and all are kept.
    """
    room = _room(free, offered)
    if not _fits(room, needs):
        return offered
    return [unit for unit in offered if _fits(room - unit.uses.sum(axis=0), needs)]


def _completed(
    kept: list[Unit], others: list[Unit], free: Vector, needs: Vector, survive: Survive
) -> list[Unit] | None:
    """The kept, and the cheapest of the others that make room with them; None when there are none."""
    room = _room(free, kept)
    sure = frozenset(uid for unit in kept for uid in unit.uids)
    if not survive(sure):
        return None
    if _fits(room, needs):
        return kept
    lacking = needs > np.maximum(room, 0.0)
    useful = [
        replace(unit, rows=np.zeros_like(unit.rows))  # the only node there is
        for unit in others
        if unit.uses.sum(axis=0)[lacking].any()
    ]
    standing = standing_of(useful, room[None, :])
    taken = _first(standing, _ask(needs), lambda uids: survive(sure | uids))
    return None if taken is None else [*kept, *(standing.units[at] for at in np.flatnonzero(taken).tolist())]


def _ask(needs: Vector) -> Ask:
    """One seat on the one node."""
    columns = np.flatnonzero(needs > 0)
    return Ask(1, columns, needs[columns], _ONE, np.zeros(1, dtype=np.int64), 1)


def _first(standing: Standing, ask: Ask, survive: Survive) -> Mask | None:
    """bool[u]: the cheapest set with which every gang survives."""
    if len(standing.units) <= FEW:
        return next(
            (taken for taken in cheapest_first(standing, (ask,)) if survive(_uids(standing, taken))), None
        )
    taken = counted(standing, ask)
    if taken is None or survive(_uids(standing, taken)):
        return taken
    return _one_by_one(standing, ask, survive)


def _one_by_one(standing: Standing, ask: Ask, survive: Survive) -> Mask | None:
    """Of many: the cheapest first, as long as every gang survives, and then less whoever is not needed."""
    line = np.lexsort((standing.lost, standing.level)).tolist()
    taken = np.zeros(len(standing.units), dtype=bool)
    for unit in line:
        if _suffices(standing, ask, taken):
            break
        taken[unit] = True
        taken[unit] = survive(_uids(standing, taken))
    if not _suffices(standing, ask, taken):
        return None
    for unit in reversed(line):
        spared = taken & (np.arange(len(taken)) != unit)
        taken = spared if _suffices(standing, ask, spared) else taken
    return taken


def _suffices(standing: Standing, ask: Ask, taken: Mask) -> bool:
    return bool(ask.found(standing.room(taken))[0] >= ask.need)


def _uids(standing: Standing, taken: Mask) -> frozenset[Uid]:
    return frozenset(uid for at in np.flatnonzero(taken).tolist() for uid in standing.units[at].uids)


def _in_line(units: list[Unit]) -> tuple[Uid, ...]:
    """kube-scheduler takes the first victim of a node for its most important one."""
    line = sorted(units, key=lambda unit: (-unit.priority, -unit.lost, unit.uids))
    return tuple(uid for unit in line for uid in unit.uids)
