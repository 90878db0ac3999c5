"""Disruption budgets, read before victims are chosen: how many pods of each may leave for others now.

Lives here: which budget covers a pod, by the rules of the Eviction API, and the limits that follow. Never here: an
eviction that the API server refuses all the same, because a budget changed meanwhile (freeing).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from scheduler.model.victims import Limit, Unit
from scheduler.model.workload import Budget, GiveWay, Phase, Pod, Uid, read_labels

if TYPE_CHECKING:
    from scheduler.ledger.ledger import Ledger


class Budgets:
    """The budgets of every namespace."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, Budget]] = {}

    def seen(self, budget: Budget) -> bool:
        """Take in a budget as it is now. True: it may let a pod go that it kept before."""
        own = self._by_namespace.setdefault(budget.namespace, {})
        before, own[budget.name] = own.get(budget.name), budget
        return before is not None and (budget.allowed > before.allowed or budget.selector != before.selector)

    def gone(self, namespace: str, name: str) -> None:
        """A budget is no more."""
        own = self._by_namespace.get(namespace, {})
        own.pop(name, None)
        if not own:
            self._by_namespace.pop(namespace, None)

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def limits(self, pods: Iterable[Pod], going: Iterable[Pod]) -> tuple[Limit, ...]:
        """How many of these pods may be evicted together; only limits that they could pass.

        going: pods that will be evicted for others and that no budget has counted yet.
        """
        uses: dict[tuple[str, str], dict[Uid, float]] = {}
        found: list[Limit] = []
        for pod in pods:
            own = self._over(pod)
            if len(own) > 1:  # the Eviction API refuses a pod with two budgets, whatever these allow
                found.append(Limit(0.0, {pod.uid: 1.0}))
            elif own:
                uses.setdefault((own[0].namespace, own[0].name), {})[pod.uid] = 1.0
        if uses:
            asked = Counter((own.namespace, own.name) for pod in going for own in self._over(pod))
            for (namespace, name), theirs in sorted(uses.items()):
                most = max(0, self._by_namespace[namespace][name].allowed - asked[namespace, name])
                if len(theirs) > most:
                    found.append(Limit(float(most), theirs))
        return tuple(found)

    def _over(self, pod: Pod) -> list[Budget]:
        """The budgets that an eviction of this pod asks: those that cover it, and none before it runs."""
        own = self._by_namespace.get(pod.key.namespace)
        if not own or pod.phase is Phase.PENDING:
            return []
        labels = read_labels(pod.labels)
        return [budget for budget in own.values() if budget.covers(labels)]


def limits(ledger: "Ledger", units: Iterable[Unit]) -> tuple[Limit, ...]:
    """What budgets allow of these units. None is asked when a Job is suspended: its pods are deleted, not evicted."""
    if not ledger.budgets:
        return ()
    evicted = (uid for unit in units if unit.way is GiveWay.EVICT for uid in unit.uids)
    return ledger.budgets.limits(filter(None, map(ledger.roll.pod, evicted)), _uncounted(ledger))


def _uncounted(ledger: "Ledger") -> Iterator[Pod]:
    """Pods that are to be evicted for plans that are made, and were not yet: their budgets still count them."""
    for plan in ledger.freeing.values():
        for uid, victim in plan.victims.items():
            pod = ledger.roll.pod(uid)
            if pod is not None and victim.way is GiveWay.EVICT and not victim.accepted:
                yield pod
