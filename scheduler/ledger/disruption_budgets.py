"""Disruption budgets, checked before victims are chosen: how many pods of each may be preempted now.

Lives here: which budget covers a pod by the rules of the Eviction API, the resulting limits, and when a relaxed budget
justifies a retry. Never here: evictions that the API server rejects because a budget changed meanwhile (preemption).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from scheduler.model.demand import Operator, Requirement
from scheduler.model.neighbors import read_labels
from scheduler.model.preemption_units import Limit
from scheduler.model.workload import Budget, Phase, Pod, Uid

EVERY: Final = 5.0
"""Seconds between two retries because of budgets. A rolling update changes them all the time, and each retry costs a
question for every gang that may preempt."""

REMEMBERED: Final = 16_384
"""Maximum cached label sets per namespace with the budgets that cover them."""


@dataclass(slots=True)
class Budgets:
    """The budgets of every namespace."""

    eased: dict[str, dict[tuple[Requirement, ...] | None, Budget]] = field(default_factory=dict)
    """Previous versions of relaxed budgets, by namespace and selector. Their pods may be evictable now.
    """
    _by_namespace: dict[str, dict[str, Budget]] = field(default_factory=dict)
    _covers: "dict[str, _Cover]" = field(default_factory=dict)
    _again: float = float("-inf")

    def seen(self, budget: Budget, *, heed: bool = True) -> None:
        """Add or update a budget.  heed: some gang may wait because of its previous version."""
        own = self._by_namespace.setdefault(budget.namespace, {})
        before, own[budget.name] = own.get(budget.name), budget
        if before is None or before.selector != budget.selector:
            self._covers.pop(budget.namespace, None)
        if before is not None and (budget.allowed > before.allowed or budget.selector != before.selector):
            self._ease(before, heed=heed)

    def gone(self, namespace: str, name: str, *, heed: bool = True) -> None:
        """A budget was deleted: its pods may be evicted."""
        own = self._by_namespace.get(namespace, {})
        before = own.pop(name, None)
        self._covers.pop(namespace, None)
        if not own:
            self._by_namespace.pop(namespace, None)
        if before is not None:
            self._ease(before, heed=heed)

    def _ease(self, before: Budget, *, heed: bool) -> None:
        if heed:
            self.eased.setdefault(before.namespace, {})[before.selector] = before

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def next_due(self) -> float:
        """When relaxed budgets are evaluated; infinity if there are none."""
        return self._again if self.eased else float("inf")

    def let_go(self, pods: Iterable[Pod], now: float, *, waits: bool) -> int | None:
        """The lowest priority of pods that became evictable, if a gang waits that might preempt one of them.

        At most once in EVERY seconds, however many budgets change: it takes one pass over all pods.
        """
        if not self.eased or now < self._again:
            return None
        eased, self.eased = self.eased, {}
        if not waits:
            return None  # a new gang is planned anyway
        self._again = now + EVERY
        covers = {namespace: _Cover(own.values()) for namespace, own in eased.items()}
        stand = (pod for pod in pods if pod.key.namespace in covers and _is_kept(pod))
        return min(
            (pod.priority for pod in stand if covers[pod.key.namespace].over(pod.labels)), default=None
        )

    def limits(self, pods: Iterable[Pod], going: Iterable[Pod]) -> tuple[Limit, ...]:
        """How many of these pods may be evicted together; only limits that they could exceed.

        going: pods that are being preempted and that no budget has counted yet.
        """
        uses: dict[tuple[str, str], dict[Uid, float]] = {}
        kept: dict[Uid, float] = {}
        for pod in pods:
            own = self._over(pod)
            if len(own) > 1:  # the Eviction API rejects a pod with two budgets, whatever these allow
                kept[pod.uid] = 1.0
            elif own:
                uses.setdefault((pod.key.namespace, own[0]), {})[pod.uid] = 1.0
        found = [Limit(0.0, kept)] if kept else []
        if uses:
            asked = Counter((pod.key.namespace, name) for pod in going for name in self._over(pod))
            for (namespace, name), theirs in sorted(uses.items()):
                most = max(0, self._by_namespace[namespace][name].allowed - asked[namespace, name])
                if len(theirs) > most:
                    found.append(Limit(float(most), theirs))
        return tuple(found)

    def _over(self, pod: Pod) -> tuple[str, ...]:
        """At most two of the budgets that an eviction of this pod involves. Budgets don't apply before a pod runs."""
        namespace = pod.key.namespace
        if pod.phase is Phase.PENDING or namespace not in self._by_namespace:
            return ()
        cover = self._covers.get(namespace)
        if cover is None:
            cover = self._covers[namespace] = _Cover(self._by_namespace[namespace].values())
        return cover.over(pod.labels)


class _Cover:
    """Budgets of one namespace, indexed by the labels of the pods that they cover."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self._by_label: dict[tuple[str, str] | None, list[Budget]] = {}
        """Budgets that require this label; None: those that require no label with a value."""
        self._known: dict[str, tuple[str, ...]] = {}
        for budget in budgets:
            named = (own for own in budget.selector or () if own.operator is Operator.IN)
            one = next(named, None)
            for label in {None} if one is None else {(one.key, value) for value in one.values}:
                self._by_label.setdefault(label, []).append(budget)

    def over(self, text: str) -> tuple[str, ...]:
        """The names of at most two budgets that cover a pod with these labels."""
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            known = self._known[text] = tuple(islice(self._find(text), 2))
        return known

    def _find(self, text: str) -> Iterator[str]:
        labels = read_labels(text)
        likely = chain.from_iterable(self._by_label.get(own, ()) for own in (None, *labels.items()))
        return (budget.name for budget in likely if budget.covers(labels))


def _is_kept(pod: Pod) -> bool:
    """A budget that covers it can prevent its eviction."""
    return pod.node is not None and not (pod.deleting or pod.phase.ended or pod.phase is Phase.PENDING)
