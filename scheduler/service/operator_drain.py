"""A node is drained for a person: the engine finds and keeps the seats, the effects go their way, and it is told in
words.

Lives here: what has to be true before, and the words. Never here: which seats, or who may ask.
"""

from collections import Counter
from collections.abc import Iterator

from scheduler.model.moves import Departure, Drain
from scheduler.service.service import Service
from scheduler.status.desk import DeskError, Drained, Moved


async def drain(service: Service, node: str, _by: str) -> Drained:
    """Begin, or say how far it is. Raises DeskError where the node is not cordoned: its seats would be given out
    again.
    """
    known = service.engine.ledger.nodes.get(node)
    if not (service.engine.ledger.ready and service.may_act()):
        raise DeskError(
            "this replica does not act, or does not see the cluster; ask again, or ask another one"
        )
    if known is not None and known.schedulable:
        raise DeskError(f"{node} takes new pods: first `kubectl cordon {node}`")
    told, effects = service.engine.drain(node, service.clock())
    service.submit(effects)
    return drained(told)


def drained(told: Drain) -> Drained:
    """What was begun, gang by gang."""
    return Drained(told.done, tuple(Moved(own.gang, _count(own), _outcome(own)) for own in told.departures))


def _count(own: Departure) -> int:
    return len({*own.seats, *own.stays, *own.leaving})


def _outcome(own: Departure) -> str:
    return "; ".join(_parts(own))


def _parts(own: Departure) -> Iterator[str]:
    if own.seats:
        nodes = ", ".join(
            f"{node} × {count}" if count > 1 else node
            for node, count in sorted(Counter(own.seats.values()).items())
        )
        yield f"{'the whole gang moves' if own.whole else 'moves'} to {nodes}"
    for why, count in sorted(Counter(own.stays.values()).items()):
        yield f"{count} {'stays' if count == 1 else 'stay'}: {why}"
    if own.leaving:
        yield f"{len(own.leaving)} on their way out"
