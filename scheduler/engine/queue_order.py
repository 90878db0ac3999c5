"""Whose turn it is, by the policy in force; with `fair`, by the share that a namespace had at the last sorting.

Lives here: what the ledger's queue asks about turns, and the dominant shares that it takes. Never here: the order
itself (placement.order), or the queue (ledger.pending_queue).
"""

from collections.abc import Callable, Sequence
from typing import Final

from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord
from scheduler.model.cluster import Snapshot
from scheduler.model.queueing import Order, Waiting
from scheduler.placement import order

SORTED_AT_ONCE: Final = 500
"""Gangs of a queue that is sorted again whenever shares move; a longer one takes milliseconds, and is sorted every few
seconds."""


class QueueOrder:
    """Turns by policy and share."""

    def __init__(self, cache: Cache, snapshot: Callable[[], Snapshot]) -> None:
        self._cache = cache
        self._snapshot = snapshot
        self._usage = -1
        self._dominants: dict[str, float] = {}
        self._dominants_at = (-1, -1)
        self._ranked: dict[str, float] = {}
        """The dominant share by which the gangs of a namespace have their turns: of all of them the same one, or
        the gang that is asked about first after another of its namespace was seated would go behind all others, and they behind it,
        one after the other."""

    def at_once(self, queued: int) -> bool:
        """With the order `fair` a gang got or gave back room, and the queue is short enough to be sorted at once."""
        usage, before = self._cache.share_usage, self._usage
        self._usage = usage.version
        fair = self._cache.policy.order is Order.FAIR
        return fair and before != usage.version and queued <= SORTED_AT_ONCE

    def ages_at(self, waiting: Waiting) -> float:
        """When it moves forward by age alone; infinity: never."""
        return order.ages_at(waiting, self._cache.policy)

    def shifted(self, turn: order.Turn, by: float) -> order.Turn:
        """The turn by another share of its namespace."""
        return order.shifted(turn, by)

    def turn(self, waiting: Waiting, now: float) -> order.Turn:
        policy, namespace = self._cache.policy, waiting.gang.key.namespace
        if policy.order is not Order.FAIR:
            return order.turn(waiting, policy, now, 0.0)
        if namespace not in self._ranked:
            self._ranked[namespace] = self._dominant(namespace)
        return order.turn(waiting, policy, now, self._ranked[namespace])

    def moved(self, queue: Sequence[GangRecord]) -> dict[str, float]:
        """Namespaces whose dominant share is another one than when this was asked last, where turns go by that, with
        it.
        """
        if self._cache.policy.order is not Order.FAIR:
            return {}
        before = self._ranked
        if len(before) > len(queue):  # of some no gang waits any more
            present = {record.key.namespace for record in queue}
            before = {name: share for name, share in before.items() if name in present}
        self._ranked = {name: self._dominant(name) for name in before}
        return {name: now for name, now in self._ranked.items() if before[name] != now}

    def _dominant(self, namespace: str) -> float:
        """The weighted dominant share of a namespace, worked out once for as long as no use changes."""
        usage, nodes = self._cache.share_usage, self._cache.nodes
        if self._dominants_at != (usage.version, nodes.version):
            self._dominants, self._dominants_at = {}, (usage.version, nodes.version)
        if namespace not in self._dominants:
            picture = self._snapshot()
            total = dict(zip(picture.axis.names, picture.capacity.sum(axis=0).tolist(), strict=True))
            self._dominants[namespace] = order.dominant_share(usage.of(namespace), total)
        return self._dominants[namespace]
