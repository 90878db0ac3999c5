"""Why not: how near the nearest domain came, and what stands in the way of how many nodes.

Lives here: the numbers of a refusal; they are made only when there is one.
Never here: the reason itself (planner).
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from scheduler.model.cluster import Mask
from scheduler.model.decision import Shortfall
from scheduler.model.demand import Demand
from scheduler.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, written
from scheduler.model.workload import Gang, Strategy
from scheduler.placement.distribution import Counts
from scheduler.placement.node_candidates import SeatingProblem, total
from scheduler.placement.packing import Attempt, everywhere, one_domain, orders, tried
from scheduler.placement.seating import evenly

_ORDER: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


def describe(demand: Demand) -> str:
    """The demand as a person says it: devices first, e.g. "4 nvidia.com/gpu, 16 cpu, 64Gi memory"."""
    wanted = dict(demand.requests)
    extended = sorted(name for name in wanted if name not in {*_ORDER, PODS})
    names = [*extended, *(name for name in _ORDER if name in wanted)]
    return ", ".join(f"{written(name, wanted[name])} {name}" for name in names) or "pod"


def blocked(found: Mapping[str, Mask], hold: Mask) -> dict[str, int]:
    """How many nodes each obstacle rules out; a node that several rule out counts for the first of them.

    found: by kind bool[n], ruled out, in the order in which they count.  hold: bool[n], has room for one member.
    """
    left = np.ones(len(hold), dtype=bool)
    counts = {}
    for kind, mask in {**found, "room": ~hold}.items():
        counts[kind] = int(np.count_nonzero(left & mask))
        left &= ~mask
    return {kind: count for kind, count in counts.items() if count}


def shortfall(task: SeatingProblem, gang: Gang) -> tuple[int, Shortfall]:
    """Which batch of the quorum found too little room, and how much it found where the gang came furthest.

    Nothing is said of obstacles yet. Only for a task that could not be seated.
    """
    if gang.required and gang.strategy is Strategy.SPREAD:
        return _uneven(task, gang)
    attempt = one_domain(task) if gang.required else everywhere(task)
    if not attempt.coarses:
        return 0, _said(task, gang, 0, "", 0)
    order = orders(task)[0]
    seated = _alone(task, attempt) if task.quorum == 1 else tried(task, attempt, order).seated
    group = int(seated.sum(axis=0).argmax())
    short = next((b for b in order if seated[b, group] < task.needs[b]), order[-1])
    found = int(seated[short, group])
    return short, _said(task, gang, short, _path(task, group) if gang.required and found else "", found)


def _alone(task: SeatingProblem, attempt: Attempt) -> Counts:
    """Counts[1, g]: how many members of the only batch each group has room for, as `tried` would find."""
    room = total(attempt.coarse, task.pool.units[0], attempt.coarses)
    return np.minimum(room, task.needs[0])[None]


def _uneven(task: SeatingProblem, gang: Gang) -> tuple[int, Shortfall]:
    """How many members of the first batch that comes short could sit evenly."""
    scratch, have = task.scratch(), task.have
    for batch in orders(task)[0]:
        take = evenly(task, scratch, batch, have, task.needs[batch], exact=True)
        if take.sum() < task.needs[batch]:
            return batch, _said(task, gang, batch, "", int(take.sum()))
        scratch.put(batch, take)
        have = have + total(task.codes, take, task.domains)
    return 0, _said(task, gang, 0, "", 0)


def _path(task: SeatingProblem, domain: int) -> str:
    return task.pool.snapshot.topology.domains[task.level][domain]


def _said(task: SeatingProblem, gang: Gang, batch: int, domain: str, best: int) -> Shortfall:
    demand = task.pool.batches[batch].demand
    return Shortfall(task.needs[batch], describe(demand), gang.level, domain, best, {})
