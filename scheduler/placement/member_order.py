"""Seats members one by one, in an order in which kube-scheduler accepts each of them after the ones before.

Needed where a seat changes where other members may go: a spread constraint, affinity between members, one member in each
rack. The search goes to the best place first and takes a step back where no member can follow. On few places it is
complete: no seats found means that there are none. On many places it gives up after some steps back.
Never here: what the rules say (neighbor_rules), or gangs whose members do not affect each other (packing, seating).
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Mask
from scheduler.model.resources import Vector
from scheduler.model.workload import Strategy
from scheduler.placement import scoring
from scheduler.placement.distribution import Codes, Counts
from scheduler.placement.node_candidates import Scratch, SeatingProblem, total
from scheduler.placement.packing import Attempt, attempts, one_domain, orders, promising

COMPLETE: Final = 16
"""Places up to which the search is complete, as far as _STEPS allow."""

_STEPS: Final = 5_000
"""Seats that a complete search tries: all ways to seat four different members on six nodes are 2,401."""

_BACK: Final = 64
"""Steps back on more places, in the last attempt. In a narrower one the first dead end is the end."""

_DOMAINS: Final = 8
"""Domains of one level to try before the next coarser level. A required level tries _REQUIRED."""

_REQUIRED: Final = 64


def seat_in_order(task: SeatingProblem) -> Scratch | None:
    """Seats for the whole quorum, in the first of the usual attempts that has some. None: none was found."""
    if task.strategy is Strategy.SPREAD:
        return OrderedSeating(task, np.ones(len(task.pool), dtype=bool)).quorum(_BACK)
    most = _REQUIRED if task.required else _DOMAINS
    ranks: dict[int, Counts] = {}
    tried = [one_domain(task)] if task.required else list(attempts(task))
    for attempt in tried:
        groups = np.flatnonzero(promising(task, attempt))
        tightest = groups[np.argsort(attempt.sums(task.slack)[groups], kind="stable")]
        for group in tightest[:most].tolist():
            last = task.required or attempt is tried[-1]
            found = OrderedSeating(task, attempt.coarse == group, ranks).quorum(_BACK if last else 0)
            if found is not None:
                return found
    return None


def furthest(task: SeatingProblem, attempt: Attempt) -> Counts:
    """Counts[b, g]: how many members of each batch of the quorum could be seated in each group. For a message."""
    out = np.zeros((task.quorum, attempt.coarses))
    room = attempt.sums(np.sum(task.pool.units[: task.quorum], axis=0))
    for group in np.argsort(-room, kind="stable")[:_DOMAINS].tolist():
        search = OrderedSeating(task, attempt.coarse == group)
        search.quorum(_BACK)
        out[:, group] = search.deepest
    return out


class OrderedSeating:
    """One search.  inside: bool[m], the places that it may use."""

    def __init__(self, task: SeatingProblem, inside: Mask, ranks: dict[int, Counts] | None = None) -> None:
        """ranks: the ranks of places by batch, shared by the searches of one task."""
        pool, rules = task.pool, task.pool.rules
        if rules is None:
            raise ValueError("only a gang with rules about neighbors is seated in order")
        self._task: Final = task
        self._state: Final = rules.at(pool.rows)
        self._free: Final = {column: pool.free[column].copy() for own in pool.requests for column, _ in own}
        self._units: Final = [np.where(inside, units, 0.0) for units in pool.units]
        self._tiers: Final = [task.distance.astype(np.int8)]
        self._have: Final = task.have.copy()
        self._ranks: Final = {} if ranks is None else ranks
        self._sequence: Final[list[tuple[int, int]]] = []
        self.deepest: Final = [0] * task.quorum
        """The most members of each batch that were seated at once, at the deepest point of the search."""
        self._undo: Final[list[list[tuple[Vector, int, float]]]] = []

    def quorum(self, back: int) -> Scratch | None:
        """Seats for the whole quorum. None: none were found.  back: steps back on more than COMPLETE places."""
        left = list(self._task.needs)
        order, frames = orders(self._task)[0], [self._choices(left)]
        complete = int(np.count_nonzero(np.sum(self._units, axis=0))) <= COMPLETE
        steps, seen = (_STEPS if complete else back), set[tuple[tuple[int, int], ...]]()
        while any(left):
            choice = next(frames[-1], None)
            if choice is None:
                frames.pop()
                steps -= not complete
                if not frames or steps < 0:
                    return None
                left[self._unseat()] += 1
                continue
            if complete:  # the same seats in another order allow the same seats after them
                seats = tuple(sorted((*self._sequence, choice)))
                if seats in seen:
                    continue
                seen.add(seats)
            steps -= complete
            if steps < 0:
                return None
            self._seat(*choice)
            left[choice[0]] -= 1
            if sum(self.deepest) < len(self._sequence):
                self.deepest[:] = [n - rest for n, rest in zip(self._task.needs, left, strict=True)]
            frames.append(self._choices(left))
        return self._scratch(order)

    def more(self, batch: int, members: int) -> None:
        """Seat as many further members of this batch as fit."""
        for _ in range(members):
            place = next(self._places(batch), None)
            if place is None:
                return
            self._seat(batch, place)

    def take(self, batch: int) -> Counts:
        """Counts[m]: the seats of this batch so far."""
        out = np.zeros(len(self._task.pool))
        np.add.at(out, [place for own, place in self._sequence if own == batch], 1.0)
        return out

    def _scratch(self, order: tuple[int, ...]) -> Scratch:
        scratch = self._task.scratch()
        scratch.in_order = self
        for batch in order:
            scratch.put(batch, self.take(batch))
        return scratch

    @property
    def sequence(self) -> list[tuple[int, int]]:
        """Batch and place of each seat, in order."""
        return self._sequence

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────

    def _choices(self, left: list[int]) -> Iterator[tuple[int, int]]:
        """Batch and place of the next seat, the best first."""
        for batch in orders(self._task)[0]:
            if left[batch]:
                for place in self._places(batch):
                    yield batch, place

    def _places(self, batch: int) -> Iterator[int]:
        """The places that a member of this batch may take now, the best first."""
        task = self._task
        may = self._state.open(task.pool.kinds[batch])
        may &= self._units[batch] > 0
        if task.required and task.strategy is Strategy.SPREAD:
            may &= self._within_spread()
        cost = np.where(may, self._tier() * float(len(may)) + self._rank(batch), np.inf)
        best = int(cost.argmin()) if len(cost) else 0
        if not len(cost) or cost[best] == np.inf:
            return
        yield best
        yield from np.argsort(cost, kind="stable")[1 : int(may.sum())].tolist()

    def _tier(self) -> Counts | NDArray[np.int8]:
        """Which places come first: near the gang's other members, or in the domain with the fewest of them."""
        task = self._task
        if task.strategy is Strategy.SPREAD:
            outside = self._have.max(initial=0.0) + 1.0
            return np.append(self._have, outside)[task.codes]
        return self._tiers[-1]

    def _within_spread(self) -> Mask:
        """bool[m]: the domains that stay within one member of the emptiest eligible domain."""
        task = self._task
        least = self._have[task.eligible].min() if task.eligible.any() else 0.0
        return np.append(self._have <= least, False)[task.codes]

    def _rank(self, batch: int) -> Counts:
        """Counts[m]: the place's position among places of one tier."""
        if batch not in self._ranks:
            task, pool = self._task, self._task.pool
            units = pool.units[batch]
            if task.strategy is Strategy.COSINE:
                request, places = dict(pool.requests[batch]), np.arange(len(pool))
                keys = [pool.devices, -scoring.Alignment(pool, task.scratch(), request, places).steps]
            elif task.strategy is Strategy.SPREAD:
                room = total(task.codes, units, task.domains)
                keys = [units, task.codes, -scoring.of_domain(task, room)]
            else:
                keys = list(reversed(scoring.best_host(task, dict(pool.requests[batch]), units)))
            rank = np.empty(len(pool))
            rank[np.lexsort([np.arange(len(pool)), *keys])] = np.arange(len(pool))
            self._ranks[batch] = rank
        return self._ranks[batch]

    def _seat(self, batch: int, place: int) -> None:
        task, pool, undo = self._task, self._task.pool, []
        for column, wanted in pool.requests[batch]:
            undo.append((self._free[column], place, float(self._free[column][place])))
            self._free[column][place] -= wanted
        for other, units in enumerate(self._units):
            if not units[place]:
                continue
            undo.append((units, place, float(units[place])))
            room = min(
                (self._free[c][place] // want for c, want in pool.requests[other]), default=units[place]
            )
            units[place] = 0.0 if pool.apart[batch, other] else max(min(room, units[place]), 0.0)
        domain = task.codes[place]
        if 0 <= domain < len(self._have):
            undo.append((self._have, domain, float(self._have[domain])))
            self._have[domain] += 1
        self._undo.append(undo)
        self._state.seat(pool.kinds[batch], place)
        self._sequence.append((batch, place))
        if task.strategy is Strategy.SPREAD:
            return  # it looks at domains, not at distances
        near = _around(pool.coords, place)
        self._tiers.append(np.minimum(self._tiers[-1], near) if self._sequence[1:] or task.anchors else near)

    def _unseat(self) -> int:
        """Take the last seat back. Returns its batch."""
        batch, place = self._sequence.pop()
        for array, index, before in reversed(self._undo.pop()):
            array[index] = before
        self._state.seat(self._task.pool.kinds[batch], place, -1.0)
        if self._task.strategy is not Strategy.SPREAD:
            self._tiers.pop()
        return batch


def _around(coords: Codes, place: int) -> NDArray[np.int8]:
    """int8[m]: the distance of each place from this one, as in `node_candidates.around`."""
    distance = np.full(coords.shape[1], len(coords) + 1, dtype=np.int8)
    for level in reversed(range(len(coords))):
        own = coords[level, place]
        if own >= 0:
            np.putmask(distance, coords[level] == own, level + 1)
    distance[place] = 0
    return distance
