"""Which pods a gang may preempt.

The rules, strongest first. A gang that must not preempt, or that preempted too recently, preempts nothing. Lower
priority is preempted. With the order `las`, a gang with much attained service is preempted by one of equal priority
with little, if it can be suspended. A borrower is preempted by the namespace whose guaranteed capacity it uses.

No rule covers what another namespace uses within its guarantee, or more than disruption budgets allow, or an owner
whose pods come back through another scheduler (ledger.spared_owners).
Never here: which of them are chosen (placement.victim_selection), or how they are evicted (ledger.preemption).
"""

import math
from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property

from scheduler.engine.las import LasTurns
from scheduler.engine.preemption_candidates import MayTake
from scheduler.ledger import Ledger, preemption, quorum
from scheduler.ledger.gang import GangRecord
from scheduler.ledger.preemption_history import line
from scheduler.model.policy import Policy
from scheduler.model.preemption_units import FREELY, By, Terms, Unit, may_be_asked
from scheduler.model.queueing import Order, Reclaim
from scheduler.model.workload import Gang, GiveWay, Pod, Uid

Right = Callable[[GangRecord | None, Pod], bool]
"""Whether one rule lets a pod be preempted. The record is its gang's, if Gangwright manages the pod."""


class PreemptionPolicy:
    """Decides which pods may be preempted, and nothing else."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @cached_property
    def _turns(self) -> LasTurns:
        return LasTurns(self._ledger)

    @property
    def _policy(self) -> Policy:
        return self._ledger.policy

    @property
    def above(self) -> float:
        """Only a gang with a priority above this may preempt pods. Infinity: no gang may."""
        policy = self._policy
        if not policy.preemption:
            return math.inf
        by_turns = policy.order is Order.LAS and bool(self._ledger.suspendable)
        return -math.inf if policy.shares or by_turns else self._ledger.lowest

    def may_take(self, record: GangRecord, gang: Gang, now: float) -> MayTake | None:
        """Which pods may be preempted for this gang. None: no pods."""
        if gang.priority <= self.above or not quorum.may_preempt(record, gang):
            return None
        if now < record.preemption.at + self._policy.preemption_cooldown:
            return None
        if any(m.pod.nominated and m.hold is None and not m.bound for m in record.live()):
            return None  # kube-scheduler preempts for it; the nomination of a bound pod is outdated
        asked = (self._lower(gang), self._had_more(record, gang, now))
        by_order = [right for right in asked if right is not None]
        borrows = self._borrower(record, gang, now)
        if not by_order and borrows is None:
            return None
        came_back = self._ledger.spared_owners.owners(now)
        return _may_take(record, by_order, borrows, preemption.spared(record, now), came_back)

    def behind(self, record: GangRecord, gang: Gang) -> MayTake | None:
        """Which pods rank behind this gang by priority alone, even if it may not preempt now. None: no pods."""
        lower = self._lower(gang)
        return None if lower is None else _may_take(record, (lower,))

    def by_time(self, record: GangRecord, now: float) -> Hashable:
        """What time alone changes in the set of pods that may be preempted for this gang."""
        over = self._turns.over_for(record, now) if self._policy.order is Order.LAS else frozenset()
        return over, self._ledger.spared_owners.owners(now)

    def _lower(self, gang: Gang) -> Right | None:
        """Pods of lower priority. Pods of another namespace are excluded if it stays within its guarantee."""
        if self._ledger.lowest >= gang.priority:
            return None
        usage, own = self._ledger.share_usage, gang.key.namespace
        if not usage.shares:
            return lambda _other, pod: pod.priority < gang.priority

        def lower(_other: GangRecord | None, pod: Pod) -> bool:
            namespace = pod.key.namespace
            return pod.priority < gang.priority and (
                namespace == own or not usage.guards(namespace, pod.demand)
            )

        return lower

    def _borrower(self, record: GangRecord, gang: Gang, now: float) -> Right | None:
        """Pods of namespaces above their guarantee, in resources that this gang requests within its own guarantee.

        If `reclaim` is limited to lower priority, the other rule covers it. Two gangs that keep preempting each other
        are prevented from doing so.
        """
        usage = self._ledger.share_usage
        claimed = usage.claims(gang) if self._policy.reclaim is Reclaim.ANY else ()
        borrowers = usage.borrowers(claimed, but=gang.key.namespace) if claimed else ()
        if not borrowers:
            return None
        rivals, own = self._ledger.preemption_cycles, line(record)

        def borrower(other: GangRecord | None, pod: Pod) -> bool:
            if pod.key.namespace not in borrowers:
                return False
            return other is None or not rivals.alternate(own, line(other), now)

        return borrower

    def _had_more(self, record: GangRecord, gang: Gang, now: float) -> Right | None:
        """Gangs of equal priority that have had their turn, and are at least a band of service above this one, or younger
        in the last band.
        """
        if self._policy.order is not Order.LAS or not self._ledger.suspendable:
            return None
        over = self._turns.over_for(record, now)
        if not over:
            return None
        return lambda other, pod: other is not None and other.key in over and pod.priority == gang.priority

    def next_turn(self, record: GangRecord, now: float) -> float:
        """When time alone lets the gang preempt pods that it may not preempt now. Infinity: never."""
        times = [
            record.preemption.at + self._policy.preemption_cooldown,
            *record.preemption.spared.values(),
            self._ledger.spared_owners.next_end,
        ]
        if self._policy.order is Order.LAS and self._policy.preemption:
            times.append(self._turns.next_for(record, now))
        if self._policy.shares:
            times.append(self._ledger.preemption_cycles.ends(line(record), now))
        return min((time for time in times if time > now), default=float("inf"))

    def terms(self, units: tuple[Unit, ...], gang: Gang) -> tuple[tuple[Unit, ...], Terms]:
        """The units that guarantees and disruption budgets allow, and the limits on all of them together.

        No rule lets another namespace take what one uses within its guarantee. Units of the gang's own namespace pass
        as if there were no shares. Budgets do not apply to a Job that is suspended: its pods are deleted, not evicted.
        """
        units, terms = self._within_shares(units, gang)
        ledger = self._ledger
        if not ledger.budgets:
            return units, terms
        evicted = (uid for unit in units if unit.way is GiveWay.EVICT for uid in unit.uids)
        limits = ledger.budgets.limits(filter(None, map(ledger.registry.pod, evicted)), self._uncounted())
        return units, replace(terms, limits=(*terms.limits, *limits))

    def _uncounted(self) -> Iterator[Pod]:
        """Pods that existing plans will evict but have not yet. Their budgets still count them."""
        for plan in self._ledger.freeing.values():
            for uid, victim in plan.victims.items():
                pod = self._ledger.registry.pod(uid)
                if pod is not None and victim.way is GiveWay.EVICT and not victim.accepted:
                    yield pod

    def _within_shares(self, units: tuple[Unit, ...], gang: Gang) -> tuple[tuple[Unit, ...], Terms]:
        """The units that the namespaces' guarantees allow, and the limits on all of them together."""
        usage = self._ledger.share_usage
        if not usage.shares or not units:
            return units, FREELY
        claimed = usage.claims(gang)
        of_use = {unit.gang for unit in units if usage.uses(unit.uids, claimed)}
        units = tuple(unit for unit in units if unit.by is By.ORDER or unit.gang in of_use)
        uids = [uid for unit in units for uid in unit.uids]
        limits = usage.limits(uids, preemption.going(self._ledger), gang.key.namespace)
        return units, Terms(limits, claimed)


def _may_take(
    record: GangRecord,
    by_order: Iterable[Right],
    borrows: Right | None = None,
    spared: Container[Uid] = frozenset(),
    came_back: Container[str] = frozenset(),
) -> MayTake:
    """By which of these rules a pod may be preempted. Pods of the gang itself and exempt pods are excluded."""
    makers = {m.pod.owner.uid for m in record.live() if m.pod.owner is not None}

    def may_take(other: GangRecord | None, pod: Pod) -> By | None:
        if other is record or pod.uid in spared or not may_be_asked(pod):
            return None
        if pod.owner is not None and pod.owner.uid in makers:
            return None  # the same controller: it would recreate the pod, or fail as a whole
        if other is None and pod.owner is not None and pod.owner.uid in came_back:
            return None  # another scheduler immediately places the replacement in the freed capacity
        if any(right(other, pod) for right in by_order):
            return By.ORDER
        return By.CLAIM if borrows is not None and borrows(other, pod) else None

    return may_take
