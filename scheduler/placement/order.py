"""Whose turn it is among the gangs that wait: one sort key a gang, smaller first.

Lives here: the order, as a table of policies.
Never here: who is in the queue (the ledger's), what a gang may do out of turn (reservation).
Why a key and not a comparison: ten thousand gangs are sorted in a pass, and a tuple is compared without us.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from scheduler.model.policy import Policy
from scheduler.model.queueing import Order, Usage, Waiting
from scheduler.model.workload import GangKey

Turn: TypeAlias = tuple[bool, int, bool, float, float, GangKey]
"""Partly bound before others, then higher priority, aged before others, what the order looks at, and two ties: arrival,
key.

Creation times have whole seconds, so the key decides within one: every reader of the cluster sees one order.
"""

Service: TypeAlias = tuple[int, float]
"""The band of what a gang has had, and its birth: by both it goes before others, or after them (`goes_first`)."""

LAST_BAND: Final = 2
"""The last band of service has no end. More bands only make long jobs take turns with each other, and of two of one
length both then end later than the first need. Large gangs, which go through bands fastest, are hit hardest: without a
last band they wait longer than in strict order (virtual clusters of Philly, see bench.queue). Tiresias has two in
all."""


def band(attained: float, quantum: float) -> int:
    """The band of service that so many device-seconds lie in: 0 below `quantum`, 1 below 3 × it, else the LAST_BAND.

    Each is twice as wide as the one before, and equals in service take their turns by age: the discretised
    two-dimensional least attained service of Tiresias (Gu et al., NSDI 2019, section 3.3).
    quantum: device-seconds, above 0.
    """
    return min(int(max(attained, 0.0) // quantum + 1).bit_length() - 1, LAST_BAND)


def begins_at(number: int, quantum: float) -> float:
    """The device-seconds from which on a gang is in this band.  quantum: as for `band`."""
    return quantum * (2.0**number - 1)


def goes_first(own: Service, other: Service) -> bool:
    """The first may have the room of the second, by service: it is of a lower band, or both are of the last and it is
    older.

    In the last band nobody's service grows out of it, so without the right of the older one a large gang would never
    find its room together again once it gave it up.
    """
    return own[0] < other[0] or (own[0] == other[0] == LAST_BAND and own[1] < other[1])


def dominant_share(usage: Usage, capacity: Mapping[str, float]) -> float:
    """The largest part that a namespace uses of any resource, divided by its weight; 0 where it uses nothing.

    capacity: what the cluster has, by resource, in the units of `usage.used`; a resource that it does not name
    or has nothing of does not count.  Weighted dominant resource fairness (Ghodsi et al., NSDI 2011, section 4.3).
    """
    parts = (used / capacity[name] for name, used in usage.used.items() if capacity.get(name, 0.0) > 0)
    share = max(parts, default=0.0)
    if share <= 0:
        return 0.0
    return share / usage.share.weight if usage.share.weight > 0 else math.inf


def _runtime(waiting: Waiting, policy: Policy) -> float:
    return policy.default_runtime if waiting.runs is None else waiting.runs.middle


_MEASURE: Final[Mapping[Order, Callable[[Waiting, Policy, float], float]]] = {
    Order.FIFO: lambda _waiting, _policy, _dominant: 0.0,
    Order.LAS: lambda waiting, policy, _dominant: float(band(waiting.attained, policy.las_quantum)),
    Order.SHORTEST: lambda waiting, policy, _dominant: _runtime(waiting, policy),
    Order.FAIR: lambda _waiting, _policy, dominant: dominant,
}
"""What each order looks at among gangs of one priority, smaller first; arrival decides between equals."""


def ages_at(waiting: Waiting, policy: Policy) -> float:
    """When this gang has waited long enough to go before all younger ones of its priority.

    It counts from when the gang began to wait this time: what it ran before it was suspended is no wait.  With the
    order `shortest` a wait is long by the runtime that it is for, as bounded slowdown has it (Feitelson et al., JSSPP
    1997): a queue that is longer than `age_limit` would otherwise be in order of arrival, whatever its order is called.
    """
    patience = policy.age_limit
    if policy.order is Order.SHORTEST:
        patience = max(patience, policy.age_factor * _runtime(waiting, policy))
    return waiting.arrived + patience


def turn(waiting: Waiting, policy: Policy, now: float, dominant: float) -> Turn:
    """The sort key of this gang, smaller first.

    dominant: the weighted dominant share of its namespace (`dominant_share`); 0 where the order does not use it.
    A gang that has waited for its `patience` goes by arrival, before all younger ones of its priority: so
    the gangs of its priority that can still go before it are those that have waited even longer, and no order
    lets anybody starve.
    """
    aged = now >= ages_at(waiting, policy)
    measure = 0.0 if aged else _MEASURE[policy.order](waiting, policy, dominant)
    since = waiting.arrived if aged or waiting.born is None else waiting.born
    gang = waiting.gang
    return (not waiting.first, -gang.priority, not aged, measure, since, gang.key)


def shifted(turn: Turn, dominant: float) -> Turn:
    """The sort key, of the order `fair`, that a gang has when its namespace has this share instead of another."""
    first, priority, young, _, since, key = turn
    return (first, priority, young, dominant, since, key) if young else turn
