"""When each waiting gang will start, with the bounds between which four of five starts lie.

Lives here: which scenarios are looked at, and what they say together.
Never here: what happens in one scenario (simulation).
Why several scenarios: the start of a gang hangs on the first of many ends that makes room for it, so the middle of the
ends is not the middle of the start, and the bounds of the ends are far outside of its bounds.  The errors of the
estimates are taken to be independent from gang to gang.
Why no chance: a forecast is made again every few seconds, and must change with the cluster alone.  Each gang's
estimate is cut into as many equal parts as there are scenarios, every part is used in one scenario, and which in
which is told by the gang's name (a Latin hypercube: McKay, Beckman and Conover, Technometrics 1979).
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
"""Courses looked at: with fewer, the tenth and the ninetieth percentile would be the least and the largest."""

SHARED: Final = 1.35
"""Waits are taken to be wrong by up to this factor either way, all gangs' together, on top of what the scenarios show:
like gangs of one owner err alike, and gangs that come later go past. Measured on virtual clusters of Philly with
runtimes declared within half … twice, and taken at their word: without it 46 … 78 % of the starts lie in the interval,
with it 74 … 83 %."""

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
    """Start times (seconds since the epoch) of the waiting gangs, given in the order of the queue.

    budget: questions where a gang could sit, over all scenarios; a gang that was not reached is missing, and so is one
    that does not fit once all have left whose end is known.  About COURSES + a few for every gang are needed.
    usages: by namespace, what it uses now and may use at most: who would go above that waits until enough of its
    namespace has left, and one that always would is missing.
    Gangs that come later are not foreseen, nor priorities of theirs, nor preemption.  The order stays as it is now:
    by what namespaces use later, or have had by then, no gang changes places.
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
    ends = at_the_latest(ends.T, stays, now).T
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
    state = 2166136261  # FNV-1a (Fowler, Noll, Vo), 32 bits: a hash that no process varies
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
    """The time that so large a part (0 … 1) of all ends lies before, given that none has come by `now`.

    Bounds that lie behind `now` are no news: then the part is one of what is left ahead.  Where nothing is, the
    gang runs on for as long again as it overran its middle, at least `overrun_at_least`.
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
    """The part of the ends that lies before `now`, spread evenly between the bounds and on beyond them."""
    width = ends.high - ends.middle if now > ends.middle else ends.middle - ends.low
    return max(0.5 + 0.4 * (now - ends.middle) / width, 0.0) if width else 0.5


def _told(starts: Vector, now: float) -> Estimate | None:
    """The middle and the bounds of these starts; None where too many scenarios never came to one."""
    if np.count_nonzero(starts < math.inf) < COURSES - 1:
        return None
    waits = np.outer(_FACTORS, starts - now)
    low, middle, high = np.quantile(waits, (0.1, 0.5, 0.9), method="hazen").tolist()
    return Estimate(middle, low, high).after(now)
