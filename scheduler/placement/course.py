"""One possible course of events: everybody who runs leaves at a time given, and the queue moves up behind them.

Lives here: the core run forward over ends, in the order of the queue, with the backfill of the policy.
Never here: how likely a course is, and what follows for people (forecast).

Within a course two times count of everybody who runs: when it leaves, and when it is *expected* to leave.  Room is
reserved by what is expected, as it is in truth, and comes free when it comes free.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from scheduler.model.cluster import Matrix
from scheduler.model.decision import Place
from scheduler.model.queueing import Backfill
from scheduler.model.resources import Vector
from scheduler.placement import planner
from scheduler.placement.reservation import (
    Search,
    could_hold,
    departures,
    expected_ends,
    leaves,
    uses_of,
)
from scheduler.placement.scene import Scene, Shape, holds
from scheduler.placement.yard import Rows, Yard, growth, merged, snug


@dataclass(slots=True, eq=False)
class _Kept:
    """Room kept for the head from `start` on.  left: float64[n, r].  beside: what those may use who stay beyond it."""

    head: int
    start: float
    left: Matrix
    beside: Yard


@dataclass(slots=True, eq=False)
class _Runs:
    """Somebody who uses room.  rows are distinct."""

    expected: float
    rows: Rows
    uses: Matrix


class Course:
    """One course.  tries: how often it may be asked where a gang could sit."""

    def __init__(self, ground: Scene, ends: Sequence[float], spans: Sequence[float], tries: int) -> None:
        """ends: of each stay, when it leaves.  spans: of each waiting gang, how many seconds it will run."""
        self._scene: Final = ground
        self._spans: Final = spans
        self._tries = tries
        self._now = ground.now
        self._yard: Final = Yard(ground.demands, ground.yard.free, ground.yard.units)
        self._queue = [w for w, shape in enumerate(ground.shape) if shape not in ground.never]
        self._running: dict[int, _Runs] = {}
        self._ends: list[tuple[float, int]] = []
        self._serial = 0
        self._kept: _Kept | None = None
        self._starts: dict[int, float] = {}
        for stay, end in zip(ground.stays, ends, strict=True):
            self._sit(_Runs(stay.ends.middle, *merged(stay.rows, stay.uses)), end)

    def play(self) -> Mapping[int, float]:
        """When each waiting gang starts, by its place in the queue; those not reached are missing."""
        self._pass()
        while self._queue and self._ends and self._tries > 0 and self._ends[0][0] < np.inf:
            self._now = max(self._now, self._ends[0][0])
            while self._ends and self._ends[0][0] <= self._now:
                self._leave(self._running.pop(heapq.heappop(self._ends)[1]))
            self._pass()
        return self._starts

    # ── who comes and goes ──────────────────────────────────────────────────────────────────────────────

    def _sit(self, runs: _Runs, end: float) -> None:
        self._running[self._serial] = runs
        heapq.heappush(self._ends, (end, self._serial))
        self._serial += 1

    def _leave(self, runs: _Runs) -> None:
        self._yard.put(runs.rows, self._yard.free[runs.rows] + runs.uses)
        self._yard.full.clear()
        if self._kept is not None:
            if runs.expected > self._kept.start:  # it was counted among those who stay
                self._kept.left[runs.rows] += runs.uses
            self._share(runs.rows)
            self._kept.beside.full.clear()

    def _share(self, rows: Rows) -> None:
        """What changed on these rows changes what others may use beside the head."""
        kept = self._kept
        if kept is not None:
            kept.beside.put(rows, np.minimum(self._yard.free[rows], kept.left[rows]))

    # ── one pass over the queue ─────────────────────────────────────────────────────────────────────────

    def _pass(self) -> None:
        """Everybody in turn; who finds no room stays, and the first of them may keep those behind from going.

        open: shapes that may still find room in this pass; thousands who wait are mostly of a few that may not.
        """
        head: int | None = None
        rest: list[int] = []
        backfill = self._scene.policy.backfill
        shape = self._scene.shape
        open_ = {shape[one] for one in self._queue}
        for place, one in enumerate(self._queue):
            if not open_ or self._tries <= 0 or (head is not None and backfill is Backfill.NONE):
                rest += self._queue[place:]
                break
            if shape[one] in open_ and self._begin(one, head is not None):
                continue
            rest.append(one)
            if head is None:
                head = one
                if backfill is Backfill.RESERVE:
                    self._keep(one)
            if self._closed(shape[one]):
                open_.discard(shape[one])
        self._queue = rest

    def _closed(self, number: int) -> bool:
        """No gang of this shape can begin before room comes, not even the shortest that waits."""
        kept = self._kept
        if number in self._yard.full or kept is None:
            return number in self._yard.full
        shortest = self._now + self._scene.shortest[number]
        return number in kept.beside.full and shortest > kept.start

    def _begin(self, one: int, behind: bool) -> bool:
        """It starts now, if it may and can."""
        own = self._scene.waiting[one]
        number = self._scene.shape[one]
        if number in self._yard.full:
            return False
        kept = self._kept if behind else None
        until = leaves(own, self._scene.policy, self._now)
        stays = kept is not None and until > kept.start
        yard = kept.beside if kept is not None and stays else self._yard
        seats = self._seats(yard, number)
        if seats is None:
            return False
        rows, uses = seats
        self._starts[one] = self._now
        self._yard.put(rows, self._yard.free[rows] - uses)
        if self._kept is not None:
            if until > self._kept.start:
                self._kept.left[rows] -= uses
            self._share(rows)
        self._sit(_Runs(until, rows, uses), self._now + self._spans[one])
        return True

    def _seats(self, yard: Yard, number: int) -> tuple[Rows, Matrix] | None:
        shape = self._scene.shapes[number]
        if number in yard.full:
            return None
        found = self._found(yard, shape) if holds(yard, shape) else None
        if found is None:
            yard.full.add(number)
        return found

    def _found(self, yard: Yard, shape: Shape) -> tuple[Rows, Matrix] | None:
        self._tries -= 1
        if shape.plain:
            return self._plain(yard, shape)
        ground = self._scene
        picture = replace(ground.snapshot, free=yard.free)
        if not could_hold(picture, yard.free, shape.gang, ground.masks):
            return None
        decision = planner.decide(picture, shape.gang, ground.policy, None, ground.masks)
        return merged(*uses_of(picture, shape.gang, decision)) if isinstance(decision, Place) else None

    def _plain(self, yard: Yard, shape: Shape) -> tuple[Rows, Matrix]:
        if not shape.needs:
            return np.zeros(0, dtype=np.int64), np.zeros((0, yard.free.shape[1]))
        ((demand, members),) = shape.needs
        rows, counts = snug(yard.units[demand], members)
        return rows, counts[:, None] * self._scene.demands.wants[demand]

    # ── the head ────────────────────────────────────────────────────────────────────────────────────────

    def _keep(self, head: int) -> None:
        """Reserve for the head, or go on keeping what is reserved while its time has not passed."""
        if self._kept is not None and self._kept.head == head and self._now < self._kept.start:
            return
        found = self._reserve(head)
        if found is None:
            self._kept = None
            return
        start, left = found
        self._kept = _Kept(head, start, left, Yard(self._scene.demands, np.minimum(self._yard.free, left)))

    def _reserve(self, head: int) -> tuple[float, Matrix] | None:
        """The start of the head, and float64[n, r] that is left then."""
        shape = self._scene.shapes[self._scene.shape[head]]
        running = list(self._running.values())
        ends = expected_ends(np.array([runs.expected for runs in running]), self._now)
        if not shape.plain or not shape.needs:
            return self._searched(shape, ends, running)
        order = [k for k in np.argsort(ends, kind="stable").tolist() if ends[k] < np.inf]
        if not order:
            return None
        rows = np.concatenate([running[k].rows for k in order])
        uses = np.concatenate([running[k].uses for k in order])
        times = np.repeat(ends[order], [len(running[k].rows) for k in order])
        return self._counted(shape, rows, uses, times)

    def _counted(self, shape: Shape, rows: Rows, uses: Matrix, times: Vector) -> tuple[float, Matrix] | None:
        """The same for a plain gang, from the pods (rows int64[k], uses float64[k, r]) in the order they leave in."""
        ((demand, members),) = shape.needs
        demands = self._scene.demands
        enough = int(np.searchsorted(growth(demands, demand, self._yard, rows, uses), members))
        if enough == len(rows):
            return None
        start = float(times[enough])
        gone = int(np.searchsorted(times, start, side="right"))
        left = self._yard.free.copy()
        np.add.at(left, rows[:gone], uses[:gone])
        sat, counts = snug(demands.count_one(demand, left), members)
        left[sat] -= counts[:, None] * demands.wants[demand]
        return start, left

    def _searched(self, shape: Shape, ends: Vector, running: Sequence[_Runs]) -> tuple[float, Matrix] | None:
        """The same for any gang, by the planner."""
        ground = self._scene
        picture = replace(ground.snapshot, free=self._yard.free)
        going = departures(picture, ends, [(runs.rows, runs.uses) for runs in running], self._now)
        search = Search(picture, shape.gang, ground.policy, going, None, ground.masks)
        found = search.earliest()
        self._tries -= search.asked
        return None if found is None else (found.start, found.left.copy())
