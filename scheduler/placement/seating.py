"""Seats for the whole quorum or for nobody; then for the surplus, as far as there is room.

Lives here: which way of seating belongs to which strategy, the even spread, and the surplus.
Never here: why it failed (diagnosis).
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from scheduler.model.cluster import Mask
from scheduler.model.workload import Strategy
from scheduler.placement.cosine import align
from scheduler.placement.distribution import Counts, fill, share
from scheduler.placement.node_candidates import Scratch, SeatingProblem, around, total
from scheduler.placement.packing import last_resort, orders, pack


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


def balanced(task: SeatingProblem, have: Counts, before: Counts) -> bool:
    """No domain that got a newcomer has more than one member above the emptiest it could have gone to."""
    grown = have > before
    return not grown.any() or not task.eligible.any() or have[grown].max() <= have[task.eligible].min() + 1


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
            if not task.required or balanced(task, have, task.have):
                return scratch
    return None if task.required else last_resort(task)


SEATINGS: Final[Mapping[Strategy, Callable[[SeatingProblem], Scratch | None]]] = {
    Strategy.PACK: pack,
    Strategy.COSINE: pack,
    Strategy.DOT: pack,
    Strategy.SPREAD: spread,
}


def seat(task: SeatingProblem) -> Scratch | None:
    """Seats for the whole quorum; None when there are none."""
    if any(units.sum() < need for units, need in zip(task.pool.units, task.needs, strict=False)):
        return None  # in the whole pool, were each batch alone in it; most gangs that wait are told so
    return SEATINGS[task.strategy](task) if task.quorum else task.scratch()


def seat_surplus(task: SeatingProblem, scratch: Scratch) -> None:
    """Seat as many as possible of the batches behind the quorum, nearest to the core, batch by batch."""
    for batch in range(task.quorum, len(task.pool.batches)):
        take = _surplus(task, scratch, batch)
        scratch.put(batch, take)


def _surplus(task: SeatingProblem, scratch: Scratch, batch: int) -> Counts:
    members = len(task.pool.batches[batch].uids)
    sat = scratch.sat()
    if task.strategy is Strategy.SPREAD:
        have = task.have + total(task.codes, sum(scratch.takes, np.zeros(len(sat))), task.domains)
        return evenly(task, scratch, batch, have, members, exact=task.required)
    units = _beside_core(task, sat, scratch.units(batch))
    nearness = around(task.pool, [*task.anchors, *task.pool.rows[sat].tolist()])
    if task.strategy is Strategy.PACK:
        return fill(units, np.zeros_like(task.codes), np.array([float(members)]), nearness)
    return align(task, scratch, batch, units, members, nearness)


def _beside_core(task: SeatingProblem, sat: Mask, units: Counts) -> Counts:
    """Where the level is required, only the domain of those who sit counts."""
    core = np.unique(task.codes[sat])
    return np.where(np.isin(task.codes, core), units, 0.0) if task.required and len(core) else units
