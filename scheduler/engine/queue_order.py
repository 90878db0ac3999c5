"""The turns of the waiting gangs under the policy in force.

With `fair` and `fit`, a turn depends on other gangs: on the share of its namespace, or on the free capacity. All gangs of
one group (a namespace, or gangs of one shape) keep the standing of the last sorting. Otherwise they would keep
overtaking each other as they are seated one by one.

Never here: the sort key (placement.order), how a gang fits (placement.fit_measure), or the queue (ledger.pending_queue).
"""

from collections.abc import Callable, Hashable, Iterable
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final

from scheduler.ledger.cache import Cache
from scheduler.model.cluster import Snapshot
from scheduler.model.queueing import Order, Waiting
from scheduler.model.workload import Gang
from scheduler.placement import order
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.fit_measure import NO_FIT, misfits

SORTED_AT_ONCE: Final = 500
"""The length of a queue up to which it is sorted again whenever standings change. Sorting a longer one takes
milliseconds, so it is sorted every few seconds."""

COMPARED_AT_ONCE: Final = 50_000
"""Pairs of a shape and a node that the order `fit` compares whenever free capacity changes: 5 ms. With more, the queue is
sorted every few seconds."""

COMPARED: Final = 2_000_000
"""Pairs that the order `fit` compares in one sorting: 0.2 s. Of more shapes, only the first to appear are compared. The
others come behind all that fit, by arrival."""

SHIFTING: Final = frozenset({Order.FAIR, Order.FIT})
"""The orders in which gangs move because of other gangs."""


class QueueOrder:
    """Turns by policy, share and free capacity."""

    def __init__(self, cache: Cache, snapshot: Callable[[], Snapshot]) -> None:
        self._cache = cache
        self._snapshot = snapshot
        self._seen = -1
        self._dominants: dict[str, float] = {}
        self._dominants_at = (-1, -1)
        self._shapes = GangShapes()
        self._masks = FeasibilityCache()
        self._order = cache.policy.order
        self._ranked: dict[Hashable, float] = {}
        """The standing of each group at the last sorting."""

    def at_once(self, queued: int) -> bool:
        """Standings have changed, and the queue is short enough to be sorted immediately."""
        cache, before = self._cache, self._seen
        if cache.policy.order not in SHIFTING:
            return False
        self._seen = cache.share_usage.version if cache.policy.order is Order.FAIR else cache.nodes.generation
        small = cache.policy.order is Order.FAIR or self._pairs(len(self._ranked)) <= COMPARED_AT_ONCE
        return before != self._seen and queued <= SORTED_AT_ONCE and small

    def _pairs(self, shapes: int) -> int:
        return shapes * max(1, len(self._cache.nodes))

    def ages_at(self, waiting: Waiting) -> float:
        """When it moves forward by age alone. Infinity: never."""
        return order.ages_at(waiting, self._cache.policy)

    def group(self, waiting: Waiting) -> Hashable:
        """The group of this gang: its namespace, or with the order `fit` the number of its shape."""
        fit = self._cache.policy.order is Order.FIT
        return self._shapes.number(waiting.gang) if fit else waiting.gang.key.namespace

    def shifted(self, turn: order.Turn, by: float) -> order.Turn:
        """The same turn, with the standing of its group changed to `by`."""
        return order.shifted(turn, by)

    def turn(self, waiting: Waiting, now: float) -> order.Turn:
        policy = self._cache.policy
        if policy.order is not self._order:
            self._order, self._ranked, self._shapes = policy.order, {}, GangShapes()
        if policy.order not in SHIFTING:
            return order.turn(waiting, policy, now, 0.0)
        group = self.group(waiting)
        if group not in self._ranked:
            # many new shapes are compared together, by the next sorting
            later = policy.order is Order.FIT and self._pairs(len(self._ranked) + 1) > COMPARED_AT_ONCE
            self._ranked |= {group: NO_FIT} if later else self._standings([group])
        return order.turn(waiting, policy, now, self._ranked[group])

    def moved(self, groups: AbstractSet[Hashable]) -> dict[Hashable, float]:
        """The new standing of each group whose standing changed since the last call. Empty if no gang moves."""
        if self._order not in SHIFTING or self._order is not self._cache.policy.order:
            return {}
        before = {group: standing for group, standing in self._ranked.items() if group in groups}
        self._shapes.keep(groups)
        self._ranked = self._standings(before) if before else {}
        return {group: now for group, now in self._ranked.items() if before[group] != now}

    def _standings(self, groups: Iterable[Hashable]) -> dict[Hashable, float]:
        """The standing of each group now."""
        if self._order is not Order.FIT:
            return {group: self._dominant(str(group)) for group in groups}
        standings = dict.fromkeys(groups, NO_FIT)
        few = list(islice(standings, COMPARED // self._pairs(1)))
        gangs = [self._shapes.example[group] for group in few]
        return standings | dict(zip(few, misfits(self._snapshot(), gangs, self._masks), strict=True))

    def _dominant(self, namespace: str) -> float:
        """The weighted dominant share of a namespace, cached until usage or nodes change."""
        usage, nodes = self._cache.share_usage, self._cache.nodes
        if self._dominants_at != (usage.version, nodes.version):
            self._dominants, self._dominants_at = {}, (usage.version, nodes.version)
        if namespace not in self._dominants:
            picture = self._snapshot()
            total = dict(zip(picture.axis.names, picture.capacity.sum(axis=0).tolist(), strict=True))
            self._dominants[namespace] = order.dominant_share(usage.of(namespace), total)
        return self._dominants[namespace]


class GangShapes:
    """Numbers for the shapes of waiting gangs, which are cheap to hash.

    example: one gang of each shape, by its number.
    """

    def __init__(self) -> None:
        self.example: dict[Hashable, Gang] = {}
        self._numbers: dict[Hashable, int] = {}
        self._next = 0

    def number(self, gang: Gang) -> int:
        """The number of this gang's shape."""
        number = self._numbers.setdefault(gang.shape, self._next)
        if number == self._next:
            self._next += 1
            self.example[number] = gang
        return number

    def keep(self, numbers: AbstractSet[Hashable]) -> None:
        """Forget all other shapes."""
        if not self.example.keys() <= numbers:
            self._numbers = {shape: number for shape, number in self._numbers.items() if number in numbers}
            self.example = {number: self.example[number] for number in self._numbers.values()}
