"""Which moves would free capacity for a gang: searched in one snapshot, and checked again before they begin.

Lives here: the search. It chooses smaller gangs and single pods like victims: the fewest members first, of any
priority, as far as disruption budgets allow. Then each must find other seats, in a snapshot that already seats the
gang. Never here: an eviction. The ledger begins evictions when all seats are held (ledger.migration).

Why in two steps: on a large cluster the search takes long, so any thread may run it, and the result may be stale at
its end. Checking it again needs only amounts.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from scheduler.engine.drain import NOT_RECREATED, obstacle
from scheduler.ledger import Ledger, attained_service, gang_spec, migration, quorum
from scheduler.ledger.gang import GangRecord, Spec, arrival
from scheduler.model.cluster import Snapshot
from scheduler.model.decision import Place
from scheduler.model.departures import Defrag
from scheduler.model.events import MoveFound
from scheduler.model.policy import Policy
from scheduler.model.preemption_units import Kind, Preempt, Terms, Unit
from scheduler.model.workload import Gang, GangKey, Pod
from scheduler.placement import planner, reservation, victim_selection
from scheduler.placement.feasibility import FeasibilityCache

TRIES: Final = 16
"""Sets of gangs to try."""

NOT_WAITING: Final = "the gang is not waiting for nodes"
CHANGING: Final = "the gang's pods are changing; retry in a moment"
NONE_FOUND: Final = "no smaller gang could move: no other nodes fit"
NO_GANGS: Final = f"no smaller gang could move: {NOT_RECREATED}"


@dataclass(frozen=True, slots=True, eq=False)
class Movable:
    """A gang that may move. pods: in the order of their eviction. gang: the request to the planner for it."""

    pods: tuple[Pod, ...]
    unit: Unit
    gang: Gang


@dataclass(frozen=True, slots=True, eq=False)
class MoveSearch:
    """The input of the search. picture: a snapshot without the members of the waiting gang."""

    gang: Gang
    pods: tuple[Pod, ...]
    picture: Snapshot
    movable: Mapping[GangKey, Movable]
    terms: Terms

    def answer(self, policy: Policy, masks: FeasibilityCache | None = None) -> Defrag:
        """The moves that would seat the quorum. Without `masks`, any thread may compute them."""
        masks = masks or FeasibilityCache()
        mine, left = {pod.uid: pod for pod in self.pods}, dict(self.movable)
        for _ in range(TRIES):
            units = [own.unit for own in left.values()]
            chosen = victim_selection.choose(self.picture, self.gang, units, policy, None, masks, self.terms)
            if chosen is None:
                break
            moves, homeless = self._moves(chosen, policy, masks)
            if homeless is None:
                pods = mine | {pod.uid: pod for own in moves for pod in self.movable[own.gang].pods}
                version = self.picture.nodes_version
                return Defrag(self.gang.key, chosen.seats, moves, pods=pods, nodes_version=version)
            del left[homeless]
        return Defrag(self.gang.key, told=NONE_FOUND if self.movable else NO_GANGS, pods=mine)

    def _moves(
        self, chosen: Preempt, policy: Policy, masks: FeasibilityCache
    ) -> tuple[tuple[MoveFound, ...], GangKey | None]:
        """Other seats for all chosen units, the largest first; or the first gang without other seats."""
        picture = self.picture.freed(*((unit.rows, unit.uses) for unit in chosen.victims))
        picture = reservation.seated(picture, self.gang, Place(chosen.seats))
        moves: list[MoveFound] = []
        for unit in sorted(chosen.victims, key=lambda unit: (-len(unit.uids), unit.gang)):
            gang = self.movable[unit.gang].gang
            place = planner.decide(picture, gang, policy, None, masks)
            if not isinstance(place, Place) or place.unseated:
                return (), unit.gang
            picture = reservation.seated(picture, gang, place)
            moves.append(MoveFound(unit.gang, place.seats, unit.uids, whole=True))
        return tuple(moves), None

    def proves(self, found: Defrag) -> bool:
        """Moves that were found in an earlier snapshot are still valid in this one."""
        moving = [(move, self.movable.get(move.gang)) for move in found.moves]
        there = [(move, own) for move, own in moving if own is not None and {*own.unit.uids} == {*move.seats}]
        same = found.nodes_version == self.picture.nodes_version and len(there) == len(moving)
        if not same or {pod.uid for pod in self.pods} != {*found.seats}:
            return False
        leaving = {uid for move in found.moves for uid in move.seats}
        if any(sum(limit.uses.get(uid, 0.0) for uid in leaving) > limit.most for limit in self.terms.limits):
            return False
        picture = self.picture.freed(*((own.unit.rows, own.unit.uses) for _, own in there))
        seats = [(self.gang, found.seats), *((own.gang, move.seats) for move, own in there)]
        taken = [reservation.uses_of(picture, gang, Place(nodes)) for gang, nodes in seats]
        free = picture.freed(*((rows, -uses) for rows, uses in taken)).free
        amounts = slice(None if picture.neighbors is None else picture.neighbors.first)
        return not any(((free[rows, amounts] < 0) & (uses[:, amounts] > 0)).any() for rows, uses in taken)


def search(ledger: Ledger, key: GangKey, among: Iterable[GangKey] | None = None) -> MoveSearch | Defrag:
    """The search for moves that seat the quorum of this gang, or why no search is possible.

    among: the gangs that may move. None: all gangs.
    """
    record = ledger.registry.gangs.get(key)
    if record is None or record.wanted is None:
        return Defrag(key, told=NOT_WAITING)
    gang = reservation.quorum_alone(record.wanted)
    # All members of the last request must still be waiting: events may have arrived since.
    members = [record.members.get(uid) for role in gang.roles for uid in role.quorum]
    pods = tuple(m.pod for m in members if m is not None and record.is_plannable(m) and m.live)
    if len(pods) < len(members):
        return Defrag(key, told=CHANGING)
    picture = ledger.snapshot(but=record.members)
    movable = {own.unit.gang: own for own in _movable(ledger, record, gang, picture, among)}
    picture = ledger.neighbors.picture(picture, (gang, *(own.gang for own in movable.values())))
    widened = partial(ledger.neighbors.widened, picture)
    movable = {
        key: replace(own, unit=replace(own.unit, uses=widened(own.unit.uids, own.unit.uses)))
        for key, own in movable.items()
    }
    budgets = ledger.budgets.limits((pod for own in movable.values() for pod in own.pods), ())
    return MoveSearch(gang, pods, picture, movable, Terms(budgets))


def still_holds(ledger: Ledger, found: Defrag) -> bool:
    """The pods still wait and run as before, all moves are still allowed, and all seats become free by the moves."""
    now = search(ledger, found.gang, [move.gang for move in found.moves])
    return (
        isinstance(now, MoveSearch)
        and ledger.share_usage.over_ceiling(now.gang) is None
        and now.proves(found)
    )


def _movable(
    ledger: Ledger, head: GangRecord, wanted: Gang, picture: Snapshot, among: Iterable[GangKey] | None
) -> Iterator[Movable]:
    """Whole gangs with fewer devices than the wanted gang, whose owners recreate them at no cost."""
    needs = sum(attained_service.devices(role.demand) * len(role.quorum) for role in wanted.roles)
    gangs = ledger.registry.gangs
    for record in gangs.values() if among is None else filter(None, map(gangs.get, among)):
        live = record.live()
        if record is head or not isinstance(record.spec, Spec) or not live:
            continue
        small = sum(attained_service.devices(m.pod.demand) for m in live) < needs
        if not small or obstacle(ledger, record, live) or any(m.pod.node not in picture.index for m in live):
            continue
        core, surplus = quorum.core(record, record.spec, live)
        pods = tuple(m.pod for m in sorted(live, key=lambda m: (not quorum.is_surplus(m), arrival(m))))
        unit = Unit(
            gang=record.key,
            kind=Kind.POD if gang_spec.is_gang_of_one(record.key) else Kind.GANG,
            uids=tuple(pod.uid for pod in pods),
            rows=np.array([picture.index[pod.node or ""] for pod in pods], dtype=np.int64),
            uses=np.array([ledger.nodes.vector(pod.demand) for pod in pods]),
            priority=0,
            lost=float(len(live)),
        )
        yield Movable(pods, unit, migration.gang_of(ledger, record, record.spec, core, surplus, ""))
