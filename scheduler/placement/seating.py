"""Seats for the whole quorum or for none of it; then for the surplus, as far as there is room. And what was lacking.

Lives here: which way of seating belongs to which strategy, the even spread, the surplus, and the numbers of a refusal: how
near the nearest domain came, and what stands in the way of how many nodes. They are made only when there is a refusal.
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
from scheduler.placement.cosine import align
from scheduler.placement.distribution import Counts, fill, share
from scheduler.placement.node_candidates import Scratch, SeatingProblem, around, total
from scheduler.placement.packing import everywhere, last_resort, one_domain, orders, pack, tried


def evenly(
    task: SeatingProblem, scratch: Scratch, batch: int, have: Counts, members: int, *, exact: bool
) -> Counts:
    """Counts[m]: seats for members of the batch, domains filling up like water; inside each the fewest nodes.

    exact: stop before the domains, those without room included, differ by more than one.
    Otherwise nodes without the label take what is left.
    """
    units = scratch.units(batch)
    room = total(task.codes, units, task.domains)
    if exact and task.eligible.any():
        ceiling = (have + room)[task.eligible].min() + 1
        room = np.clip(ceiling - have, 0, room)
    given = share(have, room, members)
    flat = np.ones(len(units), dtype=np.int64)
    take = fill(units, task.codes, given, flat)
    rest = members - take.sum()
    if rest and not task.required:
        outside = np.where(task.codes < 0, 0, -1)
        take += fill(units, outside, np.array([rest]), flat)
    return take


def spread(task: SeatingProblem) -> Scratch | None:
    """Seats for the whole quorum, evenly over the domains; None when there are none."""
    for order in orders(task):
        scratch, have = task.scratch(), task.have
        for batch in order:
            take = evenly(task, scratch, batch, have, task.needs[batch], exact=False)
            if take.sum() < task.needs[batch]:
                break
            scratch.put(batch, take)
            have = have + total(task.codes, take, task.domains)
        else:
            grown = have > task.have
            limited = task.required and grown.any() and task.eligible.any()
            # no domain that got a newcomer may be more than one member above the emptiest it could have gone to
            if not limited or have[grown].max() <= have[task.eligible].min() + 1:
                return scratch
    return None if task.required else last_resort(task)


def seat(task: SeatingProblem) -> Scratch | None:
    """Seats for the whole quorum; None when there are none."""
    if any(units.sum() < need for units, need in zip(task.pool.units, task.needs, strict=False)):
        return None  # in the whole pool, were each batch alone in it; most gangs that wait are told so
    if not task.quorum:
        return task.scratch()
    return spread(task) if task.strategy is Strategy.SPREAD else pack(task)


def seat_surplus(task: SeatingProblem, scratch: Scratch) -> None:
    """Seat as many as possible of the batches behind the quorum, nearest to the core, batch by batch."""
    for batch in range(task.quorum, len(task.pool.batches)):
        scratch.put(batch, _surplus(task, scratch, batch))


def _surplus(task: SeatingProblem, scratch: Scratch, batch: int) -> Counts:
    members = len(task.pool.batches[batch].uids)
    sat = scratch.sat()
    if task.strategy is Strategy.SPREAD:
        have = task.have + total(task.codes, sum(scratch.takes, np.zeros(len(sat))), task.domains)
        return evenly(task, scratch, batch, have, members, exact=task.required)
    units, core = scratch.units(batch), np.unique(task.codes[sat])
    if task.required and len(core):  # only the domain of those who sit counts
        units = np.where(np.isin(task.codes, core), units, 0.0)
    nearness = around(task.pool, [*task.anchors, *task.pool.rows[sat].tolist()])
    if task.strategy is Strategy.PACK:
        return fill(units, np.zeros_like(task.codes), np.array([float(members)]), nearness)
    return align(task, scratch, batch, units, members, nearness)


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
    for kind, mask in {**found, "resources": ~hold}.items():
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
    if task.quorum == 1:  # counted, as `tried` would find
        room = total(attempt.coarse, task.pool.units[0], attempt.coarses)
        seated = np.minimum(room, task.needs[0])[None]
    else:
        seated = tried(task, attempt, order).seated
    group = int(seated.sum(axis=0).argmax())
    short = next((b for b in order if seated[b, group] < task.needs[b]), order[-1])
    found = int(seated[short, group])
    domains = task.pool.snapshot.topology.domains
    domain = domains[task.level][group] if gang.required and found else ""
    return short, _said(task, gang, short, domain, found)


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


def _said(task: SeatingProblem, gang: Gang, batch: int, domain: str, best: int) -> Shortfall:
    demand = task.pool.batches[batch].demand
    return Shortfall(task.needs[batch], describe(demand), gang.level, domain, best, {})
