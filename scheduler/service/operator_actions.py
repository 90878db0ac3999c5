"""Actions that users start through the status service: dry runs, drains, and moves that free capacity.

Lives here: how each action runs, its preconditions, and the text of the answer. Never here: who may start it.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

import structlog

from scheduler.engine import Engine
from scheduler.engine.explanation import Found
from scheduler.model.decision import TEXT, Place, Reason, Refuse, Wait
from scheduler.model.departures import Defrag, Departure, Drain
from scheduler.model.preemption_units import Preempt, Unit
from scheduler.model.queueing import Estimate, Reservation
from scheduler.model.workload import GangKey, Pod
from scheduler.service.service import Service
from scheduler.status.operator_api import Drained, Moved, OperatorError, Trial, cannot_tell, would_leave

NO_MORE: Final = "the gang already exists with its quorum, and there is no free capacity for more members now"

_log = structlog.get_logger("operator")

DrainNode = Callable[[str, str], Awaitable[Drained]]
MakeMoves = Callable[[Defrag], None]

ELSEWHERE: Final = "this replica is not active or its cache is stale; try again, or ask another replica"
CHANGED: Final = "the cluster changed meanwhile, so nothing was moved; run the command again"


class OperatorActions:
    """Serves users. Every answer comes from this replica."""

    def __init__(self, engine: Engine, clock: Callable[[], float], drain: DrainNode, move: MakeMoves) -> None:
        self._engine = engine
        self._clock = clock
        self._drain = drain
        self._move = move

    def forecasts(self) -> Mapping[GangKey, Estimate]:
        """When pending gangs are expected to start."""
        return self._engine.forecasts.starts

    def victims(self, gang: GangKey) -> Sequence[Unit]:
        """The pods and gangs that are preempted for this gang."""
        record = self._engine.ledger.registry.gangs.get(gang)
        return record.plan.units if record is not None and record.plan is not None else ()

    async def inquire(self, gang: GangKey) -> Found:
        """How close this gang is to a placement, and its potential victims. Computed on a thread."""
        for _ in self._engine.prepare_inquiry(gang, self._clock()):
            await asyncio.sleep(0)
        asked = self._engine.inquire(gang, self._clock())
        return await asyncio.to_thread(asked.answer, self._engine.policy) if asked is not None else Found()

    async def simulate(self, pods: Sequence[Pod]) -> Trial:
        """Decide about these pods as if they had just been created. Changes nothing."""
        sketched = self._engine.sketch(pods)
        await asyncio.to_thread(sketched.form)
        tried = self._engine.trial(sketched, self._clock())
        seat, room = await asyncio.to_thread(tried.answer, self._engine.policy)
        if tried.unmodeled and (isinstance(seat, Place) or isinstance(room, Preempt)):
            return Trial(Reason.UNSUPPORTED_FIELD, cannot_tell(tried.unmodeled))
        if isinstance(seat, Place) and not seat.seats:  # surplus of a gang that has its quorum
            return Trial(Reason.INSUFFICIENT_RESOURCES, NO_MORE)
        if isinstance(seat, Place):
            return Trial(Reason.SEATED, "the gang would start now", dict(seat.seats))
        return _foretold(seat, room)

    async def drain(self, node: str, by: str) -> Drained:
        """Move gangs away from a node, to nodes that are reserved first."""
        _log.info("drain", node=node, by=by)
        return await self._drain(node, by)

    async def find_moves(self) -> Defrag | None:
        """Moves that free capacity for the first pending gang. Computed on a thread."""
        key = self._engine.first_waiting()
        if key is None:
            return None
        search = self._engine.move_search(key)
        return (
            search
            if isinstance(search, Defrag)
            else await asyncio.to_thread(search.answer, self._engine.policy)
        )

    def make_moves(self, found: Defrag, by: str) -> None:
        """Start these moves, with all seats reserved."""
        _log.info("defrag", gang=str(found.gang), moves=[str(move.gang) for move in found.moves], by=by)
        self._move(found)


def _foretold(seat: Wait | Refuse, room: Preempt | Reservation | None) -> Trial:
    """The answer for a gang that does not fit now: how it would fit, or why it never does."""
    if isinstance(seat, Refuse):
        return Trial(seat.reason, f"{TEXT[seat.reason]}: {seat.field}: {seat.value!r}: {seat.remedy}")
    if isinstance(room, Preempt):
        why = Reason.WAITING_FOR_PREEMPTION
        return Trial(why, would_leave(room.victims), dict(room.seats), room.victims, seat.shortfall)
    numbers = seat.ceiling or seat.shortfall
    said = TEXT[seat.reason] if numbers is None else f"{TEXT[seat.reason]}: {numbers}"
    start = Estimate(room.start, room.start, room.start) if room is not None else None
    return Trial(seat.reason, said, {}, (), seat.shortfall, start)


async def drain_node(service: Service, node: str, _by: str) -> Drained:
    """Start a drain, or report its progress. Raises OperatorError if the node is not cordoned, because its resources
    would be assigned again.
    """
    known = service.engine.ledger.nodes.get(node)
    if not (service.engine.ledger.ready and service.may_act()):
        raise OperatorError(ELSEWHERE)
    if known is not None and known.schedulable:
        raise OperatorError(f"{node} is schedulable; run `kubectl cordon {node}` first")
    told, effects = service.engine.drain(node, service.clock())
    service.submit(effects)
    return drained(told)


def make_moves(service: Service, found: Defrag) -> None:
    """Start the moves. Raises OperatorError if they are no longer valid; then nothing moves."""
    if not (service.engine.ledger.ready and service.may_act()):
        raise OperatorError(ELSEWHERE)
    begun, effects = service.engine.make_moves(found, service.clock())
    service.submit(effects)
    if not begun:
        raise OperatorError(CHANGED)


def drained(told: Drain) -> Drained:
    """The outcome of a drain, gang by gang."""
    moved = [
        Moved(own.gang, len({*own.seats, *own.stays, *own.leaving}), "; ".join(_outcome(own)))
        for own in told.departures
    ]
    return Drained(told.done, tuple(moved))


def _outcome(own: Departure) -> Iterator[str]:
    if own.seats:
        nodes = ", ".join(
            f"{node} × {count}" if count > 1 else node
            for node, count in sorted(Counter(own.seats.values()).items())
        )
        yield f"{'the whole gang moves' if own.whole else 'moves'} to {nodes}"
    for why, count in sorted(Counter(own.stays.values()).items()):
        yield f"{count} {'stays' if count == 1 else 'stay'}: {why}"
    if own.leaving:
        yield f"{len(own.leaving)} terminating"
