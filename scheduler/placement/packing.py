"""A gang close together: in one domain where one holds it, else in as few as possible.

Why all domains at once: `fill` seats the gang in every domain of a level by one sort, and the best of those
that hold it whole is kept.  Members of one demand seated so fit whenever they can fit at all; of several
demands the largest goes first, and when that fails in every domain, other orders are tried.
Never here: the choice of nodes by alignment (aligning), the surplus (seating).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.workload import Strategy
from scheduler.placement.aligning import realign
from scheduler.placement.filling import TIERS, Codes, Counts, fill
from scheduler.placement.pool import Scratch, total
from scheduler.placement.scoring import ALIGNMENTS, snug
from scheduler.placement.task import Task

_NEARLY: Final = 1 - 1e-9
"""Sums over many nodes may lie above 2**53 and be rounded; a quick no must not hang on the last digit."""

_FEW: Final = 3
"""Batches whose every order is tried at the very last: six orders. Gangs seldom have more roles."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Where to try: inside one `coarse` group, in as few `fine` domains as possible. Codes[m] both.

    hosts: every place is a group of its own.
    """

    fine: Codes
    fines: int
    coarse: Codes
    coarses: int
    hosts: bool = False

    @property
    def single(self) -> bool:
        """The whole gang in one domain."""
        return self.fine is self.coarse


def one_of(codes: Codes, groups: int, *, hosts: bool = False) -> Attempt:
    """Inside one of these domains."""
    return Attempt(codes, groups, codes, groups, hosts)


def everywhere(task: Task) -> Attempt:
    """In as few domains as possible, wherever they are; nodes without the label count as one more, the last."""
    inside = task.codes >= 0
    fine = np.where(inside, task.codes, task.domains)
    return Attempt(fine, task.domains + 1, np.zeros_like(task.codes), 1)


def attempts(task: Task) -> Iterator[Attempt]:
    """One host, one domain, one of each coarser level, all domains, and last also nodes without the label.

    Newcomers of a gang that sits already go straight to the nearest room.
    """
    inside = task.codes >= 0
    if task.required or not task.anchors:
        yield from _in_one(task, inside)
    if task.required:
        return
    if not task.anchors:
        for level in range(task.level + 1, len(task.pool.coords)):
            coarse = np.where(inside, task.pool.coords[level], -1)
            yield Attempt(task.codes, task.domains, coarse, task.pool.domains(level))
    yield Attempt(task.codes, task.domains, np.where(inside, 0, -1), 1)
    if not inside.all():
        if task.strategy is Strategy.PACK and not task.anchors:
            yield one_of(np.arange(len(inside)), len(inside), hosts=True)
        yield everywhere(task)


def _in_one(task: Task, inside: NDArray[np.bool_]) -> Iterator[Attempt]:
    if task.strategy is Strategy.PACK and not task.anchors:
        yield one_of(np.where(inside, np.arange(len(inside)), -1), len(inside), hosts=True)
    if task.strategy is not Strategy.PACK and sum(task.needs) == 1:  # alone, it is in one domain anywhere
        yield one_of(np.where(inside, 0, -1), 1)
    yield one_of(task.codes, task.domains)


def orders(task: Task) -> list[tuple[int, ...]]:
    """Orders to seat the batches of the quorum in: by size of the demand, by scarcity of room, by choice."""
    pool, quorum = task.pool, range(task.quorum)
    if task.quorum == 1:
        return [(0,)]
    size = [max((want / pool.scale[c] for c, want in pool.requests[b]), default=0.0) for b in quorum]
    choice = [int(np.count_nonzero(pool.units[b])) for b in quorum]
    scarcity = [task.needs[b] / (pool.units[b].sum() + 1) for b in quorum]
    keys = (
        [(-size[b], choice[b]) for b in quorum],
        [(-scarcity[b], choice[b]) for b in quorum],
        [(choice[b], -size[b]) for b in quorum],
    )
    return list(dict.fromkeys(tuple(sorted(quorum, key=key.__getitem__)) for key in keys))


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one attempt: seated[b, g] members of each batch in each coarse group."""

    attempt: Attempt
    order: tuple[int, ...]
    scratch: Scratch
    seated: NDArray[np.float64]


def hopeful(task: Task, attempt: Attempt) -> bool:
    """Some group has room for each batch, were it alone, and for the sum of all: else no trial is worth its time."""
    whole = np.ones(attempt.coarses, dtype=bool)
    for units, need in zip(task.pool.units, task.needs, strict=False):
        whole &= total(attempt.coarse, units, attempt.coarses) >= need
    if task.quorum > 1 and whole.any():
        for column, wanted in task.sums.items():
            free = np.maximum(task.pool.free[column], 0)
            whole &= total(attempt.coarse, free, attempt.coarses) >= wanted * _NEARLY
    return bool(whole.any())


def tried(task: Task, attempt: Attempt, order: tuple[int, ...], *, tightest: bool = False) -> Trial:
    """Seat the quorum inside every coarse group at once, in each as far as it goes.

    tightest: fill nodes from the tightest on, not from the roomiest; more hosts, but other remainders.
    """
    scratch = task.scratch()
    seated = np.zeros((task.quorum, attempt.coarses))
    known = attempt.fine >= 0
    parent = np.full(attempt.fines, -1, dtype=np.int64)
    parent[attempt.fine[known]] = attempt.coarse[known]
    tier = _tiers(task, attempt)
    for batch in order:
        units, need = scratch.units(batch), float(task.needs[batch])
        quota = np.full(attempt.coarses, need)
        if attempt.hosts:
            take = np.where(known, np.minimum(units, need), 0.0)
        else:
            if not attempt.single:
                quota = fill(total(attempt.fine, units, attempt.fines), parent, quota, tier)
            nodes = (
                np.minimum(units, TIERS - 1).astype(np.int64) if tightest else np.where(scratch.used, 0, 1)
            )
            take = fill(units, attempt.fine, quota, nodes)
        scratch.put(batch, take)
        seated[batch] = total(attempt.coarse, take, attempt.coarses)
        tier[attempt.fine[take > 0]] = 0
    return Trial(attempt, order, scratch, seated)


def _tiers(task: Task, attempt: Attempt) -> Codes:
    """Codes[f]: which fine domains to use first: the nearest to the anchors, those without the label last."""
    last = len(task.pool.coords) + 2
    out = np.full(attempt.fines, last - 1, dtype=np.int64)
    if task.anchors:
        known = attempt.fine >= 0
        np.minimum.at(out, attempt.fine[known], task.distance[known])
    if attempt.fines > task.domains and not attempt.single:
        out[task.domains] = last
    return out


def best(task: Task, trial: Trial) -> int | None:
    """The coarse group to take, of those that hold the whole quorum; None when none does.

    Of single hosts the snuggest, then the one in the tightest domain.  Of single domains the tightest, then the
    one where fewest hosts are taken.  Of wider groups the one where fewest domains are spanned, then fewest
    hosts, then the tightest.  Ties go to the first.
    """
    attempt = trial.attempt
    keys: Sequence[NDArray[np.float64]]
    needs = np.array(task.needs, dtype=float)[:, None]
    whole = np.flatnonzero((trial.seated == needs).all(axis=0))
    if len(whole) < 2:
        return int(whole[0]) if len(whole) else None
    slack = task.slack_of(attempt.coarse, attempt.coarses)
    if attempt.hosts:
        outer = np.append(task.slack_of(task.codes, task.domains), 0.0)[task.codes]
        keys = [outer, *reversed(snug(task.pool, task.slack))]
    else:
        sat = trial.scratch.sat()
        hosts = total(attempt.coarse, sat.astype(float), attempt.coarses)
        keys = [hosts, slack] if attempt.single else [slack, hosts, _spans(attempt, sat)]
    return int(whole[np.lexsort([whole, *(key[whole] for key in keys)])[0]])


def _spans(attempt: Attempt, sat: NDArray[np.bool_]) -> Counts:
    """Counts[g]: how many fine domains are used in each coarse group."""
    pairs = np.unique(attempt.coarse[sat] * attempt.fines + attempt.fine[sat])
    return total(pairs // attempt.fines, np.ones(len(pairs)), attempt.coarses)


def pack(task: Task) -> Scratch | None:
    """Seats for the whole quorum, close together; None when there are none."""
    for attempt in attempts(task):
        if not hopeful(task, attempt):
            continue
        for order in orders(task):
            trial = tried(task, attempt, order)
            group = best(task, trial)
            if group is not None:
                return _kept(task, trial, group)
    return last_resort(task)


def last_resort(task: Task) -> Scratch | None:
    """Seats of several demands that the promising orders missed: every order of a few, filled both ways."""
    attempt = one_of(task.codes, task.domains) if task.required else everywhere(task)
    if not 1 < task.quorum <= _FEW or not hopeful(task, attempt):
        return None
    for order in permutations(range(task.quorum)):
        for tightest in (False, True):
            trial = tried(task, attempt, order, tightest=tightest)
            group = best(task, trial)
            if group is not None:
                return _kept(task, trial, group)
    return None


def _kept(task: Task, trial: Trial, group: int) -> Scratch:
    """Only what sits in this group; by alignment where the gang asks for it."""
    inside = trial.attempt.coarse == group
    takes = {batch: np.where(inside, trial.scratch.takes[batch], 0.0) for batch in trial.order}
    if task.strategy in ALIGNMENTS:
        aligned = realign(task, takes, trial.attempt.fine, trial.attempt.fines)
        if aligned is not None:
            return aligned
    scratch = task.scratch()
    for batch, take in takes.items():
        scratch.put(batch, take)
    return scratch
