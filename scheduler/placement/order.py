"""The order of the waiting gangs: one sort key per gang, smaller first.

Lives here: the order, as a table of policies.
Never here: which gangs are in the queue (the ledger), what a gang may do out of turn (reservation).
Why a key and not a comparison: a pass sorts 10,000 gangs, and tuples compare without a call into this code.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from scheduler.model.policy import Policy
from scheduler.model.queueing import Order, Usage, Waiting
from scheduler.model.workload import GangKey

Turn: TypeAlias = tuple[bool, int, bool, float, float, GangKey]
"""Partly bound first, then higher priority, aged first, the measure of the order, and two tie-breakers: arrival and key.

Creation times are whole seconds, so the key decides within one. Every reader of the cluster sees the same order.
"""

Service: TypeAlias = tuple[int, float]
"""The band of a gang's attained service, and its birth. Both decide which gangs it ranks ahead of (`goes_first`)."""

LAST_BAND: Final = 2
"""The last band of service has no upper bound. More bands only make long jobs take turns with each other, so that two of
equal length both end later than the first could. Large gangs pass through bands fastest and suffer most: without a last
band they wait longer than in strict order (virtual clusters of Philly, see bench.queue). Tiresias has two in total."""


def band(attained: float, quantum: float) -> int:
    """The band for these device-seconds of service: 0 below `quantum`, 1 below 3 × `quantum`, otherwise LAST_BAND.

    Each band is twice as wide as the one before, and gangs in one band take turns by age. This is the discretized
    two-dimensional least attained service of Tiresias (Gu et al., NSDI 2019, section 3.3).
    quantum: device-seconds, above 0.
    """
    return min(int(max(attained, 0.0) // quantum + 1).bit_length() - 1, LAST_BAND)


def begins_at(number: int, quantum: float) -> float:
    """The device-seconds at which this band begins.  quantum: as for `band`."""
    return quantum * (2.0**number - 1)


def goes_first(own: Service, other: Service) -> bool:
    """By service, the first may have the capacity of the second: its band is lower, or both are in the last and it is
    older.

    No service grows beyond the last band. So without this rule for older gangs, a large gang that was once preempted
    would never get enough capacity again.
    """
    return own[0] < other[0] or (own[0] == other[0] == LAST_BAND and own[1] < other[1])


def dominant_share(usage: Usage, capacity: Mapping[str, float]) -> float:
    """The largest share that a namespace uses of any resource, divided by its weight. 0 if it uses nothing.

    capacity: the cluster's total by resource, in the units of `usage.used`. A resource with no capacity does not count.
    Weighted dominant resource fairness (Ghodsi et al., NSDI 2011, section 4.3).
    """
    parts = (used / capacity[name] for name, used in usage.used.items() if capacity.get(name, 0.0) > 0)
    share = max(parts, default=0.0)
    if share <= 0:
        return 0.0
    return share / usage.share.weight if usage.share.weight > 0 else math.inf


def _runtime(waiting: Waiting, policy: Policy) -> float:
    return policy.default_runtime if waiting.runs is None else waiting.runs.middle


_MEASURE: Final[Mapping[Order, Callable[[Waiting, Policy, float], float]]] = {
    Order.FIFO: lambda _waiting, _policy, _standing: 0.0,
    Order.LAS: lambda waiting, policy, _standing: float(band(waiting.attained, policy.las_quantum)),
    Order.SHORTEST: lambda waiting, policy, _standing: _runtime(waiting, policy),
    Order.FAIR: lambda _waiting, _policy, standing: standing,
    Order.FIT: lambda _waiting, _policy, standing: standing,
}
"""The measure of each order among gangs of one priority, smaller first. Arrival decides between equals."""


def ages_at(waiting: Waiting, policy: Policy) -> float:
    """When this gang has waited long enough to rank ahead of all younger gangs of its priority.

    The wait counts from when the gang last began to wait, so a run before a suspension is not part of it. With the order
    `shortest`, the wait is measured relative to the runtime, like bounded slowdown (Feitelson et al., JSSPP 1997).
    Otherwise a queue longer than `age_limit` would be in order of arrival, whatever the configured order.
    """
    patience = policy.age_limit
    if policy.order is Order.SHORTEST:
        patience = max(patience, policy.age_factor * _runtime(waiting, policy))
    return waiting.arrived + patience


def turn(waiting: Waiting, policy: Policy, now: float, standing: float) -> Turn:
    """The sort key of this gang, smaller first.

    standing: what the order takes from the cluster: the weighted dominant share of the gang's namespace (`fair`, see
    `dominant_share`), or how it fits (`fit`, see fit_measure.misfits), otherwise 0.
    A gang that has waited until `ages_at` ranks by arrival, ahead of all younger gangs of its priority. So only gangs
    of its priority that have waited even longer can pass it, and no gang starves in any order.
    """
    aged = now >= ages_at(waiting, policy)
    measure = 0.0 if aged else _MEASURE[policy.order](waiting, policy, standing)
    since = waiting.arrived if aged or waiting.born is None else waiting.born
    gang = waiting.gang
    return (not waiting.first, -gang.priority, not aged, measure, since, gang.key)


def shifted(turn: Turn, standing: float) -> Turn:
    """The sort key in the order `fair` or `fit` after the gang's standing changed."""
    first, priority, young, _, since, key = turn
    return (first, priority, young, standing, since, key) if young else turn
