"""Running pods as the planner sees them: when gangs end, which pods may be preempted, which are terminating already.

Lives here: the conversion of the ledger's records to Stays and Units of the model, in rows of one snapshot.
Never here: a choice among them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.running_gangs import ExpectedEnds, Footing, RunningGangs
from scheduler.ledger import Ledger, attained_service, gang_spec, quorum
from scheduler.ledger.gang import GangRecord, Spec
from scheduler.ledger.node_table import NodeTable
from scheduler.model.cluster import Matrix, Snapshot
from scheduler.model.decision import Reason
from scheduler.model.preemption_units import By, Kind, Unit
from scheduler.model.queueing import OVERRUN_AT_LEAST, Estimate, Stay
from scheduler.model.resources import Amounts, ResourceAxis
from scheduler.model.workload import Gang, GangKey, GiveWay, Pod, Uid, gang_of_one
from scheduler.placement.reservation import Running

SOON: Final = 30.0
"""Seconds that a terminating pod is assumed to need: the default grace period."""

PORTION: Final = 384
"""Pods, and two more for each gang, whose units are found between two turns of the event loop: 3 milliseconds."""

RELEASED: Final = 2_000
"""Gangs whose units are forgotten at once, in 1 to 2 milliseconds."""

PREEMPT: Final = "preempt"
EXPLAIN: Final = "explain"
"""Purposes of units: to preempt them, or to say which ones rank behind a gang."""

SPARE: Final = 64
"""Views kept beyond the number of gangs. Then views of deleted gangs are dropped, because each holds all its pods."""

Own = TypeVar("Own", Stay, Unit)

MayTake = Callable[[GangRecord | None, Pod], By | None]
"""The rule by which a pod may be preempted for a gang; None: no rule. The record is its gang's, if it is managed."""


@dataclass(frozen=True, slots=True)
class Group:
    """Pods of a gang that leave together, and their nodes.

    numbers: int64[k], see `NodeTable.rows`.  uses: float64[k, r].
    """

    kind: Kind
    pods: tuple[Pod, ...]
    numbers: NDArray[np.int64]
    uses: Matrix
    way: GiveWay

    def unit(self, key: GangKey, rows: NDArray[np.int64], now: float, by: By) -> Unit:
        """The unit for this group, with the work that would be lost now.  rows: of all numbers."""
        return Unit(
            gang=key,
            kind=self.kind,
            uids=tuple(pod.uid for pod in self.pods),
            rows=rows[self.numbers],
            uses=self.uses,
            priority=max(pod.priority for pod in self.pods),
            lost=0.0
            if self.kind is Kind.SURPLUS
            else sum(attained_service.unsaved(pod, now) for pod in self.pods),
            way=self.way,
            by=by,
        )


@dataclass(slots=True)
class Views:
    """The cached results for one gang, valid until the gang changes."""

    made_for: tuple[object, ...]
    groups: tuple[Group, ...] | None = None


@dataclass(slots=True, eq=False)
class Gathered:
    """Units that were found in portions, for one gang and one rule.

    rows: of all numbers.  units: by number of a gang, its pulse and its units then; by uid of another scheduler's pod, the
    pod and its units.
    """

    gang: Gang
    rows: NDArray[np.int64]
    axis: ResourceAxis
    units: dict[int | Uid, tuple[int | Pod, tuple[Unit, ...]]] = field(default_factory=dict)

    def holds(self, gang: Gang, nodes: NodeTable) -> bool:
        """Its units are of this gang, in the rows and columns of the nodes now."""
        return self.gang is gang and self.rows is nodes.rows and self.axis is nodes.axis


class PreemptionCandidates:
    """Views of the ledger in rows of a snapshot, created when a gang waits for capacity, and cached by gang."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._running = RunningGangs(ledger, self._footing)
        self._views: dict[GangKey, Views] = {}
        self._gathered: dict[str, Gathered] = {}
        """By purpose, what the next call of `units` for it finds."""
        self._spent: list[object] = []
        """What earlier questions found."""

    def widened(self, snapshot: Snapshot, found: tuple[Own, ...]) -> tuple[Own, ...]:
        """These stays or units with the snapshot's columns of neighbors."""
        if snapshot.neighbors is None:
            return found
        uses = self._ledger.neighbors.all_widened(snapshot, ((own.uids, own.uses) for own in found))
        return tuple(replace(own, uses=wide) for own, wide in zip(found, uses, strict=True))

    def _of(self, record: GangRecord) -> Views:
        nodes = self._ledger.nodes
        made_for = (record.number, record.pulse, nodes.numbering, nodes.axis)
        views = self._views.get(record.key)
        if views is None or views.made_for != made_for:
            views = self._views[record.key] = Views(made_for)
            if len(self._views) > len(self._ledger.registry.gangs) + SPARE:
                self._views = {
                    key: own for key, own in self._views.items() if key in self._ledger.registry.gangs
                }
        return views

    def follow(self) -> None:
        """Read the ends of gangs that were reconciled, so that the next question about them takes less time."""
        self._running.follow()

    def running(self, snapshot: Snapshot, now: float) -> Running:
        """Seated gangs with an expected end, in the columns of the snapshot. Gangs with an unknown end are left out."""
        if snapshot.neighbors is None:
            return self._running.running(now)
        return Running.of(self.widened(snapshot, self.stays(now)))

    def expected(self, now: float) -> ExpectedEnds:
        """The same with bounds and forecasts, without columns of neighbors."""
        return self._running.expected(now)

    def stays(self, now: float) -> tuple[Stay, ...]:
        """The same, gang by gang."""
        return tuple(self.expected(now).each())

    def leaving(self, now: float) -> tuple[Stay, ...]:
        """Terminating pods, managed or not. Their capacity is freed soon."""
        soon = Estimate(now + SOON, now, now + 2 * SOON)
        ours, nodes = self._ledger.registry.gang_of, self._ledger.nodes
        footings = ((pod, self._footing([pod])) for pod in self._ledger.deleted.values())
        return tuple(
            Stay(
                gang_of_one(pod.key.namespace, pod.uid),
                nodes.rows[footing.numbers],
                footing.uses(nodes.axis),
                soon,
                pod.key.namespace if pod.uid in ours else "",
                uids=footing.uids,
            )
            for pod, footing in footings
            if footing
        )

    def _footing(self, pods: Iterable[Pod]) -> Footing | None:
        nodes = self._ledger.nodes
        places = [(nodes.number(pod.uid), pod) for pod in pods]
        requests: dict[Amounts, int] = {}
        found = [
            (number, requests.setdefault(pod.demand.requests, len(requests)), pod.uid)
            for number, pod in places
            if number is not None
        ]
        if not found:
            return None
        numbers, kinds, uids = zip(*found, strict=True)
        return Footing(np.array(numbers), tuple(requests), np.array(kinds), uids)

    def units(self, may_take: MayTake, now: float, gang: Gang, purpose: str = PREEMPT) -> tuple[Unit, ...]:
        """The units that may be preempted for this gang, each with the work that would be lost."""
        gathered, registry = self._gathered.pop(purpose, None), self._ledger.registry
        known = gathered.units if gathered and gathered.holds(gang, self._ledger.nodes) else {}
        found: list[Unit] = []
        for record in registry.gangs.values():
            pulse, units = known.get(record.number, (-1, ()))
            found += units if pulse == record.pulse else self._units(record, may_take, now)
        for uid, pod in registry.foreign_pods.items():
            then, units = known.get(uid, (-1, ()))
            found += units if then is pod else self._foreign(pod, may_take, now)
        self._spent += gathered.units.values() if gathered else ()
        return tuple(found)

    def release(self) -> Iterator[None]:
        """Forget in portions what earlier questions found, because 15,000 gangs at once take 10 milliseconds."""
        while self._spent:
            del self._spent[-RELEASED:]
            yield

    def gather(self, may_take: MayTake, now: float, gang: Gang, purpose: str = PREEMPT) -> Iterator[None]:
        """Find these units beforehand, in portions. Those of gangs that change until `units` is called are found again."""
        registry, nodes = self._ledger.registry, self._ledger.nodes
        gathered = self._gathered[purpose] = Gathered(gang, nodes.rows, nodes.axis)
        cost = 0
        for record in list(registry.gangs.values()):
            gathered.units[record.number] = record.pulse, tuple(self._units(record, may_take, now))
            cost += 2 + len(record.members)
            if cost > PORTION:
                yield
                cost = 0
        for uid, pod in list(registry.foreign_pods.items()):
            gathered.units[uid] = pod, tuple(self._foreign(pod, may_take, now))
            cost += 1
            if cost > PORTION:
                yield
                cost = 0

    def staying(self, units: Iterable[Unit], start: float, now: float) -> tuple[Unit, ...]:
        """The units that are expected to still run at `start`, so the reservation does not count on their capacity."""
        running = self._running.running(now)
        ended = running.places[running.ends(now, OVERRUN_AT_LEAST) <= start]
        gone = {running.stays[place].key for place in ended.tolist()}
        return tuple(unit for unit in units if unit.gang not in gone)

    def _units(self, record: GangRecord, may_take: MayTake, now: float) -> Iterator[Unit]:
        if not record.gives_way:
            return
        rows = self._ledger.nodes.rows
        rights = [(group, _right(may_take, record, group.pods)) for group in self._groups(record)]
        whole = all(by is not None for _, by in rights)
        for group, by in rights:
            taken = by is not None and (group.kind is Kind.SURPLUS or whole)
            if by is not None and taken and (rows[group.numbers] >= 0).all():
                yield group.unit(record.key, rows, now, by)

    def _foreign(self, pod: Pod, may_take: MayTake, now: float) -> Iterator[Unit]:
        """The unit for a pod of another scheduler."""
        by = may_take(None, pod) if pod.node is not None and not pod.deleting else None
        if by is not None:
            for group in self._group(Kind.POD, [pod], GiveWay.EVICT):
                yield group.unit(gang_of_one(pod.key.namespace, pod.uid), self._ledger.nodes.rows, now, by)

    def _groups(self, record: GangRecord) -> tuple[Group, ...]:
        """Its surplus one by one, and the rest, which takes all surplus along. A Job that is suspended leaves whole."""
        views = self._of(record)
        if views.groups is None:
            views.groups = tuple(self._grouped(record))
        return views.groups

    def _grouped(self, record: GangRecord) -> Iterator[Group]:
        bound = [m for m in record.live() if m.bound]
        core, surplus = (
            quorum.core(record, record.spec, bound) if isinstance(record.spec, Spec) else (bound, [])
        )
        way = attained_service.way(record, self._ledger.owners)
        if not attained_service.leaves_alone(record, self._ledger.registry):
            way = GiveWay.EVICT
        if way is GiveWay.SUSPEND:
            core, surplus = core + surplus, []
        for member in surplus:
            yield from self._group(Kind.SURPLUS, [member.pod], GiveWay.EVICT)
        if core:
            kind = Kind.POD if gang_spec.is_gang_of_one(record.key) else Kind.GANG
            yield from self._group(kind, [member.pod for member in core], way)

    def _group(self, kind: Kind, pods: Sequence[Pod], way: GiveWay) -> Iterator[Group]:
        footing = self._footing(pods)
        if footing is not None and len(footing.numbers) == len(pods):
            yield Group(kind, tuple(pods), footing.numbers, footing.uses(self._ledger.nodes.axis), way)


def _right(may_take: MayTake, record: GangRecord, pods: Sequence[Pod]) -> By | None:
    """The weakest rule by which all of these pods may be preempted. None: one of them may not."""
    by = By.ORDER
    for pod in pods:
        own = may_take(record, pod)
        if own is None:
            return None
        by = max(by, own)
    return by


BLOCKED: Final = frozenset(
    {Reason.INSUFFICIENT_RESOURCES, Reason.TOPOLOGY_UNSATISFIED, Reason.CAPACITY_RESERVED}
)
"""Reasons that more free capacity would change."""
