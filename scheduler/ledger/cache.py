"""The state of the cluster and of every gang, with its basic operations. Data only: it contains no rules.

Lives here: the parts, and changes that affect several of them at once (a seat held, a pod removed). Never here: when to
make them (the rules take a `Cache`), or the order of events (`ledger`). kube-scheduler and Kueue call this a cache,
too.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from scheduler.ledger.counts import Case, Counters, Faults, GangCounts
from scheduler.ledger.disruption_budgets import Budgets
from scheduler.ledger.gang import GangRecord, Hold, Member, Plan, Step, note_tried
from scheduler.ledger.gang_history import GangHistory
from scheduler.ledger.leases import Migrations
from scheduler.ledger.member_conditions import MemberConditions
from scheduler.ledger.namespace_usage import Quotas, ShareUsage
from scheduler.ledger.neighbor_table import NeighborTable
from scheduler.ledger.node_table import NodeTable
from scheduler.ledger.pending_queue import ByArrival, PendingQueue, Turns
from scheduler.ledger.preemption_history import PreemptionCycles, SparedOwners
from scheduler.ledger.registry import Registry
from scheduler.ledger.runtimes import Runtimes
from scheduler.ledger.suspended_jobs import JobsToResume
from scheduler.ledger.timers import Timers
from scheduler.model.cluster import Snapshot
from scheduler.model.demand import Demand
from scheduler.model.effects import Effect
from scheduler.model.policy import Policy
from scheduler.model.queueing import Order
from scheduler.model.workload import GangKey, Group, OwnerTraits, Pod, Uid

CatchUp: TypeAlias = Generator[int, float, None]
"""What all gangs have to go through after a change, in turns. It is sent the time, and yields how many members it went
through since the last turn. Gangs that come meanwhile are reconciled anyway."""


class Cache:
    """What is bound, held and waiting. Pure: no clock, no I/O."""

    def __init__(self, policy: Policy, turns: "Callable[[Cache], Turns] | None" = None) -> None:
        self.policy = policy
        self.nodes = NodeTable(policy.levels)
        self.neighbors = NeighborTable(self._placed, self.pods)
        self.registry = Registry()
        self._gang_counts = GangCounts()
        self._uncounted: set[GangKey] = set()
        """Gangs that may have changed, appeared or disappeared since the last count."""
        self.groups: dict[tuple[str, GangKey], Group] = {}
        self.owners: dict[str, OwnerTraits] = {}
        self.quotas = Quotas()
        self.budgets = Budgets()
        self.counters = Counters()
        self.faults = Faults()
        self.synced = False
        self.acting = False
        self.catch_ups: deque[CatchUp] = deque()
        """In turn. Until the last one has ended, nothing is reconciled or answered."""
        self.blind = False
        """The cache may be stale."""
        self.pending = PendingQueue(ByArrival() if turns is None else turns(self))
        self.share_usage = ShareUsage(policy.shares)
        self.runtimes = Runtimes()
        self.preemption_cycles = PreemptionCycles()
        self.spared_owners = SparedOwners()
        self.history = GangHistory()
        self.jobs_to_resume = JobsToResume()
        self.migrations = Migrations()
        self.member_conditions = MemberConditions()
        self.suspendable: dict[GangKey, GangRecord] = {}
        """Gangs with a seat that a preemption would suspend."""
        self.looks = 0
        """Grows whenever any gang is reconciled or deleted: results computed from all gangs before may be stale."""
        self.freeing: dict[GangKey, Plan] = {}
        """Plans that wait for victims to terminate, by the preempting gang."""
        self.deleted: dict[Uid, Pod] = {}
        """Bound pods that are terminating, of any scheduler."""
        self.lowest = self.highest = 0
        """The lowest priority of any pod seen, and the highest of any managed pod. Foreign pods don't preempt here."""
        self.victims_version = 0
        """Changes when another pod may have become a candidate for preemption."""
        self.freeing_seen_at = -1
        """The room version when gangs with freeing plans were last reconciled."""
        self._nominated: dict[Uid, tuple[str, int, Demand]] = {}
        self._holding: dict[Uid, str] = {}
        self._dirty: OrderedDict[GangKey, None] = OrderedDict()
        """Gangs to reconcile, in turn. Taking the first one off a plain dict passes over all that were taken before."""
        self._rest = 0
        """How many of them a review that was interrupted has still to look at."""
        self._untold: dict[GangKey, None] = {}
        self._wake = Timers()
        self._effects: list[Effect] = []

    def mark(self, key: GangKey, *, spec_too: bool = False) -> None:
        """Reconcile this gang in the next `settle`.  spec_too: also resolve its spec again."""
        record = self.registry.gangs.get(key)
        if record is not None:
            self._dirty[key] = None
            self._uncounted.add(key)
            if record.wanted is not None:
                self.pending.touch(record)
            if spec_too:
                record.spec = None

    def catch_up(self, steps: CatchUp) -> None:
        """Go through all gangs in the next calls of `settle`, before anything else."""
        next(steps)
        self.catch_ups.append(steps)
        self._rest = 0  # a review that was interrupted is none of what follows

    def mark_told(self, key: GangKey) -> None:
        """Report the gang's latest verdict. Nothing else about it has changed."""
        self._untold[key] = None
        self._uncounted.add(key)

    def snapshot(self, but: Container[Uid] = ()) -> Snapshot:
        """A snapshot of the cluster now. Free capacity excludes bound, held and foreign pods.

        but: pods whose own nomination is left out, because it is no obstacle to them.
        """
        rows = [row for uid, row in self._nominated.items() if uid not in but]
        return self.nodes.snapshot(sorted(rows, key=lambda row: row[:2]))

    def has_nomination(self, uids: Iterable[Uid]) -> bool:
        return not self._nominated.keys().isdisjoint(uids)

    def is_idle(self, record: GangRecord, now: float) -> bool:
        """No plan is in progress for this gang, so its members could be placed."""
        idle = record.plan is None or record.plan.step is Step.DONE
        return idle and self.ready and record.backoff.not_before <= now

    def gang_counts(self) -> Counter[Case]:
        """Gangs by (state, reason)."""
        return Counter(self._counted().cases)

    def demands(self) -> Counter[Demand]:
        """Members of gangs by demand, including ended ones."""
        return Counter(self._counted().demands)

    def wanted(self) -> Mapping[str, Mapping[str, int]]:
        """By namespace and resource, the requests of waiting gangs."""
        return self._counted().wanted

    def oldest_wait(self, now: float) -> float:
        """Seconds that the longest-waiting gang has waited; 0 if none waits."""
        since = self._counted().oldest()
        return 0.0 if since is None else now - since

    def _counted(self, most: int | None = None) -> GangCounts:
        """The counts, after so many gangs that may have changed were counted again. None: all."""
        some = list(islice(self._uncounted, most))
        self._gang_counts.refresh(self.registry.gangs, some)
        self._uncounted.difference_update(some)
        return self._gang_counts

    def note_victim(self, priority: int) -> None:
        """A pod of this priority got or may lose its node. At the highest priority almost nothing can preempt it."""
        if priority < self.highest or self.share_usage.shares or self.policy.order is Order.LAS:
            self.victims_version += 1

    def do(self, effects: Iterable[Effect]) -> None:
        """Append these effects."""
        self._effects += effects

    def held_on(self, name: str) -> list[Uid]:
        """Pods that hold a seat on this node."""
        return [uid for uid, node in self._holding.items() if node == name]

    def holds(self) -> int:
        return len(self._holding)

    def nominated(self, pod: Pod, *, counts: bool) -> None:
        """Record whether kube-scheduler reserves resources for this pod's nomination, without a hold here."""
        before = self._nominated.pop(pod.uid, None)
        if counts and pod.nominated and pod.node is None and not pod.phase.ended:
            self._nominated[pod.uid] = (pod.nominated, pod.priority, pod.demand)
        if self._nominated.get(pod.uid) != before:
            self.nodes.generation += 1
            if before is not None:
                self.nodes.grew()

    def unknown(self, uid: Uid) -> None:
        """Remove everything that this pod uses."""
        self.take_pod(uid)
        self.share_usage.take(uid)
        self.deleted.pop(uid, None)
        self._holding.pop(uid, None)
        if self._nominated.pop(uid, None) is not None:
            self.nodes.generation += 1
            self.nodes.grew()

    # ── places ──────────────────────────────────────────────────────────────────────────────────────────

    def put_pod(self, pod: Pod, node: str) -> None:
        """This pod uses resources on this node, and counts there for other pods' rules."""
        self.nodes.put(pod.uid, node, pod.demand)
        if self.neighbors.put(pod, node):
            self.nodes.grew()

    def take_pod(self, uid: Uid) -> None:
        """This pod no longer uses resources, and counts nowhere."""
        self.nodes.take(uid)
        self.neighbors.take(uid)

    def _placed(self) -> Iterator[tuple[Pod, str]]:
        for uid, node, _ in self.nodes.places():
            pod = self.registry.pod(uid)
            if pod is not None:
                yield pod, node

    def selectors_noted(self, pod: Pod) -> None:
        """Selectors of this pod may read labels of nodes, and labels of pods that the requests of waiting gangs left out
        so far.
        """
        self.nodes.asked(pod.demand, pod.neighbors)
        if not pod.neighbors:
            return
        queue = self.pending.queue()
        read = self.neighbors.note(pod.neighbors, lambda: {record.key.namespace for record in queue})
        for record in queue if read else ():
            if record.key.namespace in read:
                self.mark(record.key)

    # ── seats ───────────────────────────────────────────────────────────────────────────────────────────

    def hold(self, member: Member, hold: Hold, now: float) -> None:
        member.hold = hold
        member.failing_since = None
        note_tried(member, now)
        self._holding[member.pod.uid] = hold.node
        self._nominated.pop(member.pod.uid, None)
        self.occupy(member.pod, hold.node)

    def occupy(self, pod: Pod, node: str) -> None:
        """A managed pod uses resources here, bound or with a held seat."""
        self.put_pod(pod, node)
        self.share_usage.put(pod.uid, pod.key.namespace, pod.demand)

    def release(self, member: Member) -> None:
        """End the hold: the pod is bound, or gives up its seat."""
        member.hold = None
        self._holding.pop(member.pod.uid, None)
        if not member.bound:
            self.take_pod(member.pod.uid)
            self.share_usage.take(member.pod.uid)

    @property
    def ready(self) -> bool:
        """The cache is current, this replica is active, and every gang has caught up."""
        return self.current and not self.catch_ups

    @property
    def current(self) -> bool:
        """The cache is current, and this replica is active."""
        return self.synced and self.acting and not self.blind

    def wake(self, key: GangKey, at: float) -> None:
        """Reconcile this gang at this time at the latest."""
        if at < self._wake.at(key):
            self._wake.set(key, at)

    def drop(self, key: GangKey) -> None:
        """Remove all traces of a gang without pods."""
        self._uncounted.add(key)
        self.registry.note_change(key)
        self.suspendable.pop(key, None)
        self.member_conditions.forget(key)
        self.looks += 1
        self._dirty.pop(key, None)
        self._wake.forget(key)
        self.pending.strike(key)

    def pods(self) -> Iterator[Pod]:
        """All known pods, managed ones first."""
        for record in self.registry.gangs.values():
            for member in record.members.values():
                yield member.pod
        yield from self.registry.foreign_pods.values()
