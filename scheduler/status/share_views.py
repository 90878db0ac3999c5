"""Shares as a user may see them: namespaces by name, and the sums of hidden ones. Pure, in steps like `gang_views`.

Lives here: the rows. Never here: an amount (`ledger.share_amounts`).
"""

from collections.abc import Iterable

from scheduler.engine import Engine
from scheduler.ledger import share_amounts
from scheduler.model.workload import GangKey
from scheduler.status import accounting
from scheduler.status.authorization import Sight
from scheduler.status.gang_views import Steps, batched


def shares(engine: Engine, sight: Sight) -> Steps[accounting.ShareList]:
    """A row for each namespace whose name the caller may read, by name, and one row for all others."""
    rows: list[accounting.ShareRow] = []
    hidden: list[dict[str, accounting.ShareAmount]] = []
    for some in batched(share_amounts.namespaces(engine.ledger)):
        for name in some:
            own = _amounts(engine, name)
            if sight.sees(GangKey(name, "")):
                rows.append(accounting.ShareRow(name, 1, own))
            else:
                hidden.append(own)
        yield
    if hidden:
        names = sorted({name for own in hidden for name in own})
        sums = {name: _sum(own[name] for own in hidden if name in own) for name in names}
        rows.append(accounting.ShareRow(None, len(hidden), sums))
    return accounting.ShareList(
        acting=engine.ledger.acting,
        generation=engine.ledger.nodes.generation,
        unchecked=sight.unchecked,
        shares=rows,
    )


def _amounts(engine: Engine, namespace: str) -> dict[str, accounting.ShareAmount]:
    judged = engine.ledger.acting
    return {
        name: accounting.ShareAmount(
            used=own.used,
            guaranteed=own.guaranteed,
            borrowed=own.borrowed,
            ceiling=own.ceiling,
            waiting=own.waiting if judged else None,
        )
        for name, own in share_amounts.amounts(engine.ledger, namespace).items()
    }


def _sum(amounts: Iterable[accounting.ShareAmount]) -> accounting.ShareAmount:
    """The sum over several namespaces. Ceilings are not added, because a namespace may have none."""
    used = guaranteed = borrowed = 0.0
    waiting: float | None = 0.0
    for own in amounts:
        used, guaranteed, borrowed = used + own.used, guaranteed + own.guaranteed, borrowed + own.borrowed
        waiting = None if waiting is None or own.waiting is None else waiting + own.waiting
    return accounting.ShareAmount(used, guaranteed, borrowed, None, waiting)
