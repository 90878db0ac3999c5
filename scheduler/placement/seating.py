"""Seats for the whole quorum or for none of it, then for as much surplus as fits. And what was missing.

Lives here: the way of seating for each strategy, the even spread, the surplus, and the figures of a rejection: how near
the nearest domain came, and how many nodes each obstacle excludes. They are computed only for a rejection.
Never here: the reason itself (planner).
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from scheduler.model.cluster import Mask, Snapshot
from scheduler.model.decision import Shortfall
from scheduler.model.demand import Demand
from scheduler.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, described, is_device, is_shown
from scheduler.model.workload import Gang, Strategy
from scheduler.placement.cosine import align
from scheduler.placement.distribution import Counts, fill, share
from scheduler.placement.member_order import OrderedSeating, furthest, seat_in_order
from scheduler.placement.node_candidates import Scratch, SeatingProblem, around, total
from scheduler.placement.packing import everywhere, last_resort, one_domain, orders, pack, tried


def evenly(
    task: SeatingProblem, scratch: Scratch, batch: int, have: Counts, members: int, *, exact: bool
) -> Counts:
    """Counts[m]: seats for members of the batch. Domains fill up like water, and each uses the fewest nodes.

    exact: stop before the domains, including those without room, differ by more than one.
    Otherwise nodes without the label take the rest.
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
    """Seats for the whole quorum, evenly over the domains. None: it does not fit."""
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
            # no domain with a new member may have more than one member above the emptiest eligible domain
            if not limited or have[grown].max() <= have[task.eligible].min() + 1:
                return scratch
    return None if task.required else last_resort(task)


def seat(task: SeatingProblem) -> Scratch | None:
    """Seats for the whole quorum. None: it does not fit."""
    if any(units.sum() < need for units, need in zip(task.pool.units, task.needs, strict=False)):
        return None  # a batch does not fit on its own, as for most waiting gangs
    if not task.quorum:
        return task.scratch()
    if task.pool.rules is not None and task.pool.rules.ordered:
        return seat_in_order(task)
    return spread(task) if task.strategy is Strategy.SPREAD else pack(task)


def seat_surplus(task: SeatingProblem, scratch: Scratch) -> None:
    """Seat as many surplus members as possible, nearest to the core, batch by batch."""
    for batch in range(task.quorum, len(task.pool.batches)):
        scratch.put(batch, _surplus(task, scratch, batch))


def _surplus(task: SeatingProblem, scratch: Scratch, batch: int) -> Counts:
    members = len(task.pool.batches[batch].uids)
    sat = scratch.sat()
    if task.pool.rules is not None and task.pool.rules.ordered:
        if scratch.in_order is None:
            scratch.in_order = OrderedSeating(task, np.ones(len(sat), dtype=bool))
        scratch.in_order.more(batch, members)
        return scratch.in_order.take(batch)
    if task.strategy is Strategy.SPREAD:
        have = task.have + total(task.codes, sum(scratch.takes, np.zeros(len(sat))), task.domains)
        return evenly(task, scratch, batch, have, members, exact=task.required)
    units, core = scratch.units(batch), np.unique(task.codes[sat])
    if task.required and len(core):  # only the domains of seated members count
        units = np.where(np.isin(task.codes, core), units, 0.0)
    nearness = around(task.pool, [*task.anchors, *task.pool.rows[sat].tolist()])
    if task.strategy is Strategy.PACK:
        return fill(units, np.zeros_like(task.codes), np.array([float(members)]), nearness)
    return align(task, scratch, batch, units, members, nearness)


_ORDER: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


def describe(demand: Demand) -> str:
    """The demand as text, devices first, for example "4 nvidia.com/gpu, 16 cpu, 64Gi memory"."""
    wanted = {name: amount for name, amount in demand.requests if is_shown(name)}
    extended = sorted(name for name in wanted if name not in {*_ORDER, PODS})
    names = [*extended, *(name for name in _ORDER if name in wanted)]
    return ", ".join(described(name, wanted[name]) for name in names) or "pod"


def unknown(snapshot: Snapshot, demand: Demand) -> dict[str, Mask]:
    """By extended resource that the demand requests and no node has, bool[n]: all nodes."""
    index, capacity = snapshot.axis.index, snapshot.capacity
    return {
        name: np.ones(len(capacity), dtype=bool)
        for name, _ in demand.requests
        if is_device(name) and not (name in index and capacity[:, index[name]].any())
    }


def blocked(found: Mapping[str, Mask], hold: Mask) -> dict[str, int]:
    """How many nodes each obstacle excludes. A node with several obstacles counts for the first of them.

    found: by kind bool[n], excluded nodes, in the order in which they count.  hold: bool[n], fits one member.
    """
    left = np.ones(len(hold), dtype=bool)
    counts = {}
    for kind, mask in {**found, "resources": ~hold}.items():
        counts[kind] = int(np.count_nonzero(left & mask))
        left &= ~mask
    return {kind: count for kind, count in counts.items() if count}


def shortfall(task: SeatingProblem, gang: Gang) -> tuple[int, Shortfall]:
    """The batch of the quorum that does not fit, and how much of it fits where the gang came furthest.

    The obstacles are not included yet. Call it only for a task that could not be seated.
    """
    if gang.required and gang.strategy is Strategy.SPREAD:
        return _uneven(task, gang)
    attempt = one_domain(task) if gang.required else everywhere(task)
    if not attempt.coarses:
        return 0, _said(task, gang, 0, "", 0)
    order = orders(task)[0]
    if task.pool.rules is not None and task.pool.rules.ordered:
        seated = furthest(task, attempt)
    elif task.quorum == 1:  # counted, as `tried` would find
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
    """How many members of the first batch that does not fit could be seated evenly."""
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
