"""Which moves would make room for a gang: shown, never made.

Lives here: the search. Gangs that are smaller than it and single pods are chosen as victims are, the fewest members
first, whatever their priority; then each must find other seats, on a picture in which the gang sits already. Never
here: a move.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from scheduler.engine.drain import NOBODY
from scheduler.ledger import Ledger, attained_service, gang_spec, migration, plans, quorum
from scheduler.ledger.gang import GangRecord, Spec
from scheduler.model.decision import Place
from scheduler.model.departures import Defrag, Departure
from scheduler.model.preemption_units import Kind, Preempt, Unit
from scheduler.model.workload import Gang, GangKey, PodKey, Uid
from scheduler.placement import planner, reservation, victim_selection
from scheduler.placement.feasibility import FeasibilityCache

TRIES: Final = 16
"""Sets of gangs that are tried."""

NOT_WAITING: Final = "the gang does not wait for seats"
CHANGING: Final = "the gang's pods are changing; ask again in a moment"
NONE_FOUND: Final = "the gangs that could move have no other room either"
NO_GANGS: Final = f"nothing smaller could move: {NOBODY}"


def defrag(ledger: Ledger, key: GangKey, masks: FeasibilityCache) -> Defrag:
    """The moves that would seat the quorum of this gang; only of gangs that their owners make again at no cost."""
    record = ledger.registry.gangs.get(key)
    if record is None or record.wanted is None:
        return Defrag(key, told=NOT_WAITING)
    gang = reservation.quorum_alone(record.wanted)
    # All for which seats were wanted at the last look wait still: more may have been taken in since.
    members = (record.members.get(uid) for role in gang.roles for uid in role.quorum)
    if not all(member is not None and record.is_plannable(member) and member.live for member in members):
        return Defrag(key, told=CHANGING)
    return _Search(ledger, record, gang, masks).run()


class _Search:
    def __init__(self, ledger: Ledger, record: GangRecord, gang: Gang, masks: FeasibilityCache) -> None:
        self._ledger, self._record, self._gang, self._masks = ledger, record, gang, masks
        self._picture = ledger.snapshot(but=record.members)

    def run(self) -> Defrag:
        units = self._movable()
        told = NO_GANGS if not units else NONE_FOUND
        for _ in range(TRIES):
            chosen = victim_selection.choose(
                self._picture, self._gang, list(units.values()), self._ledger.policy, None, self._masks
            )
            if chosen is None:
                break
            moves, homeless = self._moves(chosen)
            if homeless is None:
                return Defrag(self._gang.key, _named(self._record, chosen.seats), moves)
            del units[homeless]
        return Defrag(self._gang.key, told=told)

    def _movable(self) -> dict[GangKey, Unit]:
        """Whole gangs of fewer devices than are wanted, as units that leave together."""
        ledger, index = self._ledger, self._picture.index
        wanted = sum(attained_service.devices(role.demand) * len(role.quorum) for role in self._gang.roles)
        units: dict[GangKey, Unit] = {}
        for record in ledger.registry.gangs.values():
            live = record.live()
            if record is self._record or not isinstance(record.spec, Spec) or not live:
                continue
            small = sum(attained_service.devices(m.pod.demand) for m in live) < wanted
            settled = all(m.bound and m.pod.node in index for m in live)
            if small and settled and all(plans.remakes(m, ledger.owners) for m in live):
                units[record.key] = Unit(
                    gang=record.key,
                    kind=Kind.POD if gang_spec.is_gang_of_one(record.key) else Kind.GANG,
                    uids=tuple(m.pod.uid for m in live),
                    rows=np.array([index[m.pod.node or ""] for m in live], dtype=np.int64),
                    uses=np.array([ledger.nodes.vector(m.pod.demand) for m in live]),
                    priority=0,
                    lost=float(len(live)),
                )
        return units

    def _moves(self, chosen: Preempt) -> tuple[tuple[Departure, ...], GangKey | None]:
        """Other seats for all who would leave, the largest first; or the first gang that finds none."""
        picture = self._picture.freed(*((unit.rows, unit.uses) for unit in chosen.victims))
        picture = reservation.seated(picture, self._gang, Place(chosen.seats))
        moves: list[Departure] = []
        for unit in sorted(chosen.victims, key=lambda unit: (-len(unit.uids), unit.gang)):
            record = self._ledger.registry.gangs[unit.gang]
            if not isinstance(record.spec, Spec):
                return (), unit.gang
            core, surplus = quorum.core(record, record.spec, record.live())
            gang = migration.gang_of(self._ledger, record, record.spec, core, surplus, "")
            place = planner.decide(picture, gang, self._ledger.policy, None, self._masks)
            if not isinstance(place, Place) or place.unseated:
                return (), unit.gang
            picture = reservation.seated(picture, gang, place)
            moves.append(Departure(unit.gang, _named(record, place.seats), whole=True))
        return tuple(moves), None


def _named(record: GangRecord, seats: Mapping[Uid, str]) -> dict[PodKey, str]:
    return {record.members[uid].pod.key: node for uid, node in seats.items()}
