"""Running pods as the planner sees them: when gangs end, which pods may be preempted, which are terminating already.

Lives here: the conversion of the ledger's records to Stays and Units of the model, in rows of one snapshot.
Never here: a choice among them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.ledger import Ledger, attained_service, gang_spec, observed_runs, quorum
from scheduler.ledger.gang import GangRecord, Member, Spec
from scheduler.ledger.node_columns import RowMoves
from scheduler.ledger.phase import SEATED
from scheduler.model.cluster import Matrix, Snapshot
from scheduler.model.decision import Reason
from scheduler.model.preemption_units import By, Kind, Unit
from scheduler.model.queueing import Estimate, Stay
from scheduler.model.workload import GangKey, GiveWay, Pod, Uid, gang_of_one
from scheduler.placement.reservation import at_the_latest, expected_ends

SOON: Final = 30.0
"""Seconds that a terminating pod is assumed to need: the default grace period."""

SPARE: Final = 64
"""Views kept beyond the number of gangs. Then views of deleted gangs are dropped, because each holds all its pods."""

Own = TypeVar("Own", Stay, Unit)

MayTake = Callable[[GangRecord | None, Pod], By | None]
"""The rule by which a pod may be preempted for a gang; None: no rule. The record is its gang's, if it is managed."""


@dataclass(frozen=True, slots=True)
class Group:
    """Pods of a gang that leave together, and their nodes.

    rows: int64[k].  uses: float64[k, r].
    """

    kind: Kind
    pods: tuple[Pod, ...]
    rows: NDArray[np.int64]
    uses: Matrix
    way: GiveWay

    def unit(self, key: GangKey, now: float, by: By) -> Unit:
        """The unit for this group, with the work that would be lost now."""
        return Unit(
            gang=key,
            kind=self.kind,
            uids=tuple(pod.uid for pod in self.pods),
            rows=self.rows,
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

    made_for: tuple[int, int, int]
    groups: tuple[Group, ...] | None = None
    stay: Stay | None = None
    stay_pending: bool = True
    """`stay` is not computed yet."""
    ends_for: tuple[float | None, int] | None = None
    """The input for the end of `stay`: when the gang began to run, and the version of the observed runtimes."""

    def moved(self, made_for: tuple[int, int, int], moves: RowMoves) -> "Views | None":
        """The same after rows moved. None: one of its nodes no longer exists."""
        stay, groups = self.stay, self.groups
        if stay is not None:
            stay = replace(stay, rows=moves.rows[stay.rows])
        if groups is not None:
            groups = tuple(replace(own, rows=moves.rows[own.rows]) for own in groups)
        if any(own.rows.min() < 0 for own in (stay, *(groups or ())) if own is not None):
            return None
        return Views(made_for, groups, stay, self.stay_pending, self.ends_for)


class PreemptionCandidates:
    """Views of the ledger in rows of a snapshot, created when a gang waits for capacity, and cached by gang."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._views: dict[GangKey, Views] = {}
        self._stays: tuple[Stay, ...] = ()
        self._stays_for: tuple[int, int] | None = None
        """What `_stays` was found for. None: it depends on the time."""

    def widened(self, snapshot: Snapshot, found: tuple[Own, ...]) -> tuple[Own, ...]:
        """These stays or units with the snapshot's columns of neighbors."""
        if snapshot.neighbors is None:
            return found
        uses = self._ledger.neighbors.all_widened(snapshot, ((own.uids, own.uses) for own in found))
        return tuple(replace(own, uses=wide) for own, wide in zip(found, uses, strict=True))

    def _of(self, record: GangRecord) -> Views:
        made_for = (record.number, record.pulse, self._ledger.nodes.layout)
        views = self._views.get(record.key)
        if views is not None and views.made_for == made_for:
            return views
        views = self._views[record.key] = self._moved(views, made_for) or Views(made_for)
        if len(self._views) > len(self._ledger.registry.gangs) + SPARE:
            self._views = {key: own for key, own in self._views.items() if key in self._ledger.registry.gangs}
        return views

    def _moved(self, views: Views | None, made_for: tuple[int, int, int]) -> Views | None:
        """The views of an unchanged gang after nodes came or went. None: there are none, or not of the layout before."""
        moves = self._ledger.nodes.moves
        if views is None or moves is None or moves.after != made_for[2]:
            return None
        return views.moved(made_for, moves) if views.made_for == (*made_for[:2], moves.before) else None

    def stays(self, snapshot: Snapshot, now: float) -> tuple[Stay, ...]:
        """Seated gangs with an expected end, and their ends. Gangs with an unknown end are left out."""
        made_for = (self._ledger.seated_version, self._ledger.nodes.layout)
        if self._stays_for != made_for:
            seated = [own for own in self._ledger.registry.gangs.values() if own.state in SEATED]
            found = [self._stay(record, snapshot, now) for record in seated]
            self._stays = tuple(stay for stay in found if stay is not None)
            begun = all(record.observed.since is not None for record in seated)
            self._stays_for = made_for if begun else None
        return self._stays

    def _stay(self, record: GangRecord, snapshot: Snapshot, now: float) -> Stay | None:
        """Its nodes and its expected end, which is updated whenever a gang of its namespace ends."""
        views = self._of(record)
        if views.stay_pending:
            views.stay_pending = False
            pods = [m.pod for m in record.live() if _seated(m)] if _ends_by_itself(record) else []
            footing = self._footing(snapshot, pods)
            if footing is not None:
                rows, uses, uids = footing
                end = Estimate(now, now, now)
                views.stay = Stay(record.key, rows, uses, end, record.key.namespace, uids=uids)
        if views.stay is None:
            return None
        since = record.observed.since
        ends_for = (since, self._ledger.runtimes.version(record.key.namespace))
        if since is None or views.ends_for != ends_for:
            began, limit = now if since is None else since, observed_runs.limit(record)
            ends = observed_runs.expect(self._ledger, record).after(began)
            latest = float("inf") if limit is None else began + limit
            views.stay, views.ends_for = replace(views.stay, ends=ends, latest=latest), ends_for
        return views.stay

    def leaving(self, snapshot: Snapshot, now: float) -> tuple[Stay, ...]:
        """Terminating pods, managed or not. Their capacity is freed soon."""
        soon = Estimate(now + SOON, now, now + 2 * SOON)
        ours = self._ledger.registry.gang_of
        footings = ((pod, self._footing(snapshot, [pod])) for pod in self._ledger.deleted.values())
        return tuple(
            Stay(
                gang_of_one(pod.key.namespace, pod.uid),
                *footing[:2],
                soon,
                pod.key.namespace if pod.uid in ours else "",
                uids=footing[2],
            )
            for pod, footing in footings
            if footing
        )

    def _footing(
        self, snapshot: Snapshot, pods: Iterable[Pod]
    ) -> tuple[NDArray[np.int64], Matrix, tuple[Uid, ...]] | None:
        nodes = self._ledger.nodes
        places = [(snapshot.index.get(nodes.place(pod.uid) or ""), pod) for pod in pods]
        found = [(row, nodes.vector(pod.demand), pod.uid) for row, pod in places if row is not None]
        if not found:
            return None
        rows, uses, uids = zip(*found, strict=True)
        return np.array(rows, dtype=np.int64), np.array(uses), uids

    def units(self, snapshot: Snapshot, may_take: MayTake, now: float) -> tuple[Unit, ...]:
        """The units that may be preempted, each with the work that would be lost."""
        return tuple(self._units(snapshot, may_take, now))

    def staying(
        self, units: Iterable[Unit], snapshot: Snapshot, start: float, now: float
    ) -> tuple[Unit, ...]:
        """The units that are expected to still run at `start`, so the reservation does not count on their capacity."""
        stays = self.stays(snapshot, now)
        middles = np.array([stay.ends.middle for stay in stays], dtype=np.float64)
        ends = at_the_latest(expected_ends(middles, now), stays, now)
        gone = {stay.key for stay, end in zip(stays, ends.tolist(), strict=True) if end <= start}
        return tuple(unit for unit in units if unit.gang not in gone)

    def _units(self, snapshot: Snapshot, may_take: MayTake, now: float) -> Iterator[Unit]:
        for record in self._ledger.registry.gangs.values():
            if not record.gives_way:
                continue
            groups = self._groups(record, snapshot)
            rights = [(group, _right(may_take, record, group.pods)) for group in groups]
            whole = all(by is not None for _, by in rights)
            for group, by in rights:
                if by is not None and (group.kind is Kind.SURPLUS or whole):
                    yield group.unit(record.key, now, by)
        for uid, pod in self._ledger.registry.foreign_pods.items():
            by = may_take(None, pod) if pod.node is not None and not pod.deleting else None
            if by is not None:
                for group in self._group(snapshot, Kind.POD, [pod], GiveWay.EVICT):
                    yield group.unit(gang_of_one(pod.key.namespace, uid), now, by)

    def _groups(self, record: GangRecord, snapshot: Snapshot) -> tuple[Group, ...]:
        """Its surplus one by one, and the rest, which takes all surplus along. A Job that is suspended leaves whole."""
        views = self._of(record)
        if views.groups is None:
            views.groups = tuple(self._grouped(record, snapshot))
        return views.groups

    def _grouped(self, record: GangRecord, snapshot: Snapshot) -> Iterator[Group]:
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
            yield from self._group(snapshot, Kind.SURPLUS, [member.pod], GiveWay.EVICT)
        if core:
            kind = Kind.POD if gang_spec.is_gang_of_one(record.key) else Kind.GANG
            yield from self._group(snapshot, kind, [member.pod for member in core], way)

    def _group(self, snapshot: Snapshot, kind: Kind, pods: Sequence[Pod], way: GiveWay) -> Iterator[Group]:
        footing = self._footing(snapshot, pods)
        if footing is not None and len(footing[0]) == len(pods):
            yield Group(kind, tuple(pods), *footing[:2], way)


def _right(may_take: MayTake, record: GangRecord, pods: Sequence[Pod]) -> By | None:
    """The weakest rule by which all of these pods may be preempted. None: one of them may not."""
    by = By.ORDER
    for pod in pods:
        own = may_take(record, pod)
        if own is None:
            return None
        by = max(by, own)
    return by


def _seated(member: Member) -> bool:
    return member.bound or (member.hold is not None and member.hold.until is None)


def _ends_by_itself(record: GangRecord) -> bool:
    if isinstance(record.spec, Spec) and record.spec.wish.expected_runtime is not None:
        return True
    return observed_runs.limit(record) is not None or observed_runs.kind(record) not in observed_runs.FOREVER


BLOCKED: Final = frozenset(
    {Reason.INSUFFICIENT_RESOURCES, Reason.TOPOLOGY_UNSATISFIED, Reason.CAPACITY_RESERVED}
)
"""Reasons that more free capacity would change."""
