"""One possible scenario: each running gang ends at a given time, and the queue advances behind it.

Lives here: the scheduler's logic played forward over these ends, in the order of the queue, with the policy's backfill.
Never here: how likely a scenario is, and the forecast that follows (forecast).

A scenario uses two times per running gang: when it ends, and when it is *expected* to end. Reservations use the
expected times, as in the real scheduler. Capacity is freed at the real ones.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from scheduler.model.cluster import Matrix
from scheduler.model.decision import Place
from scheduler.model.queueing import Backfill, Order
from scheduler.model.resources import Vector
from scheduler.placement import planner
from scheduler.placement.fit_measure import NO_FIT, dot_products, misfit
from scheduler.placement.forecast_setup import (
    ForecastCapacity,
    ForecastSetup,
    Rows,
    Runs,
    Shape,
    growth,
    holds,
    merged,
    snug,
)
from scheduler.placement.order import turn
from scheduler.placement.reservation import Search, could_hold, departures, expected_ends, uses_of
from scheduler.placement.scoring import compared


class HeadReservation:
    """Capacity reserved for the head of the queue from `start` on, and what other gangs may use beside it.

    left: float64[n, r], what is left at `start` after the head is seated.
    full: shapes that found no seats beside the head since capacity was last freed.
    """

    def __init__(self, head: int, start: float, left: Matrix) -> None:
        self.head: Final = head
        self.start: Final = start
        self.left: Final = left
        self.full: Final[set[int]] = set()
        self._beside: ForecastCapacity | None = None
        self._stale: Final[set[int]] = set()

    def changed(self, rows: Rows) -> None:
        """Record that the free or remaining capacity on these rows changed."""
        if self._beside is not None:
            self._stale.update(rows.tolist())

    def beside(self, capacity: ForecastCapacity) -> ForecastCapacity:
        """The capacity for gangs that run beyond the start. `capacity` is the free capacity now.

        Computed on demand, because usually another gang has started or ended before the next call.
        """
        if self._beside is None:
            self._beside = ForecastCapacity(capacity.demands, np.minimum(capacity.free, self.left))
        elif self._stale:
            rows = np.array(sorted(self._stale))
            self._beside.put(rows, np.minimum(capacity.free[rows], self.left[rows]))
            self._stale.clear()
        return self._beside


class Simulation:
    """One scenario.  tries: the number of placement searches allowed."""

    def __init__(
        self, setup: ForecastSetup, ends: Sequence[float], spans: Sequence[float], tries: int
    ) -> None:
        """ends: when each stay ends.  spans: for how many seconds each waiting gang will run."""
        self._setup: Final = setup
        self._spans: Final = spans
        self._tries = tries
        self._now = setup.now
        self._capacity: Final = ForecastCapacity(setup.demands, setup.capacity.free, setup.capacity.units)
        self._expected: Final = setup.expected.tolist()
        self._queue: Sequence[int] = setup.queue
        self._full: Final[set[int]] = set()  # shapes that found no seats since capacity was last freed
        self._upto = 0  # all gangs of the queue before this place have started
        self._ceilings: Final = setup.ceilings.copy()
        self._running: dict[int, Runs] = {}
        self._ends: list[tuple[float, int]] = []
        self._serial = 0
        self._kept: HeadReservation | None = None
        self._starts: dict[int, float] = {}
        for runs, end in zip(setup.running, ends, strict=True):
            self._sit(runs, end)

    def play(self) -> Mapping[int, float]:
        """When each waiting gang starts, by its place in the queue. Gangs that are not reached are missing."""
        self._pass()
        while self._waits and self._ends and self._tries > 0 and self._ends[0][0] < np.inf:
            self._now = max(self._now, self._ends[0][0])
            if self._kept is not None and self._now >= self._kept.start:
                self._kept = None  # the head did not start at its time: reserve again
            while self._ends and self._ends[0][0] <= self._now:
                self._leave(self._running.pop(heapq.heappop(self._ends)[1]))
            self._pass()
        return self._starts

    @property
    def _waits(self) -> bool:
        return len(self._starts) < len(self._setup.queue)

    # ── starts and ends ─────────────────────────────────────────────────────────────────────────────────

    def _sit(self, runs: Runs, end: float) -> None:
        self._running[self._serial] = runs
        heapq.heappush(self._ends, (end, self._serial))
        self._serial += 1

    def _leave(self, runs: Runs) -> None:
        self._capacity.put(runs.rows, self._capacity.free.take(runs.rows, axis=0) + runs.uses)
        self._ceilings.take(runs.namespace, runs.uses)
        self._full.clear()
        kept = self._kept
        if kept is not None:
            if runs.expected > kept.start:  # it was counted as still running
                kept.left[runs.rows] += runs.uses
            kept.changed(runs.rows)
            kept.full.clear()

    # ── one pass over the queue ─────────────────────────────────────────────────────────────────────────

    def _pass(self) -> None:
        """Try all gangs in turn. A gang that does not fit waits, and the first of these may block those behind."""
        head = self._ahead() if self._setup.policy.order is not Order.FIT else self._ahead_by_fit()
        backfill = self._setup.policy.backfill
        if head is None or backfill is Backfill.NONE:
            return
        # Another gang may be the head now, because the one before may have reached its ceiling.
        if backfill is Backfill.RESERVE and (self._kept is None or self._kept.head != head):
            found = self._reserve(head)
            self._kept = None if found is None else HeadReservation(head, *found)
        self._behind()

    def _ahead(self) -> int | None:
        """Start the gangs that pass no other gang. Returns the head, which does not fit. None: no head.

        A gang at its ceiling blocks no other gang.
        """
        begun = True  # all up to here
        for one in self._queue[self._upto :]:
            if not self._waits or self._tries <= 0:
                break
            held = one not in self._starts and self._is_at_ceiling(self._setup.shape[one])
            if one not in self._starts and not held and not self._begin(one, behind=False):
                return one
            begun = begun and not held
            if begun:
                self._upto += 1
        return None

    def _ahead_by_fit(self) -> int | None:
        """The same with the order `fit`: sorted again after gangs have started, until none ahead of the head fits."""
        while True:
            before = len(self._starts)
            self._sort()
            head = self._ahead()
            if head is None or len(self._starts) == before or self._tries <= 0:
                return head

    def _sort(self) -> None:
        """Sort the waiting gangs by how they fit in the free capacity."""
        setup, capacity = self._setup, self._capacity
        columns = list(compared(setup.snapshot.axis))
        wants, scale = setup.demands.wants[:, columns], setup.snapshot.scale[columns]
        best = dot_products(wants, capacity.free[:, columns], capacity.units, scale).tolist()
        measures = [misfit(own.needs, best) if holds(capacity, own) else NO_FIT for own in setup.shapes]
        turns = {
            one: turn(setup.waiting[one], setup.policy, self._now, measures[setup.shape[one]])
            for one in self._queue
            if one not in self._starts
        }
        self._queue, self._upto = sorted(turns, key=turns.__getitem__), 0

    def _behind(self) -> None:
        """Start the gangs that fit past the head, in the order of the queue.

        A shape that fits nowhere is not tried again before capacity is freed. A shape that does not fit beside the head
        is tried only for gangs that end before the head starts.
        """
        shapes, shape, starts = self._setup.shapes, self._setup.shape, self._starts
        held = {number for number, own in enumerate(shapes) if holds(self._capacity, own)} - self._full
        for one in self._queue[self._upto :]:
            if not held or self._tries <= 0:
                return
            number, kept = shape[one], self._kept
            if number not in held or one in starts or self._is_at_ceiling(number):
                continue
            beyond = kept is not None and self._now + self._expected[one] > kept.start
            if kept is None or not (beyond and number in kept.full):
                self._begin(one, behind=True)
                held -= self._full
                held -= {own for own in held if not holds(self._capacity, shapes[own])}

    def _is_at_ceiling(self, number: int) -> bool:
        """A gang of this shape would take its namespace above its ceiling now."""
        setup = self._setup
        return self._ceilings.is_passed(setup.shapes[number].namespace, setup.quorum[number])

    def _begin(self, one: int, *, behind: bool) -> bool:
        """Start this gang now, if it is allowed and fits."""
        number = self._setup.shape[one]
        until = self._now + self._expected[one]
        at_ceiling = self._is_at_ceiling(number)  # others of its namespace may have started since
        seats = None if at_ceiling else self._seats(number, self._kept if behind else None, until)
        if seats is None:
            return False
        rows, uses = seats
        self._starts[one] = self._now
        self._capacity.put(rows, self._capacity.free.take(rows, axis=0) - uses)
        self._beside_goes(one, rows, uses, until)
        namespace = self._setup.shapes[number].namespace
        self._ceilings.put(namespace, uses)
        self._sit(Runs(until, rows, uses, namespace), self._now + self._spans[one])
        return True

    def _beside_goes(self, one: int, rows: Rows, uses: Matrix, until: float) -> None:
        """Subtract a started gang from the capacity beside the head. A started head drops the reservation."""
        kept = self._kept
        if kept is None or kept.head == one:
            self._kept = None
            return
        if until > kept.start:
            kept.left[rows] -= uses
        kept.changed(rows)

    def _seats(self, number: int, kept: HeadReservation | None, until: float) -> tuple[Rows, Matrix] | None:
        """Seats for a gang until `until`: beside the reservation if it outlasts the head's start, otherwise anywhere.

        A shape that does not fit in all free capacity does not fit beside the head either.
        """
        shape = self._setup.shapes[number]
        if kept is not None and until > kept.start and holds(self._capacity, shape):
            capacity, full = kept.beside(self._capacity), kept.full
        else:
            capacity, full = self._capacity, self._full
        found = self._found(capacity, shape) if holds(capacity, shape) else None
        if found is None:
            full.add(number)
        return found

    def _found(self, capacity: ForecastCapacity, shape: Shape) -> tuple[Rows, Matrix] | None:
        self._tries -= 1
        setup = self._setup
        if shape.plain and not shape.needs:
            return np.zeros(0, dtype=np.int64), np.zeros((0, capacity.free.shape[1]))
        if shape.plain:
            ((demand, members),) = shape.needs
            rows, counts = snug(capacity.units[demand], members)
            return rows, counts[:, None] * setup.demands.wants[demand]
        picture = replace(setup.snapshot, free=capacity.free)
        if not could_hold(picture, capacity.free, shape.gang, setup.masks):
            return None
        decision = planner.decide(picture, shape.gang, setup.policy, None, setup.masks)
        return merged(*uses_of(picture, shape.gang, decision)) if isinstance(decision, Place) else None

    # ── the head ────────────────────────────────────────────────────────────────────────────────────────

    def _reserve(self, head: int) -> tuple[float, Matrix] | None:
        """The start of the head, and float64[n, r]: the capacity left then."""
        shape = self._setup.shapes[self._setup.shape[head]]
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
        """The same for a plain gang, from the pods (rows int64[k], uses float64[k, r]) in the order of their ends."""
        ((demand, members),) = shape.needs
        demands = self._setup.demands
        enough = int(np.searchsorted(growth(demands, demand, self._capacity, rows, uses), members))
        if enough == len(rows):
            return None
        start = float(times[enough])
        gone = int(np.searchsorted(times, start, side="right"))
        left = self._capacity.free.copy()
        np.add.at(left, rows[:gone], uses[:gone])
        sat, counts = snug(demands.count_one(demand, left), members)
        left[sat] -= counts[:, None] * demands.wants[demand]
        return start, left

    def _searched(self, shape: Shape, ends: Vector, running: Sequence[Runs]) -> tuple[float, Matrix] | None:
        """The same for any gang, by the planner."""
        setup = self._setup
        picture = replace(setup.snapshot, free=self._capacity.free)
        going = departures(ends, lambda gang: (running[gang].rows, running[gang].uses), self._now)
        search = Search(picture, shape.gang, setup.policy, going, None, setup.masks)
        found = search.earliest()
        self._tries -= search.asked
        return None if found is None else (found.start, found.left.copy())
