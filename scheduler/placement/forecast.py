"""When each waiting gang will start, with bounds that contain four of five starts.

Lives here: the choice of scenarios, and how they combine to a forecast.
Never here: the events in one scenario (simulation).
Why several scenarios: a gang starts at the first of many ends that frees enough for it. So the middle of the ends is
not the middle of the start, and the bounds of the ends are much wider than its bounds. The errors of the estimates are
assumed to be independent between gangs.
Why no randomness: a forecast is computed every few seconds and must change only with the cluster. Each gang's estimate
is divided into as many equal parts as there are scenarios. Every part is used in one scenario, and the gang's name
decides in which (a Latin hypercube: McKay, Beckman and Conover, Technometrics 1979).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.model.cluster import Snapshot
from scheduler.model.policy import Policy
from scheduler.model.queueing import TAIL, UNKNOWN, Estimate, Stay, Usage, Waiting
from scheduler.model.resources import Vector
from scheduler.model.workload import GangKey
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.forecast_setup import forecast_setup_of
from scheduler.placement.reservation import at_the_latest, overrun_at_least
from scheduler.placement.simulation import Simulation

COURSES: Final = 16
"""The number of scenarios. With fewer, the 10th and 90th percentiles would be the minimum and the maximum."""

SHARED: Final = 1.35
"""All waits together are assumed to be wrong by up to this factor either way, in addition to the spread of the scenarios.
Similar gangs of one owner have similar errors, and later gangs pass earlier ones. Measured on virtual clusters of Philly
with declared runtimes within half … twice of the real ones: without it 46 … 78% of the starts are within the interval,
with it 74 … 83%."""

_FACTORS: Final = SHARED ** np.linspace(-0.9, 0.9, 10)


def forecast(
    snapshot: Snapshot,
    waiting: Sequence[Waiting],
    stays: Sequence[Stay],
    policy: Policy,
    now: float,
    budget: int,
    masks: FeasibilityCache | None = None,
    usages: Mapping[str, Usage] | None = None,
) -> Mapping[GangKey, Estimate]:
    """Start times (seconds since the epoch) of the waiting gangs.  waiting: in the order of the queue.

    budget: placement searches over all scenarios, about COURSES + a few per gang. The result leaves out gangs that were
    not reached, and gangs that do not fit even after all known ends.
    usages: the current usage and ceiling by namespace. A gang that would exceed the ceiling waits until enough of its
    namespace has ended. A gang that always would is left out.
    Later gangs, their priorities and preemption are not predicted. The order stays as it is now: later usage or attained
    service changes no gang's place.
    """
    each = max(budget // COURSES, 1)
    setup = forecast_setup_of(
        snapshot, waiting[:each], stays, policy, now, masks or FeasibilityCache(), usages
    )
    shares = [_shares(str(stay.key)) for stay in stays]
    ends = np.array(
        [
            [end_of(stay.likely or stay.ends, now, p) for p in own]
            for stay, own in zip(stays, shares, strict=True)
        ]
    )
    ends = at_the_latest(ends.T, np.array([stay.latest for stay in stays], dtype=np.float64), now).T
    spans = np.array(
        [[_runs(one, policy).at(p) for p in _shares(str(one.gang.key))] for one in waiting[:each]]
    )
    starts = np.full((len(waiting[:each]), COURSES), np.inf)
    for number in range(COURSES if len(starts) else 0):
        own = ends[:, number].tolist() if len(ends) else []
        for one, start in Simulation(setup, own, spans[:, number].tolist(), each).play().items():
            starts[one, number] = start
    found = {one.gang.key: _told(row, now) for one, row in zip(waiting, starts, strict=False)}
    return {key: estimate for key, estimate in found.items() if estimate is not None}


def _runs(waiting: Waiting, policy: Policy) -> Estimate:
    middle = policy.default_runtime
    return waiting.likely or waiting.runs or Estimate(middle, middle / UNKNOWN, middle * UNKNOWN)


def _shares(name: str) -> list[float]:
    """One number from each of COURSES equal parts of 0 … 1, in an order that the name decides."""
    state = 2166136261  # FNV-1a (Fowler, Noll, Vo), 32 bits: a hash that is the same in every process
    for byte in name.encode():
        state = (state ^ byte) * 16777619 % 2**32
    order = list(range(COURSES))
    for place in range(COURSES - 1, 0, -1):
        state = (
            state * 1664525 + 1013904223
        ) % 2**32  # Numerical Recipes' congruence; high bits are the good ones
        other = (state >> 16) * (place + 1) >> 16
        order[place], order[other] = order[other], order[place]
    return [(part + 0.5) / COURSES for part in order]


def end_of(ends: Estimate, now: float, part: float) -> float:
    """The quantile `part` (0 … 1) of the end, given that it has not come by `now`.

    If the lower bound is before `now`, the part refers to the range still ahead. If nothing is ahead, the gang is
    assumed to run on for as long as it overran its middle, at least `overrun_at_least`.
    """
    if ends.middle == math.inf:
        return math.inf
    if ends.low > now:
        return now + Estimate(ends.middle - now, ends.low - now, ends.high - now).at(part)
    latest = ends.middle + 1.25 * (ends.high - ends.middle)
    if latest <= now:
        again = max(now - ends.middle, overrun_at_least(ends))
        return now + Estimate(again, again / TAIL, again * TAIL).at(part)
    gone = _before(ends, now)
    step = (gone + part * (1 - gone) - 0.5) / 0.4
    width = ends.high - ends.middle if step > 0 else ends.middle - ends.low
    return max(ends.middle + step * width, now)


def _before(ends: Estimate, now: float) -> float:
    """The fraction of the ends before `now`, distributed evenly between the bounds and beyond them."""
    width = ends.high - ends.middle if now > ends.middle else ends.middle - ends.low
    return max(0.5 + 0.4 * (now - ends.middle) / width, 0.0) if width else 0.5


def _told(starts: Vector, now: float) -> Estimate | None:
    """The middle and the bounds of these starts. None: too many scenarios have no start."""
    if np.count_nonzero(starts < math.inf) < COURSES - 1:
        return None
    waits = np.outer(_FACTORS, starts - now)
    low, middle, high = np.quantile(waits, (0.1, 0.5, 0.9), method="hazen").tolist()
    return Estimate(middle, low, high).after(now)
