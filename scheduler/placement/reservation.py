"""Capacity reserved in time for the first waiting gang, so that no gang that starts past it delays it.

Lives here: EASY backfilling (Lifka, JSSPP 1995; Mu'alem and Feitelson, IEEE TPDS 2001) for gangs on nodes: the earliest
time at which the ends until then free enough for the whole quorum, and what is left beside it.
Never here: the order of the queue (order), a choice of node (planner).

Which estimate: the middle. With the pessimistic one, the head would get a late start and more and longer gangs would
overtake it than necessary. With the optimistic one, no gang could start beside it. A gang that has run past its middle
is assumed to run on for as long as it overran, at least OVERRUN_AT_LEAST. So a reservation is never in the past, and a
gang with a wrong runtime delays the head by no more than its own overrun.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Mask, Matrix, Snapshot
from scheduler.model.decision import Place
from scheduler.model.policy import Policy
from scheduler.model.queueing import OVERRUN_AT_LEAST, Estimate, Reservation, Stay, Waiting
from scheduler.model.resources import Vector
from scheduler.model.workload import Gang, Strategy, Uid
from scheduler.placement import planner
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.node_candidates import counted, total


def expected_ends(middles: Vector, now: float, least: Vector | float = OVERRUN_AT_LEAST) -> Vector:
    """float64[k]: the same times, with past times mirrored to lie as far after `now` as they were before it.

    least: float64[k] or one for all, the minimum seconds after `now` for those, see `overrun_at_least`.
    """
    late = now + np.maximum(now - middles, least)
    out: Vector = np.where(middles > now, middles, late)
    return out


def at_the_latest(ends: Vector, latest: Vector, now: float) -> Vector:
    """float64[…, k]: the same times, capped at the time when the gang reaches its limit, if that is in the future.

    latest: float64[k], of these gangs.
    """
    out: Vector = np.where(latest > now, np.minimum(ends, latest), ends)
    return out


def overrun_at_least(ends: Estimate) -> float:
    """The minimum seconds that a gang runs on after this estimate: no more than the width of the estimate.

    A gang of two seconds that takes three is not expected to take a minute.
    """
    width = ends.high - ends.low
    return min(OVERRUN_AT_LEAST, max(width, 1.0)) if 0 < width < np.inf else OVERRUN_AT_LEAST


def leaves(waiting: Waiting, policy: Policy, now: float) -> float:
    """When this gang would end if it started now: by the middle of its estimate, or by the default runtime."""
    return now + (policy.default_runtime if waiting.runs is None else waiting.runs.middle)


def uses_of(snapshot: Snapshot, gang: Gang, place: Place) -> tuple[NDArray[np.int64], Matrix]:
    """Rows int64[k] and uses float64[k, r] of the seats of a placement, in the form of a Stay."""
    rows: list[int] = []
    uses: list[Vector] = []
    for role in gang.roles:
        own = [snapshot.index[place.seats[uid]] for uid in role.quorum + role.surplus if uid in place.seats]
        rows += own
        uses += [snapshot.vector(role)] * len(own) if own else []
    shape = (len(rows), len(snapshot.axis))
    return np.array(rows, dtype=np.int64), np.array(uses, dtype=np.float64).reshape(shape)


def seated(snapshot: Snapshot, gang: Gang, place: Place) -> Snapshot:
    """The snapshot after the gang takes these seats."""
    rows, uses = uses_of(snapshot, gang, place)
    return snapshot.freed((rows, -uses))


def seats_of(snapshot: Snapshot, gang: Gang, place: Place) -> Matrix:
    """float64[n, r]: what the seats of a placement use on each node."""
    seats = np.zeros_like(snapshot.free)
    np.add.at(seats, *uses_of(snapshot, gang, place))
    return seats


def could_hold(snapshot: Snapshot, free: Matrix, gang: Gang, masks: FeasibilityCache) -> bool:
    """A cheap check before an expensive one. False: the planner would find no seats for the quorum in this capacity.

    free: float64[n, r].  Each role is counted on its own, in one domain if the gang requires one.
    """
    level = snapshot.topology.level(gang.level)
    codes = None
    if gang.required and gang.strategy is not Strategy.SPREAD and level is not None:
        codes = snapshot.topology.columns[level]
    for role in gang.roles:
        if not role.quorum:
            continue
        units = counted(free, snapshot.axis.index, role.demand) * masks.of(snapshot, role.demand).open
        most = (
            units.sum()
            if codes is None
            else total(codes, units, int(codes.max(initial=-1)) + 1).max(initial=0)
        )
        if most < len(role.quorum):
            return False
    return True


Pods = tuple[NDArray[np.int64], Matrix]
"""Rows int64[k] and uses float64[k, r] of some pods."""


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """Gangs that run, and when each is expected to end.

    middles: float64[k].  least: float64[k], see `overrun_at_least`.  latest: float64[k], when a max-runtime ends it.
    pods: int64[k], how many each has.  first: the first of them.  places: where each other one is in `stays`, whose own
    ends do not count.
    """

    middles: Vector
    least: Vector
    latest: Vector
    pods: NDArray[np.int64]
    stays: Sequence[Stay]
    places: NDArray[np.int64]
    first: tuple[Stay, ...] = ()

    @classmethod
    def of(cls, stays: Sequence[Stay]) -> Self:
        """These gangs, with their ends."""
        return cls(
            np.array([stay.ends.middle for stay in stays], dtype=np.float64),
            np.array([overrun_at_least(stay.ends) for stay in stays], dtype=np.float64),
            np.array([stay.latest for stay in stays], dtype=np.float64),
            np.array([len(stay.rows) for stay in stays], dtype=np.int64),
            stays,
            np.arange(len(stays)),
        )

    def behind(self, first: Sequence[Stay]) -> Self:
        """These gangs after some others."""
        if not first:
            return self
        other = self.of(first)
        return replace(
            self,
            middles=np.concatenate((other.middles, self.middles)),
            least=np.concatenate((other.least, self.least)),
            latest=np.concatenate((other.latest, self.latest)),
            pods=np.concatenate((other.pods, self.pods)),
            first=(*first, *self.first),
        )

    def ends(self, now: float, least: float | None = None) -> Vector:
        """float64[k], after `now`: when each is expected to end.  least: instead of its own."""
        ends = expected_ends(self.middles, now, self.least if least is None else least)
        return at_the_latest(ends, self.latest, now)

    def uses(self, gang: int) -> Pods:
        """The pods of one gang."""
        before = len(self.first)
        stay = self.first[gang] if gang < before else self.stays[self.places[gang - before]]
        return stay.rows, stay.uses


@dataclass(frozen=True, slots=True, eq=False)
class Departures:
    """The ends of gangs, in order of time.

    times: float64[s], distinct and ascending. Step 0 is `now`, before any end.  upto: int64[s], how many of the gangs
    have ended by each time.  order: int64[k], the gangs in the order of their ends.  uses: returns the pods of one.
    """

    times: Vector
    upto: NDArray[np.int64]
    order: NDArray[np.int64]
    uses: Callable[[int], Pods]

    def then(self, snapshot: Snapshot, step: int) -> Snapshot:
        """The snapshot at this step."""
        return snapshot.freed(*self._gone(int(self.upto[step])))

    def _gone(self, gangs: int) -> list[Pods]:
        """The pods of so many gangs, as one."""
        if not gangs:
            return []
        rows, uses = zip(*map(self.uses, self.order[:gangs].tolist()), strict=True)
        return [(np.concatenate(rows), np.concatenate(uses))]


def departures(ends: Vector, uses: Callable[[int], Pods], now: float) -> Departures:
    """The departures of gangs at these ends (float64[k], after `now`; an infinite one never comes).

    uses: returns the pods of a gang.
    """
    order = np.argsort(ends, kind="stable")
    order = order[: np.count_nonzero(np.isfinite(ends))]
    in_order = ends[order]
    later = np.flatnonzero(in_order[1:] != in_order[:-1]) + 1  # where a gang ends after the one before
    first = np.append(0, later)[: len(order)]
    return Departures(
        times=np.concatenate([[now], in_order[first]]),
        upto=np.concatenate([[0], later, [len(order)]])[: len(first) + 1],
        order=order,
        uses=uses,
    )


def reserve(
    snapshot: Snapshot,
    gang: Gang,
    running: Running,
    policy: Policy,
    now: float,
    allowed: Mapping[Uid, Mask] | None = None,
    masks: FeasibilityCache | None = None,
) -> Reservation | None:
    """A reservation for the whole quorum of this gang, at the earliest time that the ends of running gangs allow.

    None: it does not fit even after all known ends.  Surplus gets no reservation.
    allowed, masks: as for `planner.decide`, which runs log2(distinct ends) + 2 times at most, mostly once.
    Host ports and nominations of other pods are assumed not to change.
    """
    going = departures(running.ends(now), running.uses, now)
    return Search(snapshot, gang, policy, going, allowed, masks or FeasibilityCache()).earliest()


def first_that(steps: int, holds: Callable[[int], bool]) -> int:
    """The first of these steps at which it holds, and from then on. `steps`: at none of them.

    Steps double until it holds, and are bisected then, because a late step costs more than an early one.
    """
    low, high = 0, 0
    while high < steps and not holds(high):
        low, high = high + 1, 2 * high + 1
    return low + bisect_left(range(low, min(high, steps)), True, key=holds)


@dataclass(slots=True, eq=False)
class Search:
    """Searches the earliest step of the departures at which the quorum fits.  asked: the number of planner decisions."""

    snapshot: Snapshot
    gang: Gang
    policy: Policy
    going: Departures
    allowed: Mapping[Uid, Mask] | None
    masks: FeasibilityCache
    asked: int = 0

    def __post_init__(self) -> None:
        self.gang = quorum_alone(self.gang)

    def earliest(self) -> Reservation | None:
        """Bisect the steps, because capacity only grows from step to step: first by counting, then with the planner."""
        last = len(self.going.times) - 1
        first = first_that(last + 1, self._could)
        if first > last:
            return None
        found = self._ask(first)
        if found is not None or first == last:
            return found
        low, high, found = first + 1, last, self._ask(last)
        while found is not None and low < high:
            middle = (low + high) // 2
            sooner = self._ask(middle)
            if sooner is None:
                low = middle + 1
            else:
                high, found = middle, sooner
        return found

    def _could(self, step: int) -> bool:
        return could_hold(self.snapshot, self.going.then(self.snapshot, step).free, self.gang, self.masks)

    def _ask(self, step: int) -> Reservation | None:
        self.asked += 1
        then = self.going.then(self.snapshot, step)
        decision = planner.decide(then, self.gang, self.policy, self.allowed, self.masks)
        if not isinstance(decision, Place):
            return None
        seats = seats_of(then, self.gang, decision)
        left = then.free - seats
        left.flags.writeable = seats.flags.writeable = False
        return Reservation(self.gang.key, float(self.going.times[step]), left, seats)


def quorum_alone(gang: Gang) -> Gang:
    """The same gang without its surplus."""
    return replace(gang, roles=tuple(replace(role, surplus=()) for role in gang.roles))


def beside(snapshot: Snapshot, reservation: Reservation, leaves: float | None) -> Snapshot:
    """The snapshot in which a younger gang may be seated without a delay for the gang of the reservation.

    leaves: when the younger gang will have ended; None: unknown.  A gang that ends by the start may use all free
    capacity. A gang that runs beyond it may use only what is free now *and* left then. After you seat such a gang,
    narrow the reservation (`narrowed`) before the next question.
    """
    if leaves is not None and leaves <= reservation.start:
        return snapshot
    free = np.minimum(snapshot.free, reservation.left)
    free.flags.writeable = False
    return replace(snapshot, free=free)


def narrowed(reservation: Reservation, rows: NDArray[np.int64], uses: Matrix) -> Reservation:
    """The reservation after a gang that outlasts its start is seated: rows int64[k], uses float64[k, r]."""
    left = reservation.left.copy()
    np.subtract.at(left, rows, uses)
    left.flags.writeable = False
    return replace(reservation, left=left)
