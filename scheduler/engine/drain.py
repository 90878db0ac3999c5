"""Other seats for gangs: a node is drained, or a gang that lost a member has no free capacity where it runs.

Lives here: the search for seats, each proven on a snapshot without the moving pods and without the node, and the texts
why pods stay. Never here: an eviction. The ledger begins evictions when the seats are held (ledger.migration). A gang
keeps its quorum: members above it leave one by one, surplus first. A member of the quorum leaves only with all others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.ledger import Ledger, migration, plans, quorum
from scheduler.ledger.gang import GangRecord, Member, Spec, Step, arrival
from scheduler.model.cluster import Snapshot
from scheduler.model.decision import TEXT, Ceiling, Place, Reason, Refuse, Wait
from scheduler.model.departures import Departure, Drain
from scheduler.model.effects import Effect
from scheduler.model.events import MoveFound
from scheduler.model.preemption_units import NODES_OWN
from scheduler.model.workload import Gang, GangKey, PodKey, Uid
from scheduler.placement import planner
from scheduler.placement.feasibility import FeasibilityCache

UNDER_WAY: Final = "the gang is still being placed; retry in a moment"
NOT_VALID: Final = "the gang's labels or annotations are invalid or incomplete"
NOT_RECREATED: Final = "no controller would recreate it at no cost"
OF_NODE: Final = "the pod belongs to the node"
OFF_LIMITS: Final = "Gangwright does not evict pods in this namespace"
NO_OTHER_ROOM: Final = "no other nodes fit"
"""Not the text of a reason, because a running gang waits for nothing."""
AT_CEILING: Final = f"{NO_OTHER_ROOM}: the namespace is at its ceiling"


@dataclass(frozen=True, slots=True)
class _Found:
    """Seats by member, and the members to evict for them, in order."""

    seats: dict[Uid, str]
    leaving: tuple[Member, ...]
    whole: bool
    unseated: tuple[Uid, ...] = ()


class NodeDrain:
    """Finds seats, and lets the ledger hold them."""

    def __init__(self, ledger: Ledger, masks: FeasibilityCache) -> None:
        self._ledger = ledger
        self._masks = masks

    # ── a node ──────────────────────────────────────────────────────────────────────────────────────────

    def drain(self, node: str, now: float) -> tuple[Drain, list[Effect]]:
        """Begin to move all gangs away from a node, the highest priority first."""
        departures: list[Departure] = []
        # Process pending events first: they may change which pods belong to which gang.
        effects = self._ledger.handle([], now)
        for record in self._on(node):
            departure, follows = self._depart(record, node, now)
            departures.append(departure)
            effects += follows
        return Drain(node, tuple(departures)), effects

    def _on(self, node: str) -> list[GangRecord]:
        registry = self._ledger.registry
        keys = {registry.gang_of[uid] for uid in self._ledger.nodes.on(node) if uid in registry.gang_of}
        records = [registry.gangs[key] for key in keys]
        return sorted(records, key=lambda record: (-record.priority, record.arrived, record.key))

    def _depart(self, record: GangRecord, node: str, now: float) -> tuple[Departure, list[Effect]]:
        there = [
            m
            for m in record.members.values()
            if not m.pod.phase.ended and (m.pod.node == node or (m.hold is not None and m.hold.node == node))
        ]
        leaving = tuple(m.pod.key for m in there if not m.live)
        going = [m for m in there if m.live]
        found: _Found | str = obstacle(self._ledger, record, going)
        if going and not found and isinstance(record.spec, Spec):
            found = self._other_seats(record, record.spec, going, node)
        if isinstance(found, str):
            return Departure(record.key, stays={m.pod.key: found for m in going}, leaving=leaving), []
        departure = _departure(record, found, leaving)  # before members may leave the gang
        return departure, self._ledger.handle([_event(record, found)], now)

    def _other_seats(
        self, record: GangRecord, spec: Spec, going: Sequence[Member], node: str
    ) -> "_Found | str":
        """Move only members above the quorum, if that is enough and all of them fit. Otherwise move the whole gang.

        The whole gang moves for a member above the quorum only if all members then have seats.
        """
        if not quorum.survives(record, {m.pod.uid for m in going}):
            return self._whole(record, spec, node)
        alone = self._alone(record, spec, going, node)
        required = self._ledger.policy.required if spec.wish.required is None else spec.wish.required
        if isinstance(alone, str) or not alone.unseated or not required:
            return alone
        whole = self._whole(record, spec, node)
        return whole if isinstance(whole, _Found) and not whole.unseated else alone

    def _alone(self, record: GangRecord, spec: Spec, going: Sequence[Member], node: str) -> "_Found | str":
        gang = migration.gang_of(self._ledger, record, spec, (), going, node)
        picture = self._ledger.neighbors.picture(self._ledger.snapshot(), (gang,))
        decision = planner.decide(picture, gang, self._ledger.policy, None, self._masks)
        if not isinstance(decision, Place):
            return _told(decision)
        seated = sorted(
            (m for m in going if m.pod.uid in decision.seats),
            key=lambda m: (not quorum.is_surplus(m), arrival(m)),
        )
        return _Found(dict(decision.seats), tuple(seated), False, decision.unseated)

    # ── a whole gang ────────────────────────────────────────────────────────────────────────────────────

    def mend(self, key: GangKey, now: float) -> list[Effect]:
        """Move the whole gang if it lost members and its domain has no free capacity for replacements."""
        record = self._ledger.registry.gangs.get(key)
        if record is None or not (record.health.bereft and record.was_bound):
            return []
        return [] if self._ledger.migrations.is_refused(key, now) else self.relocate(record, now)

    def relocate(self, record: GangRecord, now: float) -> list[Effect]:
        """Find seats elsewhere for a whole gang that lost members and has no capacity where it runs."""
        bound = [m for m in record.live() if m.bound]
        if not bound or not isinstance(record.spec, Spec) or obstacle(self._ledger, record, bound):
            return []
        found = self._whole(record, record.spec, "")
        return self._ledger.handle([_event(record, found)], now) if isinstance(found, _Found) else []

    def _whole(self, record: GangRecord, spec: Spec, node: str) -> "_Found | str":
        """Seats for the quorum and as much of the surplus as fits, as if no member of the gang were running."""
        bound = [m for m in record.live() if m.bound]
        if any(not m.bound and (m.hold is not None or m.tied is not None) for m in record.live()):
            return UNDER_WAY
        why = next((text for m in bound if (text := _why_not(self._ledger, m))), "")
        if why:
            return f"the whole gang would have to move: {why}"
        core, surplus = quorum.core(record, spec, [*bound, *record.waiting()])
        # Waiting members of the quorum may exceed the namespace's ceiling. Bound members count already.
        waiting = migration.gang_of(self._ledger, record, spec, [m for m in core if not m.bound], (), "")
        over = self._ledger.share_usage.over_ceiling(waiting)
        if over is not None:
            return f"{AT_CEILING}: {Ceiling(*over)}"
        if self._ledger.share_usage.below(record.key.namespace) is not None:
            # waiting surplus is seated within capacity and ceiling after the move
            surplus = [m for m in surplus if m.bound]
        gang = migration.gang_of(self._ledger, record, spec, core, surplus, node)
        picture = self._without(bound, gang)
        decision = planner.decide(picture, gang, self._ledger.policy, None, self._masks)
        if not isinstance(decision, Place):
            return _told(decision)
        in_order = sorted(bound, key=lambda m: (m.pod.node != node, not quorum.is_surplus(m), arrival(m)))
        return _Found(dict(decision.seats), tuple(in_order), True, decision.unseated)

    def _without(self, members: Sequence[Member], gang: Gang) -> Snapshot:
        """The snapshot for this gang, without these members."""
        ledger = self._ledger
        picture = ledger.neighbors.picture(ledger.snapshot(), (gang,))
        there = [(row, m.pod) for m in members if (row := picture.index.get(m.pod.node or "")) is not None]
        if not there:
            return picture
        uses = np.array([ledger.nodes.vector(pod.demand) for _, pod in there])
        uses = ledger.neighbors.widened(picture, [pod.uid for _, pod in there], uses)
        return picture.freed((np.array([row for row, _ in there]), uses))


def obstacle(ledger: Ledger, record: GangRecord, going: Sequence[Member]) -> str:
    """Why these members cannot move now, whatever seats are free. Empty: they can."""
    if not ledger.ready:
        return TEXT[Reason.CACHE_NOT_SYNCED]
    if not isinstance(record.spec, Spec):
        return NOT_VALID
    on_its_way = record.plan is not None and record.plan.step is not Step.DONE
    if on_its_way or record.key in ledger.migrations or any(not m.bound for m in going):
        return UNDER_WAY
    return next((text for m in going if (text := _why_not(ledger, m))), "")


def _why_not(ledger: Ledger, member: Member) -> str:
    owner = member.pod.owner
    if owner is not None and owner.kind in NODES_OWN:
        return OF_NODE
    if member.pod.key.off_limits:
        return OFF_LIMITS
    return "" if plans.remakes(member, ledger.owners) else f"{member.pod.key.name}: {NOT_RECREATED}"


def _told(decision: Refuse | Wait) -> str:
    lacks = getattr(decision, "shortfall", None)
    return f"{NO_OTHER_ROOM}: {lacks or TEXT[decision.reason]}"


def _event(record: GangRecord, found: _Found) -> MoveFound:
    return MoveFound(record.key, found.seats, tuple(m.pod.uid for m in found.leaving), found.whole)


def _departure(record: GangRecord, found: _Found, leaving: tuple[PodKey, ...]) -> Departure:
    return Departure(
        record.key,
        seats={m.pod.key: found.seats[m.pod.uid] for m in found.leaving if m.pod.uid in found.seats},
        stays={record.members[uid].pod.key: NO_OTHER_ROOM for uid in found.unseated},
        whole=found.whole,
        leaving=leaving,
    )
