"""Gangs that ended, as a user may see them. Pure, in steps like `gang_views`.

Lives here: which gangs and fields are shown. Never here: when a gang has ended (`ledger.gang_history`).
"""

from collections.abc import Iterator
from typing import Final

from scheduler.engine import Engine
from scheduler.ledger.gang_history import EndedGang
from scheduler.model.resources import CPU
from scheduler.status import accounting, members
from scheduler.status.authorization import Sight
from scheduler.status.gang_views import Steps, batched

HOUR: Final = 3600.0


def namespaces(engine: Engine, namespace: str | None) -> set[str]:
    """The requested namespace, or those of all gangs that ended; and those of the gangs that preempted them."""
    found = set() if namespace is None else {namespace}
    for own in _of(engine, namespace):
        found.add(own.key.namespace)
        if own.winner is not None:
            found.add(own.winner.gang.namespace)
    return found


def history(
    engine: Engine, sight: Sight, limit: int, namespace: str | None = None
) -> Steps[accounting.HistoryList]:
    """The last `limit` gangs that ended, of one namespace or of all that the caller may read."""
    rows: list[accounting.HistoryRow] = []
    for some in batched(list(_of(engine, namespace))[::-1]):
        rows += (_row(own, sight) for own in some if sight.sees(own.key))
        if len(rows) >= limit:
            break
        yield
    return accounting.HistoryList(
        acting=engine.ledger.acting,
        since=engine.ledger.history.since,
        unchecked=sight.unchecked,
        gangs=rows[:limit],
    )


def _of(engine: Engine, namespace: str | None) -> Iterator[EndedGang]:
    return (own for own in engine.ledger.history if namespace in {None, own.key.namespace})


def _row(own: EndedGang, sight: Sight) -> accounting.HistoryRow:
    return accounting.HistoryRow(
        id=sight.alias(own.key),
        namespace=own.key.namespace,
        name=own.name,
        owner=own.owner or None,
        waited_seconds=round(own.waited, 1),
        ran_seconds=round(own.ran, 1),
        hours={name: _hours(name, amount) for name, amount in own.used},
        outcome=own.outcome,
        preempted=members.gave_way(own.winner, sight) if own.winner is not None else None,
        ended=own.ended,
    )


def _hours(resource: str, seconds: float) -> float:
    """Resource-hours. CPU is counted in thousandths of a core."""
    return round(seconds / HOUR / (1000 if resource == CPU else 1), 3)
