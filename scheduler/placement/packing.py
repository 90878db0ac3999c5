"""Seats a gang close together: in one domain if one holds it, otherwise in as few as possible.

Why all domains at once: `fill` seats the gang in every domain of a level with one sort, and the best domain that holds
the whole gang is kept. Members of one demand fit this way whenever they can fit at all. Of several demands the largest
goes first. If that fails in every domain, other orders are tried.
Never here: the choice of nodes by alignment (cosine), the surplus (seating).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Mask
from scheduler.model.workload import Strategy
from scheduler.placement.cosine import realign
from scheduler.placement.distribution import TIERS, Codes, Counts, fill
from scheduler.placement.node_candidates import Scratch, SeatingProblem, total
from scheduler.placement.scoring import best_host, of_domain

_NEARLY: Final = 1 - 1e-9
"""Sums over many nodes may exceed 2**53 and be rounded. An early rejection must not depend on the last digit."""

_FEW: Final = 3
"""The most batches for which all orders are tried as a last resort: six orders. Few gangs have more roles."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Where to try: inside one `coarse` group, in as few `fine` domains as possible. Both are Codes[m].

    hosts: every place is its own group.  lone: no two places share a fine domain.
    """

    fine: Codes
    fines: int
    coarse: Codes
    coarses: int
    hosts: bool = False
    lone: bool = False

    @property
    def single(self) -> bool:
        """The whole gang in one domain."""
        return self.fine is self.coarse

    def sums(self, weights: Counts) -> Counts:
        """float64[g]: the sum of the weights of each coarse group's places."""
        if self.hosts:
            return np.where(self.coarse >= 0, weights, 0.0)
        return total(self.coarse, weights, self.coarses)


def one_domain(task: SeatingProblem) -> Attempt:
    """Inside one domain of the level."""
    return Attempt(task.codes, task.domains, task.codes, task.domains, lone=task.lone)


def one_host(places: Codes) -> Attempt:
    """On one place. Codes[m]: each place's own number, or -1 if the gang must not go there."""
    return Attempt(places, len(places), places, len(places), hosts=True, lone=True)


def everywhere(task: SeatingProblem) -> Attempt:
    """In as few domains as possible, anywhere. Nodes without the label count as one more domain, the last."""
    inside = task.codes >= 0
    fine = np.where(inside, task.codes, task.domains)
    return Attempt(fine, task.domains + 1, np.zeros_like(task.codes), 1)


def attempts(task: SeatingProblem) -> Iterator[Attempt]:
    """One host, one domain, one domain of each coarser level, all domains, and last also nodes without the label.

    New members of a seated gang go straight to the nearest free capacity.
    """
    inside = task.codes >= 0
    on_one_host = task.strategy is Strategy.PACK and not task.anchors
    if task.required or not task.anchors:
        if on_one_host:
            yield one_host(np.where(inside, np.arange(len(inside)), -1))
        if task.strategy is not Strategy.PACK and sum(task.needs) == 1:  # one member is in one domain anyway
            labeled = np.where(inside, 0, -1)
            yield Attempt(labeled, 1, labeled, 1)
        yield one_domain(task)
    if task.required:
        return
    if not task.anchors:
        for level in range(task.level + 1, len(task.pool.coords)):
            coarse = np.where(inside, task.pool.coords[level], -1)
            yield Attempt(task.codes, task.domains, coarse, task.pool.domains(level), lone=task.lone)
    yield Attempt(task.codes, task.domains, np.where(inside, 0, -1), 1, lone=task.lone)
    if not inside.all():
        if on_one_host:
            yield one_host(np.arange(len(inside)))
        yield everywhere(task)


def orders(task: SeatingProblem) -> list[tuple[int, ...]]:
    """The orders in which to seat the batches of the quorum: by size of the demand, by scarcity, by choice of nodes."""
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
    """The result of one attempt: seated[b, g] members of each batch in each coarse group."""

    attempt: Attempt
    scratch: Scratch
    seated: NDArray[np.float64]


def promising(task: SeatingProblem, attempt: Attempt) -> Mask:
    """bool[g]: the groups that hold each batch on its own, and the sum of all. No other group can hold the quorum."""
    whole = np.ones(attempt.coarses, dtype=bool)
    for units, need in zip(task.pool.units, task.needs, strict=False):
        whole &= attempt.sums(units) >= need
        if not whole.any():
            return whole
    if task.quorum > 1:
        for column, wanted in task.sums.items():
            whole &= attempt.sums(np.maximum(task.pool.free[column], 0)) >= wanted * _NEARLY
    return whole


def tried(
    task: SeatingProblem,
    attempt: Attempt,
    order: tuple[int, ...],
    groups: Mask | None = None,
    *,
    tightest: bool = False,
) -> Trial:
    """Seat the quorum inside every coarse group at once, in each as far as possible.

    groups: bool[g], the only groups to try. A group is dropped as soon as a batch does not fit.
    tightest: fill the tightest nodes first instead of the roomiest, which takes more hosts but leaves other remainders.
    """
    scratch = task.scratch()
    alive = np.ones(attempt.coarses, dtype=bool) if groups is None else groups
    seated = np.zeros((task.quorum, attempt.coarses))
    shares = _Shares(task, attempt)
    for batch in order:
        units, need = scratch.units(batch), float(task.needs[batch])
        quota = shares.of(units, np.where(alive, need, 0.0))
        if attempt.lone:  # a domain's only place takes as many as fit
            take = np.minimum(units, np.append(quota, 0.0)[attempt.fine])
        elif tightest:
            take = fill(units, attempt.fine, quota, np.minimum(units, TIERS - 1).astype(np.int64))
        else:  # nodes that are already used come first
            take = fill(units, attempt.fine, quota, np.where(scratch.used, 0, 1))
        scratch.put(batch, take)
        shares.taken(take)
        seated[batch] = attempt.sums(take)
        if groups is not None:
            alive = alive & (seated[batch] == need)
    return Trial(attempt, scratch, seated)


class _Shares:
    """How many of a batch each fine domain gets: domains with members first, then the roomiest."""

    def __init__(self, task: SeatingProblem, attempt: Attempt) -> None:
        self._attempt: Final = attempt
        if attempt.single:
            return
        known = attempt.fine >= 0
        self._parent: Final = np.full(attempt.fines, -1, dtype=np.int64)
        self._parent[attempt.fine[known]] = attempt.coarse[known]
        self._tier: Final = _tiers(task, attempt)

    def of(self, units: Counts, quota: Counts) -> Counts:
        """Counts[f], from the quota Counts[g]. Both are the same if `fine` is `coarse`."""
        if self._attempt.single:
            return quota
        room = total(self._attempt.fine, units, self._attempt.fines)
        return fill(room, self._parent, quota, self._tier)

    def taken(self, take: Counts) -> None:
        """Record how many members each place takes."""
        if not self._attempt.single:
            self._tier[self._attempt.fine[take > 0]] = 0


def _tiers(task: SeatingProblem, attempt: Attempt) -> Codes:
    """Codes[f]: which fine domains to use first: the nearest to the anchors first, nodes without the label last."""
    last = len(task.pool.coords) + 2
    out = np.full(attempt.fines, last - 1, dtype=np.int64)
    if task.anchors:
        known = attempt.fine >= 0
        np.minimum.at(out, attempt.fine[known], task.distance[known])
    if attempt.fines > task.domains:
        out[task.domains] = last
    return out


def best(task: SeatingProblem, trial: Trial) -> int | None:
    """The coarse group to take among those that hold the whole quorum. None: no group does.

    Of single hosts: the best host, then the one in the tightest domain. Of single domains: the tightest, then the one
    with the fewest hosts used. Of wider groups: the fewest domains, then the fewest hosts, then the tightest. Ties go
    to the first.
    """
    attempt = trial.attempt
    keys: Sequence[NDArray[np.float64]]
    needs = np.array(task.needs, dtype=float)[:, None]
    whole = np.flatnonzero((trial.seated == needs).all(axis=0))
    if len(whole) < 2:
        return int(whole[0]) if len(whole) else None
    slack = attempt.sums(task.slack)
    if attempt.hosts:
        outer = of_domain(task, total(task.codes, task.slack, task.domains))
        keys = [outer, *reversed(best_host(task, task.sums, task.slack))]
    else:
        sat = trial.scratch.sat()
        hosts = total(attempt.coarse, sat.astype(float), attempt.coarses)
        keys = [hosts, slack] if attempt.single else [slack, hosts, _spans(attempt, sat)]
    return int(whole[np.lexsort([whole, *(key[whole] for key in keys)])[0]])


def _spans(attempt: Attempt, sat: NDArray[np.bool_]) -> Counts:
    """Counts[g]: how many fine domains each coarse group uses. Each domain counts in one group only."""
    lies_in = np.full(attempt.fines, -1, dtype=np.int64)
    lies_in[attempt.fine[sat]] = attempt.coarse[sat]
    return total(lies_in, np.ones(attempt.fines), attempt.coarses)


def pack(task: SeatingProblem) -> Scratch | None:
    """Seats for the whole quorum, close together. None: it does not fit."""
    for attempt in attempts(task):
        groups = promising(task, attempt)
        found = _first(task, attempt, groups, product(orders(task), (False,))) if groups.any() else None
        if found is not None:
            return found
    return last_resort(task)


def last_resort(task: SeatingProblem) -> Scratch | None:
    """Seats for several demands that the promising orders missed: all orders of a few batches, filled both ways."""
    attempt = one_domain(task) if task.required else everywhere(task)
    if not 1 < task.quorum <= _FEW:
        return None
    groups = promising(task, attempt)
    ways = product(permutations(range(task.quorum)), (False, True))
    return _first(task, attempt, groups, ways) if groups.any() else None


def _first(
    task: SeatingProblem, attempt: Attempt, groups: Mask, ways: Iterable[tuple[tuple[int, ...], bool]]
) -> Scratch | None:
    """The seats of the first way (an order, and `tightest`) that fits the quorum inside one of these groups.

    Only the seats in the best group are kept, realigned if the gang's strategy is cosine.
    """
    for order, tightest in ways:
        trial = tried(task, attempt, order, groups, tightest=tightest)
        group = best(task, trial)
        if group is None:
            continue
        takes = {b: np.where(attempt.coarse == group, trial.scratch.takes[b], 0.0) for b in order}
        if task.strategy is Strategy.COSINE:
            aligned = realign(task, takes, attempt.fine, attempt.fines)
            if aligned is not None:
                return aligned
        scratch = task.scratch()
        for batch, take in takes.items():
            scratch.put(batch, take)
        return scratch
    return None
